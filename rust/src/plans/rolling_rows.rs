//! The number of rows of a rolling buffer, by the stripes of its producer and of the Parts behind it.
//!
//! - State: demands `(until_i, oldest_i)` on the producer's output, in order: all rows before `until_i` are asked for
//!   while `oldest_i` is the first row that is still to be read.
//! - Invariant: demands depend on the stripes of the Parts behind the producer alone. So one walk through these Parts
//!   serves every stripe extent `h` of the producer.
//! - Result, for rows wanted from `a` on: the last stripe for demand `i` begins at
//!   `l_i = a + (ceil((until_i - a) / h) - 1) * h` and ends at `m_i`, `h` rows on or with the output. The buffer
//!   holds the most of `m_i - min(oldest_i, l_i)`, in whole stripes.
//! - Cost: one walk for each choice of stripes behind the producer; answers are remembered.
//!
//! Owns this question of the search, asked so often that its reads are flattened; the walk itself is `demand`'s. A
//! program's buffers are sized by `interleave` along `stripe_order`; a test compares the two.

use smallvec::SmallVec;

use crate::model::graph::CascaderGraph;
use crate::model::ids::PartId;
use crate::plans::link::{PartReads, TensorReads};
use crate::schedule::demand::{demand, stripe_ahead, Walker};
use crate::stripe::{Axis, Span};
use crate::util::hashing::Table;

/// What a walk depends on besides stripes: producer, rolling axis, what is wanted of each Part walked.
type RowCacheKey = (PartId, Axis, Box<[Span]>);

/// Rows alive of tensors, by their producers' and readers' stripes.
#[derive(Debug, Default)]
pub struct RowTable {
    row_caches: Table<RowCacheKey, RowCache>,
}

impl RowTable {
    /// Take out what is known of Parts `first..` that run along `roll` where `wanted` is wanted of each along that
    /// axis, for these stripe `extents` of the first one. Give it back by `keep`.
    pub fn row_cache(
        &mut self,
        graph: &CascaderGraph,
        first: PartId,
        roll: Axis,
        wanted: &[Span],
        extents: &[i64],
    ) -> RowCache {
        let key = (first, roll, wanted.into());
        let known = self.row_caches.remove(&key).filter(|row_cache| *row_cache.extents == *extents);
        known.unwrap_or_else(|| RowCache::new(graph, key, extents))
    }

    /// Take back what a cache has learnt.
    pub fn keep(&mut self, row_cache: RowCache) {
        self.row_caches.insert(row_cache.key.clone(), row_cache);
    }
}

/// Rows alive of one tensor, for one choice of what is wanted of the Parts behind it.
#[derive(Debug)]
pub struct RowCache {
    key: RowCacheKey,
    /// Stripe extents of the first Part that are asked about.
    extents: Box<[i64]>,
    /// Per Part, its reads of outputs of the Parts that the walk passes, numbered by the producer's offset.
    reads: Vec<PartReads>,
    /// Reads of the first Part's output.
    readers: SmallVec<[TensorReads; 2]>,
    /// Parts whose outputs are wanted whatever the others read.
    ends: SmallVec<[usize; 2]>,
    /// By stripe extents of the Parts that follow, ascending.
    known: Vec<CachedRows>,
}

/// Stripe extents of the Parts behind the producer, and rows by extent of the producer's own.
#[derive(Debug)]
struct CachedRows {
    next: SmallVec<[i64; 2]>,
    rows: SmallVec<[i64; 12]>,
}

impl RowCache {
    fn new(graph: &CascaderGraph, key: RowCacheKey, extents: &[i64]) -> RowCache {
        let (first, roll, count) = (key.0, key.1, key.2.len());
        let last = first.after(count - 1);
        let is_end = |&part: &usize| {
            let part = first.after(part);
            part == last || graph.outlives(graph.output(part), last)
        };
        let made_by = |tensor| graph.made_since(tensor, first);
        let reads = |part| PartReads::new(graph, &graph.parts[part].inputs, roll, made_by);
        let reads: Vec<PartReads> = first.through(last).map(reads).collect();
        RowCache {
            key,
            extents: extents.into(),
            readers: reads.iter().enumerate().filter_map(|(reader, reads)| reads.of(0, reader)).collect(),
            ends: (0..count).rev().filter(is_end).collect(),
            reads,
            known: Vec::new(),
        }
    }

