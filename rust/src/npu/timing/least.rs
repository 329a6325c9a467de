//! What a kernel costs at least: with a given block, found without cutting it into blocks, for choosing among blocks; and
//! however it is cut into stripes, bands, slices and blocks, for bounds that every schedule obeys.

use super::super::operation::{Block, KernelKind};
use super::engine::second_map;
use super::kernel::Costing;
use super::ticks::Ticks;

/// What the engines need at least for a kernel's output, in whatever pieces and blocks it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineFloor {
    /// MAC engine: each micro-block that the whole output touches, once.
    pub mac: Ticks,
    /// MAC engine, for outputs that fill their micro-blocks. A part of the output takes at least that part of it.
    pub dense: Ticks,
    /// Output stage. A part of the output takes at least that part of it.
    pub output: Ticks,
}

/// Micro-blocks along each side of the plane that are enough to keep the MAC engine full.
const FULL: u32 = 64;

/// An axis cut into blocks: extent of the blocks and how many have it, the whole ones first.
fn cuts(extent: u32, block: u32) -> [(u32, u64); 2] {
    [(block.min(extent), u64::from(extent / block)), (extent % block, u64::from(extent % block != 0))]
}

impl Costing<'_> {
    /// What the engines need at least, however the kernel is cut.
    ///
    /// Of the points at the corners of a grid of micro-blocks over the output, a box of `h x w x d` holds at most
    /// `ceil(h / uh) * ceil(w / uw) * ceil(d / ud)`, which is what the MAC engine pays for; so boxes that cover all points
    /// pay for as many together. Where micro-blocks may lie in a row (kernels one row high), a row of a box pays for
    /// at least half of `ceil(w / uw)`. `Rules::partial_blocks` is taken to be on.
    pub fn engine_floor(&self) -> EngineFloor {
        let ofm = &self.kernel.ofm;
        let whole = [ofm.height, ofm.width, ofm.depth];
        let [high, wide, deep] = self.engine.micro_block();
        let weighted = matches!(self.kernel.kind, KernelKind::Conv | KernelKind::Depthwise);
        let mac = if weighted && self.kernel.window.height == 1 && high * wide == 4 {
            let plane = u64::from(ofm.height) * u64::from(ofm.width.div_ceil(2));
            // Two at least, as one alone would pay for starting up, which a row of them need not.
            let plane = u32::try_from(plane.div_ceil(2)).unwrap_or(u32::MAX / wide).clamp(2, u32::MAX / wide);
            self.engine.mac([high, plane * wide, ofm.depth])
        } else {
            self.engine.mac(whole)
        };
        let elements = whole.iter().map(|&size| u64::from(size)).product::<u64>();
        let full = self.engine.mac([high * FULL, wide * FULL, deep]);
        let dense = full.times(elements).part_down(u64::from(high * wide * deep) * u64::from(FULL * FULL));
        EngineFloor { mac: mac.max(dense), dense, output: self.engine.output(whole) }
    }

    /// A lower bound of [`super::kernel::KernelCost::alone`]: engines by block, and the bytes that must move.
    pub fn least(&self, block: Block) -> Ticks {
        self.engines(block).max(self.memories(block))
    }

    /// The slower of MAC engine and output stage, block by block.
    fn engines(&self, block: Block) -> Ticks {
        if !self.rules.partial_blocks {
            return Ticks::ZERO;
        }
        let ofm = &self.kernel.ofm;
        let mut sum = Ticks::ZERO;
        for (height, rows) in cuts(ofm.height, block.height) {
            for (width, columns) in cuts(ofm.width, block.width) {
                for (depth, deep) in cuts(ofm.depth, block.depth) {
                    let count = rows * columns * deep;
                    if count > 0 {
                        let shape = [height, width, depth];
                        sum += self.engine.mac(shape).max(self.engine.output(shape)).times(count);
                    }
                }
            }
        }
        sum
    }

    /// The busiest memory, with no more than each byte of the feature maps once.
    fn memories(&self, block: Block) -> Ticks {
        let kernel = self.kernel;
        let ofm = &kernel.ofm;
        let spatial = u64::from(ofm.height.div_ceil(block.height)) * u64::from(ofm.width.div_ceil(block.width));
        let elements = |sizes: [u32; 3]| sizes.iter().map(|&size| u64::from(size)).product::<u64>();
        let mut bytes = self.system.by_port(0u128);
        let mut add = |region: usize, amount: u64| {
            bytes[self.system.of_region(region)] += u128::from(amount);
        };
        add(ofm.region, elements([ofm.height, ofm.width, ofm.depth]) * ofm.element.bytes() as u64);
        let again = match kernel.kind {
            KernelKind::Conv if self.rules.ifm_per_depth_block => u64::from(ofm.depth.div_ceil(block.depth)),
            _ => 1,
        };
        let [height, width] = self.read_at_least();
        add(kernel.ifm.region, elements([height, width, kernel.ifm.depth]) * kernel.ifm.element.bytes() as u64 * again);
        if let Some(map) = second_map(kernel) {
            add(map.region, elements([map.height, map.width, map.depth]) * map.element.bytes() as u64);
        }
        let repeats = if self.rules.weights_per_spatial_block { spatial } else { 1 };
        for stream in kernel.weights.iter().chain(&kernel.scales) {
            add(stream.region, stream.length as u64 * repeats);
        }
        let times = bytes.iter().zip(self.system.ports()).map(|(&bytes, port)| port.time(bytes));
        times.max().unwrap_or_default()
    }

    /// Rows and columns of the input that some window touches; none where enlargement makes that a longer story.
    fn read_at_least(&self) -> [u32; 2] {
        let (kernel, w) = (self.kernel, &self.kernel.window);
        if w.upscale.factor() > 1 {
            return [0, 0];
        }
        let axis = |ofm: u32, size: u32, stride: u32, pads: u32, stored: u32| {
            let touched = if size >= stride { (ofm - 1) * stride + size } else { ofm * size };
            touched.saturating_sub(pads).min(stored)
        };
        [
            axis(kernel.ofm.height, w.height, w.stride_y, w.pad_top + w.pad_bottom, kernel.ifm.height),
            axis(kernel.ofm.width, w.width, w.stride_x, w.pad_left + w.pad_right, kernel.ifm.width),
        ]
    }
}
