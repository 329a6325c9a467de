//! One axis of a kernel cut into OFM blocks: which extents of output and input occur, and how often.
//!
//! Blocks in the middle of a feature map are alike, so an axis has a handful of classes however long it is. Only blocks
//! that reach padding or the end are looked at one by one.

use smallvec::SmallVec;

/// Values with the number of times that each occurs.
pub type Counted = SmallVec<[(u32, u32); 2]>;
/// Equal depth blocks, of which there are a few.
pub type DepthSpans = SmallVec<[DepthSpan; 4]>;

/// A height or width axis. Sizes in rows or columns; the kernel is undilated.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// Output size.
    pub ofm: u32,
    /// OFM block size.
    pub block: u32,
    /// Kernel size.
    pub kernel: u32,
    /// Stride.
    pub stride: u32,
    /// Dilation.
    pub dilation: u32,
    /// Padding before the data.
    pub pad_before: u32,
    /// Padding after the data.
    pub pad_after: u32,
    /// Enlargement of the input (1 or 2).
    pub upscale: u32,
    /// Whether the enlargement inserts zeros, which are not fetched.
    pub zeros: bool,
    /// Largest sub-kernel, undilated.
    pub sub_kernel: u32,
    /// Stored input size.
    pub stored: u32,
    /// Whether edge blocks fetch only what exists.
    pub exact: bool,
}

/// Equal blocks of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Output rows or columns.
    pub out: u32,
    /// Stored input rows or columns, for each sub-kernel: extent and number of sub-kernels with that extent.
    pub fetched: Counted,
    /// Number of such blocks.
    pub count: u64,
}

impl Span {
    /// Input rows or columns over all sub-kernels.
    pub fn fetched_total(&self) -> u64 {
        self.fetched.iter().map(|&(extent, times)| u64::from(extent) * u64::from(times)).sum()
    }

    /// Input rows or columns of the first sub-kernel.
    pub fn fetched_first(&self) -> u32 {
        self.fetched.first().map_or(0, |&(extent, _)| extent)
    }
}

/// All blocks of an axis.
#[derive(Debug, Clone)]
pub struct Spans {
    /// Classes; no two are equal in extents.
    pub classes: SmallVec<[Span; 4]>,
    /// Class of the first block.
    pub first: usize,
    /// Class of the last block.
    pub last: usize,
}

impl Spans {
    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.classes.iter().map(|span| span.count).sum()
    }

    fn add(&mut self, out: u32, fetched: Counted, count: u64) -> usize {
        if let Some(index) = self.classes.iter().position(|span| span.out == out && span.fetched == fetched) {
            self.classes[index].count += count;
            return index;
        }
        self.classes.push(Span { out, fetched, count });
        self.classes.len() - 1
    }
}

impl Axis {
    /// The classes of blocks.
    pub fn spans(&self) -> Spans {
        let blocks = self.ofm.div_ceil(self.block);
        // Leading blocks start in the padding; trailing ones end behind the data or are cut.
        let lead = self.pad_before.div_ceil(self.stride * self.block).min(blocks);
        let whole = self.ofm.saturating_sub(self.pad_after.div_ceil(self.stride)) / self.block;
        let trail = whole.min(blocks - 1).max(lead);
        let mut spans = Spans { classes: SmallVec::new(), first: 0, last: 0 };
        for index in 0..lead {
            spans.last = self.add_block(&mut spans, index, 1);
        }
        // Enlargement by 2 makes neighbouring blocks differ when they start on odd rows.
        let period = self.upscale.min(trail - lead);
        for index in lead..lead + period {
            let count = (trail - index).div_ceil(period);
            spans.last = self.add_block(&mut spans, index, u64::from(count));
        }
        for index in trail..blocks {
            spans.last = self.add_block(&mut spans, index, 1);
        }
        spans
    }

    fn add_block(&self, spans: &mut Spans, index: u32, count: u64) -> usize {
        let start = index * self.block;
        let out = self.block.min(self.ofm - start);
        let fetched = if self.exact { self.fetched(start, out) } else { self.fetched_nominal() };
        spans.add(out, fetched, count)
    }

    /// Extents that the sub-kernels of output `[start, start + out)` fetch.
    fn fetched(&self, start: u32, out: u32) -> Counted {
        let data_end = self.needed(self.ofm, self.kernel).saturating_sub(u64::from(self.pad_after));
        let mut fetched = Counted::new();
        for (offset, size) in self.sub_kernels() {
            let from = u64::from(start) * u64::from(self.stride) + u64::from(offset) * u64::from(self.dilation);
            let to = from + self.needed(out, size);
            let from = from.max(u64::from(self.pad_before)) - u64::from(self.pad_before);
            let to = to.min(data_end).saturating_sub(u64::from(self.pad_before));
            push(&mut fetched, self.stored_extent(from, to));
        }
        fetched
    }

    /// Extents of a whole block that nothing clips but the input's size.
    fn fetched_nominal(&self) -> Counted {
        let mut fetched = Counted::new();
        for (_, size) in self.sub_kernels() {
            let extent = self.stored_extent(0, self.needed(self.block.min(self.ofm), size));
            push(&mut fetched, extent.min(self.stored));
        }
        fetched
    }

    /// Padded input that `out` outputs of a kernel of `size` need.
    fn needed(&self, out: u32, size: u32) -> u64 {
        u64::from(out - 1) * u64::from(self.stride) + u64::from(size - 1) * u64::from(self.dilation) + 1
    }

