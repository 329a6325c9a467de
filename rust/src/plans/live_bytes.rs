//! Peak live bytes of the arena while a group runs, counted without a program.
//!
//! - State: `made(p)`, how far each Part's output is made, and `wanted(p)`, its first row that a Part of the group
//!   still reads: the least start of `needed(read, rows of r not made yet)` over the reads by Parts `r`.
//! - Count, while Part `q` makes a stripe: what the network holds beside the group; of each input that dies in the
//!   group the rows from the oldest still read to its end; of each output that stays the rows made so far; the
//!   rolling buffer of each other output `p` with `p = q` or `wanted(p) < made(p)`; the staged constants of each Part
//!   that has begun and not ended.
//! - Invariant: bytes grow only at births, which are more rows of an output that stays, or a write to a rolling
//!   buffer in which nothing was wanted. So the most bytes are in use at a birth, and only births are counted.
//!   `between` is what Parts' own buffers take while no stripe is being made: a stripe changes it by its Part's share,
//!   and by the rolling buffers in which it leaves nothing wanted.
//! - Cost: one visit of each stripe in the order of demand, and one of each dying input at a birth.
//!
//! Owns this count. The bytes of a program with early copies are counted by `lifetimes`
//! and the memory planner.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

use smallvec::{smallvec, SmallVec};

use crate::model::graph::CascaderGraph;
use crate::model::ids::{PartId, TensorId};
use crate::model::memory::aligned;
use crate::plans::link::{PartReads, TensorReads};
use crate::plans::made_rows::{GroupStripes, MadeRows, StripeId};
use crate::schedule::demand::{demand, stripe_ahead, Walker};
use crate::stripe::{Axis, Span};

/// A tensor that has a whole buffer. Its rows live and die one by one; where stripes are columns, it does so as a
/// whole.
#[derive(Clone, Copy, Debug)]
struct WholeTensor {
    extent: i64,
    size_bytes: u64,
    row_bytes: u64,
    in_rows: bool,
}

impl WholeTensor {
    fn new(graph: &CascaderGraph, tensor: TensorId, axis: Axis) -> WholeTensor {
        let tensor = &graph.tensors[tensor];
        let row_bytes = tensor.plane[1] as u64 * tensor.pixel_bytes;
        let extent = tensor.plane[axis as usize];
        WholeTensor { extent, size_bytes: tensor.size_bytes(), row_bytes, in_rows: axis == Axis::Height }
    }

    /// Bytes in use while `span` of it along the rolling axis is.
    #[inline]
    fn live_bytes(&self, span: Span) -> u64 {
        match (span.is_empty(), self.in_rows) {
            (true, _) => 0,
            (false, true) => span.len() as u64 * self.row_bytes,
            (false, false) => self.size_bytes,
        }
    }
}

/// What the arena holds while Parts `first..=last` run as one group, whatever the group's Plan decides.
#[derive(Debug)]
pub struct LiveBytes {
    /// Per Part, its reads of outputs of the group, numbered by the producer's offset.
    inside: Vec<PartReads>,
    /// Per Part, the group's reads of its output.
    readers: Vec<SmallVec<[TensorReads; 2]>>,
    /// Tensors made before and not needed after the group, with the group's reads of them.
    dying: Vec<(WholeTensor, SmallVec<[TensorReads; 2]>)>,
    /// Per Part, its output if it is needed outside the group.
    kept: Vec<Option<WholeTensor>>,
    /// Bytes that stay from the group's first step to its last.
    resident_bytes: u64,
    /// Per Part, the dying tensor whose bytes its output may take if it is made in one stripe.
    overlaid: Vec<Option<usize>>,
    /// The Part whose rows arrive until it makes the next ones.
    arriving: Option<usize>,
}

/// Bytes that a Plan's decisions add for one Part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The rolling buffer of its output; 0 where that is whole.
    pub rolling: u64,
    /// Its staged constants.
    pub staged: u64,
}

