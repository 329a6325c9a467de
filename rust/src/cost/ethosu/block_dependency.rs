//! BLOCKDEP: how much of a kernel may start while kernels before it are still finishing.
//!
//! Owns the rule and its safety, for command streams and for their prediction. A kernel works in jobs, one for each OFM
//! block and block of IFM channels. With BLOCKDEP b the first jobs of a kernel may run while the last b jobs before it are
//! unfinished: job i together with the last b - i of them. The value found is the largest for which no such pair reads
//! what the other still writes.
//!
//! Four choices keep it on the safe side of what is not documented. Of the kernels before, every OFM block counts as a
//! single job, so that the jobs looked back over span more output than they really do. They are counted across kernels:
//! three kernels of one block each are the last three jobs, though the hardware may only ever mean the kernel immediately
//! before. Blocks of IFM channels are taken as 32 deep, the most that there is, where every output needs all channels. All
//! other kernels are taken to read every channel for each OFM block, although they should need those of the block only;
//! Vela does the same.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::surface::{Bounds, Surface};
use crate::model::operation::{Block, NpuOperation};
use crate::model::program::ByteRange;
use crate::npu::Accelerator;

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
}

/// Which part of its inputs a kernel reads for a block.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Whether each element is read for the one in its place.
    pub is_elementwise: bool,
    /// How often an input's rows and columns are repeated.
    pub factor: i64,
    /// Strides in height and width.
    pub stride: [i64; 2],
    /// Rows and columns from a window's first to its last, one more.
    pub window: [i64; 2],
    /// Rows and columns of padding before the first.
    pub before: [i64; 2],
    /// Blocks of input channels, each of which is a job, and their channels.
    pub parts: (u64, u64),
}

impl Reading {
    /// Of an operation on a stripe with this padding: top, left, bottom, right.
    pub fn of(kernel: &NpuOperation, [top, left, ..]: [i64; 4]) -> Reading {
        Reading {
            is_elementwise: kernel.kind.is_elementwise(),
            factor: kernel.upscale.factor(),
            stride: kernel.stride,
            window: [0, 1].map(|axis| kernel.dilated(axis)),
            before: [top, left],
            parts: Reading::parts(kernel.kind.reads_whole_depth(), kernel.ifm_depth as u64),
        }
    }

    /// The number of blocks of input channels, and the channels of each.
    pub fn parts(reads_whole_depth: bool, depth: u64) -> (u64, u64) {
        let channels = if reads_whole_depth { IFM_BLOCK_DEPTH } else { depth };
        (depth.div_ceil(channels), channels)
    }

    /// What job `job` of a kernel reads of an input. Rows and columns that are left of an enlarged one are those that it
    /// stands for.
    fn bounds(&self, access: &Access, input: &Surface, job: u64) -> Bounds {
        let (parts, depth) = self.parts;
        let block = access.block_bounds(job / parts);
        let window = |axis: usize, [start, end]: [u64; 2]| {
            if self.is_elementwise {
                // A second operand of one row or column is read again for each.
                return if input.extent[axis] > 1 { [start, end] } else { [0, 1] };
            }
            let (stride, before) = (self.stride[axis], self.before[axis]);
            let from = (start as i64 * stride - before).max(0) / self.factor;
            let last = ((end as i64 - 1) * stride - before + self.window[axis] - 1).div_euclid(self.factor);
            [from as u64, (last + 1).min(input.extent[axis] as i64).max(from) as u64]
        };
        let first = job % parts * depth;
        Bounds { rows: window(0, block.rows), columns: window(1, block.columns), channels: [first, first + depth] }
    }
}

/// BLOCKDEP of each kernel of a run, in order.
pub fn block_dependencies(kernels: impl IntoIterator<Item = (Reading, Access)>, accelerator: &Accelerator) -> Vec<u32> {
    let mut recent = Recent::new(accelerator);
    let next = |(reading, access)| {
        let value = recent.block_dependency(&reading, &access);
        recent.push(access);
        value
    };
    kernels.into_iter().map(next).collect()
}

/// The last kernels of a run, latest first.
pub struct Recent {
    /// Each with the bytes from the first to the last that it writes.
    kernels: VecDeque<(Access, ByteRange)>,
    /// Whether buffers may lie over tables.
    tables_share: bool,
}

impl Recent {
    /// No kernels yet. Where no banks are kept for tables, the buffers of one that looks nothing up may lie over them.
    pub fn new(accelerator: &Accelerator) -> Recent {
        Recent { kernels: VecDeque::new(), tables_share: accelerator.reserved_banks == 0 }
    }

    /// Remember a kernel.
    pub fn push(&mut self, access: Access) {
        self.kernels.truncate(MAX_BLOCKDEP as usize - 1);
        let written = access.output.bounds();
        self.kernels.push_front((access, written));
    }

    /// BLOCKDEP of the next kernel; 0 for the first.
    pub fn block_dependency(&self, reading: &Reading, next: &Access) -> u32 {
        let Some((last, _)) = self.kernels.front() else { return 0 };
        if self.tables_share && last.looks_up && !next.looks_up {
            return 0;
        }
        let ranges: SmallVec<[ByteRange; 2]> = next.inputs.iter().map(Surface::bounds).collect();
        if !self.kernels.iter().any(|&(_, written)| ranges.iter().any(|&range| meet(range, written))) {
            return MAX_BLOCKDEP as u32;
        }
        let first = (next.blocks() * reading.parts.0).min(MAX_BLOCKDEP);
        let mut allowed = MAX_BLOCKDEP;
        for job in 0..first {
            if job >= allowed {
                break;
            }
            let inputs = || next.inputs.iter().zip(&ranges);
            let reads: SmallVec<[Bounds; 2]> = inputs().map(|(input, _)| reading.bounds(next, input, job)).collect();
            let depends = |block: WrittenBlock| {
                inputs().zip(&reads).any(|((input, &range), read)| {
                    meet(range, block.range) && input.meets(read, block.output, &block.bounds)
                })
            };
            let nearest = self.last_blocks().take((allowed - job) as usize).position(depends);
            allowed = nearest.map_or(allowed, |back| job + back as u64);
        }
        allowed as u32
    }

    /// The blocks that the last kernels write, the latest first.
    fn last_blocks(&self) -> impl Iterator<Item = WrittenBlock<'_>> {
        self.kernels.iter().flat_map(|(before, range)| {
            let bounds = (0..before.blocks()).rev().map(|index| before.block_bounds(index));
            bounds.map(|bounds| WrittenBlock { output: &before.output, range: *range, bounds })
        })
    }
}

/// A block that is written: of which surface, what that takes in all, and where.
struct WrittenBlock<'a> {
    output: &'a Surface,
    range: ByteRange,
    bounds: Bounds,
}

fn meet(a: ByteRange, b: ByteRange) -> bool {
    a.0 < b.1 && b.0 < a.1
}
