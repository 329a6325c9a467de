//! What every search handles: items, which are buffers in canonical order, and what a plan of them costs.
//!
//! Owns these data and what follows from one of them alone. Knows nothing of bounds, tables or plans.

use smallvec::SmallVec;

use super::model::{Pool, Section};

/// A pool that may hold an item, and the alignment of the item's address there, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolChoice {
    pub pool: u32,
    pub alignment: u64,
}

/// A buffer, as solvers see it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    pub size_bytes: u64,
    /// Those of the lifetime, in order of time.
    pub sections: SmallVec<[Section; 1]>,
    pub candidates: SmallVec<[PoolChoice; 1]>,
    pub pinned: Option<u64>,
    /// Items that it may overlap, with the least and the largest difference of its offset less theirs.
    pub shares: SmallVec<[(u32, i64, i64); 0]>,
    /// Items that it must not overlap whatever the steps, ascending; both are in use at some step.
    pub conflicts: SmallVec<[u32; 0]>,
    /// Id in the problem. The last field, as items are compared field by field and the id must decide last.
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

    /// Bytes times the number of better pools, when it lies in `pool`: its part of a plan's spill.
    pub fn spill(&self, pool: u32) -> u64 {
        if self.candidates[0].pool == pool {
            return 0;
        }
        let rank = self.candidates.iter().position(|candidate| candidate.pool == pool).unwrap_or(0);
        self.size_bytes * rank as u64
    }
}

/// How many pairs of `items` conflict explicitly.
pub(crate) fn count_conflicts(items: &[Item]) -> usize {
    // Each is listed with both of its items.
    items.iter().map(|item| item.conflicts.len()).sum::<usize>() / 2
}

/// The cost of a plan, smaller is better: first overflow, then bytes outside preferred pools, then peaks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlanCost {
    /// Bytes by which pools exceed their limits, summed.
    pub overflow: u64,
    /// Bytes of each buffer times the number of better candidates that it did not get, summed.
    pub spill: u64,
    /// Peaks in bytes, by pool id.
    pub peaks: SmallVec<[u64; 2]>,
}

impl PlanCost {
    /// Whether every pool keeps its limit and every item its preferred pool.
    pub fn is_granted(&self) -> bool {
        self.overflow == 0 && self.spill == 0
    }
}

/// Bytes by which `peaks`, in bytes by pool id, exceed the limits of `pools`, summed.
pub(crate) fn overflow(pools: &[Pool], peaks: &[u64]) -> u64 {
    let excess = |(pool, &peak): (&Pool, &u64)| pool.limit_bytes.map_or(0, |limit| peak.saturating_sub(limit));
    pools.iter().zip(peaks).map(excess).sum()
}