    /// For each item of `next`, the stripe extents of the Parts behind the first one, call `found` with the rows that
    /// a buffer of the first Part's output needs, one number for each of `extents`. Items may be longer than what
    /// matters.
    pub fn alive<'a>(&mut self, next: impl Iterator<Item = &'a [i64]>, mut found: impl FnMut(&[i64])) {
        let mut answers = std::mem::take(&mut self.known);
        let mut place = 0;
        for next in next.map(|next| &next[..self.wanted().len() - 1]) {
            // Items mostly come in ascending order, several times each.
            place += usize::from(answers.get(place).is_some_and(|answer| answer.next[..] < *next));
            if answers.get(place).is_none_or(|answer| answer.next[..] != *next) {
                place = answers.binary_search_by(|answer| answer.next[..].cmp(next)).unwrap_or_else(|place| {
                    answers.insert(place, CachedRows { next: next.into(), rows: self.rows(next) });
                    place
                });
            }
            found(&answers[place].rows);
        }
        debug_assert!(answers.is_sorted_by(|a, b| a.next[..] < b.next[..]), "answers out of order, or twice");
        self.known = answers;
    }

    /// What is wanted of each Part's output.
    fn wanted(&self) -> &[Span] {
        &self.key.2
    }

    /// Where nothing is made yet.
    fn walk<'a>(&'a self, next: &'a [i64]) -> RowWalk<'a> {
        let made = self.wanted().iter().map(|wanted| wanted.start).collect();
        RowWalk { row_cache: self, next, made, demands: Vec::new() }
    }

    /// What the Parts behind ask of the first one does not depend on that one's stripes: one walk tells all extents.
    fn rows(&self, next: &[i64]) -> SmallVec<[i64; 12]> {
        let mut walk = self.walk(next);
        for &part in &self.ends {
            demand(&mut walk, part, self.wanted()[part]);
        }
        let alive = |&extent: &i64| {
            let rows = most_alive(&walk.demands, self.wanted()[0], extent);
            ((rows + extent - 1) / extent * extent).min(self.wanted()[0].len())
        };
        self.extents.iter().map(alive).collect()
    }
}

/// Rows of an output that a reader waits for.
#[derive(Clone, Copy, Debug)]
struct Demand {
    /// One past the last of them, and beyond all that was asked for before.
    until: i64,
    /// The first row that is still to be read then; beyond all where there is none.
    oldest: i64,
}

/// Most rows alive at once of an output that is made in stripes of `extent`, only as far as it is asked for.
fn most_alive(demands: &[Demand], wanted: Span, extent: i64) -> i64 {
    let (mut made, mut alive) = (wanted.start, 0);
    for &Demand { until, oldest } in demands.iter() {
        if until > made {
            // Several stripes may be made for one demand; most rows are alive when the last of them is made.
            let stripes = (until - wanted.start + extent - 1) / extent;
            let last = wanted.start + (stripes - 1) * extent;
            made = (last + extent).min(wanted.end);
            alive = alive.max(made - oldest.min(last));
        }
    }
    alive
}

/// `StripeOrder` from the first row on, as far as the first Part's rows depend on it.
struct RowWalk<'a> {
    row_cache: &'a RowCache,
    /// Stripe extents of all Parts but the first.
    next: &'a [i64],
    /// How far each output is made; of the first one, how far it was asked for.
    made: SmallVec<[i64; 8]>,
    /// What was asked of the first Part's output.
    demands: Vec<Demand>,
}

impl Walker for RowWalk<'_> {
    /// Of the first Part nothing is made: what is asked of it is written down, and that all of it was ends the walk.
    fn next(&mut self, part: usize, rows: Span) -> Option<Span> {
        let wanted = self.row_cache.wanted();
        let until = rows.end.min(wanted[part].end);
        if self.made[part] >= until || self.made[0] >= wanted[0].end {
            return None;
        }
        if part == 0 {
            self.made[0] = until;
            self.demands.push(Demand { until, oldest: self.oldest() });
            return None;
        }
        Some(self.stripe(part))
    }

    fn read(&self, part: usize, index: usize, stripe: Span) -> Option<(usize, Span)> {
        self.row_cache.reads[part].get(index, stripe)
    }

    fn made(&mut self, part: usize, stripe: Span) {
        self.made[part] = stripe.end;
    }
}