impl LiveBytes {
    /// The group of Parts `first..=last`, with stripes that follow each other along `axis`.
    pub fn new(graph: &CascaderGraph, first: PartId, last: PartId, axis: Axis) -> LiveBytes {
        let is_group = !graph.is_opaque(last);
        let count = last.since(first) + 1;
        let (mut inside, mut readers) = (Vec::with_capacity(count), vec![SmallVec::new(); count]);
        let mut ids: Vec<TensorId> = Vec::new();
        let mut dying: Vec<(WholeTensor, SmallVec<[TensorReads; 2]>)> = Vec::new();
        for reader in (0..count).filter(|_| is_group) {
            let inputs = &graph.parts[first.after(reader)].inputs;
            let made = PartReads::new(graph, inputs, axis, |tensor| graph.made_since(tensor, first));
            let given = PartReads::new(graph, inputs, axis, |tensor| {
                let is_elsewhere =
                    graph.made_since(tensor, first).is_some() || graph.tensors[tensor].external.is_some();
                let is_dying = !is_elsewhere && !graph.outlives(tensor, last);
                is_dying.then(|| {
                    ids.iter().position(|&id| id == tensor).unwrap_or_else(|| {
                        ids.push(tensor);
                        dying.push((WholeTensor::new(graph, tensor, axis), SmallVec::new()));
                        ids.len() - 1
                    })
                })
            });
            given.numbers.iter().for_each(|&number| dying[number].1.extend(given.of(number, reader)));
            made.numbers.iter().for_each(|&number| readers[number].extend(made.of(number, reader)));
            inside.push(made);
        }
        let wanted_later = |part: PartId| is_group && (part == last || graph.outlives(graph.output(part), last));
        let whole = |part: PartId| wanted_later(part).then(|| WholeTensor::new(graph, graph.output(part), axis));
        let resident_bytes = resident_bytes(graph, first, last, &ids, is_group);
        let kept: Vec<Option<WholeTensor>> = first.through(last).map(whole).collect();
        let overlaid = |part: PartId| {
            let input = graph.overlay(part).filter(|_| kept[part.since(first)].is_some())?.input;
            ids.iter().position(|&id| id == input)
        };
        let overlaid = first.through(last).map(overlaid).collect();
        let arriving = first.through(last).position(|part| graph.arrives_ahead(part));
        LiveBytes { inside, readers, dying, kept, resident_bytes, overlaid, arriving }
    }

    /// Parts whose outputs are wanted whatever the others read, the last one first.
    fn wanted_later(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.kept.len()).rev().filter(|&part| self.kept[part].is_some())
    }

    /// Bytes in the arena while every tensor that the group touches is whole, and nothing rolls or is staged.
    pub fn whole_bytes(&self) -> u64 {
        let touched = self.dying.iter().map(|(whole, _)| whole).chain(self.kept.iter().flatten());
        self.resident_bytes + touched.map(|whole| aligned(whole.size_bytes)).sum::<u64>()
    }

    /// Bytes in the arena while a Part on its own makes all of its output at once.
    pub fn unstriped_bytes(&self) -> u64 {
        let overlaid = self.overlaid.iter().flatten().map(|&number| aligned(self.dying[number].0.size_bytes));
        self.whole_bytes() - overlaid.sum::<u64>()
    }

    /// Bytes in the arena while the group's own buffers are: the least, whatever its Plan decides beside bands. Those of
    /// more than one band keep every tensor whole.
    pub fn beside_bytes(&self, tiles: u32) -> u64 {
        if tiles == 1 {
            self.resident_bytes
        } else {
            self.whole_bytes()
        }
    }

    /// Bytes in the arena at the group's beginning or end, whichever is more: the least that any Plan takes.
    pub fn least_bytes(&self) -> u64 {
        let before: u64 = self.dying.iter().map(|(whole, _)| whole.size_bytes).sum();
        let behind: u64 = self.kept.iter().flatten().map(|whole| whole.size_bytes).sum();
        self.resident_bytes + before.max(behind)
    }

    /// Most bytes in the arena at once while a Plan of one band runs; None if they reach `limit_bytes`.
    ///
    /// `ends` are the spans wanted of each Part's output along the rolling axis, `shares` what the Plan adds for each
    /// Part. Most Plans take too much, so two stripes are looked at before all are walked: the last one of the last Part,
    /// and `first_failed`. Where a walk finds too much it leaves its stripe there for the next Plan, which often takes too
    /// much there as well. Equals the live bytes of the program, with every buffer of a multiple of the arena's
    /// alignment, as long as each read of a tensor takes in all its rows; rows that are skipped, at the end or between
    /// windows, are counted as long as others of their tensor may be wanted, so otherwise it is an upper bound.
    pub fn peak_bytes(
        &self,
        stripes: &[i64],
        ends: &[Span],
        shares: &[Share],
        limit_bytes: u64,
        first_failed: &mut StripeId,
    ) -> Option<u64> {
        let mut run = GroupRun::new(self, stripes, ends, shares);
        run.limit_bytes = limit_bytes;
        let last_one = StripeId { parts_behind: 0, line: ends[stripes.len() - 1].end };
        if run.is_too_much_at(last_one) || run.is_too_much_at(*first_failed) {
            return None;
        }
        run.restart();
        run.finish();
        if run.peak < limit_bytes {
            return Some(run.peak);
        }
        *first_failed = run.peak_at;
        None
    }

    /// The profile of a Plan of one band over its Parts up to offset `reach`.
    pub fn profile(&self, stripes: &[i64], ends: &[Span], shares: &[Share], reach: usize) -> Profile {
        let mut run = GroupRun::new(self, stripes, ends, shares);
        run.profile = Some((reach, Profile { steps: vec![0], bytes: vec![[0; 3]] }));
        run.restart();
        run.finish();
        run.profile.expect("asked for").1
    }
}

