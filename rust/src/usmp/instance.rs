//! A validated problem as solvers see it: items in canonical order, their conflicts and their lower bounds.
//!
//! Canonical order makes every answer independent of the order in which buffers were given, up to swaps of equals.

use std::sync::OnceLock;

use smallvec::SmallVec;

use super::arithmetic::{aligned, gcd};
use super::bound::{least_peaks, BoundScope};
use super::canonical;
use super::clique::Graph;
use super::item::{count_conflicts, Item, PlanCost, PoolChoice};
use super::model::{Pool, Problem, Slot, UsmpError};
use super::optimality_gap::OptimalityGap;
use super::pairs::Pairs;

pub(crate) struct Instance<'a> {
    pub pools: &'a [Pool],
    /// In canonical order.
    pub items: Vec<Item>,
    /// Where searches report their gap, if anywhere.
    pub gap: Option<&'a OptimalityGap>,
    /// Peaks that prove a plan without overflow and spill optimal, in bytes, by pool id.
    goals: Vec<u64>,
    /// Explicit conflicts, each counted once.
    conflicts: usize,
    pairs: OnceLock<Option<Pairs>>,
    graph: Option<Graph>,
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
                PoolChoice { pool, alignment }
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
        let graph = Graph::new(&items);
        let goals = least_peaks(&problem.pools, &items, graph.as_ref(), BoundScope::Preferred);
        let conflicts = count_conflicts(&items);
        Ok(Self { pools: &problem.pools, items, gap: None, goals, conflicts, pairs: OnceLock::new(), graph })
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
            let PoolChoice { pool, alignment } = item.candidates[0];
            let least = aligned(0, alignment, self.pools[pool as usize].base_address);
            Slot { pool, offset: item.pinned.unwrap_or(least) }
        };
        self.items.iter().map(slot).collect()
    }

    /// Whether no plan can cost less than `cost`. `proved` are a search's lower bounds, in bytes by pool.
    pub fn proves_optimal(&self, cost: &PlanCost, proved: &[u64]) -> bool {
        let known = |pool: usize| self.goals[pool].max(proved.get(pool).copied().unwrap_or(0));
        cost.is_granted() && cost.peaks.iter().enumerate().all(|(pool, &peak)| peak <= known(pool))
    }

    /// Whether branch and bound understands everything that this problem asks for.
    pub fn may_be_searched(&self) -> bool {
        self.items.iter().all(|item| item.shares.is_empty()) || self.pairs().is_some()
    }

    /// What any two items forbid each other, where there is room to store that.
    pub fn pairs(&self) -> Option<&Pairs> {
        self.pairs.get_or_init(|| Pairs::new(&self.items)).as_ref()
    }

    /// Who keeps apart from whom, where some conflict explicitly.
    pub fn graph(&self) -> Option<&Graph> {
        self.graph.as_ref()
    }

    /// The peak of `pool` that proves it as small as it can be, in bytes.
    pub fn goal(&self, pool: usize) -> u64 {
        self.goals[pool]
    }

    /// What no plan as good as `cost` beats, in bytes, by pool id; `proved` is what a search has proved.
    pub fn lower_bounds(&self, cost: &PlanCost, proved: &[u64]) -> Vec<u64> {
        if cost.is_granted() || self.has_no_choice() {
            let known = |pool: usize| self.goals[pool].max(proved.get(pool).copied().unwrap_or(0));
            (0..self.pools.len()).map(known).collect()
        } else {
            self.forced_peaks()
        }
    }

    /// Whether every item has one candidate.
    fn has_no_choice(&self) -> bool {
        self.items.iter().all(|item| item.candidates.len() == 1)
    }

    /// Where improvements of a plan of this cost are reported, if anywhere.
    ///
    /// A plan that overflows or spills may give way to one with a higher peak, unless there is one pool.
    pub fn gap_of(&self, cost: &PlanCost) -> Option<&'a OptimalityGap> {
        self.gap.filter(|_| cost.is_granted() || self.pools.len() == 1 && self.has_no_choice())
    }

    /// Reports a plan; the answer will not be worse.
    pub fn report(&self, cost: &PlanCost) {
        if let (Some(gap), Some(&peak)) = (self.gap_of(cost), cost.peaks.first()) {
            gap.narrow(peak, self.goals[0]);
        }
    }

    /// What no plan's peaks are below, whatever it grants, in bytes, by pool id.
    pub fn forced_peaks(&self) -> Vec<u64> {
        least_peaks(self.pools, &self.items, self.graph(), BoundScope::Forced)
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
