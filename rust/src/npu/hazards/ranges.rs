//! Sets of bytes as sorted, disjoint, half-open ranges, and the byte ranges of boxes of feature maps.
//! Owns interval arithmetic only; knows nothing of commands.

use crate::npu::feature_map::{FeatureMap, Layout};
use crate::util::interrupt;

/// Most pieces of one box; a box of more pieces is taken as its hull, row by row. Only damaged streams get there.
const MAX_PIECES: u64 = 1 << 20;

/// A set of bytes: ranges `[start, end)` in ascending order that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(i64, i64)>);

impl Ranges {
    /// The union of arbitrary ranges; empty ones are dropped.
    pub fn union(mut pieces: Vec<(i64, i64)>) -> Ranges {
        pieces.retain(|(start, end)| start < end);
        if !pieces.windows(2).all(|pair| pair[0].0 <= pair[1].0) {
            pieces.sort_unstable();
        }
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (start, end) in pieces {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Ranges::in_order(merged)
    }

    /// Ranges that are sorted and apart already.
    fn in_order(ranges: Vec<(i64, i64)>) -> Ranges {
        debug_assert!(ranges.iter().all(|range| range.0 < range.1), "an empty range");
        debug_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "ranges that overlap or touch");
        Ranges(ranges)
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.0.iter().copied()
    }

    /// Bytes in the set.
    pub fn bytes(&self) -> i64 {
        self.iter().map(|(start, end)| end - start).sum()
    }

    /// Bytes that either set holds.
    pub fn with(&self, other: &Ranges) -> Ranges {
        if other.0.is_empty() {
            return self.clone();
        }
        Ranges::union(self.iter().chain(other.iter()).collect())
    }

    /// Bytes that this set holds and the other does not.
    pub fn without(&self, other: &Ranges) -> Ranges {
        let (mut left, mut b) = (Vec::new(), 0);
        for (mut start, end) in self.iter() {
            while let Some(&cut) = other.0.get(b).filter(|cut| cut.0 < end) {
                if start < cut.0 {
                    left.push((start, cut.0));
                }
                start = start.max(cut.1);
                if cut.1 >= end {
                    break;
                }
                b += 1;
            }
            if start < end {
                left.push((start, end));
            }
        }
        Ranges::in_order(left)
    }

    /// Bytes that both sets hold.
    pub fn intersection(&self, other: &Ranges) -> Ranges {
        let (mut a, mut b) = (0, 0);
        let mut common = Vec::new();
        while let (Some(&x), Some(&y)) = (self.0.get(a), other.0.get(b)) {
            let (start, end) = (x.0.max(y.0), x.1.min(y.1));
            if start < end {
                common.push((start, end));
            }
            if x.1 <= y.1 {
                a += 1;
            } else {
                b += 1;
            }
        }
        Ranges::in_order(common)
    }
}

/// Rows, columns and channels `[start, end)` of a feature map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region3 {
    /// Rows.
    pub rows: (u32, u32),
    /// Columns.
    pub columns: (u32, u32),
    /// Channels.
    pub channels: (u32, u32),
}

impl Region3 {
    /// All of a map.
    pub fn whole(map: &FeatureMap) -> Region3 {
        Region3 { rows: (0, map.height), columns: (0, map.width), channels: (0, map.depth) }
    }

    /// The part of it that lies in `map`.
    pub fn within(self, map: &FeatureMap) -> Region3 {
        let clip = |(start, end): (u32, u32), size: u32| (start.min(size), end.min(size));
        Region3 {
            rows: clip(self.rows, map.height),
            columns: clip(self.columns, map.width),
            channels: clip(self.channels, map.depth),
        }
    }
}

/// Pieces of a box, in the order of rows: channels of a pixel, or whole rows where they are dense.
pub fn box_pieces(map: &FeatureMap, part: Region3) -> Vec<(i64, i64)> {
    let part = part.within(map);
    let (columns, channels) = (part.columns, part.channels);
    let split = map.width0.clamp(columns.0, columns.1);
    let segments = [(columns.0, split), (split, columns.1)];
    let size = |(start, end): (u32, u32)| u64::from(end.saturating_sub(start));
    let coarse = size(part.rows) * size(columns) * size(channels).div_ceil(16) > MAX_PIECES;
    let mut pieces = Vec::new();
    for y in part.rows.0..part.rows.1 {
        interrupt::ask();
        for (start, end) in segments.into_iter().filter(|(start, end)| start < end) {
            let mut channel = channels.0;
            while channel < channels.1 {
                let last = match map.layout {
                    Layout::Nhwc => channels.1,
                    Layout::Nhcwb16 => channels.1.min(channel / 16 * 16 + 16),
                };
                segment_pieces(map, y, (start, end), (channel, last), coarse, &mut pieces);
                channel = last;
            }
        }
        if coarse && pieces.len() > MAX_PIECES as usize {
            pieces = Ranges::union(pieces).0;
        }
    }
    pieces
}

