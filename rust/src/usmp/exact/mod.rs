//! Exact planning: the least capacity of each pool, by branch and bound.
//!
//! Owns the split of a plan into pools and the proof from their answers. `packing` holds the question about a pool and its
//! answer. `space` is one pool's problem and `partial` a partial packing of it. `search` decides one capacity, `tactic` has
//! its branching rules, `ladder` chooses the capacities. `disjunctions`, `disjunctive_search` and `disjunctive_ladder` do
//! the same for small problems whose buffers' live parts change or may share bytes. `pool_assignment` enumerates the pools
//! of a handful of buffers. `unique_stack` serves the search.

mod disjunctions;
mod disjunctive_ladder;
mod disjunctive_search;
mod ladder;
mod packing;
mod partial;
mod pool_assignment;
mod search;
mod space;
mod tactic;
mod unique_stack;

use smallvec::SmallVec;

use super::arrangement::Arrangement;
use super::instance::Instance;
use super::item::Item;
use super::limits::{NODES_PER_ITERATION, WORK_PER_ITERATION};
use super::model::Slot;
use super::params::{Params, StopReason};
use super::solver::{Outcome, Solver, Task};
use disjunctions::Disjunctions;
use ladder::MIN_RUN_NODES;
use packing::{in_pool, put, Goal, LadderAnswer, Packing};
use pool_assignment::{assign_pools, MAX_ITEMS};
use space::Space;

/// Limit of an unlimited pool, in bytes: above all sums of sizes, and low enough for sums of differences.
const UNLIMITED: u64 = 1 << 61;

/// First fit in every greedy order, then branch and bound below the best of them.
pub(crate) struct Exact;

impl Solver for Exact {
    fn solve(&self, task: &Task) -> Outcome {
        let (instance, initial) = (task.instance, task.initial_plans());
        let mut found = improve(instance, task.params, initial.best(instance));
        found.iterations += initial.passes;
        if found.stop_reason == StopReason::Complete || instance.movable().len() > MAX_ITEMS {
            return found;
        }
        let all = assign_pools(instance, found.arrangement);
        Outcome { proved: found.proved, iterations: found.iterations + all.iterations, ..all }
    }
}

/// Branch and bound below `arrangement`, which must hold all items.
pub(crate) fn improve(instance: &Instance, params: &Params, arrangement: Arrangement) -> Outcome {
    let mut state = Descent {
        instance,
        seed: params.seed,
        threads: params.threads,
        nodes_left: u64::from(params.iterations) * NODES_PER_ITERATION,
        work_left: u64::from(params.iterations) * WORK_PER_ITERATION,
        proved: (0..instance.pools.len()).map(|pool| instance.goal(pool)).collect(),
        nodes: 0,
    };
    let mut arrangement = arrangement;
    if !instance.proves_optimal(arrangement.cost(), &state.proved) && instance.may_be_searched() {
        if arrangement.cost().spill > 0 {
            arrangement = state.use_preferred_pools(arrangement);
        }
        arrangement = state.lower_peaks(arrangement);
    }
    let stop_reason = if instance.proves_optimal(arrangement.cost(), &state.proved) {
        StopReason::Complete
    } else if state.nodes > 0 || state.nodes_left == 0 {
        StopReason::NodeLimit
    } else {
        StopReason::TooLarge
    };
    Outcome { arrangement, stop_reason, iterations: state.nodes, proved: state.proved, exhausted: false }
}

struct Descent<'a> {
    instance: &'a Instance<'a>,
    seed: u64,
    threads: u32,
    nodes_left: u64,
    work_left: u64,
    /// Lower bounds of the peaks with all buffers in their preferred pools, in bytes, by pool.
    proved: SmallVec<[u64; 2]>,
    nodes: u64,
}

