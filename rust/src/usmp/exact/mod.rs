//! Exact planning: for each pool the least capacity that its items fit, by branch and bound.
//!
//! Owns the split of a plan into pools and what the answers prove together. `space` is one pool's problem, `search`
//! decides it for one capacity, `tactic` says how it branches, `ladder` which capacities are decided.

mod ladder;
mod search;
mod space;
mod tactic;

use smallvec::SmallVec;

use super::exhaustive::{exhaust, MOST_ITEMS};
use super::greedy::Order;
use super::instance::{Candidate, Instance, Item};
use super::layout::{aligned, Layout};
use super::model::{Params, Slot, StopReason, UsmpError};
use super::{Outcome, Solver};
use ladder::{decide, descend, Goal};
use space::Space;

/// Nodes of branch and bound for each iteration that the parameters grant.
const NODES_PER_ITERATION: u64 = 4;

/// Stands for no limit, in bytes; above all sums of sizes.
const UNLIMITED: u64 = 1 << 62;

/// First fit in every greedy order, then branch and bound below the best of them.
pub(crate) struct Exact;

impl Solver for Exact {
    fn solve(&self, instance: &Instance, params: &Params) -> Result<Outcome, UsmpError> {
        let mut best: Option<Layout> = None;
        for order in Order::ALL {
            let layout = Layout::first_fit(instance, &order.sort(instance))?;
            if best.as_ref().is_none_or(|found| layout.cost() < found.cost()) {
                best = Some(layout);
            }
        }
        let Some(layout) = best else { unreachable!("there are greedy orders") };
        let found = improve(instance, params, layout);
        if found.stop_reason == StopReason::Complete || instance.movable().len() > MOST_ITEMS {
            return Ok(found);
        }
        let all = exhaust(instance, found.layout)?;
        Ok(Outcome { proved: found.proved, iterations: found.iterations + all.iterations, ..all })
    }
}

/// Branch and bound below `layout`, which must hold all items.
pub(crate) fn improve(instance: &Instance, params: &Params, layout: Layout) -> Outcome {
    let mut state = Descent {
        instance,
        seed: params.seed,
        nodes_left: u64::from(params.iterations) * NODES_PER_ITERATION,
        proved: (0..instance.pools.len()).map(|pool| instance.goal(pool)).collect(),
        nodes: 0,
    };
    let mut layout = layout;
    if !instance.proves_optimal(layout.cost(), &state.proved) && instance.may_be_searched() {
        if layout.cost().spill > 0 {
            layout = state.grant_preferences(layout);
        }
        layout = state.lower_peaks(layout);
    }
    let stop_reason = if instance.proves_optimal(layout.cost(), &state.proved) {
        StopReason::Complete
    } else if instance.may_be_searched() {
        StopReason::NodeLimit
    } else {
        StopReason::TooLarge
    };
    Outcome { layout, stop_reason, iterations: state.nodes, proved: state.proved, exhausted: false }
}

struct Descent<'a> {
    instance: &'a Instance<'a>,
    seed: u64,
    nodes_left: u64,
    /// No plan that grants all preferences peaks lower, in bytes, by pool.
    proved: SmallVec<[u64; 2]>,
    nodes: u64,
}

impl Descent<'_> {
    /// A plan with every item in its preferred pool and within all limits, if one is found; else `layout`.
    fn grant_preferences(&mut self, layout: Layout) -> Layout {
        let preferred = |item: &Item| {
            let Candidate { pool, alignment } = item.candidates[0];
            // What is never in use keeps this offset.
            let least = aligned(0, alignment, self.instance.pools[pool as usize].base_address);
            Slot { pool, offset: item.pinned.unwrap_or(least) }
        };
        let mut wanted: Vec<Slot> = self.instance.items.iter().map(preferred).collect();
        for (pool, spec) in (0u32..).zip(self.instance.pools) {
            let limit = spec.limit_bytes.unwrap_or(UNLIMITED);
            let Some(space) = self.space(pool, &wanted).filter(|space| space.bound() <= limit) else { return layout };
            let (offsets, nodes) = decide(&space, limit, self.nodes_left, self.seed);
            self.spend(nodes);
            let Some(offsets) = offsets else { return layout };
            put(&space, &offsets, &mut wanted);
        }
        match Layout::from_slots(self.instance, &wanted) {
            Ok(granted) if granted.cost() < layout.cost() => granted,
            _ => layout,
        }
    }

    /// The same pools, each filled as low as the nodes allow.
    fn lower_peaks(&mut self, layout: Layout) -> Layout {
        let mut slots: Vec<Slot> = (0..self.instance.items.len() as u32).map(|item| layout.slot(item)).collect();
        let granted = layout.cost().spill == 0;
        for pool in 0..self.instance.pools.len() {
            let below = layout.cost().peaks[pool];
            let bound = if granted { self.proved[pool] } else { 0 };
            self.fill(pool as u32, bound, below, &mut slots);
        }
        match Layout::from_slots(self.instance, &slots) {
            Ok(lower) if lower.cost() < layout.cost() => lower,
            _ => layout,
        }
    }

    /// Packs the items of `slots` that lie in `pool` anew, below `below` bytes, if that is found possible.
    fn fill(&mut self, pool: u32, bound: u64, below: u64, slots: &mut [Slot]) {
        let Some(space) = self.space(pool, slots) else { return };
        let bound = bound.max(space.bound());
        let found = descend(&space, &Goal { bound, below, nodes: self.nodes_left, seed: self.seed });
        self.spend(found.nodes);
        let mut items = self.instance.items.iter().zip(slots.iter());
        if items.all(|(item, slot)| (item.candidates[0].pool == pool) == (slot.pool == pool)) {
            let proved = &mut self.proved[pool as usize];
            *proved = (*proved).max(found.bound);
        }
        if let Some(offsets) = found.offsets {
            put(&space, &offsets, slots);
        }
    }

    /// The items of `slots` that lie in `pool`.
    fn space(&self, pool: u32, slots: &[Slot]) -> Option<Space> {
        let items: Vec<u32> = (0u32..).zip(slots).filter(|(_, slot)| slot.pool == pool).map(|(item, _)| item).collect();
        Space::new(self.instance, pool, &items)
    }

    fn spend(&mut self, nodes: u64) {
        self.nodes += nodes;
        self.nodes_left -= nodes.min(self.nodes_left);
    }
}

fn put(space: &Space, offsets: &[u64], slots: &mut [Slot]) {
    for (block, &offset) in space.blocks.iter().zip(offsets) {
        slots[block.item as usize].offset = offset;
    }
}