impl RowWalk<'_> {
    /// The stripe that a Part behind the first makes next.
    fn stripe(&self, part: usize) -> Span {
        stripe_ahead(self.made[part], self.next[part - 1], self.row_cache.wanted()[part])
    }

    /// The first row of the first Part's output that is still to be read.
    fn oldest(&self) -> i64 {
        let rest = |reader: usize| Span::new(self.made[reader], self.row_cache.wanted()[reader].end);
        let unread = self.row_cache.readers.iter().filter_map(|reads| reads.first_needed(rest(reads.reader)));
        unread.min().unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::plan::{Plan, Staging};
    use crate::schedule::stripe_order::{is_interior, wanted, StripeOrder};
    use crate::stripe::Tiling;
    use crate::testing::networks::mobilenet_v2;
    use crate::testing::schedules::{arbitrary_network, arbitrary_plans};

    /// Rows by the walk that makes programs.
    fn walked(graph: &CascaderGraph, plan: &Plan, wanted: &[Span]) -> i64 {
        let walk = StripeOrder::new(graph, plan, wanted.to_vec());
        let stripe = plan.stripes[0];
        ((walk.alive[0] + stripe - 1) / stripe * stripe).min(wanted[0].len())
    }

    /// A walk whose stripes are written down until all of the first Part's output was asked for.
    struct RecordedWalk<'a> {
        walk: RowWalk<'a>,
        stripes: Vec<(usize, Span)>,
    }

    impl RecordedWalk<'_> {
        fn has_ended(&self) -> bool {
            self.walk.made[0] == self.walk.row_cache.wanted()[0].end
        }
    }

    impl Walker for RecordedWalk<'_> {
        fn next(&mut self, part: usize, rows: Span) -> Option<Span> {
            self.walk.next(part, rows)
        }
        fn read(&self, part: usize, index: usize, stripe: Span) -> Option<(usize, Span)> {
            self.walk.read(part, index, stripe)
        }
        fn made(&mut self, part: usize, stripe: Span) {
            if !self.has_ended() {
                self.stripes.push((part, stripe));
            }
            self.walk.made(part, stripe);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn rows_are_asked_for_by_the_stripes_of_programs(
            graph in arbitrary_network(),
            choices in prop::collection::vec((0u8..6, 0i64..5, 1u32..4, any::<bool>(), any::<bool>()), 1..4),
        ) {
            for mut plan in arbitrary_plans(&graph, &choices) {
                plan.backwards = false;
                if plan.len() == 1 || !is_interior(&graph, &plan, 0) {
                    continue;
                }
                for tile in 0..plan.tiling.tiles {
                    let spans: Vec<Span> = wanted(&graph, &plan, tile).iter().map(|wanted| wanted[0]).collect();
                    let order = StripeOrder::new(&graph, &plan, spans.clone()).stripes;
                    let order = order.iter().map(|&(part, span)| (plan.offset(part), span));
                    let behind: Vec<_> = order.filter(|&(part, _)| part > 0).collect();
                    let key = (plan.first, plan.tiling.roll, spans.clone().into());
                    let extents = [1, 2, 3, 5, plan.stripes[0]];
                    let row_cache = RowCache::new(&graph, key, &extents);
                    let mut watched = RecordedWalk { walk: row_cache.walk(&plan.stripes[1..]), stripes: Vec::new() };
                    row_cache.ends.iter().for_each(|&part| demand(&mut watched, part, spans[part]));
                    prop_assert!(behind.starts_with(&watched.stripes), "{:?} {behind:?}", watched.stripes);
                    prop_assert!(watched.has_ended() || watched.stripes == behind);
                    for (extent, rows) in extents.into_iter().zip(row_cache.rows(&plan.stripes[1..])) {
                        let mut cut = plan.clone();
                        cut.stripes[0] = extent;
                        prop_assert_eq!(rows, walked(&graph, &cut, &spans));
                    }
                }
            }
        }
    }

    #[test]
    fn sheets_know_what_a_walk_finds() {
        let graph = mobilenet_v2();
        let mut table = RowTable::default();
        let count = graph.parts.len();
        let groups =
            (1..4).flat_map(|more| graph.parts.ids().take(count - more).map(move |first| (first, first.after(more))));
        let is_group = |&(first, last): &(PartId, PartId)| {
            first.through(last).all(|part| graph.kernel(part).is_some()) && !graph.outlives(graph.output(first), last)
        };
        let mut compared = 0;
        for ((first, last), roll) in groups.filter(is_group).flat_map(|g| [(g, Axis::Height), (g, Axis::Width)]) {
            for (stripe, next) in [(1, 1), (1, 3), (2, 2), (3, 1), (4, 6), (8, 5)] {
                let mut stripes = vec![next; last.since(first) + 1];
                stripes[0] = stripe;
                let staging = vec![Staging::InPlace; stripes.len()];
                let plan = Plan {
                    first,
                    last,
                    tiling: Tiling { roll, tiles: 1 },
                    backwards: false,
                    stripes,
                    staging,
                    copied: Vec::new(),
                };
                let spans: Vec<Span> = wanted(&graph, &plan, 0).iter().map(|wanted| wanted[0]).collect();
                let extents = [1, 2, 3, 4, 8];
                let mut row_cache = table.row_cache(&graph, first, roll, &spans, &extents);
                for _ in 0..2 {
                    row_cache.alive(std::iter::once(&plan.stripes[1..]), |rows| {
                        let known = extents.iter().position(|&extent| extent == stripe).expect("one of them");
                        assert_eq!(rows[known], walked(&graph, &plan, &spans));
                        compared += 1;
                    });
                }
                table.keep(row_cache);
            }
        }
        assert!(compared > 500);
    }
}
