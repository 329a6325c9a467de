//! What one kernel costs when it runs alone: its blocks through the MAC engine and the output stage, its bytes, its
//! filling and draining. Owns no order of kernels; [`super::schedule`] puts them in time.

use super::super::accelerator::Accelerator;
use super::super::error::Fault;
use super::super::operation::{Block, Kernel, KernelKind, Upscale, Window};
use super::axis::{depth_spans, Axis, DepthSpan, DepthSpans, Span, Spans};
use super::engine::{multiply_accumulates, second_map, Engine};
use super::rules::{Issue, Rules};
use super::system::{ByPort, System};
use super::ticks::Ticks;
use super::traffic::{block_moved, input_slices, kernel_loads, Load, Rows, Slice};

/// Most different blocks of one kernel that are looked at; only damaged streams have more.
const MAX_CLASSES: u64 = 1 << 16;

/// The cost of one kernel alone. `alone = max(fill + blocks + drain, time per memory with its latencies)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelCost {
    /// Multiply-accumulates of the results, without what padding of micro-blocks wastes.
    pub macs: u64,
    /// OFM blocks.
    pub blocks: u64,
    /// Jobs: blocks times IFM depth blocks times sub-kernels. BLOCKDEP counts them.
    pub jobs: u64,
    /// The MAC engine's time over all blocks.
    pub mac: Ticks,
    /// The output stage's time over all blocks.
    pub output: Ticks,
    /// Blocks through the pipeline: sum of max(MAC, output, issue), and the shorter stage once.
    pub pipeline: Ticks,
    /// Until the first block can start: latency of the input's memory and its fetch.
    pub fill: Ticks,
    /// From the last block's results to their arrival: latency of the output's memory and its writing.
    pub drain: Ticks,
    /// What it does to each memory.
    pub loads: ByPort<Load>,
    /// Time alone.
    pub alone: Ticks,
    /// The part of it that no overlap can remove: the longest of pipeline and memories at full bandwidth.
    pub least: Ticks,
}

/// The geometry of a kernel's blocks.
struct Blocks {
    rows: Spans,
    columns: Spans,
    depths: DepthSpans,
    /// The whole block, cut to the OFM.
    nominal: [u32; 3],
}

/// One kernel, made ready to be costed with one block after another: what its blocks share.
pub struct Costing<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) system: &'a System,
    pub(super) rules: &'a Rules,
    pub(super) engine: Engine,
    is_u65: bool,
    ifm: Rows<'a>,
    ifm2: Option<Rows<'a>>,
    ofm: Rows<'a>,
    /// The first part of the channels that a convolution consumes; blocks of other kernels bring their own.
    input: Option<Slice>,
    read_latency: u32,
    write_latency: u32,
}

/// Costs a kernel with its own block. `parallel` is whether two cores share it.
///
/// # Errors
/// [`Fault::TooLarge`] for a kernel with more different blocks than any real one.
pub fn cost(
    kernel: &Kernel,
    accelerator: &Accelerator,
    parallel: bool,
    system: &System,
    rules: &Rules,
) -> Result<KernelCost, Fault> {
    Costing::new(kernel, accelerator, parallel, system, rules).cost(kernel.block)
}

