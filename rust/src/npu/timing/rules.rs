//! The switches of the model: every assumption that no counter of real hardware confirms, with its default.
//! `docs/timing.md` names the source of each and `benches/timing.py` prints what each changes.

/// How long a block's way through the NPU keeps the next one from being issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Issue {
    /// Not at all.
    Free,
    /// A quarter of its round trip (fetch, MACs, output, write): four blocks are in flight.
    QuarterRoundTrip,
    /// The difference between writing the block and fetching its input.
    WriteMinusFetch,
}

/// The switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Front end's cycles per command word.
    pub cycles_per_word: u32,
    /// Whether command words are fetched from the constants' memory, 4 bytes each.
    pub fetch_commands: bool,
    /// How long a block keeps the next one from being issued.
    pub issue: Issue,
    /// Whether short contiguous runs waste a part of each burst.
    pub bursts: bool,
    /// Whether NHWC runs occupy whole bus beats.
    pub whole_beats: bool,
    /// Whether filling and draining wait for whole bricks of 16 channels rather than the channels that exist.
    pub whole_bricks: bool,
    /// Whether BLOCKDEP hides a kernel's filling behind the previous one's draining.
    pub hide_latency: bool,
    /// Additional cycles per kernel.
    pub cycles_per_kernel: u32,
    /// Multiple to which the output stage rounds the depth of elementwise blocks up.
    pub elementwise_depth: u32,
    /// Whether a partial block costs its real extent (otherwise as much as a full one).
    pub partial_blocks: bool,
    /// Whether the last IFM depth block of a part-kernel-first convolution costs its real channels.
    pub partial_ifm_depth: bool,
    /// Whether blocks at an edge fetch only what exists (otherwise as much as the largest block).
    pub exact_halo: bool,
    /// Whether each OFM depth block of a convolution reads the IFM again.
    pub ifm_per_depth_block: bool,
    /// Whether each block column and row reads the weights again.
    pub weights_per_spatial_block: bool,
    /// Whether concurrent flows share a memory (otherwise each has it alone).
    pub contention: bool,
    /// Whether a DMA pays the latency of its destination too.
    pub dma_write_latency: bool,
    /// Kernels that may be outstanding before the front end blocks.
    pub kernel_queue: u32,
    /// DMAs that may be outstanding; 0 means the accelerator's own limit (U55 1, U65 2).
    pub dma_queue: u32,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            cycles_per_word: 1,
            fetch_commands: true,
            issue: Issue::QuarterRoundTrip,
            bursts: true,
            whole_beats: true,
            whole_bricks: false,
            hide_latency: true,
            cycles_per_kernel: 0,
            elementwise_depth: 8,
            partial_blocks: true,
            partial_ifm_depth: true,
            exact_halo: true,
            ifm_per_depth_block: true,
            weights_per_spatial_block: true,
            contention: true,
            dma_write_latency: true,
            kernel_queue: 2,
            dma_queue: 0,
        }
    }
}

impl Rules {
    /// Sets a switch by its name; booleans are 0 and 1, `issue` counts its variants from 0.
    ///
    /// # Errors
    /// The sentence that says which names or values there are.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), String> {
        let flags: [(&str, &mut bool); 11] = [
            ("fetch_commands", &mut self.fetch_commands),
            ("bursts", &mut self.bursts),
            ("whole_beats", &mut self.whole_beats),
            ("whole_bricks", &mut self.whole_bricks),
            ("hide_latency", &mut self.hide_latency),
            ("partial_blocks", &mut self.partial_blocks),
            ("partial_ifm_depth", &mut self.partial_ifm_depth),
            ("exact_halo", &mut self.exact_halo),
            ("ifm_per_depth_block", &mut self.ifm_per_depth_block),
            ("weights_per_spatial_block", &mut self.weights_per_spatial_block),
            ("contention", &mut self.contention),
        ];
        for (flag, target) in flags {
            if flag == name {
                *target = boolean(name, value)?;
                return Ok(());
            }
        }
        match name {
            "dma_write_latency" => self.dma_write_latency = boolean(name, value)?,
            "issue" => {
                let variants = [Issue::Free, Issue::QuarterRoundTrip, Issue::WriteMinusFetch];
                let known = variants.get(value as usize).copied();
                self.issue = known.ok_or_else(|| format!("the rule 'issue' is {value}; it can be 0, 1 or 2"))?;
            }
            "cycles_per_word" => self.cycles_per_word = at_most(name, value, 1 << 16)?,
            "cycles_per_kernel" => self.cycles_per_kernel = at_most(name, value, 1 << 16)?,
            "elementwise_depth" => self.elementwise_depth = at_most(name, value, 128)?.max(1),
            "kernel_queue" => self.kernel_queue = at_most(name, value, 64)?.max(1),
            "dma_queue" => self.dma_queue = at_most(name, value, 64)?,
            _ => return Err(format!("there is no timing rule '{name}'")),
        }
        Ok(())
    }
}

fn boolean(name: &str, value: u32) -> Result<bool, String> {
    if value > 1 {
        return Err(format!("the rule '{name}' is {value}; it can be 0 or 1"));
    }
    Ok(value == 1)
}

fn at_most(name: &str, value: u32, limit: u32) -> Result<u32, String> {
    if value > limit {
        return Err(format!("the rule '{name}' is {value}; the limit is {limit}"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_by_name() {
        let mut rules = Rules::default();
        rules.set("bursts", 0).unwrap();
        rules.set("issue", 2).unwrap();
        rules.set("cycles_per_kernel", 28).unwrap();
        assert!(!rules.bursts && rules.issue == Issue::WriteMinusFetch && rules.cycles_per_kernel == 28);
        assert!(rules.set("bursts", 2).is_err() && rules.set("issue", 3).is_err() && rules.set("magic", 1).is_err());
    }
}
