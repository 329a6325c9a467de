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

    /// Number of indices, 0 when empty.
    pub fn len(self) -> i64 {
        (self.end - self.start).max(0)
    }

    /// Whether no index lies inside.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The part inside `[0, extent)`.
    pub fn clamp(self, extent: i64) -> Span {
        Span::new(self.start.clamp(0, extent), self.end.clamp(0, extent))
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

    /// Span of band `tile` of an axis of `extent` elements; the bands differ by at most one element and cover it once.
    pub fn band(&self, tile: u32, extent: i64) -> Span {
        let tiles = i64::from(self.tiles);
        let tile = i64::from(tile);
        Span::new(extent * tile / tiles, extent * (tile + 1) / tiles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_cover_an_axis_exactly_once() {
        for extent in 1..40 {
            for tiles in 1..=extent as u32 {
                let tiling = Tiling { roll: Axis::Height, tiles };
                let mut next = 0;
                for tile in 0..tiles {
                    let band = tiling.band(tile, extent);
                    assert_eq!(band.start, next);
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
