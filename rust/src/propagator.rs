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
/// assert_eq!(convolution.shape([1, 4, 1, 16]), [1, 9, 3, 8]);
/// assert_eq!(convolution.span(Axis::Height, Span::new(0, 4)), Span::new(-1, 8));
/// // Two such convolutions, one after the other: the spans of the second are what the first must make.
/// let between = convolution.span(Axis::Height, Span::new(4, 6));
/// assert_eq!(convolution.span(Axis::Height, between), Span::new(13, 24));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Propagator {
    transform: [[i64; DIMENSIONS + 1]; DIMENSIONS],
    strides: [[i64; DIMENSIONS]; DIMENSIONS],
    offset: [i64; DIMENSIONS],
}

impl Propagator {
    /// From the matrices that lowering derives from index expressions.
    pub fn new(
        transform: [[i64; DIMENSIONS + 1]; DIMENSIONS],
        strides: [[i64; DIMENSIONS]; DIMENSIONS],
        offset: [i64; DIMENSIONS],
    ) -> Propagator {
        Propagator { transform, strides, offset }
    }

    /// The map of an operation that reads exactly what it writes.
    pub fn identity() -> Propagator {
        let mut transform = [[0; DIMENSIONS + 1]; DIMENSIONS];
        let mut strides = [[0; DIMENSIONS]; DIMENSIONS];
        for d in 0..DIMENSIONS {
            transform[d][d] = 1;
            strides[d][d] = 1;
        }
        Propagator { transform, strides, offset: [0; DIMENSIONS] }
    }

    /// Shape of the input stripe for an output stripe of `shape`, before clamping to the tensor.
    pub fn shape(&self, shape: [i64; DIMENSIONS]) -> [i64; DIMENSIONS] {
        let mut result = [0; DIMENSIONS];
        for (value, row) in result.iter_mut().zip(&self.transform) {
            *value = row[DIMENSIONS] + (0..DIMENSIONS).map(|d| row[d] * shape[d]).sum::<i64>();
        }
        result
    }

    /// First input index that an output stripe starting at `start` reads; negative in padding.
    pub fn start(&self, start: [i64; DIMENSIONS]) -> [i64; DIMENSIONS] {
        let mut result = self.offset;
        for (value, row) in result.iter_mut().zip(&self.strides) {
            *value += (0..DIMENSIONS).map(|d| row[d] * start[d]).sum::<i64>();
        }
        result
    }

    /// Whether rows depend on rows alone and columns on columns alone, so that stripes can travel through it.
    pub fn is_separable(&self) -> bool {
        DIMENSION_OF.iter().all(|&d| (0..DIMENSIONS).all(|other| other == d || self.strides[d][other] == 0))
    }

    /// Input span along `axis` for the output span `out`, before clamping. Meaningful where separable.
    pub fn span(&self, axis: Axis, out: Span) -> Span {
        debug_assert!(self.is_separable(), "rows of {self:?} depend on columns");
        let d = DIMENSION_OF[axis as usize];
        let start = self.strides[d][d] * out.start + self.offset[d];
        let length = self.transform[d][d] * out.len() + self.transform[d][DIMENSIONS];
        Span::new(start, start + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3x3 convolution, stride 1, padding 1, over 8 channels: the RFC's example.
    fn convolution() -> Propagator {
        let transform = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 2], [0, 0, 1, 0, 2], [0, 0, 0, 0, 8]];
        let strides = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]];
        Propagator::new(transform, strides, [0, -1, -1, 0])
    }

    #[test]
    fn stripe_of_the_rfc() {
        assert_eq!(convolution().shape([1, 3, 3, 4]), [1, 5, 5, 8]);
        assert_eq!(convolution().start([0, 6, 0, 4]), [0, 5, -1, 0]);
    }

    #[test]
    fn spans_agree_with_the_matrices() {
        let p = convolution();
        assert!(p.is_separable());
        assert_eq!(p.span(Axis::Height, Span::new(6, 9)), Span::new(5, 10));
        assert_eq!(p.span(Axis::Width, Span::new(0, 1)), Span::new(-1, 2));
        assert_eq!(Propagator::identity().span(Axis::Width, Span::new(2, 5)), Span::new(2, 5));
    }
}
