//! Bands of groups that end with a given Part: their longest reach, and the box of every Part.
//!
//! The boxes of a Part depend on the Parts behind it alone, so those of the longest group serve all shorter ones. Owns
//! these boxes. Decides nothing of stripes.

use crate::model::graph::CascaderGraph;
use crate::model::ids::PartId;
use crate::schedule::stripe_order::wanted_between;
use crate::stripe::{Span, Tiling};

/// What is wanted of the Parts of groups that end with the same one.
pub struct Bands<'g> {
    graph: &'g CascaderGraph,
    last: PartId,
    /// How the groups are tiled.
    pub tiling: Tiling,
    /// Per band the boxes wanted of each Part of the longest group, along and across the rolling axis, in order.
    boxes: Vec<Vec<[Span; 2]>>,
    /// Parts of the longest group.
    longest: usize,
}

impl<'g> Bands<'g> {
    /// Of groups of at most `most` Parts that end with Part `last`. Bands share no tensor that is wanted later, but for the
    /// last one's, so groups of several end there. What is handed over row by row, and once, is in no other groups than
    /// those of one band of rows.
    pub fn new(graph: &'g CascaderGraph, tiling: Tiling, last: PartId, most: usize) -> Bands<'g> {
        let mut bands = Bands { graph, last, tiling, boxes: Vec::new(), longest: most };
        let begins = |size: usize| {
            let part = last.before(size);
            tiling.tiles > 1 && !bands.is_interior(part)
                || tiling != Tiling::WHOLE_ROWS && graph.handed_rows(part).is_some()
        };
        bands.longest = (1..most).find(|&size| begins(size)).unwrap_or(most);
        let first = last.before(bands.longest - 1);
        bands.boxes = (0..tiling.tiles).map(|tile| wanted_between(graph, tiling, (first, last), tile)).collect();
        bands
    }

    /// First Parts of the groups, the last one first.
    pub fn firsts(&self) -> impl DoubleEndedIterator<Item = PartId> + '_ {
        (0..self.longest).map(|size| self.last.before(size))
    }

    /// Whether the output of Part `first` is not needed after a group that begins with it.
    pub fn is_interior(&self, first: PartId) -> bool {
        first < self.last && !self.graph.outlives(self.graph.output(first), self.last)
    }

    /// The box that each band wants of a Part's output.
    pub fn boxes(&self, part: PartId) -> Vec<[Span; 2]> {
        let index = self.longest - 1 - self.last.since(part);
        self.boxes.iter().map(|boxes| boxes[index]).collect()
    }

    /// What is wanted of Part `first` and of each behind it along the rolling axis, of bands that differ in that: where
    /// one of them leaves a Part out, as a join puts something beside it.
    pub fn ends(&self, first: PartId) -> Vec<Vec<Span>> {
        let index = self.longest - 1 - self.last.since(first);
        let along = self.boxes.iter().map(|boxes| boxes[index..].iter().map(|wanted| wanted[0]).collect());
        let mut ends: Vec<Vec<Span>> = along.collect();
        ends.dedup();
        ends
    }

    /// Lines across the rolling axis are this long in the widest band's box of a Part.
    pub fn across(&self, part: PartId) -> u64 {
        self.boxes(part).iter().map(|wanted| wanted[1].len()).max().unwrap_or(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::operation::OperationKind;
    use crate::stripe::Axis;
    use crate::testing::networks::{Network, INPUT};

    #[test]
    fn groups_of_bands_end_where_a_tensor_is_wanted_later() {
        let mut net = Network::new([64, 48], 16);
        let fork = net.window(INPUT, OperationKind::Convolution, 1, 1, 16);
        let t = net.window(fork, OperationKind::Convolution, 3, 1, 16);
        let t = net.window(t, OperationKind::Convolution, 3, 1, 16);
        let out = net.join(&[t, fork]);
        let graph = net.finish(out);
        let firsts = |tiles| {
            let bands = Bands::new(&graph, Tiling { roll: Axis::Height, tiles }, PartId(2), 3);
            bands.firsts().collect::<Vec<_>>()
        };
        assert_eq!(firsts(1), [2, 1, 0].map(PartId));
        assert_eq!(firsts(2), [2, 1].map(PartId));
        // Each Part has its own boxes, however far back the groups reach.
        let bands = Bands::new(&graph, Tiling { roll: Axis::Height, tiles: 2 }, PartId(2), 3);
        let rows = Span::new(0, 64);
        assert_eq!(bands.boxes(PartId(2)), [[rows, Span::new(0, 24)], [rows, Span::new(24, 48)]]);
        assert_eq!(bands.boxes(PartId(1)), [[rows, Span::new(0, 25)], [rows, Span::new(23, 48)]]);
        assert_eq!((bands.across(PartId(2)), bands.across(PartId(1))), (24, 25));
        assert_eq!((bands.ends(PartId(2)), bands.ends(PartId(1))), (vec![vec![rows]], vec![vec![rows; 2]]));
    }
}