/// Bytes of a group's own buffers over time. Time is counted in stripes of the Parts on which buffers still to come
/// depend, because a longer group sees no other clock.
///
/// If two groups have the same stripes of these Parts and one profile is nowhere above the other, then the first
/// group takes no more bytes in any extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Which of these Parts made a stripe; 0 before the first.
    steps: Vec<u32>,
    /// Bytes while it did, most bytes until the next one, and bytes while what the next one reads is made.
    bytes: Vec<[u64; 3]>,
}

impl Profile {
    /// Whether it is nowhere above another one.
    pub fn is_within(&self, other: &Profile) -> bool {
        let below = |(a, b): (&[u64; 3], &[u64; 3])| (0..3).all(|i| a[i] <= b[i]);
        self.steps == other.steps && self.bytes.iter().zip(&other.bytes).all(below)
    }
}

/// A group under way.
struct GroupRun<'a> {
    occupancy: &'a LiveBytes,
    stripes: &'a [i64],
    ends: &'a [Span],
    shares: &'a [Share],
    /// How far each Part's output is made: one past the last row or column.
    made: MadeRows,
    /// By Part, the first row or column of its output still to be read; beyond all where there is none.
    wanted: SmallVec<[i64; 16]>,
    /// Bytes of all Parts' own buffers while no stripe is being made, since the last restart.
    between: u64,
    /// Most bytes seen in use, and while which stripe.
    peak: u64,
    peak_at: StripeId,
    limit_bytes: u64,
    /// What is wanted besides the peak, if it is: a profile over the Parts up to an offset.
    profile: Option<(usize, Profile)>,
}

impl Walker for GroupRun<'_> {
    /// Nothing more once the limit is reached.
    fn next(&mut self, part: usize, rows: Span) -> Option<Span> {
        let (made, wanted) = (self.made[part], self.ends[part]);
        let goes_on = made < rows.end.min(wanted.end) && self.peak < self.limit_bytes;
        goes_on.then(|| stripe_ahead(made, self.stripes[part], wanted))
    }

    fn read(&self, part: usize, index: usize, stripe: Span) -> Option<(usize, Span)> {
        self.occupancy.inside[part].get(index, stripe)
    }

    fn made(&mut self, part: usize, stripe: Span) {
        let (occupancy, start) = (self.occupancy, stripe.start);
        // A buffer with nothing in it that is still to be read comes to life again.
        let is_born = occupancy.kept[part].is_some() || self.wanted[part] >= start;
        let [before, meanwhile, after] = self.part_bytes(part, stripe);
        self.made[part] = stripe.end;
        self.between -= before;
        if is_born {
            let now = self.between + meanwhile + self.dying_bytes(part, start, 0);
            debug_assert_eq!(now, self.bytes(part, start, 0), "what changed is not what there is");
            self.count(now, part, start);
        }
        let now = self.profile.as_ref().map_or(0, |(reach, _)| self.bytes(part, start, reach + 1));
        self.between += after;
        for &producer in &occupancy.inside[part].numbers {
            let (wanted, made) = (self.first_wanted(producer), self.made[producer]);
            let was_wanted = std::mem::replace(&mut self.wanted[producer], wanted) < made;
            if was_wanted && wanted >= made && occupancy.kept[producer].is_none() {
                self.between -= self.shares[producer].rolling;
            }
        }
        self.record(part, now);
    }
}

