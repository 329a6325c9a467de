//! Propagators: the affine map from an output stripe to the input stripe that it reads (cascader RFC, "Propagators").
//!
//! Owns the matrices and their application, exactly, in integers. Knows nothing of which operation they came from.

use crate::stripe::{Axis, Span};

/// Dimensions of a stripe: batch, height, width, channels.
pub const DIMENSIONS: usize = 4;

const DIMENSION_OF: [usize; 2] = [1, 2];

/// Input stripe from output stripe: `shape_in = transform . [shape_out, 1]`, `start_in = strides . start_out + offset`.
///
/// A 3x3 convolution of stride 2 and padding 1 over 8 channels reads nine rows for four, and its first row is padding:
///
/// ```
/// use ethoscade_core::propagator::Propagator;
/// use ethoscade_core::stripe::{Axis, Span};
///
/// let convolution = Propagator::new(
///     [[1, 0, 0, 0, 0], [0, 2, 0, 0, 1], [0, 0, 2, 0, 1], [0, 0, 0, 0, 8]],
///     [[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0]],
///     [0, -1, -1, 0],
/// );
/// assert_eq!(convolution.stripe([1, 4, 1, 16], [0, 2, 0, 0]), [[1, 9, 3, 8], [0, 3, -1, 0]]);
/// assert_eq!(convolution.span(Axis::Height, Span::new(0, 4)), Span::new(-1, 8));
/// // Two such convolutions, one after the other: the spans of the second are what the first must make.
/// let between = convolution.span(Axis::Height, Span::new(4, 6));
/// assert_eq!(convolution.span(Axis::Height, between), Span::new(13, 24));
/// ```
///
/// Where an index divides, these are the dividend's, and the first index of its range and the last one are divided by the
/// dimension's denominator and rounded down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Propagator {
    transform: [[i64; DIMENSIONS + 1]; DIMENSIONS],
    strides: [[i64; DIMENSIONS]; DIMENSIONS],
    offset: [i64; DIMENSIONS],
    denominators: [i64; DIMENSIONS],
}

/// A propagator along one axis: the output span `[start, end)` reads the indices from `(scale * start + offset) /
/// denominator` to that of `length_scale * (end - start) + length` dividends on, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisMap {
    scale: i64,
    offset: i64,
    length_scale: i64,
    length: i64,
    denominator: i64,
}

impl AxisMap {
    /// The dividends that belong to the output span `out`: the indices, as they were before they were divided.
    #[inline]
    pub fn dividends(&self, out: Span) -> Span {
        let start = self.scale * out.start + self.offset;
        Span::new(start, start + self.length_scale * out.len() + self.length)
    }

    /// Scale, and offsets of start and end, where the output span `[start, end)` reads `[scale * start + before, scale *
    /// end + behind)`; None where indices are divided, or a longer span reads more or less than that.
    pub fn window(&self) -> Option<[i64; 3]> {
        let is_window = self.denominator == 1 && self.scale == self.length_scale;
        is_window.then_some([self.scale, self.offset, self.offset + self.length])
    }

    /// Input span for the output span `out`, before clamping.
    #[inline]
    pub fn span(&self, out: Span) -> Span {
        divided(self.dividends(out), self.denominator)
    }
}

/// The span from the first index divided to the last one divided, rounded down.
#[inline]
fn divided(span: Span, by: i64) -> Span {
    if by == 1 {
        return span;
    }
    Span::new(span.start.div_euclid(by), (span.end - 1).div_euclid(by) + 1)
}

impl Propagator {
    /// From the matrices that lowering derives from index expressions.
    pub fn new(
        transform: [[i64; DIMENSIONS + 1]; DIMENSIONS],
        strides: [[i64; DIMENSIONS]; DIMENSIONS],
        offset: [i64; DIMENSIONS],
    ) -> Propagator {
        Propagator { transform, strides, offset, denominators: [1; DIMENSIONS] }
    }

    /// The same with indices divided by `denominators`, which are at least 1.
    pub fn divided_by(self, denominators: [i64; DIMENSIONS]) -> Propagator {
        Propagator { denominators, ..self }
    }

    /// The same with the first row and column rounded up: of an input with zeros between its rows, those are not read.
    pub fn past_zeros(mut self) -> Propagator {
        for d in DIMENSION_OF {
            self.offset[d] += self.denominators[d] - 1;
            self.transform[d][DIMENSIONS] -= self.denominators[d] - 1;
        }
        self
    }

