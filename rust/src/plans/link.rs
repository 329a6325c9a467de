//! A Part's reads of tensors, flattened to one axis, so the search needs no look-up in the graph.
//!
//! A Part that joins pieces along the axis has a read for each, hundreds where matrices are multiplied row by row. A stripe
//! meets few of them, so these are found by halving, and what all behind them need is known beforehand.
//!
//! Owns which rows a stripe needs. The reads themselves are the graph's; who walks them counts bytes or rows.

use smallvec::SmallVec;

use crate::model::graph::{CascaderGraph, Input};
use crate::model::ids::TensorId;
use crate::propagator::AxisMap;
use crate::stripe::{Axis, Span};

/// One read, flattened: what it needs of its tensor along the rolling axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
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
    /// What a map says that divides, or whose stripes overlap otherwise, and `n` rows more.
    Mapped(AxisMap, i64),
}

impl Link {
    /// The read `input` of a Part.
    fn new(graph: &CascaderGraph, input: &Input, axis: Axis) -> Link {
        let (map, makes) = (input.propagator.along(axis), input.region.span(axis));
        let all = Span::new(0, graph.tensors[input.tensor].plane[axis as usize]);
        let ahead = if axis == Axis::Height { input.rows_ahead } else { 0 };
        let inside = input.inside.span(axis);
        let inside = Span::new(inside.start, (inside.end + ahead).min(all.end));
        let (reads, inside) = match map.window() {
            _ if !graph.is_aligned(input, axis) => (Reads::Window { scale: 0, before: 0, behind: all.end }, all),
            Some([scale, before, behind]) => (Reads::Window { scale, before, behind: behind + ahead }, inside),
            None => (Reads::Mapped(map, ahead), inside),
        };
        Link { makes, inside, reads }
    }

    /// What it needs of its tensor for the output span `out`; `NONE` where that is made of other inputs.
    #[inline]
    fn needed(&self, out: Span) -> Span {
        let own = out.within(self.makes);
        if own.is_empty() {
            return own;
        }
        match self.reads {
            Reads::Window { scale, before, behind } => {
                Span::new(scale * own.start + before, scale * own.end + behind).clamp(self.inside)
            }
            Reads::Mapped(map, ahead) => {
                let Span { start, end } = map.span(own);
                Span::new(start, end + ahead).clamp(self.inside)
            }
        }
    }

    /// The first row or column of that, without its end, as walks ask for it most often; beyond all where `needed` is `NONE`.
    #[inline]
    fn first_needed(&self, out: Span) -> i64 {
        let own = out.within(self.makes);
        match self.reads {
            _ if own.is_empty() => own.start,
            Reads::Window { scale, before, .. } => self.inside.nearest(scale * own.start + before),
            Reads::Mapped(map, _) => map.span(own).clamp(self.inside).start,
        }
    }
}

/// A Part's reads of some tensors, in the order in which a stripe asks for them.
#[derive(Clone, Debug)]
pub struct PartReads {
    /// Each with its tensor's number.
    all: SmallVec<[(usize, Link); 2]>,
    /// These numbers, each once.
    pub numbers: SmallVec<[usize; 2]>,
    in_order: bool,
}

impl PartReads {
    /// The reads `inputs` of a Part along `axis`, of those tensors that have a `number`. Reads of one tensor that follow
    /// each other and are alike, as of a join along another axis, are one.
    pub fn new(
        graph: &CascaderGraph,
        inputs: &[Input],
        axis: Axis,
        mut number: impl FnMut(TensorId) -> Option<usize>,
    ) -> PartReads {
        let (mut all, mut numbers) = (SmallVec::<[(usize, Link); 2]>::new(), SmallVec::<[usize; 2]>::new());
        for input in inputs {
            let Some(number) = number(input.tensor) else { continue };
            let link = Link::new(graph, input, axis);
            if all.iter().rfind(|(read, _)| *read == number).is_none_or(|(_, last)| *last != link) {
                all.push((number, link));
            }
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        let in_order = follow_each_other(all.iter().map(|(_, link)| link));
        PartReads { all, numbers, in_order }
    }

    /// Of those reads that `stripe` may need something of, the one at `index`: its tensor's number, and what is needed;
    /// None behind the last.
    #[inline]
    pub fn get(&self, index: usize, stripe: Span) -> Option<(usize, Span)> {
        if self.in_order {
            return self.get_in_order(index, stripe);
        }
        self.all.get(index).map(|(number, link)| (*number, link.needed(stripe)))
    }

    #[inline(never)]
    fn get_in_order(&self, index: usize, stripe: Span) -> Option<(usize, Span)> {
        let first = self.all.partition_point(|(_, link)| link.makes.end <= stripe.start);
        let (number, link) = self.all.get(first + index)?;
        (link.makes.start < stripe.end).then(|| (*number, link.needed(stripe)))
    }

    /// Those of the tensor that has `number`, by the Part at offset `reader`; None where there are none.
    pub fn of(&self, number: usize, reader: usize) -> Option<TensorReads> {
        let links: SmallVec<[Link; 1]> = self.all.iter().filter(|(n, _)| *n == number).map(|(_, link)| *link).collect();
        (!links.is_empty()).then(|| TensorReads::new(reader, links))
    }
}

/// One Part's reads of one tensor.
#[derive(Clone, Debug)]
pub struct TensorReads {
    /// Offset of the Part that reads.
    pub reader: usize,
    links: SmallVec<[Link; 1]>,
    /// Where the reads follow each other: of each and all behind it, the first row or column that they need.
    firsts: Vec<i64>,
}

impl TensorReads {
    fn new(reader: usize, links: SmallVec<[Link; 1]>) -> TensorReads {
        let mut firsts = Vec::new();
        if follow_each_other(links.iter()) {
            firsts = links.iter().map(|link| link.first_needed(link.makes)).collect();
            for index in (1..firsts.len()).rev() {
                firsts[index - 1] = firsts[index - 1].min(firsts[index]);
            }
        }
        TensorReads { reader, links, firsts }
    }