/// Pixels `[xs.0, xs.1)` of one row and tile, with channels that are contiguous in a pixel.
fn segment_pieces(
    map: &FeatureMap,
    y: u32,
    xs: (u32, u32),
    channels: (u32, u32),
    coarse: bool,
    pieces: &mut Vec<(i64, i64)>,
) {
    let bytes = i64::from(channels.1 - channels.0) * map.element.bytes() as i64;
    let first = map.address(y, xs.0, channels.0);
    let steps = i64::from(xs.1 - xs.0) - 1;
    let span = steps.saturating_mul(map.stride_x);
    let (low, high) = (first.saturating_add(span.min(0)), first.saturating_add(span.max(0)));
    if coarse || map.stride_x.abs() <= bytes {
        pieces.push((low, high.saturating_add(bytes)));
        return;
    }
    for i in 0..=steps {
        let start = low.saturating_add(i.saturating_mul(map.stride_x.abs()));
        pieces.push((start, start.saturating_add(bytes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npu::feature_map::ElementType;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(ranges: &Ranges) -> BTreeSet<i64> {
        ranges.iter().flat_map(|(start, end)| start..end).collect()
    }

    proptest! {
        #[test]
        fn ranges_are_sets(a in proptest::collection::vec((0i64..60, 0i64..60), 0..8),
                           b in proptest::collection::vec((0i64..60, 0i64..60), 0..8)) {
            let (x, y) = (Ranges::union(a.clone()), Ranges::union(b));
            prop_assert_eq!(set(&x), a.iter().flat_map(|&(s, e)| s..e).collect());
            prop_assert!(x.0.windows(2).all(|w| w[0].1 < w[1].0));
            prop_assert_eq!(set(&x.intersection(&y)), set(&x).intersection(&set(&y)).copied().collect());
            prop_assert_eq!(x.bytes() as usize, set(&x).len());
            prop_assert_eq!(set(&x.with(&y)), set(&x).union(&set(&y)).copied().collect());
            prop_assert_eq!(set(&x.without(&y)), set(&x).difference(&set(&y)).copied().collect());
        }

        #[test]
        fn boxes_hold_the_addresses_of_their_elements(
            brick: bool, bits in prop_oneof![Just(8u32), Just(16), Just(32)],
            shape in (1u32..5, 1u32..6, 1u32..40), tiles in (1u32..6, 1u32..5, 1u32..5), extra in (0i64..3, 0i64..3),
            from in (0u32..5, 0u32..6, 0u32..40), size in (0u32..5, 0u32..6, 0u32..40), backwards: bool,
        ) {
            let e = i64::from(bits / 8);
            let (h, w, d) = shape;
            let bricks = i64::from(d.div_ceil(16));
            let pixel = if brick { 16 * e } else { i64::from(d) * e + extra.0 * e };
            let row = (pixel * i64::from(w) + extra.1 * 16) * if brick { bricks } else { 1 };
            let map = FeatureMap {
                name: "IFM", region: 1, height: h, width: w, depth: d,
                element: ElementType { bits, signed: true },
                layout: if brick { Layout::Nhcwb16 } else { Layout::Nhwc },
                zero_point: 0, bases: [10_000, 30_000, 50_000, 70_000],
                width0: tiles.0, height0: tiles.1, height1: tiles.2,
                stride_x: if backwards && !brick { -pixel } else { pixel }, stride_y: row,
                stride_c: pixel * i64::from(w),
            };
            let part = Region3 {
                rows: (from.0, from.0 + size.0), columns: (from.1, from.1 + size.1), channels: (from.2, from.2 + size.2),
            };
            let inside = part.within(&map);
            let mut want = BTreeSet::new();
            for y in inside.rows.0..inside.rows.1 {
                for x in inside.columns.0..inside.columns.1 {
                    for c in inside.channels.0..inside.channels.1 {
                        let address = map.address(y, x, c);
                        want.extend(address..address + e);
                    }
                }
            }
            prop_assert_eq!(set(&Ranges::union(box_pieces(&map, part))), want);
        }
    }
}
