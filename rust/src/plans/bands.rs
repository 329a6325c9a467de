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
    /// last one's, so groups of several end there.
    pub fn new(graph: &'g CascaderGraph, tiling: Tiling, last: PartId, most: usize) -> Bands<'g> {
        let mut bands = Bands { graph, last, tiling, boxes: Vec::new(), longest: most };
        if tiling.tiles > 1 {
            bands.longest = (1..most).find(|&size| !bands.is_interior(last.before(size))).unwrap_or(most);
        }
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

    /// Bytes that the buffer of Part `first` takes at least: the lines that one line of a Part behind it reads, as long as
    /// the longest. 0 for one that does not roll.
    pub fn least_buffer_bytes(&self, first: PartId) -> u64 {
        if !self.is_interior(first) {
            return 0;
        }
        let (graph, output, roll) = (self.graph, self.graph.output(first), self.tiling.roll);
        let lines = |reader: PartId, made: Span| {
            let middle = made.start + made.len() / 2;
            let reads = graph.parts[reader].inputs.iter().filter(|input| input.tensor == output);
            let needed = |input| graph.needed(input, roll, Span::new(middle, middle + 1)).len();
            reads.filter(|_| !made.is_empty()).map(needed).max().unwrap_or(0)
        };
        let readers = graph.consumers[output].iter().filter(|&&reader| reader <= self.last);
        let of_reader = |&reader: &PartId| self.boxes(reader).iter().map(|made| lines(reader, made[0])).max();
        let lines = readers.filter_map(of_reader).max().unwrap_or(0);
        let tensor = &graph.tensors[output];
        if lines * SHALLOW > tensor.plane[roll as usize] {
            return 0;
        }
        lines as u64 * self.across(first) * tensor.pixel_bytes
    }
}

/// A buffer of more than this fraction of an output counts for nothing before it is there: its Part may run
/// so far ahead that what is behind it begins when all ahead of it is done.
const SHALLOW: i64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::operation::OperationKind;
    use crate::stripe::Axis;
    use crate::testing::networks::{Network, INPUT};

    /// Convolutions of such extents and strides.
    fn chain(plane: [i64; 2], windows: &[(i64, i64)]) -> CascaderGraph {
        let mut net = Network::new(plane, 16);
        let t = windows
            .iter()
            .fold(INPUT, |t, &(extent, stride)| net.window(t, OperationKind::Convolution, extent, stride, 16));
        net.finish(t)
    }

    fn least(graph: &CascaderGraph, tiles: u32) -> u64 {
        let tiling = Tiling { roll: Axis::Height, tiles };
        Bands::new(graph, tiling, PartId(1), 2).least_buffer_bytes(PartId(0))
    }

    #[test]
    fn lines_that_one_behind_reads_are_the_least_of_a_buffer() {
        let graph = chain([64, 48], &[(1, 1), (5, 1)]);
        assert_eq!(least(&graph, 1), 5 * 48 * 16);
        // The middle one of three bands reads two columns of either neighbour.
        assert_eq!(least(&graph, 3), 5 * (16 + 4) * 16);
        // Nobody wants the output of what ends the group.
        let bands = Bands::new(&graph, Tiling::WHOLE_ROWS, PartId(1), 2);
        assert_eq!(bands.least_buffer_bytes(PartId(1)), 0);
    }

    #[test]
    fn columns_that_a_stride_skips_at_the_edge_of_a_band_are_not_wanted() {
        // Of 12 columns 4 are read, two by each band: [0, 4) and [6, 10).
        assert_eq!(least(&chain([64, 12], &[(1, 1), (1, 3)]), 2), 4 * 16);
    }

    #[test]
    fn a_buffer_of_much_of_an_output_counts_for_nothing() {
        assert_eq!(least(&chain([40, 48], &[(1, 1), (5, 1)]), 1), 5 * 48 * 16);
        assert_eq!(least(&chain([39, 48], &[(1, 1), (5, 1)]), 1), 0);
    }

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
