//! The jobs of a kernel: which box each of them reads and which block it helps to write.
//!
//! A kernel walks its OFM in blocks, depth fastest, then width, then height; each block takes one job for every block
//! of IFM channels (convolution and reduce_sum) and, by choice, for every 8x8 part of its kernel. The block is written
//! when the last of its jobs ends.

use super::ranges::Region3;
use crate::npu::operation::{Kernel, KernelKind, Operand2};

/// The division of one kernel into jobs.
#[derive(Debug, Clone, Copy)]
pub struct Jobs<'k> {
    kernel: &'k Kernel,
    /// Blocks along height, width, depth of the OFM.
    blocks: [u64; 3],
    /// Blocks of IFM channels per OFM block.
    depths: u64,
    /// Depth of a block of IFM channels.
    depth: u32,
    /// Sub-kernels (rows, columns) per block of IFM channels; (1, 1) if they are no jobs of their own.
    parts: [u64; 2],
    /// Rows and columns of a sub-kernel.
    part: [u32; 2],
}

impl<'k> Jobs<'k> {
    /// `sub_kernels` says whether each part of a large kernel counts as a job.
    pub fn new(kernel: &'k Kernel, sub_kernels: bool) -> Jobs<'k> {
        let (ofm, block, window) = (&kernel.ofm, &kernel.block, &kernel.window);
        let count = |size: u32, step: u32| u64::from(size.div_ceil(step.max(1)));
        let deep = matches!(kernel.kind, KernelKind::Conv | KernelKind::ReduceSum);
        let narrow = kernel.part_kernel || kernel.ifm.element.bits == 16;
        let depth = if !deep {
            kernel.ifm.depth
        } else if narrow {
            16
        } else {
            32
        };
        let limit = if kernel.small_sub_kernels { 4 } else { 8 };
        let part = if sub_kernels {
            [limit / window.dilation_y.max(1), limit / window.dilation_x.max(1)].map(|n| n.max(1))
        } else {
            [window.height, window.width]
        };
        Jobs {
            kernel,
            blocks: [count(ofm.height, block.height), count(ofm.width, block.width), count(ofm.depth, block.depth)],
            depths: if deep { count(kernel.ifm.depth, depth) } else { 1 },
            depth,
            parts: [count(window.height, part[0]), count(window.width, part[1])],
            part,
        }
    }

    fn per_block(&self) -> u64 {
        self.depths * self.parts[0] * self.parts[1]
    }

    fn block_count(&self) -> u64 {
        self.blocks.iter().product()
    }

    /// Number of jobs.
    pub fn count(&self) -> u64 {
        self.block_count().saturating_mul(self.per_block())
    }

    /// The OFM block that job `index` works on.
    pub fn written(&self, index: u64) -> Region3 {
        let block = index / self.per_block();
        let [_, across, deep] = self.blocks;
        let size = &self.kernel.block;
        let range = |at: u64, step: u32, size: u32| {
            let start = u32::try_from(at).unwrap_or(u32::MAX).saturating_mul(step).min(size);
            (start, start.saturating_add(step).min(size))
        };
        let ofm = &self.kernel.ofm;
        Region3 {
            rows: range(block / (deep * across), size.height, ofm.height),
            columns: range(block / deep % across, size.width, ofm.width),
            channels: range(block % deep, size.depth, ofm.depth),
        }
    }

    /// The parts of the IFM and of the IFM2 that job `index` reads.
    pub fn read(&self, index: u64) -> (Region3, Option<Region3>) {
        let out = self.written(index);
        let within = index % self.per_block();
        let [_, wide] = self.parts;
        let (sub_x, sub_y) = (within % wide, within / wide % self.parts[0]);
        let part = within / (wide * self.parts[0]);
        let (window, ifm) = (&self.kernel.window, &self.kernel.ifm);
        let factor = window.upscale.factor();
        let along = |(start, end): (u32, u32), sub: u64, axis: usize, size: u32| {
            let (stride, dilation, pad, kernel) = if axis == 0 {
                (window.stride_y, window.dilation_y, window.pad_top, window.height)
            } else {
                (window.stride_x, window.dilation_x, window.pad_left, window.width)
            };
            if start >= end {
                return (0, 0);
            }
            let k0 = (sub as u32).saturating_mul(self.part[axis]);
            let k1 = k0.saturating_add(self.part[axis]).min(kernel);
            let low = (start * stride + k0 * dilation).saturating_sub(pad);
            let high = ((end - 1) * stride + (k1 - 1) * dilation + 1).saturating_sub(pad);
            (low / factor, high.div_ceil(factor).min(size))
        };
        let channels = match self.kernel.kind {
            KernelKind::Conv | KernelKind::ReduceSum => {
                let start = (part as u32).saturating_mul(self.depth);
                (start, start.saturating_add(self.depth))
            }
            _ => out.channels,
        };
        let rows = along(out.rows, sub_y, 0, ifm.height);
        let columns = along(out.columns, sub_x, 1, ifm.width);
        let second = match &self.kernel.ifm2 {
            Some(Operand2::Map(map)) => {
                let pick = |range: (u32, u32), size: u32, full: u32| if size == full { range } else { (0, size) };
                Some(Region3 {
                    rows: pick(out.rows, map.height, self.kernel.ofm.height),
                    columns: pick(out.columns, map.width, self.kernel.ofm.width),
                    channels: pick(out.channels, map.depth, self.kernel.ofm.depth),
                })
            }
            _ => None,
        };
        (Region3 { rows, columns, channels }, second)
    }
}

/// The boxes of the IFM that the whole kernel reads: all of it, or bands of rows where the stride skips some.
pub fn rows_read(kernel: &Kernel) -> Vec<Region3> {
    let (window, ifm) = (&kernel.window, &kernel.ifm);
    let span = (window.height - 1) * window.dilation_y + 1;
    let whole = Region3::whole(ifm);
    if window.stride_y <= span || window.upscale.factor() > 1 {
        return vec![whole];
    }
    let bands = (0..kernel.ofm.height).map(|y| {
        let start = (y * window.stride_y).saturating_sub(window.pad_top);
        let end = (y * window.stride_y + span).saturating_sub(window.pad_top);
        Region3 { rows: (start.min(ifm.height), end.min(ifm.height)), ..whole }
    });
    bands.collect()
}
