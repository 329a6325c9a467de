//! Complete enumeration of pool assignments for a handful of items, each pool packed to its least peak.
//!
//! Pools are independent once every item has its pool. So the least peak is found once for each set of items and kept.
//! Owns the assignments and these answers; `disjunctive_ladder` finds a peak.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::disjunctions::Disjunctions;
use super::disjunctive_ladder;
use super::packing::{in_pool, put, Goal, Packing};
use crate::usmp::arithmetic::aligned;
use crate::usmp::arrangement::Arrangement;
use crate::usmp::instance::Instance;
use crate::usmp::item::{overflow, PlanCost};
use crate::usmp::model::Slot;
use crate::usmp::pairs::Pairs;
use crate::usmp::params::StopReason;
use crate::usmp::solver::Outcome;
use crate::util::interrupt;

/// Most items without a pin.
pub(super) const MAX_ITEMS: usize = 7;
/// Most assignments: enough for two pools for each item, and more.
const MAX_ASSIGNMENTS: u64 = 1 << 12;
/// Most nodes for one set of items in one pool.
const MAX_NODES_PER_PACKING: u64 = 1 << 14;

/// The best plan of all assignments, or `arrangement` where none is better or there are too many.
pub(super) fn assign_pools(instance: &Instance, arrangement: Arrangement) -> Outcome {
    let items = instance.movable();
    let assignments = items.iter().map(|&item| instance.items[item as usize].candidates.len() as u64);
    let few = assignments.fold(1, u64::saturating_mul) <= MAX_ASSIGNMENTS;
    let Some(pairs) = instance.pairs().filter(|_| few) else {
        return Outcome::of(arrangement, StopReason::TooLarge, 0);
    };
    let mut all = PoolAssignment {
        instance,
        pairs,
        slots: instance.preferred(),
        known: BTreeMap::new(),
        best: (arrangement.cost().clone(), None),
        nodes: 0,
        proved: true,
    };
    all.choose(&items);
    let arrangement = match &all.best.1 {
        Some(slots) => Arrangement::from_slots(instance, slots),
        None => arrangement,
    };
    let stop_reason = if all.proved { StopReason::Complete } else { StopReason::NodeLimit };
    Outcome { arrangement, stop_reason, iterations: all.nodes, proved: SmallVec::new(), exhausted: all.proved }
}

struct PoolAssignment<'a> {
    instance: &'a Instance<'a>,
    pairs: &'a Pairs,
    /// The current pools of all items; offsets count only once a pool is packed.
    slots: Vec<Slot>,
    /// The least peak and its packing, by pool and items.
    known: BTreeMap<(u32, Vec<u32>), (u64, Packing)>,
    /// The least cost and, where it was found here, its slots.
    best: (PlanCost, Option<Vec<Slot>>),
    nodes: u64,
    /// Whether every question was answered to the end.
    proved: bool,
}

impl PoolAssignment<'_> {
    /// Tries all pools for `left`.
    fn choose(&mut self, left: &[u32]) {
        let Some((&item, rest)) = left.split_first() else { return self.pack() };
        for candidate in &self.instance.items[item as usize].candidates {
            let least = aligned(0, candidate.alignment, self.instance.pools[candidate.pool as usize].base_address);
            self.slots[item as usize] = Slot { pool: candidate.pool, offset: least };
            self.choose(rest);
        }
    }

    /// Packs all pools; gives up as soon as the best plan is known to be as good.
    fn pack(&mut self) {
        interrupt::ask();
        let pools = self.instance.pools.len();
        let denied = self.instance.items.iter().zip(&self.slots).map(|(item, slot)| item.spill(slot.pool)).sum();
        let mut cost = PlanCost { overflow: 0, spill: denied, peaks: SmallVec::from_elem(0, pools) };
        let mut slots = self.slots.clone();
        for pool in 0..pools {
            if cost >= self.best.0 {
                return;
            }
            let (peak, packing) = self.least(pool as u32);
            cost.peaks[pool] = *peak;
            put(packing, &mut slots);
            cost.overflow = overflow(self.instance.pools, &cost.peaks);
        }
        if cost < self.best.0 {
            self.best = (cost, Some(slots));
        }
    }

    /// The least peak of `pool` with its current items.
    fn least(&mut self, pool: u32) -> &(u64, Packing) {
        let items = in_pool(pool, &self.slots);
        let (instance, pairs) = (self.instance, self.pairs);
        self.known.entry((pool, items)).or_insert_with_key(|(pool, items)| {
            let disjunctions = Disjunctions::new(instance, pairs, *pool, items);
            // One above the other, all of them fit below this.
            let room = items.iter().map(|&item| &instance.items[item as usize]).map(|item| {
                let alignments = item.candidates.iter().map(|candidate| candidate.alignment);
                item.size_bytes + item.pinned.unwrap_or(0) + alignments.max().unwrap_or(0)
            });
            let below = room.sum::<u64>() + 1;
            let (nodes, work) = (MAX_NODES_PER_PACKING, u64::MAX);
            let goal = Goal { bound: 0, below, nodes, work, seed: 0, threads: 1, gap: None };
            let found = disjunctive_ladder::descend(&disjunctions, &goal);
            self.nodes += found.nodes;
            let packing: Packing = disjunctions.items().zip(found.offsets.unwrap_or_default()).collect();
            let end = |&(item, offset): &(u32, u64)| offset + instance.items[item as usize].size_bytes;
            let empty = disjunctions.items().next().is_none();
            let peak = packing.iter().map(end).max().unwrap_or(if empty { 0 } else { goal.below });
            self.proved &= found.bound >= peak;
            (peak, packing)
        })
    }
}
