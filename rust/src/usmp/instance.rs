//! A validated problem in the form that solvers work on: canonical order, sections, effective alignments, goals.
//!
//! Canonical order makes every answer independent of the order in which buffers were given, up to swaps of equals.

use std::sync::OnceLock;

use smallvec::SmallVec;

use super::bound::{self, gcd, Counted};
use super::canonical;
use super::clique::Graph;
use super::layout::aligned;
use super::model::{Pool, Problem, Section, Slot, UsmpError};
use super::pairs::Pairs;

/// A pool that may hold an item, and the alignment of the item's address there, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub pool: u32,
    pub alignment: u64,
}

/// A buffer, as solvers see it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    pub size_bytes: u64,
    /// Those of the lifetime, in order of time.
    pub sections: SmallVec<[Section; 1]>,
    pub candidates: SmallVec<[Candidate; 1]>,
    pub pinned: Option<u64>,
    /// Items that it may overlap, with the least and the largest difference of its offset less theirs.
    pub shares: SmallVec<[(u32, i64, i64); 0]>,
    /// Items that it must not overlap whatever the steps, ascending; both are in use at some step.
    pub conflicts: SmallVec<[u32; 0]>,
    /// Id in the problem. Last, so that only equals are told apart by it.
    pub buffer: u32,
}

impl Item {
    /// First step in use and one past the last, or an empty range.
    pub fn span(&self) -> (i64, i64) {
        match (self.sections.first(), self.sections.last()) {
            (Some(first), Some(last)) => (first.lower, last.upper),
            _ => (0, 0),
        }
    }

    /// Whether a step lies between the first and the last of both.
    pub fn meets_in_time(&self, other: &Item) -> bool {
        let (one, other) = (self.span(), other.span());
        one.0 < other.1 && other.0 < one.1
    }

    /// Whether it conflicts explicitly with the item of index `other`.
    pub fn conflicts_with(&self, other: u32) -> bool {
        self.conflicts.binary_search(&other).is_ok()
    }

    /// Whether it uses all its bytes whenever it uses some.
    pub fn is_solid(&self) -> bool {
        self.sections.iter().all(|section| section.low == 0 && section.high == self.size_bytes)
    }

    /// Steps in use or in a gap.
    pub fn steps(&self) -> u64 {
        let (lower, upper) = self.span();
        upper.abs_diff(lower)
    }
}

/// How good a plan is, the smaller the better: first it must fit, then grant preferences, then be small.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    /// Bytes by which pools exceed their limits, summed.
    pub overflow: u64,
    /// Bytes of each buffer times the number of better candidates that it did not get, summed.
    pub spill: u64,
    /// Peaks in bytes, by pool id.
    pub peaks: SmallVec<[u64; 2]>,
}

pub(crate) struct Instance<'a> {
    pub pools: &'a [Pool],
    /// In canonical order.
    pub items: Vec<Item>,
    /// Peaks that prove a plan without overflow and spill optimal, in bytes, by pool id.
    goals: Vec<u64>,
    /// Explicit conflicts, each counted once.
    conflicts: usize,
    pairs: OnceLock<Option<Pairs>>,
    graph: OnceLock<Option<Graph>>,
}

impl<'a> Instance<'a> {
    /// Checks `problem` and brings it into canonical order.
    pub fn new(problem: &'a Problem) -> Result<Self, UsmpError> {
        problem.validate()?;
        let mut items: Vec<Item> = Vec::with_capacity(problem.buffers.len());
        for (id, buffer) in (0u32..).zip(&problem.buffers) {
            let candidates = buffer.pools.iter().map(|&pool| {
                let of_pool = problem.pools[pool as usize].alignment;
                // Both divide the product, which validation has bounded.
                let alignment = of_pool / gcd(of_pool, buffer.alignment) * buffer.alignment;
                Candidate { pool, alignment }
            });
            items.push(Item {
                size_bytes: buffer.size_bytes,
                sections: buffer.lifetime.sections(buffer.size_bytes),
                shares: SmallVec::new(),
                conflicts: SmallVec::new(),
                candidates: candidates.collect(),
                pinned: buffer.pinned_offset,
                buffer: id,
            });
        }
        items.sort_unstable();
        if problem.buffers.iter().any(|buffer| !buffer.conflicts.is_empty() || !buffer.shares.is_empty()) {
            canonical::sort(problem, &mut items);
            relate(problem, &mut items);
        }
        let conflicts = items.iter().map(|item| item.conflicts.len()).sum::<usize>() / 2;
        let (pools, goals) = (&problem.pools, Vec::new());
        let mut instance = Self { pools, items, goals, conflicts, pairs: OnceLock::new(), graph: OnceLock::new() };
        instance.goals = bound::least_peaks(&instance, Counted::Preferred);
        Ok(instance)
    }

