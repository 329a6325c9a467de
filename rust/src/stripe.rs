//! Exact integer geometry of stripes: half-open spans, boxes, and the even division of a plane into tiles.
//!
//! Owns coordinates in the plane of a feature map. Knows nothing of tensors, operations or cost.

/// One of the two axes along which a feature map is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// Rows.
    Height = 0,
    /// Columns.
    Width = 1,
}

impl Axis {
    /// The axis at a right angle to this one.
    pub fn other(self) -> Axis {
        match self {
            Axis::Height => Axis::Width,
            Axis::Width => Axis::Height,
        }
    }
}

/// Half-open range `[start, end)` of rows or columns. May reach outside a tensor: that part is padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First index.
    pub start: i64,
    /// One past the last index.
    pub end: i64,
}

impl Span {
    /// `[start, end)`.
    pub fn new(start: i64, end: i64) -> Span {
        Span { start, end }
    }

    /// No index at all: it begins behind and ends before every other.
    pub const NONE: Span = Span { start: i64::MAX / 4, end: i64::MIN / 4 };

    /// Number of indices, 0 when empty.
    pub fn len(self) -> i64 {
        (self.end - self.start).max(0)
    }

    /// Whether no index lies inside.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The part inside `bounds`.
    #[inline]
    pub fn clamp(self, bounds: Span) -> Span {
        Span::new(bounds.nearest(self.start), bounds.nearest(self.end))
    }

    /// The index that is nearest to a given one, its own end included.
    #[inline]
    pub fn nearest(self, index: i64) -> i64 {
        index.clamp(self.start, self.end)
    }

    /// The indices that both have; `NONE` where there are none.
    #[inline]
    pub fn meet(self, other: Span) -> Span {
        let met = Span::new(self.start.max(other.start), self.end.min(other.end));
        if met.is_empty() {
            Span::NONE
        } else {
            met
        }
    }

    /// The indices that both have, counted from the first of `other`; `NONE` where there are none.
    #[inline]
    pub fn within(self, other: Span) -> Span {
        let met = self.meet(other);
        if met.is_empty() {
            met
        } else {
            Span::new(met.start - other.start, met.end - other.start)
        }
    }

    /// The smallest span that holds both.
    pub fn hull(self, other: Span) -> Span {
        if self.is_empty() {
            other
        } else if other.is_empty() {
            self
        } else {
            Span::new(self.start.min(other.start), self.end.max(other.end))
        }
    }
}

/// A box of pixels: a span of rows and a span of columns, indexed by [`Axis`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// Rows, then columns.
    pub spans: [Span; 2],
}

impl Region {
    /// More rows and columns than any feature map has.
    pub const ALL: Region = Region { spans: [Span { start: 0, end: i64::MAX / 4 }; 2] };

    /// The box of this many rows and columns from `first` on.
    pub fn at(first: [i64; 2], plane: [i64; 2]) -> Region {
        Region { spans: [0, 1].map(|axis| Span::new(first[axis], first[axis] + plane[axis])) }
    }

    /// The pixels that both have; None where there are none.
    pub fn meet(&self, other: &Region) -> Option<Region> {
        let spans = [0, 1].map(|axis| self.spans[axis].meet(other.spans[axis]));
        (!spans.iter().any(|span| span.is_empty())).then_some(Region { spans })
    }

    /// A box from its span along `axis` and its span across it.
    pub fn oriented(axis: Axis, along: Span, across: Span) -> Region {
        let mut spans = [along; 2];
        spans[axis.other() as usize] = across;
        Region { spans }
    }

    /// Span along one axis.
    pub fn span(&self, axis: Axis) -> Span {
        self.spans[axis as usize]
    }
}

/// How the output of a Plan is cut: `tiles` bands across the rolling axis, walked one after the other; inside a band the
/// stripes follow each other along the rolling axis.
///
/// The stripe order of the RFC is thereby (band, stripe): the rolling axis is the inner loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tiling {
    /// The axis along which stripes follow each other and buffers roll.
    pub roll: Axis,
    /// Bands across the rolling axis, at least 1. What bands share is computed again in each.
    pub tiles: u32,
}

impl Tiling {
    /// One band, row by row: the tiling under which rows of whole tensors appear and die in order.
    pub const WHOLE_ROWS: Tiling = Tiling { roll: Axis::Height, tiles: 1 };

    /// Span of band `tile` of an axis of `extent` elements; the bands begin at multiples of `multiple`, differ by at most
    /// that and cover it once.
    ///
    /// ```
    /// use ethoscade_core::stripe::{Axis, Span, Tiling};
    ///
    /// let tiling = Tiling { roll: Axis::Height, tiles: 3 };
    /// let bands: Vec<Span> = (0..3).map(|tile| tiling.band(tile, 8, 1)).collect();
    /// assert_eq!(bands, [Span::new(0, 2), Span::new(2, 5), Span::new(5, 8)]);
    /// ```
    pub fn band(&self, tile: u32, extent: i64, multiple: i64) -> Span {
        let (number, tiles) = (i64::from(tile), i64::from(self.tiles));
        let units = (extent + multiple - 1) / multiple;
        // The search cuts no more bands than there are units, and Plans that do are refused.
        debug_assert!(tile < self.tiles && tiles <= units.max(1), "band {tile} of {self:?} of {extent}");
        let end = units * (number + 1) / tiles * multiple;
        Span::new(units * number / tiles * multiple, end.min(extent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_cover_an_axis_exactly_once() {
        for (extent, multiple) in (1..40).flat_map(|extent| [(extent, 1), (extent, 2)]) {
            for tiles in 1..=(extent + multiple - 1) / multiple {
                let tiling = Tiling { roll: Axis::Height, tiles: tiles as u32 };
                let mut next = 0;
                for tile in 0..tiling.tiles {
                    let band = tiling.band(tile, extent, multiple);
                    assert_eq!(band.start, next);
                    assert_eq!(band.start % multiple, 0);
                    assert!(!band.is_empty());
                    next = band.end;
                }
                assert_eq!(next, extent);
            }
        }
    }

    #[test]
    fn hull_ignores_empty_spans() {
        assert_eq!(Span::new(3, 3).hull(Span::new(5, 7)), Span::new(5, 7));
        assert_eq!(Span::new(1, 2).hull(Span::new(5, 7)), Span::new(1, 7));
    }
}