impl<'a> Costing<'a> {
    /// Everything about `kernel` that does not depend on its block. `parallel` is whether two cores share it.
    pub fn new(
        kernel: &'a Kernel,
        accelerator: &Accelerator,
        parallel: bool,
        system: &'a System,
        rules: &'a Rules,
    ) -> Costing<'a> {
        let (heights, widths) = (
            height_axis(kernel, kernel.block.height, rules).sub_kernel_sizes(),
            width_axis(kernel, kernel.block.width, rules).sub_kernel_sizes(),
        );
        let scale_latency = kernel.scales.first().map_or(0, |scales| system.port(scales.region).read_latency);
        let is_u65 = accelerator.is_u65;
        Costing {
            kernel,
            system,
            rules,
            engine: Engine::new(kernel, accelerator, parallel, [&heights, &widths], scale_latency, rules),
            is_u65,
            ifm: Rows::new(&kernel.ifm, system, is_u65, false, rules),
            ifm2: second_map(kernel).map(|map| Rows::new(map, system, is_u65, false, rules)),
            ofm: Rows::new(&kernel.ofm, system, is_u65, true, rules),
            input: match kernel.kind {
                KernelKind::Conv | KernelKind::ReduceSum => input_slices(kernel).first().copied(),
                _ => None,
            },
            read_latency: system.port(kernel.ifm.region).read_latency,
            write_latency: system.port(kernel.ofm.region).write_latency,
        }
    }

    /// The kernel's cost with `block` in place of its own.
    ///
    /// # Errors
    /// [`Fault::TooLarge`] for more different blocks than any real kernel has.
    pub fn cost(&self, block: Block) -> Result<KernelCost, Fault> {
        let kernel = self.kernel;
        let blocks = Blocks {
            rows: height_axis(kernel, block.height, self.rules).spans(),
            columns: width_axis(kernel, block.width, self.rules).spans(),
            depths: depth_spans(kernel.ofm.depth, block.depth),
            nominal: [
                block.height.min(kernel.ofm.height),
                block.width.min(kernel.ofm.width),
                block.depth.min(kernel.ofm.depth),
            ],
        };
        let amount = (blocks.rows.classes.len() * blocks.columns.classes.len() * blocks.depths.len()) as u64;
        if amount > MAX_CLASSES {
            return Err(Fault::TooLarge { what: "different blocks", amount, limit: MAX_CLASSES });
        }
        let spans = (&blocks.rows, &blocks.columns, blocks.depths.as_slice());
        let loads = kernel_loads(kernel, self.system, self.is_u65, spans, self.rules);
        Ok(self.total(&blocks, loads))
    }

    fn total(&self, blocks: &Blocks, loads: ByPort<Load>) -> KernelCost {
        let system = self.system;
        let depth_blocks: u64 = blocks.depths.iter().map(|span| span.count).sum();
        let count = blocks.rows.blocks() * blocks.columns.blocks() * depth_blocks;
        let (mut mac, mut output, mut through) = (Ticks::ZERO, Ticks::ZERO, Ticks::ZERO);
        for row in &blocks.rows.classes {
            for column in &blocks.columns.classes {
                for depth in &blocks.depths {
                    let times = row.count.saturating_mul(column.count).saturating_mul(depth.count);
                    let shape = self.shape(blocks, row, column, depth);
                    let (mac_block, output_block) = (self.engine.mac(shape), self.engine.output(shape));
                    let issue = if count > 1 {
                        self.issue(system, (row, column, depth), mac_block + output_block)
                    } else {
                        Ticks::ZERO
                    };
                    mac += mac_block.times(times);
                    output += output_block.times(times);
                    through += mac_block.max(output_block).max(issue).times(times);
                }
            }
        }
        let first = self.corner(blocks, true);
        let last = self.corner(blocks, false);
        // The first block's MACs or the last block's output, whichever stage is the shorter one, is not overlapped.
        let exposed = if mac >= output {
            self.engine.output(self.shape(blocks, last.0, last.1, last.2))
        } else {
            self.engine.mac(self.shape(blocks, first.0, first.1, first.2))
        };
        let pipeline = through + exposed;
        let fill = self.fetch(system, first);
        let drain = self.write(system, last);
        let ports = system.ports();
        let moved = |time: fn(&Load, &super::system::Port) -> Ticks| {
            loads.iter().zip(ports).map(|(load, port)| time(load, port)).max().unwrap_or_default()
        };
        let extra = Ticks::cycles(u128::from(self.rules.cycles_per_kernel));
        KernelCost {
            macs: multiply_accumulates(self.kernel),
            blocks: count,
            jobs: count.saturating_mul(self.engine.jobs_per_block()),
            mac,
            output,
            pipeline,
            fill,
            drain,
            alone: (fill + pipeline + drain).max(moved(Load::alone)) + extra,
            least: pipeline.max(moved(Load::time)) + extra,
            loads,
        }
    }

    /// Extents that count for the engine.
    fn shape(&self, blocks: &Blocks, row: &Span, column: &Span, depth: &DepthSpan) -> [u32; 3] {
        if self.rules.partial_blocks {
            [row.out, column.out, depth.channels]
        } else {
            blocks.nominal
        }
    }

    fn corner<'b>(&self, blocks: &'b Blocks, first: bool) -> (&'b Span, &'b Span, &'b DepthSpan) {
        let pick = |spans: &'b Spans| &spans.classes[if first { spans.first } else { spans.last }];
        let depth = if first { 0 } else { blocks.depths.len() - 1 };
        (pick(&blocks.rows), pick(&blocks.columns), &blocks.depths[depth])
    }

    /// How long a block keeps the next one from being issued.
    fn issue(&self, system: &System, block: (&Span, &Span, &DepthSpan), busy: Ticks) -> Ticks {
        match self.rules.issue {
            Issue::Free => Ticks::ZERO,
            Issue::QuarterRoundTrip => (self.fetch(system, block) + self.write(system, block) + busy).part(4),
            Issue::WriteMinusFetch => {
                let (fetch, write) = (self.fetch(system, block), self.write(system, block));
                fetch.max(write).saturating_sub(fetch.min(write))
            }
        }
    }

    /// Latency and transfer of a block's first input.
    fn fetch(&self, system: &System, (row, column, depth): (&Span, &Span, &DepthSpan)) -> Ticks {
        let slice = self.input.unwrap_or_else(|| depth.into());
        let moved = block_moved(&self.ifm, row.fetched_first(), column.fetched_first(), &slice, self.rules);
        let first = system.port(self.kernel.ifm.region).time(u128::from(moved.cost));
        let second = self.ifm2.as_ref().map_or(Ticks::ZERO, |lines| {
            let Some(map) = second_map(self.kernel) else { return Ticks::ZERO };
            let moved = block_moved(
                lines,
                row.out.min(map.height),
                column.out.min(map.width),
                &map_slice(map.depth, depth),
                self.rules,
            );
            system.port(map.region).time(u128::from(moved.cost))
        });
        Ticks::cycles(u128::from(self.read_latency)) + first.max(second)
    }

    /// Latency and transfer of a block's output.
    fn write(&self, system: &System, (row, column, depth): (&Span, &Span, &DepthSpan)) -> Ticks {
        let moved = block_moved(&self.ofm, row.out, column.out, &depth.into(), self.rules);
        Ticks::cycles(u128::from(self.write_latency)) + system.port(self.kernel.ofm.region).time(u128::from(moved.cost))
    }
}