    /// Stored rows behind the enlarged rows `[from, to)`.
    fn stored_extent(&self, from: u64, to: u64) -> u32 {
        let extent = match (self.upscale, self.zeros) {
            (1, _) => to.saturating_sub(from),
            (_, true) => to.div_ceil(2).saturating_sub(from.div_ceil(2)),
            (_, false) => {
                if to > from {
                    to.div_ceil(2) - from / 2
                } else {
                    0
                }
            }
        };
        u32::try_from(extent).unwrap_or(u32::MAX)
    }

    /// Offset and size of each sub-kernel.
    fn sub_kernels(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let limit = self.sub_kernel.max(1);
        (0..self.kernel.div_ceil(limit)).map(move |i| (i * limit, limit.min(self.kernel - i * limit)))
    }

    /// Sizes of the sub-kernels and how many have them.
    pub fn sub_kernel_sizes(&self) -> Counted {
        let mut sizes = Counted::new();
        for (_, size) in self.sub_kernels() {
            push(&mut sizes, size);
        }
        sizes
    }
}

/// Counts `value` once more. Equal values come in a row, apart from those at both ends.
fn push(list: &mut Counted, value: u32) {
    match list.last_mut() {
        Some((last, times)) if *last == value => *times += 1,
        _ => list.push((value, 1)),
    }
}

/// Equal OFM depth blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepthSpan {
    /// Channels.
    pub channels: u32,
    /// Bricks of 16 channels that the block touches.
    pub bricks: u32,
    /// Number of such blocks.
    pub count: u64,
}

/// The depth axis cut into blocks, first block first and last block last.
pub fn depth_spans(depth: u32, block: u32) -> DepthSpans {
    let blocks = depth.div_ceil(block);
    let bricks = |start: u32, end: u32| end.div_ceil(16) - start / 16;
    // Starts repeat modulo 16 after at most 16 blocks.
    let whole = blocks - 1;
    let period = whole.min(16);
    let mut spans = DepthSpans::new();
    for index in 0..period {
        let count = u64::from((whole - index).div_ceil(period));
        let span = DepthSpan { channels: block, bricks: bricks(index * block, (index + 1) * block), count };
        match spans.iter_mut().find(|s| s.bricks == span.bricks) {
            Some(same) => same.count += count,
            None => spans.push(span),
        }
    }
    let start = whole * block;
    spans.push(DepthSpan { channels: depth - start, bricks: bricks(start, depth), count: 1 });
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn axis(ofm: u32, block: u32, kernel: u32, stride: u32, pads: (u32, u32)) -> Axis {
        Axis {
            ofm,
            block,
            kernel,
            stride,
            dilation: 1,
            pad_before: pads.0,
            pad_after: pads.1,
            upscale: 1,
            zeros: false,
            sub_kernel: 8,
            stored: (ofm - 1) * stride + kernel - pads.0 - pads.1,
            exact: true,
        }
    }

    #[test]
    fn halo_is_clipped_at_both_ends() {
        let spans = axis(10, 4, 3, 1, (1, 1)).spans();
        let seen: Vec<_> = spans.classes.iter().map(|s| (s.out, s.fetched_total(), s.count)).collect();
        assert_eq!(seen, [(4, 5, 1), (4, 6, 1), (2, 3, 1)]);
        assert_eq!((spans.first, spans.last, spans.blocks()), (0, 2, 3));
    }

    #[test]
    fn large_kernels_fetch_once_per_sub_kernel() {
        let spans = axis(1, 2, 20, 1, (0, 0)).spans();
        assert_eq!(spans.classes[0].fetched.as_slice(), [(8, 2), (4, 1)]);
        assert_eq!(axis(1, 2, 20, 1, (0, 0)).sub_kernel_sizes().as_slice(), [(8, 2), (4, 1)]);
    }

    #[test]
    fn depth_bricks() {
        let spans = depth_spans(40, 12);
        let seen: Vec<_> = spans.iter().map(|s| (s.channels, s.bricks, s.count)).collect();
        assert_eq!(seen, [(12, 1, 1), (12, 2, 2), (4, 1, 1)]);
        assert_eq!(depth_spans(24, 16).len(), 2);
    }

    proptest! {
        /// Classes are what one gets by looking at every block.
        #[test]
        fn classes_equal_enumeration(
            ofm in 1u32..70, block in 1u32..9, kernel in 1u32..12, stride in 1u32..4, dilation in 1u32..3,
            pads in (0u32..20, 0u32..20), upscale in 1u32..3, zeros: bool, exact: bool,
        ) {
            let need = (ofm - 1) * stride + (kernel - 1) * dilation + 1;
            prop_assume!(need > pads.0 + pads.1);
            let stored = (need - pads.0 - pads.1).div_ceil(upscale);
            let axis = Axis { dilation, upscale, zeros, exact, stored, sub_kernel: 8 / dilation,
                              ..axis(ofm, block, kernel, stride, (0, 0)) };
            let axis = Axis { pad_before: pads.0, pad_after: pads.1, ..axis };
            let spans = axis.spans();
            let mut naive = Spans { classes: SmallVec::new(), first: 0, last: 0 };
            for index in 0..ofm.div_ceil(block) {
                naive.last = axis.add_block(&mut naive, index, 1);
            }
            let sorted = |spans: &Spans| {
                let mut all: Vec<_> = spans.classes.iter().map(|s| (s.out, s.fetched.clone(), s.count)).collect();
                all.sort();
                all
            };
            prop_assert_eq!(sorted(&spans), sorted(&naive));
            prop_assert_eq!(&spans.classes[spans.last].fetched, &naive.classes[naive.last].fetched);
            prop_assert!(spans.classes.iter().all(|s| s.fetched.iter().all(|&(extent, _)| extent <= stored)));
        }
    }
}