    /// Shape and start of the input stripe for an output stripe of `shape` at `start`, before clamping to the tensor. The
    /// start is negative in padding.
    pub fn stripe(&self, shape: [i64; DIMENSIONS], start: [i64; DIMENSIONS]) -> [[i64; DIMENSIONS]; 2] {
        let sum = |row: &[i64], of: [i64; DIMENSIONS]| row.iter().zip(of).map(|(by, of)| by * of).sum::<i64>();
        let span = |d: usize| {
            let first = sum(&self.strides[d], start) + self.offset[d];
            let length = sum(&self.transform[d], shape) + self.transform[d][DIMENSIONS];
            divided(Span::new(first, first + length), self.denominators[d])
        };
        let spans = std::array::from_fn(span);
        [spans.map(|span: Span| span.end - span.start), spans.map(|span| span.start)]
    }

    /// Whether rows depend on rows alone and columns on columns alone, so that stripes can travel through it.
    pub fn is_separable(&self) -> bool {
        DIMENSION_OF.iter().all(|&d| (0..DIMENSIONS).all(|other| other == d || self.strides[d][other] == 0))
    }

    /// Denominators of rows and columns.
    pub fn denominators(&self) -> [i64; 2] {
        DIMENSION_OF.map(|d| self.denominators[d])
    }

    /// The map along `axis`. Meaningful where separable.
    #[inline]
    pub fn along(&self, axis: Axis) -> AxisMap {
        let d = DIMENSION_OF[axis as usize];
        AxisMap {
            scale: self.strides[d][d],
            offset: self.offset[d],
            length_scale: self.transform[d][d],
            length: self.transform[d][DIMENSIONS],
            denominator: self.denominators[d],
        }
    }

    /// Input span along `axis` for the output span `out`, before clamping. Meaningful where separable: `model::faults`
    /// refuses graphs with others before anything is searched.
    #[inline]
    pub fn span(&self, axis: Axis, out: Span) -> Span {
        debug_assert!(self.is_separable(), "rows of {self:?} depend on columns");
        self.along(axis).span(out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 3x3 convolution, stride 1, padding 1, over 8 channels: the RFC's example.
    fn convolution() -> Propagator {
        let transform = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 2], [0, 0, 1, 0, 2], [0, 0, 0, 0, 8]];
        let strides = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]];
        Propagator::new(transform, strides, [0, -1, -1, 0])
    }

    #[test]
    fn stripe_of_the_rfc() {
        assert_eq!(convolution().stripe([1, 3, 3, 4], [0, 6, 0, 4]), [[1, 5, 5, 8], [0, 5, -1, 0]]);
    }

    #[test]
    fn spans_agree_with_the_matrices() {
        let p = convolution();
        assert!(p.is_separable());
        assert_eq!(p.span(Axis::Height, Span::new(6, 9)), Span::new(5, 10));
        assert_eq!(p.span(Axis::Width, Span::new(0, 1)), Span::new(-1, 2));
    }

    proptest! {
        #[test]
        fn divided_spans_hold_what_every_index_divided_is(
            (stride, window, before, by) in (1i64..4, 1i64..5, 0i64..4, 1i64..5),
            (start, length) in (0i64..20, 1i64..9),
        ) {
            let row = |d: usize| { let mut row = [0; 5]; (row[d], row[4]) = (stride, window - stride); row };
            let transform = [[1, 0, 0, 0, 0], row(1), row(2), [0, 0, 0, 1, 0]];
            let strides = [[1, 0, 0, 0], [0, stride, 0, 0], [0, 0, stride, 0], [0, 0, 0, 1]];
            let propagator = Propagator::new(transform, strides, [0, -before, -before, 0]).divided_by([1, by, by, 1]);
            let out = Span::new(start, start + length);
            let touched = (out.start..out.end)
                .flat_map(|at| (0..window).map(move |tap| (at * stride - before + tap).div_euclid(by)));
            let touched: Vec<i64> = touched.collect();
            let (least, most) = (*touched.iter().min().unwrap(), *touched.iter().max().unwrap());
            prop_assert_eq!(propagator.span(Axis::Height, out), Span::new(least, most + 1));
            let [shape, first] = propagator.stripe([1, 1, length, 3], [0, 0, start, 0]);
            prop_assert_eq!((shape[2], first[2]), (most + 1 - least, least));
        }
    }
}