impl<'a> GroupRun<'a> {
    fn new(occupancy: &'a LiveBytes, stripes: &'a [i64], ends: &'a [Span], shares: &'a [Share]) -> GroupRun<'a> {
        let (made, wanted) = (smallvec![0; ends.len()], smallvec![i64::MAX; ends.len()]);
        GroupRun {
            occupancy,
            stripes,
            ends,
            shares,
            made,
            wanted,
            between: 0,
            peak: 0,
            peak_at: StripeId::default(),
            limit_bytes: u64::MAX,
            profile: None,
        }
    }

    /// Go back to the beginning, where nothing is made.
    fn restart(&mut self) {
        self.made.iter_mut().zip(self.ends).for_each(|(made, wanted)| *made = wanted.start);
        self.ask();
        self.between = 0;
    }

    /// Set `wanted` for what is made now.
    fn ask(&mut self) {
        for part in 0..self.made.len() {
            self.wanted[part] = self.first_wanted(part);
        }
    }

    /// Make everything that is not made yet.
    fn finish(&mut self) {
        for part in self.occupancy.wanted_later() {
            demand(self, part, self.ends[part]);
        }
    }

    /// Add the stripe that Part `part` has just made to the profile: `now` are the bytes in use meanwhile.
    fn record(&mut self, part: usize, now: u64) {
        let Some((reach, mut profile)) = self.profile.take() else { return };
        let after = self.bytes(usize::MAX, 0, reach + 1);
        if part <= reach {
            profile.steps.push(part as u32 + 1);
            profile.bytes.push([now, 0, after]);
        } else if let Some(slot) = profile.bytes.last_mut() {
            *slot = [slot[0], slot[1].max(now), after];
        }
        self.profile = Some((reach, profile));
    }

    /// Whether the limit is reached while a stripe is made, if this group has it.
    fn is_too_much_at(&mut self, stripe: StripeId) -> bool {
        let Some(part) = self.ends.len().checked_sub(stripe.parts_behind + 1) else { return false };
        let (extent, wanted) = (self.stripes[part], self.ends[part]);
        let line = stripe.line.min(wanted.end - 1).max(wanted.start);
        self.go_to(part, line - (line - wanted.start) % extent) && self.peak >= self.limit_bytes
    }

    /// Count the stripe of a Part from row `start` on, without a walk; false where there is none.
    fn go_to(&mut self, part: usize, start: i64) -> bool {
        let group = GroupStripes { reads: &self.occupancy.inside, stripes: self.stripes, ends: self.ends };
        let Some(made) = group.made_before(part, start, self.occupancy.wanted_later()) else { return false };
        self.made = made;
        // While the stripe runs, the rows that it reads are still wanted.
        self.ask();
        self.made[part] = stripe_ahead(start, self.stripes[part], self.ends[part]).end;
        self.count(self.bytes(part, start, 0), part, start);
        true
    }

    /// First row or column of Part `part`'s output that a Part of the group still reads.
    fn first_wanted(&self, part: usize) -> i64 {
        let rest = |reads: &TensorReads| Span::new(self.made[reads.reader], self.ends[reads.reader].end);
        let unread = self.occupancy.readers[part].iter().filter_map(|reads| reads.first_needed(rest(reads)));
        let unread = unread.min().unwrap_or(i64::MAX);
        let (made, ends) = (self.made[part], self.ends[part]);
        let arrives = self.occupancy.arriving == Some(part) && ends.start < made && made < ends.end;
        if arrives {
            unread.min(made - 1)
        } else {
            unread
        }
    }

    /// Count `bytes` beside the constant bytes, while Part `part` makes its stripe from row `start` on.
    fn count(&mut self, bytes: u64, part: usize, start: i64) {
        let bytes = aligned(self.occupancy.resident_bytes + bytes);
        // What follows when the limit is reached is not the order of demand any more.
        if bytes > self.peak && self.peak < self.limit_bytes {
            self.peak = bytes;
            self.peak_at = StripeId { parts_behind: self.ends.len() - 1 - part, line: start };
        }
    }

    /// Bytes of a Part's output and of its staged constants: before, while and after it makes a stripe.
    fn part_bytes(&self, part: usize, stripe: Span) -> [u64; 3] {
        let (ends, Share { rolling, staged }) = (self.ends[part], self.shares[part]);
        let (has_begun, goes_on) = (stripe.start > ends.start, stripe.end < ends.end);
        let output = match &self.occupancy.kept[part] {
            Some(whole) => {
                let [before, after] =
                    [stripe.start, stripe.end].map(|made| whole.live_bytes(Span::new(ends.start, made)));
                [before, after, after]
            }
            None => {
                let is_wanted = |made| self.wanted[part] < made;
                [has_begun && is_wanted(stripe.start), true, is_wanted(stripe.end)]
                    .map(|is| if is { rolling } else { 0 })
            }
        };
        let stays = [has_begun && stripe.start < ends.end, true, goes_on].map(|is| if is { staged } else { 0 });
        std::array::from_fn(|moment| output[moment] + stays[moment])
    }

    /// Bytes of those dying inputs that some Part from offset `from` on reads, while Part `current` makes its output from
    /// `start` to where it is made; without those over which the output lies.
    fn dying_bytes(&self, current: usize, start: i64, from: usize) -> u64 {
        let made = |part: usize| if part == current { start } else { self.made[part] };
        let rest = |reads: &TensorReads| Span::new(made(reads.reader), self.ends[reads.reader].end);
        let mut bytes = 0;
        for (whole, reads) in
            self.occupancy.dying.iter().filter(|(_, reads)| reads.iter().any(|read| read.reader >= from))
        {
            if let Some(oldest) = reads.iter().filter_map(|reads| reads.first_needed(rest(reads))).min() {
                bytes += whole.live_bytes(Span::new(oldest, whole.extent));
            }
        }
        bytes - self.overlaid_bytes(current, start, from)
    }

    /// Bytes of a dying input over which Part `current` writes from `start` on.
    ///
    /// That stripe is all of the output, and the last one that reads the input.
    fn overlaid_bytes(&self, current: usize, start: i64, from: usize) -> u64 {
        let overlaid = self.occupancy.overlaid.get(current).copied().flatten();
        let Some((whole, reads)) = overlaid.map(|number| &self.occupancy.dying[number]) else { return 0 };
        let is_whole = current >= from && Span::new(start, self.made[current]) == self.ends[current];
        let is_done = |reader: usize| reader == current || self.made[reader] >= self.ends[reader].end;
        if is_whole && reads.iter().all(|read| is_done(read.reader)) {
            whole.size_bytes
        } else {
            0
        }
    }

    /// Bytes of the group's own buffers and of [dying inputs](Self::dying_bytes) meanwhile, counted from nothing.
    fn bytes(&self, current: usize, start: i64, from: usize) -> u64 {
        // What is before a stripe that nobody made is what there is.
        let part_bytes = |part: usize| match self.made[part] {
            made if part == current => self.part_bytes(part, Span::new(start, made))[1],
            made => self.part_bytes(part, Span::new(made, made))[0],
        };
        self.dying_bytes(current, start, from) + (0..self.made.len()).map(part_bytes).sum::<u64>()
    }
}