    /// How many pairs of items conflict explicitly.
    pub fn conflicts(&self) -> usize {
        self.conflicts
    }

    /// Indices of the items that are not pinned.
    pub fn movable(&self) -> Vec<u32> {
        (0u32..).zip(&self.items).filter(|(_, item)| item.pinned.is_none()).map(|(index, _)| index).collect()
    }

    /// Every item in its preferred pool, pinned ones where they must lie, the others at the least offset there.
    pub fn preferred(&self) -> Vec<Slot> {
        let slot = |item: &Item| {
            let Candidate { pool, alignment } = item.candidates[0];
            let least = aligned(0, alignment, self.pools[pool as usize].base_address);
            Slot { pool, offset: item.pinned.unwrap_or(least) }
        };
        self.items.iter().map(slot).collect()
    }

    /// Whether no plan can cost less than `cost`, given what a search has proved beside the bounds, in bytes by pool.
    pub fn proves_optimal(&self, cost: &Cost, proved: &[u64]) -> bool {
        let known = |pool: usize| self.goals[pool].max(proved.get(pool).copied().unwrap_or(0));
        cost.overflow == 0 && cost.spill == 0 && cost.peaks.iter().enumerate().all(|(pool, &peak)| peak <= known(pool))
    }

    /// Whether branch and bound understands everything that this problem asks for.
    pub fn may_be_searched(&self) -> bool {
        self.items.iter().all(|item| item.shares.is_empty()) || self.pairs().is_some()
    }

    /// What any two items forbid each other, where there is room to store that.
    pub fn pairs(&self) -> Option<&Pairs> {
        self.pairs.get_or_init(|| Pairs::new(self)).as_ref()
    }

    /// Who keeps apart from whom, where some conflict explicitly.
    pub fn graph(&self) -> Option<&Graph> {
        self.graph.get_or_init(|| Graph::new(self)).as_ref()
    }

    /// The peak of `pool` that proves it as small as it can be, in bytes.
    pub fn goal(&self, pool: usize) -> u64 {
        self.goals[pool]
    }

    /// What no plan as good as `cost` beats, in bytes, by pool id; `proved` is what a search has proved.
    pub fn lower_bounds(&self, cost: &Cost, proved: &[u64]) -> Vec<u64> {
        let granted = cost.overflow == 0 && cost.spill == 0;
        if granted || self.items.iter().all(|item| item.candidates.len() == 1) {
            let known = |pool: usize| self.goals[pool].max(proved.get(pool).copied().unwrap_or(0));
            (0..self.pools.len()).map(known).collect()
        } else {
            bound::least_peaks(self, Counted::Forced)
        }
    }
}

/// Brings explicit conflicts and shares of buffers to `items`, which are in canonical order.
fn relate(problem: &Problem, items: &mut [Item]) {
    let mut index_of = vec![0u32; items.len()];
    for (index, item) in (0u32..).zip(items.iter()) {
        index_of[item.buffer as usize] = index;
    }
    for (id, buffer) in problem.buffers.iter().enumerate() {
        let here = index_of[id];
        for &other in &buffer.conflicts {
            let there = index_of[other as usize];
            // What is never in use is in nobody's way.
            if !items[here as usize].sections.is_empty() && !items[there as usize].sections.is_empty() {
                items[here as usize].conflicts.push(there);
                items[there as usize].conflicts.push(here);
            }
        }
        for share in &buffer.shares {
            let there = index_of[share.with as usize];
            items[here as usize].shares.push((there, share.low, share.high));
            items[there as usize].shares.push((here, share.high.saturating_neg(), share.low.saturating_neg()));
        }
    }
    for item in items {
        item.conflicts.sort_unstable();
        item.conflicts.dedup();
    }
}
