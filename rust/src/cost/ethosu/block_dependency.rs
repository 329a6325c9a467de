//! How much of a kernel may start before the ones ahead of it have finished (BLOCKDEP), predicted for the planner.
//!
//! Owns the prediction. The rule is code generation's (`codegen/block_dependency.py`, which says why it is safe), in
//! coordinates of tensors instead of bytes: what a kernel reads was written by others through the same buffer.

use std::collections::VecDeque;

use crate::model::graph::{CascaderGraph, Input, Layout};
use crate::model::ids::BufferId;
use crate::model::operation::{NpuOperation, Primitive};
use crate::model::program::{Stripe, View};

/// Most jobs that the hardware looks back over.
const MAX_BLOCKDEP: usize = 3;
/// Channels of a convolution's job, taken as the most that there are.
const IFM_BLOCK_DEPTH: i64 = 32;

/// Half-open rows, columns and channels of a tensor. Channels count from channel `phase`; boxes of another phase cannot be
/// told apart by them.
struct Box3 {
    spans: [(i64, i64); 2],
    channels: (i64, i64),
    phase: i64,
}

impl Box3 {
    fn meets(&self, other: &Box3) -> bool {
        let overlap = |a: (i64, i64), b: (i64, i64)| a.0 < b.1 && b.0 < a.1;
        let planes = (0..2).all(|axis| overlap(self.spans[axis], other.spans[axis]));
        planes && (self.phase != other.phase || overlap(self.channels, other.channels))
    }

    /// Channels `[from, to)` of those that begin at channel `first` of a tensor: bricks show where they lie in a pixel.
    fn new(spans: [(i64, i64); 2], layout: Layout, first: i64, (from, to): (i64, i64)) -> Box3 {
        match layout {
            Layout::Nhwc => Box3 { spans, channels: (from, to), phase: first },
            Layout::Nhcwb16 => Box3 { spans, channels: (first + from, first + to), phase: 0 },
        }
    }
}

/// A stripe cut into blocks.
struct Cut<'a> {
    stripe: &'a Stripe,
    /// Blocks along height, width and depth.
    grid: [i64; 3],
}

impl<'a> Cut<'a> {
    fn new(graph: &CascaderGraph, stripe: &'a Stripe) -> Cut<'a> {
        let [first, end] = graph.kernel(stripe.part).map_or([0, 1], |kernel| kernel.channels(stripe.piece));
        let [rows, columns] = stripe.output.region.spans.map(|span| span.len());
        let [height, width, depth] = stripe.cost.block;
        let count = |extent: i64, block: i64| (extent + block - 1) / block;
        Cut { stripe, grid: [count(rows, height), count(columns, width), count(end - first, depth)] }
    }

    fn blocks(&self) -> i64 {
        self.grid.iter().product()
    }

    /// First row, column and channel of a block; depth runs fastest, then width, then height.
    fn origin(&self, index: i64) -> [i64; 3] {
        let ([_, across, deep], block) = (self.grid, self.stripe.cost.block);
        [index / (deep * across) * block[0], index / deep % across * block[1], index % deep * block[2]]
    }
}

/// The last kernels of a run, latest first.
pub struct Recent<'a> {
    graph: &'a CascaderGraph,
    kernels: VecDeque<Cut<'a>>,
}

