//! How much of a kernel may start before the ones ahead of it have finished (BLOCKDEP), predicted for the planner.
//!
//! Owns the prediction. The rule is code generation's (`codegen/block_dependency.py`, which says why it is safe), and a
//! test holds the two equal, kernel by kernel.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::surface::{Bounds, Surface};
use crate::model::operation::{Block, NpuOperation};

/// Most jobs that the hardware looks back over.
const MAX_BLOCKDEP: u64 = 3;
/// Channels of a convolution's job, taken as the most that there are.
const IFM_BLOCK_DEPTH: u64 = 32;

/// What a kernel on a stripe reads and writes.
#[derive(Clone, Debug)]
pub struct Access {
    /// Boxes read of what kernels may have written.
    pub inputs: SmallVec<[Surface; 2]>,
    /// The box read of a constant second operand.
    pub constant: Option<Surface>,
    /// Box written.
    pub output: Surface,
    /// OFM block.
    pub block: Block,
    /// Whether its results are looked up in a table.
    pub looks_up: bool,
}

impl Access {
    /// Blocks along height, width and depth.
    fn grid(&self) -> [u64; 3] {
        [0, 1, 2].map(|axis| self.output.extent[axis].div_ceil(self.block[axis] as u64))
    }

    fn blocks(&self) -> u64 {
        self.grid().iter().product()
    }

    /// The box of an OFM block, whose channels may reach beyond the output's; depth runs fastest, then width, then height.
    fn block_bounds(&self, index: u64) -> Bounds {
        let ([_, across, deep], block) = (self.grid(), self.block.map(|extent| extent as u64));
        let span = |axis: usize, place: u64| {
            let start = place * block[axis];
            [start, (start + block[axis]).min(self.output.extent[axis])]
        };
        let channels = index % deep * block[2];
        Bounds {
            rows: span(0, index / (deep * across)),
            columns: span(1, index / deep % across),
            channels: [channels, channels + block[2]],
        }
    }

    /// What job `job` reads of an input. Rows and columns that are left of an enlarged one are those that it stands for.
    fn read_bounds(&self, kernel: &NpuOperation, padding: [i64; 4], input: &Surface, job: u64) -> Bounds {
        let (jobs, depth) = (jobs(kernel), channels_of_job(kernel));
        let block = self.block_bounds(job / jobs);
        let factor = kernel.upscale.factor();
        let window = |axis: usize, [start, end]: [u64; 2]| {
            if kernel.kind.is_elementwise() {
                // A second operand of one row or column is read again for each.
                return if input.extent[axis] > 1 { [start, end] } else { [0, 1] };
            }
            let (stride, before) = (kernel.stride[axis], padding[axis]);
            let from = (start as i64 * stride - before).max(0) / factor;
            let last = ((end as i64 - 1) * stride - before + kernel.dilated(axis) - 1).div_euclid(factor);
            [from as u64, (last + 1).min(input.extent[axis] as i64).max(from) as u64]
        };
        let first = job % jobs * depth;
        Bounds { rows: window(0, block.rows), columns: window(1, block.columns), channels: [first, first + depth] }
    }
}

/// Jobs of a block.
fn jobs(kernel: &NpuOperation) -> u64 {
    (kernel.ifm_depth as u64).div_ceil(channels_of_job(kernel))
}

fn channels_of_job(kernel: &NpuOperation) -> u64 {
    if kernel.kind.reads_whole_depth() {
        IFM_BLOCK_DEPTH
    } else {
        kernel.ifm_depth as u64
    }
}

/// The last kernels of a run, latest first.
pub struct Recent {
    kernels: VecDeque<Access>,
    /// Whether buffers may lie over tables.
    tables_share: bool,
}

impl Recent {
    /// No kernels yet; `tables_share` where the buffers of one that looks nothing up may lie over tables.
    pub fn new(tables_share: bool) -> Recent {
        Recent { kernels: VecDeque::new(), tables_share }
    }

    /// Remember a kernel.
    pub fn push(&mut self, access: Access) {
        self.kernels.truncate(MAX_BLOCKDEP as usize - 1);
        self.kernels.push_front(access);
    }

    /// BLOCKDEP of the next kernel, which is `kernel` with this padding; 0 for the first.
    pub fn block_dependency(&self, kernel: &NpuOperation, padding: [i64; 4], next: &Access) -> u32 {
        let Some(last) = self.kernels.front() else { return 0 };
        if self.tables_share && last.looks_up && !next.looks_up {
            return 0;
        }
        let meet = |a: &Surface, b: &Surface| {
            let (a, b) = (a.bounds(), b.bounds());
            a.0 < b.1 && b.0 < a.1
        };
        if !self.kernels.iter().any(|before| next.inputs.iter().any(|input| meet(input, &before.output))) {
            return MAX_BLOCKDEP as u32;
        }
        let first = (next.blocks() * jobs(kernel)).min(MAX_BLOCKDEP);
        let mut allowed = MAX_BLOCKDEP;
        for job in 0..first {
            let nearest =
                (0..allowed.saturating_sub(job)).find(|&back| self.depends((kernel, padding, next), job, back));
            allowed = nearest.map_or(allowed, |back| job + back);
        }
        allowed as u32
    }

    /// Whether a job of the next kernel reads what the `back`-th last block before it writes.
    fn depends(&self, (kernel, padding, next): (&NpuOperation, [i64; 4], &Access), job: u64, back: u64) -> bool {
        let mut left = back;
        for before in &self.kernels {
            let count = before.blocks();
            if left >= count {
                left -= count;
                continue;
            }
            let written = before.block_bounds(count - 1 - left);
            let reads =
                |input: &Surface| input.meets(&next.read_bounds(kernel, padding, input, job), &before.output, &written);
            return next.inputs.iter().any(reads);
        }
        false
    }
}