fn map_slice(map_depth: u32, depth: &DepthSpan) -> Slice {
    if map_depth == 1 {
        return (&DepthSpan { channels: 1, bricks: 1, count: 1 }).into();
    }
    depth.into()
}

fn height_axis(kernel: &Kernel, block: u32, rules: &Rules) -> Axis {
    let w = &kernel.window;
    Axis {
        ofm: kernel.ofm.height,
        block,
        kernel: w.height,
        stride: w.stride_y,
        dilation: w.dilation_y,
        pad_before: w.pad_top,
        pad_after: w.pad_bottom,
        sub_kernel: sub_kernel(kernel, w.dilation_y),
        stored: kernel.ifm.height,
        ..common(w, rules)
    }
}

fn width_axis(kernel: &Kernel, block: u32, rules: &Rules) -> Axis {
    let w = &kernel.window;
    Axis {
        ofm: kernel.ofm.width,
        block,
        kernel: w.width,
        stride: w.stride_x,
        dilation: w.dilation_x,
        pad_before: w.pad_left,
        pad_after: w.pad_right,
        sub_kernel: sub_kernel(kernel, w.dilation_x),
        stored: kernel.ifm.width,
        ..common(w, rules)
    }
}

/// The parts that both axes share.
fn common(window: &Window, rules: &Rules) -> Axis {
    Axis {
        ofm: 1,
        block: 1,
        kernel: 1,
        stride: 1,
        dilation: 1,
        pad_before: 0,
        pad_after: 0,
        upscale: window.upscale.factor(),
        zeros: window.upscale == Upscale::Zeros,
        sub_kernel: 8,
        stored: 1,
        exact: rules.exact_halo,
    }
}

/// Largest sub-kernel along an axis, undilated.
fn sub_kernel(kernel: &Kernel, dilation: u32) -> u32 {
    (if kernel.small_sub_kernels { 4 } else { 8 }) / dilation
}