/// Bytes of whole tensors that stay while a group runs and that it neither kills nor makes.
fn resident_bytes(graph: &CascaderGraph, first: PartId, last: PartId, dying: &[TensorId], is_group: bool) -> u64 {
    let mut bytes = 0;
    for (id, tensor) in graph.tensors.iter_ids() {
        let wanted = || tensor.is_output || graph.consumers[id].last().is_some_and(|&part| part >= first);
        let stays = match graph.producer[id] {
            Some(part) if part > last => false,
            Some(part) if part >= first => !is_group,
            Some(_) => wanted(),
            None => first == PartId(0) || wanted(),
        };
        if stays && tensor.external.is_none() && !dying.contains(&id) {
            bytes += aligned(tensor.size_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schedule::demand::RecordingWalker;
    use crate::schedule::stripe_order::{wanted, StripeOrder};
    use crate::testing::schedules::{arbitrary_network, arbitrary_plans};
    use crate::testing::worked_example::worked_example;

    /// When `project` makes a row, 7 rows of input and output are alive, 3 of `expand` and 1 of `filter`.
    #[test]
    fn example() {
        let graph = worked_example();
        let live = LiveBytes::new(&graph, PartId(0), PartId(2), Axis::Height);
        let shares = [3 * 256, 256, 0].map(|rolling| Share { rolling, staged: 0 });
        let peak = |limit| live.peak_bytes(&[1, 1, 1], &[Span::new(0, 8); 3], &shares, limit, &mut StripeId::default());
        assert_eq!(peak(u64::MAX), Some(7 * 64 + 3 * 256 + 256));
        assert_eq!(peak(1472), None, "the limit is what a Plan must stay below");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn bytes_are_counted_at_the_stripes_of_programs(
            graph in arbitrary_network(),
            choices in prop::collection::vec((0u8..6, 0i64..5, 1u32..4, any::<bool>(), any::<bool>()), 1..4),
        ) {
            for mut plan in arbitrary_plans(&graph, &choices) {
                // Counted before directions are chosen.
                plan.backwards = false;
                let live = LiveBytes::new(&graph, plan.first, plan.last, plan.tiling.roll);
                let share = |part: u64| Share { rolling: 1 << part, staged: 1 << (part + 32) };
                let shares: Vec<Share> = (0..plan.len() as u64).map(share).collect();
                for tile in 0..plan.tiling.tiles {
                    let ends: Vec<Span> = wanted(&graph, &plan, tile).iter().map(|wanted| wanted[0]).collect();
                    let order = StripeOrder::new(&graph, &plan, ends.clone()).stripes;
                    let order: Vec<_> = order.iter().map(|&(part, span)| (plan.offset(part), span)).collect();
                    let mut walker = GroupRun::new(&live, &plan.stripes, &ends, &shares);
                    walker.restart();
                    let mut run = RecordingWalker { walker, stripes: Vec::new() };
                    live.wanted_later().for_each(|part| demand(&mut run, part, ends[part]));
                    prop_assert_eq!(&run.stripes, &order);
                    // What every stripe changed comes to what there is, and so it does once more.
                    let peak = run.walker.peak;
                    let dying = run.walker.dying_bytes(usize::MAX, 0, 0);
                    prop_assert_eq!(run.walker.between + dying, run.walker.bytes(usize::MAX, 0, 0));
                    run.walker.restart();
                    run.walker.finish();
                    prop_assert_eq!(run.walker.between + dying, run.walker.bytes(usize::MAX, 0, 0));
                    prop_assert_eq!(run.walker.peak, peak);
                    // A walk that fails tells a stripe at which this Plan takes too much.
                    let mut failing = GroupRun::new(&live, &plan.stripes, &ends, &shares);
                    failing.limit_bytes = peak;
                    failing.restart();
                    failing.finish();
                    let failed = std::mem::take(&mut failing.peak_at);
                    failing.peak = 0;
                    prop_assert!(failing.is_too_much_at(failed), "{:?}", failed);
                    // Whoever goes to a stripe finds made what the walk has made by then.
                    let mut made: Vec<i64> = ends.iter().map(|wanted| wanted.start).collect();
                    for &(part, span) in &order {
                        prop_assert!(run.walker.go_to(part, span.start));
                        made[part] = span.end;
                        prop_assert_eq!(&run.walker.made[..], &made[..]);
                        prop_assert_eq!(run.walker.peak, peak, "a stripe that the walk did not count");
                    }
                }
            }
        }
    }
}