    /// The first row or column that is needed for `rest` of the reader's output; None for an empty span, and beyond all
    /// where that is made of other tensors.
    #[inline]
    pub fn first_needed(&self, rest: Span) -> Option<i64> {
        if rest.is_empty() {
            return None;
        }
        Some(match &self.links[..] {
            [link] => link.first_needed(rest),
            links => self.first_of_all(links, rest),
        })
    }

    #[inline(never)]
    fn first_of_all(&self, links: &[Link], rest: Span) -> i64 {
        let is_long = !self.firsts.is_empty() && links[links.len() - 1].makes.end <= rest.end;
        let (met, behind) = match is_long {
            true => {
                let met = links.partition_point(|link| link.makes.end <= rest.start);
                (met, met + links[met..].partition_point(|link| link.makes.start < rest.start))
            }
            false => (0, links.len()),
        };
        let of_met = links[met..behind].iter().map(|link| link.first_needed(rest));
        of_met.chain(self.firsts.get(behind).copied()).min().unwrap_or(Span::NONE.start)
    }
}

/// Whether there are enough reads to look for some of them, and each begins and ends no earlier than the one before.
fn follow_each_other<'a>(links: impl ExactSizeIterator<Item = &'a Link> + Clone) -> bool {
    let follows =
        |(before, link): (&Link, &Link)| before.makes.start <= link.makes.start && before.makes.end <= link.makes.end;
    links.len() > FEW && links.clone().zip(links.skip(1)).all(follows)
}

/// Up to this number of reads, asking each is faster than finding the ones that matter.
const FEW: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::Id;
    use crate::model::operation::OperationKind;
    use crate::testing::networks::{Network, INPUT};
    use crate::testing::schedules::arbitrary_network;
    use proptest::prelude::*;

    /// A Part that joins pieces along rows, columns or channels, made of outputs of two others in turns.
    fn joined(axis: usize, pieces: usize) -> CascaderGraph {
        let mut net = Network::new([3, 4], 16);
        let made = [1, 3].map(|kernel| net.window(INPUT, OperationKind::Convolution, kernel, 1, 16));
        let pieces: Vec<TensorId> = (0..pieces).map(|piece| made[piece % 2]).collect();
        let whole = net.join_along(axis, &pieces);
        net.finish(whole)
    }

    /// Every Part's reads of all tensors, numbered as these are, and plain links beside them.
    fn reads(graph: &CascaderGraph, axis: Axis) -> Vec<(PartReads, Vec<(usize, Link)>)> {
        let both = |inputs: &[Input]| {
            let links = inputs.iter().map(|input| (input.tensor.index(), Link::new(graph, input, axis)));
            (PartReads::new(graph, inputs, axis, |tensor| Some(tensor.index())), links.collect())
        };
        graph.parts.iter().map(|part| both(&part.inputs)).collect()
    }

    /// What a stripe needs, in order; what follows the same of the same tensor, once.
    fn asked(found: impl Iterator<Item = (usize, Span)>) -> Vec<(usize, Span)> {
        let mut all: Vec<(usize, Span)> = Vec::new();
        for (number, needed) in found.filter(|(_, needed)| !needed.is_empty()) {
            if all.iter().rfind(|(read, _)| *read == number).is_none_or(|(_, before)| *before != needed) {
                all.push((number, needed));
            }
        }
        all
    }

    fn compare(graph: &CascaderGraph, out: Span) -> Result<(), TestCaseError> {
        for (part, links) in [Axis::Height, Axis::Width].into_iter().flat_map(|axis| reads(graph, axis)) {
            let needed = asked(links.iter().map(|(number, link)| (*number, link.needed(out))));
            prop_assert_eq!(asked((0..).map_while(|index| part.get(index, out))), needed);
            for &number in &part.numbers {
                let of_it = part.of(number, 0).expect("one of them");
                let starts = links.iter().filter(|(read, _)| *read == number).map(|(_, link)| link.needed(out).start);
                prop_assert_eq!(of_it.first_needed(out), starts.min().filter(|_| !out.is_empty()));
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn reads_need_what_their_links_do(graph in arbitrary_network(), start in -2i64..12, length in -1i64..12) {
            compare(&graph, Span::new(start, start + length))?;
        }

        #[test]
        fn reads_of_joins_need_what_their_links_do(
            axis in 0usize..3, pieces in 2usize..12, start in -2i64..40, length in -1i64..48,
        ) {
            compare(&joined(axis, pieces), Span::new(start, start + length))?;
        }
    }

    #[test]
    fn a_stripe_of_a_long_join_asks_for_the_pieces_that_it_meets() {
        let graph = joined(0, 200);
        let (part, links) = reads(&graph, Axis::Height).pop().expect("a Part that joins");
        assert_eq!(links.len(), 200);
        for start in 0..600 {
            let met = (0..).map_while(|index| part.get(index, Span::new(start, start + 1)));
            assert_eq!(
                met.collect::<Vec<_>>(),
                [links[start as usize / 3]].map(|(n, _)| (n, Span::new(start % 3, start % 3 + 1)))
            );
        }
    }

    #[test]
    fn pieces_that_read_alike_are_one_read() {
        let (part, links) = reads(&joined(2, 50), Axis::Height).pop().expect("a Part that joins");
        assert_eq!((links.len(), part.all.len(), part.numbers.len()), (50, 2, 2));
    }
}