impl Descent<'_> {
    /// A plan with every item in its preferred pool and within all limits, if one is found; else `arrangement`.
    fn use_preferred_pools(&mut self, arrangement: Arrangement) -> Arrangement {
        let mut wanted = self.instance.preferred();
        for (pool, spec) in (0u32..).zip(self.instance.pools) {
            let limit = spec.limit_bytes.unwrap_or(UNLIMITED).min(UNLIMITED);
            let (packing, spent) = self.pack(pool, limit, &wanted);
            self.spend(spent);
            let Some(packing) = packing else { return arrangement };
            put(&packing, &mut wanted);
        }
        let granted = Arrangement::from_slots(self.instance, &wanted);
        if granted.cost() < arrangement.cost() {
            self.instance.report(granted.cost());
            granted
        } else {
            arrangement
        }
    }

    /// The same pools, each packed as low as the nodes allow.
    fn lower_peaks(&mut self, arrangement: Arrangement) -> Arrangement {
        let mut slots: Vec<Slot> = (0..self.instance.items.len() as u32).map(|item| arrangement.slot(item)).collect();
        let granted = arrangement.cost().spill == 0;
        for pool in 0..self.instance.pools.len() {
            let below = arrangement.cost().peaks[pool];
            let bound = if granted { self.proved[pool] } else { 0 };
            let gap = self.instance.gap_of(arrangement.cost()).filter(|_| pool == 0);
            let (nodes, work, seed, threads) = (self.nodes_left, self.work_left, self.seed, self.threads);
            self.fill(pool as u32, Goal { bound, below, nodes, work, seed, threads, gap }, &mut slots);
        }
        let lower = Arrangement::from_slots(self.instance, &slots);
        if lower.cost() < arrangement.cost() {
            lower
        } else {
            arrangement
        }
    }

    /// A packing of the items of `slots` in `pool` within `limit` bytes, if found, and the nodes and looks spent.
    fn pack(&self, pool: u32, limit: u64, slots: &[Slot]) -> (Option<Packing>, (u64, u64)) {
        if let Some(disjunctions) = self.disjunctions(pool, slots) {
            let (offsets, nodes) = disjunctive_ladder::decide(&disjunctions, limit, self.nodes_left);
            return (offsets.map(|offsets| disjunctions.items().zip(offsets).collect()), (nodes, 0));
        }
        let Some(space) = self.space(pool, slots).filter(|space| space.bound() <= limit) else { return (None, (0, 0)) };
        let (offsets, spent) = ladder::decide(&space, limit, (self.nodes_left, self.work_left), self.seed);
        (offsets.map(|offsets| space.items().zip(offsets).collect()), spent)
    }

    /// Packs the items of `slots` in `pool` again, where a packing is found for `goal`.
    fn fill(&mut self, pool: u32, mut goal: Goal, slots: &mut [Slot]) {
        let mut packing: Option<Packing> = None;
        if let Some(disjunctions) = self.disjunctions(pool, slots) {
            // Each of the two searches is good at different problems and gets half, where there is enough for both.
            goal.nodes = if self.nodes_left > 2 * MIN_RUN_NODES { self.nodes_left / 2 } else { self.nodes_left };
            let found = disjunctive_ladder::descend(&disjunctions, &goal);
            packing = self.learn(&mut goal, found, disjunctions.items());
        }
        if goal.bound < goal.below && goal.nodes > 0 {
            if let Some(space) = self.space(pool, slots) {
                goal.bound = goal.bound.max(space.bound());
                let found = ladder::descend(&space, &goal);
                packing = self.learn(&mut goal, found, space.items()).or(packing);
            }
        }
        let granted = |(item, slot): (&Item, &Slot)| (item.candidates[0].pool == pool) == (slot.pool == pool);
        if self.instance.items.iter().zip(slots.iter()).all(granted) {
            let proved = &mut self.proved[pool as usize];
            *proved = (*proved).max(goal.bound);
        }
        if let Some(packing) = packing {
            put(&packing, slots);
        }
    }

    /// Takes over a search's bound and packing, and sets the goal of the next search.
    fn learn(&mut self, goal: &mut Goal, found: LadderAnswer, items: impl Iterator<Item = u32>) -> Option<Packing> {
        self.spend((found.nodes, found.work));
        goal.bound = goal.bound.max(found.bound);
        goal.report(goal.below, goal.bound);
        goal.nodes = if self.nodes_left < MIN_RUN_NODES { 0 } else { self.nodes_left };
        let packing: Packing = items.zip(found.offsets?).collect();
        let end = |&(item, offset): &(u32, u64)| offset + self.instance.items[item as usize].size_bytes;
        goal.below = packing.iter().map(end).max().unwrap_or(0);
        Some(packing)
    }

    /// The items of `slots` in `pool` as disjunctions, where live parts change or bytes may be shared.
    fn disjunctions(&self, pool: u32, slots: &[Slot]) -> Option<Disjunctions> {
        let items = in_pool(pool, slots);
        let all = items.iter().map(|&item| &self.instance.items[item as usize]);
        let simple = all.clone().all(|item| item.is_solid() && item.shares.is_empty());
        let pairs = self.instance.pairs().filter(|_| !simple)?;
        Some(Disjunctions::new(self.instance, pairs, pool, &items))
    }

    /// The items of `slots` in `pool` as sections of time, unless they are too many or share bytes.
    fn space(&self, pool: u32, slots: &[Slot]) -> Option<Space> {
        let items = in_pool(pool, slots);
        let alone = items.iter().all(|&item| self.instance.items[item as usize].shares.is_empty());
        alone.then(|| Space::new(self.instance, pool, &items))?
    }

    fn spend(&mut self, (nodes, work): (u64, u64)) {
        self.nodes += nodes;
        self.nodes_left -= nodes.min(self.nodes_left);
        self.work_left -= work.min(self.work_left);
    }
}