impl<'a> Recent<'a> {
    /// None yet.
    pub fn new(graph: &'a CascaderGraph) -> Recent<'a> {
        Recent { graph, kernels: VecDeque::with_capacity(MAX_BLOCKDEP + 1) }
    }

    /// Remember a kernel.
    pub fn push(&mut self, stripe: &'a Stripe) {
        self.kernels.push_front(Cut::new(self.graph, stripe));
        self.kernels.truncate(MAX_BLOCKDEP);
    }

    /// BLOCKDEP of the next kernel; 0 for the first.
    pub fn block_dependency(&self, stripe: &Stripe) -> u32 {
        let Some(kernel) = self.graph.kernel(stripe.part).filter(|_| !self.kernels.is_empty()) else { return 0 };
        let reads = |buffer: BufferId| stripe.inputs.iter().any(|view| view.buffer == buffer);
        if !self.kernels.iter().any(|before| reads(before.stripe.output.buffer)) {
            return MAX_BLOCKDEP as u32;
        }
        let cut = Cut::new(self.graph, stripe);
        let first = (cut.blocks() * jobs(kernel)).min(MAX_BLOCKDEP as i64);
        let mut allowed = MAX_BLOCKDEP;
        for job in 0..first as usize {
            for back in 0..allowed.saturating_sub(job) {
                if self.depends(&cut, kernel, job as i64, back as i64) {
                    allowed = job + back;
                    break;
                }
            }
        }
        allowed as u32
    }

    /// Whether a job of the next kernel reads what the `back`-th last block before it writes.
    fn depends(&self, next: &Cut, kernel: &NpuOperation, job: i64, back: i64) -> bool {
        let mut left = back;
        for before in &self.kernels {
            let count = before.blocks();
            if left >= count {
                left -= count;
                continue;
            }
            let written = self.written(before, count - 1 - left);
            let stripe = next.stripe;
            return stripe.inputs.iter().zip(self.graph.reads(stripe.part, stripe.piece)).any(|(view, input)| {
                let same = view.buffer == before.stripe.output.buffer;
                same && (!self.graph.is_aligned(input) || self.read(next, kernel, (view, input), job).meets(&written))
            });
        }
        false
    }

    fn written(&self, cut: &Cut, index: i64) -> Box3 {
        let (stripe, origin) = (cut.stripe, cut.origin(index));
        let spans = [0, 1].map(|axis| {
            let span = stripe.output.region.spans[axis];
            let start = span.start + origin[axis];
            (start, (start + stripe.cost.block[axis]).min(span.end))
        });
        let first = self.graph.kernel(stripe.part).map_or(0, |kernel| kernel.channels(stripe.piece)[0]);
        let layout = self.graph.tensors[self.graph.output(stripe.part)].layout;
        Box3::new(spans, layout, first, (origin[2], origin[2] + stripe.cost.block[2]))
    }

    fn read(&self, cut: &Cut, kernel: &NpuOperation, (view, input): (&View, &Input), job: i64) -> Box3 {
        let jobs = jobs(kernel);
        let (stripe, origin) = (cut.stripe, cut.origin(job / jobs));
        let spans = [0, 1].map(|axis| {
            let extent = stripe.output.region.spans[axis].len();
            let end = (origin[axis] + stripe.cost.block[axis]).min(extent);
            let (before, region) = (stripe.padding[axis], view.region.spans[axis]);
            let from = (origin[axis] * kernel.stride[axis] - before).max(0);
            let to = ((end - 1) * kernel.stride[axis] - before + kernel.dilated(axis)).min(region.len());
            (region.start + from, region.start + to.max(from))
        });
        let depth = if kernel.primitive == Primitive::Convolution {
            IFM_BLOCK_DEPTH
        } else {
            kernel.channels_read(stripe.piece)
        };
        let layout = self.graph.tensors[input.tensor].layout;
        Box3::new(spans, layout, input.first_channel, (job % jobs * depth, (job % jobs + 1) * depth))
    }
}

/// Jobs of a block.
fn jobs(kernel: &NpuOperation) -> i64 {
    match kernel.primitive {
        Primitive::Convolution => (kernel.ifm_depth + IFM_BLOCK_DEPTH - 1) / IFM_BLOCK_DEPTH,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::model::program::Step;
    use crate::proposals::uncascaded;
    use crate::schedule::interleave::interleave;
    use crate::testing::networks::{Network, INPUT};

    /// BLOCKDEP of each kernel of a chain of convolutions, each in one piece.
    fn chain(plane: [i64; 2], layers: usize) -> Vec<u32> {
        let mut net = Network::new(plane, 16);
        let mut t = INPUT;
        for _ in 0..layers {
            t = net.window(t, Primitive::Convolution, 1, 1, 16);
        }
        let graph = net.finish(t);
        let program = interleave(&graph, &uncascaded(&graph), &mut Costs::default()).expect("blocks fit");
        let mut recent = Recent::new(&graph);
        let mut found = Vec::new();
        for step in &program.steps {
            let Step::Stripe(stripe) = step else { continue };
            found.push(recent.block_dependency(stripe));
            recent.push(stripe);
        }
        found
    }

    #[test]
    fn channels_that_begin_elsewhere_in_a_pixel_are_told_apart_in_bricks_alone() {
        let at = |layout, first| Box3::new([(0, 1); 2], layout, first, (0, 16));
        assert!(at(Layout::Nhwc, 0).meets(&at(Layout::Nhwc, 16)));
        assert!(!at(Layout::Nhcwb16, 0).meets(&at(Layout::Nhcwb16, 16)));
        assert!(at(Layout::Nhcwb16, 16).meets(&at(Layout::Nhcwb16, 16)));
    }

    #[test]
    fn a_kernel_of_one_block_waits_for_the_one_block_before() {
        assert_eq!(chain([2, 2], 3), [0, 0, 0]);
    }

    #[test]
    fn first_blocks_may_run_beside_last_ones() {
        assert_eq!(chain([160, 64], 2), [0, 3]);
    }
}
