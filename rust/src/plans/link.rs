//! One Part's read of a tensor, flattened to one axis: asked so often by the search that nothing is looked up in the graph.
//!
//! Owns which rows a stripe needs. The reads themselves are the graph's; who walks them counts bytes or rows.

use smallvec::SmallVec;

use crate::model::graph::{CascaderGraph, Input};
use crate::propagator::AxisMap;
use crate::stripe::{Axis, Span};

/// One read, flattened: what it needs of its tensor along the rolling axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Offset of the Part that reads.
    pub reader: usize,
    /// What the operation that reads makes of the reader's output.
    makes: Span,
    /// What there is of the tensor to its windows.
    inside: Span,
    reads: Reads,
}

/// Which rows or columns of a tensor a stripe reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    /// `[scale * start + before, scale * end + behind)` for the stripe `[start, end)`, as most operations do; all, where
    /// the scale is 0.
    Window { scale: i64, before: i64, behind: i64 },
    /// What a map says that divides, or whose stripes overlap otherwise.
    Mapped(AxisMap),
}

impl Link {
    /// The read `input` of the Part at offset `reader`.
    pub fn new(graph: &CascaderGraph, reader: usize, input: &Input, axis: Axis) -> Link {
        let (map, makes) = (input.propagator.along(axis), input.region.span(axis));
        let all = Span::new(0, graph.tensors[input.tensor].plane[axis as usize]);
        let (reads, inside) = match map.window() {
            _ if !graph.is_aligned(input) => (Reads::Window { scale: 0, before: 0, behind: all.end }, all),
            Some([scale, before, behind]) => (Reads::Window { scale, before, behind }, input.inside.span(axis)),
            None => (Reads::Mapped(map), input.inside.span(axis)),
        };
        Link { reader, makes, inside, reads }
    }

    /// What it needs of its tensor for the output span `out`; `NONE` where that is made of other inputs.
    #[inline]
    pub fn needed(&self, out: Span) -> Span {
        let own = out.within(self.makes);
        if own.is_empty() {
            return own;
        }
        match self.reads {
            Reads::Window { scale, before, behind } => {
                Span::new(scale * own.start + before, scale * own.end + behind).clamp(self.inside)
            }
            Reads::Mapped(map) => map.span(own).clamp(self.inside),
        }
    }

    /// The first row or column of that, without its end, as walks ask for it most often; None for an empty span.
    #[inline]
    pub fn first_needed(&self, out: Span) -> Option<i64> {
        if out.is_empty() {
            return None;
        }
        let own = out.within(self.makes);
        Some(match self.reads {
            _ if own.is_empty() => own.start,
            Reads::Window { scale, before, .. } => self.inside.nearest(scale * own.start + before),
            Reads::Mapped(map) => map.span(own).clamp(self.inside).start,
        })
    }
}

/// Note a read unless it is there: of a join along another axis, all pieces may read alike.
pub fn add<T: PartialEq>(reads: &mut SmallVec<[T; 2]>, read: T) {
    if !reads.contains(&read) {
        reads.push(read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::schedules::arbitrary_network;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_that_is_needed_is_where_all_that_is_needed_starts(
            graph in arbitrary_network(), start in -2i64..12, length in -1i64..12,
        ) {
            let out = Span::new(start, start + length);
            for (input, axis) in graph.parts.iter().flat_map(|part| &part.inputs).flat_map(|input| {
                [(input, Axis::Height), (input, Axis::Width)]
            }) {
                let link = Link::new(&graph, 0, input, axis);
                prop_assert_eq!(link.first_needed(out), (length > 0).then(|| link.needed(out).start));
            }
        }
    }
}
