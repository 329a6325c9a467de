//! Exact planning: for each pool the least capacity that its items fit, by branch and bound.
//!
//! Owns the split of a plan into pools and what the answers prove together. `packing` is what is asked about a pool and
//! answered. `space` is one pool's problem, `partial` a packing of it that is not finished, `search` decides it for one
//! capacity, `tactic` says how it branches, `ladder` which capacities are decided. `meetings`, `decisions` and `above` are
//! the same for small problems whose buffers' live parts change or may share bytes; `sharing_out` is for a handful of
//! buffers that may lie in several pools. `marked` is what is still to be looked at.

mod above;
mod decisions;
mod ladder;
mod marked;
mod meetings;
mod packing;
mod partial;
mod search;
mod sharing_out;
mod space;
mod tactic;

use smallvec::SmallVec;

use super::arrangement::Arrangement;
use super::instance::Instance;
use super::item::Item;
use super::model::{Params, Slot, StopReason};
use super::solver::{Outcome, Solver, Task};
use meetings::Meetings;
use packing::{in_pool, put, Goal, LadderAnswer, Packing};
use sharing_out::{share_out, MOST_ITEMS};
use space::Space;

/// Nodes of branch and bound for each iteration that the parameters grant.
const NODES_PER_ITERATION: u64 = 4;

/// Looks at blocks and cells for each iteration: what dense problems take for many nodes.
const WORK_PER_ITERATION: u64 = 14_000;

/// Spaces of so few blocks get so many times the nodes: there a search that ends is a matter of moments.
const FEW_BLOCKS: usize = 24;
const MORE_OF_FEW: u64 = 4;

/// Fewer nodes than these are not worth another search.
const ENOUGH: u64 = 2_000;

/// Stands for no limit, in bytes: above all sums of sizes, and so far below 2^63 that differences of offsets add up.
const UNLIMITED: u64 = 1 << 61;

/// First fit in every greedy order, then branch and bound below the best of them.
pub(crate) struct Exact;

impl Solver for Exact {
    fn solve(&self, task: &Task) -> Outcome {
        let (instance, opening) = (task.instance, task.opening());
        let mut found = improve(instance, task.params, opening.best(instance));
        found.iterations += opening.turns;
        if found.stop_reason == StopReason::Complete || instance.movable().len() > MOST_ITEMS {
            return found;
        }
        let all = share_out(instance, found.arrangement);
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
            arrangement = state.grant_preferences(arrangement);
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
    /// No plan that grants all preferences peaks lower, in bytes, by pool.
    proved: SmallVec<[u64; 2]>,
    nodes: u64,
}

impl Descent<'_> {
    /// A plan with every item in its preferred pool and within all limits, if one is found; else `arrangement`.
    fn grant_preferences(&mut self, arrangement: Arrangement) -> Arrangement {
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
            granted
        } else {
            arrangement
        }
    }

    /// The same pools, each filled as low as the nodes allow.
    fn lower_peaks(&mut self, arrangement: Arrangement) -> Arrangement {
        let mut slots: Vec<Slot> = (0..self.instance.items.len() as u32).map(|item| arrangement.slot(item)).collect();
        let granted = arrangement.cost().spill == 0;
        for pool in 0..self.instance.pools.len() {
            let below = arrangement.cost().peaks[pool];
            let bound = if granted { self.proved[pool] } else { 0 };
            self.fill(pool as u32, bound, below, &mut slots);
        }
        let lower = Arrangement::from_slots(self.instance, &slots);
        if lower.cost() < arrangement.cost() {
            lower
        } else {
            arrangement
        }
    }

    /// Where the items of `slots` in `pool` lie within `limit` bytes, if a way is found, and the nodes and looks that took.
    fn pack(&self, pool: u32, limit: u64, slots: &[Slot]) -> (Option<Packing>, (u64, u64)) {
        if let Some(meetings) = self.meetings(pool, slots) {
            let (offsets, nodes) = above::decide(&meetings, limit, self.nodes_left);
            return (offsets.map(|offsets| meetings.items().zip(offsets).collect()), (nodes, 0));
        }
        let Some(space) = self.space(pool, slots).filter(|space| space.bound() <= limit) else { return (None, (0, 0)) };
        let (offsets, spent) = ladder::decide(&space, limit, (self.nodes_left, self.work_left), self.seed);
        (offsets.map(|offsets| space.items().zip(offsets).collect()), spent)
    }

    /// Packs the items of `slots` that lie in `pool` anew, below `below` bytes, if that is found possible.
    fn fill(&mut self, pool: u32, bound: u64, below: u64, slots: &mut [Slot]) {
        let (nodes, work) = (self.nodes_left, self.work_left);
        let mut goal = Goal { bound, below, nodes, work, seed: self.seed, threads: self.threads };
        let mut packing: Option<Packing> = None;
        if let Some(meetings) = self.meetings(pool, slots) {
            // Half for each of two searches that are good at different problems, where there is enough for both.
            goal.nodes = if self.nodes_left > 2 * ENOUGH { self.nodes_left / 2 } else { self.nodes_left };
            let found = above::descend(&meetings, &goal);
            packing = self.learn(&mut goal, found, meetings.items());
        }
        if goal.bound < goal.below && goal.nodes > 0 {
            if let Some(space) = self.space(pool, slots) {
                goal.bound = goal.bound.max(space.bound());
                if space.blocks.len() <= FEW_BLOCKS {
                    goal.nodes = goal.nodes.saturating_mul(MORE_OF_FEW);
                }
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

    /// Takes over what a search found: the goal of the next one, and the packing.
    fn learn(&mut self, goal: &mut Goal, found: LadderAnswer, items: impl Iterator<Item = u32>) -> Option<Packing> {
        self.spend((found.nodes, found.work));
        goal.bound = goal.bound.max(found.bound);
        goal.nodes = if self.nodes_left < ENOUGH { 0 } else { self.nodes_left };
        let packing: Packing = items.zip(found.offsets?).collect();
        let end = |&(item, offset): &(u32, u64)| offset + self.instance.items[item as usize].size_bytes;
        goal.below = packing.iter().map(end).max().unwrap_or(0);
        Some(packing)
    }

    /// The items of `slots` that lie in `pool`, as pairs, where that is the better view of them.
    fn meetings(&self, pool: u32, slots: &[Slot]) -> Option<Meetings> {
        let items = in_pool(pool, slots);
        let all = items.iter().map(|&item| &self.instance.items[item as usize]);
        let simple = all.clone().all(|item| item.is_solid() && item.shares.is_empty());
        let pairs = self.instance.pairs().filter(|_| !simple)?;
        Some(Meetings::new(self.instance, pairs, pool, &items))
    }

    /// The items of `slots` that lie in `pool`, in sections of time, unless they are too many or share bytes.
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
