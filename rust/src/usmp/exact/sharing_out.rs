//! Every way to share a handful of items out among their pools, each pool packed as low as can be.
//!
//! Pools know nothing of one another once it is settled who lies where, so the least peak of a pool is a question of its
//! own, asked once for each set of items, whatever the others do. Owns the ways and what has been asked; `above` answers.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::above;
use super::meetings::Meetings;
use super::packing::{in_pool, put, Goal, Packing};
use crate::usmp::arithmetic::aligned;
use crate::usmp::arrangement::Arrangement;
use crate::usmp::instance::Instance;
use crate::usmp::item::{overflow, PlanCost};
use crate::usmp::model::{Slot, StopReason};
use crate::usmp::pairs::Pairs;
use crate::usmp::solver::Outcome;
use crate::util::interrupt;

/// Most items that are not pinned.
pub(super) const MOST_ITEMS: usize = 7;
/// Most ways to share them out: what two pools for each take, and more.
const MOST_WAYS: u64 = 1 << 12;
/// Most nodes for one set of items in one pool.
const NODES: u64 = 1 << 14;

/// The best of all plans, or `arrangement` where none is better or too many would have to be looked at.
pub(super) fn share_out(instance: &Instance, arrangement: Arrangement) -> Outcome {
    let items = instance.movable();
    let ways = items.iter().map(|&item| instance.items[item as usize].candidates.len() as u64);
    let few = ways.fold(1, u64::saturating_mul) <= MOST_WAYS;
    let Some(pairs) = instance.pairs().filter(|_| few) else {
        return Outcome::of(arrangement, StopReason::TooLarge, 0);
    };
    let mut all = Sharing {
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

struct Sharing<'a> {
    instance: &'a Instance<'a>,
    pairs: &'a Pairs,
    /// The pools that items are in for now; their offsets count only once a pool is packed.
    slots: Vec<Slot>,
    /// The least peak and where that puts the items, by pool and items.
    known: BTreeMap<(u32, Vec<u32>), (u64, Packing)>,
    /// The least cost and, where it was found here, its slots.
    best: (PlanCost, Option<Vec<Slot>>),
    nodes: u64,
    /// Whether every question was answered to the end.
    proved: bool,
}

impl Sharing<'_> {
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

    /// The least peak of `pool` with what is in it for now.
    fn least(&mut self, pool: u32) -> &(u64, Packing) {
        let items = in_pool(pool, &self.slots);
        let (instance, pairs) = (self.instance, self.pairs);
        self.known.entry((pool, items)).or_insert_with_key(|(pool, items)| {
            let meetings = Meetings::new(instance, pairs, *pool, items);
            // One above the other, all of them fit below this.
            let room = items.iter().map(|&item| &instance.items[item as usize]).map(|item| {
                let alignments = item.candidates.iter().map(|candidate| candidate.alignment);
                item.size_bytes + item.pinned.unwrap_or(0) + alignments.max().unwrap_or(0)
            });
            let below = room.sum::<u64>() + 1;
            let goal = Goal { bound: 0, below, nodes: NODES, work: u64::MAX, seed: 0, threads: 1 };
            let found = above::descend(&meetings, &goal);
            self.nodes += found.nodes;
            let packing: Packing = meetings.items().zip(found.offsets.unwrap_or_default()).collect();
            let end = |&(item, offset): &(u32, u64)| offset + instance.items[item as usize].size_bytes;
            let empty = meetings.items().next().is_none();
            let peak = packing.iter().map(end).max().unwrap_or(if empty { 0 } else { goal.below });
            self.proved &= found.bound >= peak;
            (peak, packing)
        })
    }
}
