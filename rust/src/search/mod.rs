//! Proposals: Plans that together run the whole network, on the front of (SRAM bytes, cycles).
//!
//! 1. `passes` enumerates Plans and combines them to sets that cover the network.
//! 2. `candidates` interleaves each set into a program and estimates it, for several limits of early copies.
//! 3. `floor` places the candidates with the least live bytes.
//! 4. `front` places candidates for a whole frontier, `within` for one size of the arena.
//! 5. `filling` issues copies into gaps that a placement left.
//!
//! What a Proposal promises is the size of the arena that the memory planner found for exactly its buffers, and the cycles
//! that the predicted stream takes. An answer depends on the network, the options and the goal alone.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

pub mod arena;
mod arrange;
mod baseline;
mod candidates;
mod constant_residency;
mod context;
mod cross_group_prefetch;
mod effort;
pub mod error;
mod filling;
mod floor;
mod front;
mod frontier;
pub mod items;
mod passes;
mod stage;
mod stripe_directions;
mod within;

use std::sync::{Arc, Mutex, PoisonError};

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::plan::Proposal;
use crate::plans::options::Options;
use crate::plans::pass::ArenaRange;
use crate::plans::rolling_rows::RowTable;
use crate::search::arena::{placer, Placer};
use crate::search::candidates::CandidatePool;
use crate::search::error::SearchError;
use crate::search::floor::Floor;
use crate::search::front::find_front;
use crate::search::passes::PlanSets;
use crate::search::stage::Stage;
use crate::search::within::fastest_within;
use crate::util::interrupt;

pub use arrange::{arrange, decide_issue_order};
pub use baseline::{uncascaded, Baseline};
pub use context::Context;
pub use frontier::{Frontier, Stop};
#[cfg(test)]
pub use passes::estimated;

/// What is wanted of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The fastest Proposal within a number of bytes, and the floor or a bound of it. Where the floor is larger, the floor
    /// alone.
    Within(u64),
    /// As `Within`, and the fastest within half of the bytes of that.
    Fastest(u64),
    /// As `Within`, and the smallest Proposal at most 1 % slower: the answer. And the fastest within half of its bytes.
    NearlyFastest(u64),
    /// The fastest Proposal of the fewest bytes.
    Floor,
    /// Every Pareto-efficient Proposal.
    Front,
}

impl Goal {
    /// No bound of bytes.
    pub const ANY_BYTES: u64 = u64::MAX;

    /// The bytes within which something fast is wanted, if it is.
    fn arena_bytes(self) -> Option<u64> {
        match self {
            Goal::Within(bytes) | Goal::Fastest(bytes) | Goal::NearlyFastest(bytes) => Some(bytes),
            Goal::Floor | Goal::Front => None,
        }
    }

    /// Whether passes for large arenas are enough.
    fn is_large(self, ctx: &Context, baseline: Baseline) -> bool {
        self.arena_bytes().is_some_and(|bytes| bytes / LARGE >= baseline.bytes) && ctx.has_one_pool()
    }
}

/// A network, and what all questions about it share.
pub struct Search {
    graph: Arc<CascaderGraph>,
    options: Options,
    memo: Mutex<SearchMemo>,
}

/// Results of functions of the network and the options. Nothing in it depends on what was asked.
#[derive(Default)]
struct SearchMemo {
    costs: Costs,
    baseline: Option<Baseline>,
    /// The front of the pass for the fewest bytes.
    coarse_front: Option<Vec<(u64, u64)>>,
    /// What else that pass found, until the others have been run.
    fewest_bytes: Option<(PlanSets, RowTable)>,
    /// Of every pass.
    complete: Option<GoalSearch>,
    /// For arenas that hold the network without cascades several times.
    of_large_arenas: Option<GoalSearch>,
}

/// Candidates, and the one with the least SRAM.
struct GoalSearch {
    candidates: CandidatePool,
    /// An upper bound of the floor, and the floor once a goal needs it.
    bound: Floor,
    floor: Option<Floor>,
}

/// An arena that holds the network without cascades this many times is large: cascades seldom gain there.
const LARGE: u64 = 3;

/// A Proposal is nearly as fast as another if it takes at most this part more cycles: 1 %.
const NEARLY: u64 = 100;

impl Search {
    /// Nothing is searched yet.
    pub fn new(graph: Arc<CascaderGraph>, options: Options) -> Search {
        Search { graph, options, memo: Mutex::default() }
    }

    /// Search for a goal. Never returns an empty frontier.
    ///
    /// # Errors
    /// Where a Part fits no block unstriped, or a program has no place.
    pub fn run(&self, goal: Goal) -> Result<Frontier, SearchError> {
        self.run_placing(goal, &mut placer(&self.graph))
    }

    /// Whether `bytes` are enough. Places no more than the floor, or its bound.
    ///
    /// # Errors
    /// As [`Search::run`].
    pub fn fits(&self, bytes: u64) -> Result<bool, SearchError> {
        self.with_memo(&mut placer(&self.graph), |memo, ctx| {
            let (_, floor) = memo.begin(ctx, Goal::Within(bytes))?;
            Ok(floor.bytes() <= bytes)
        })
    }

    /// The pass for the fewest bytes alone, as (bytes, cycles) before anything is placed; empty where fronts are exact.
    ///
    /// # Errors
    /// As [`Search::run`].
    pub fn coarse_front(&self) -> Result<Vec<(u64, u64)>, SearchError> {
        self.with_memo(&mut placer(&self.graph), SearchMemo::coarse_front)
    }

    /// [`Search::run`] with another memory planner.
    ///
    /// # Errors
    /// As [`Search::run`].
    pub fn run_placing(&self, goal: Goal, placer: &mut Placer) -> Result<Frontier, SearchError> {
        self.with_memo(placer, |memo, ctx| memo.answer(ctx, goal))
    }

    fn with_memo<T>(
        &self,
        placer: &mut Placer,
        work: impl FnOnce(&mut SearchMemo, &mut Context) -> Result<T, SearchError>,
    ) -> Result<T, SearchError> {
        let lock = || self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out meanwhile: a question that is asked at the same time, or after one that was stopped, begins again.
        let mut memo = std::mem::take(&mut *lock());
        let mut costs = std::mem::take(&mut memo.costs);
        let answer = work(&mut memo, &mut Context::new(&self.graph, &self.options, &mut costs, placer))?;
        *lock() = SearchMemo { costs, ..memo };
        Ok(answer)
    }
}

impl SearchMemo {
    fn answer(&mut self, ctx: &mut Context, goal: Goal) -> Result<Frontier, SearchError> {
        let baseline = self.baseline(ctx)?;
        let (mut search, mut floor) = self.begin(ctx, goal)?;
        let (mut found, is_cut) = search.find(ctx, &floor, goal)?;
        if let (Goal::NearlyFastest(_), Some(fastest)) = (goal, found.last().cloned()) {
            let most_cycles = fastest.cycles + fastest.cycles / NEARLY;
            let mut smallest = search.shrink(ctx, &floor, fastest, most_cycles)?;
            // Where the smallest takes less than the network without cascades, these gain: all passes follow.
            if goal.is_large(ctx, baseline) && smallest.sram_bytes() < baseline.bytes {
                search = self.complete(ctx, baseline)?;
                floor = search.bound.clone();
                smallest = search.shrink(ctx, &floor, smallest, most_cycles)?;
            }
            found.extend(search.within(ctx, &floor, smallest.sram_bytes() / 2)?);
            found.extend([smallest, floor.placed[0].proposal.clone()]);
        }
        interrupt::reach(1, 1);
        let frontier = Frontier::new(found, is_cut, &search.candidates, baseline, ctx.placements);
        Ok(Frontier { floor_is_bound: floor.is_bound, ..frontier })
    }

    /// The candidates for a goal, and the floor or, where that is enough, an upper bound of it.
    fn begin(&mut self, ctx: &mut Context, goal: Goal) -> Result<(&mut GoalSearch, Floor), SearchError> {
        let baseline = self.baseline(ctx)?;
        let is_large = goal.is_large(ctx, baseline);
        let search = if is_large { self.of_large_arenas(ctx, baseline)? } else { self.complete(ctx, baseline)? };
        // Where passes are cheap, or few, so is the floor.
        let is_cheap = is_large || search.candidates.is_cheap;
        let needs_no_floor = goal
            .arena_bytes()
            .is_some_and(|bytes| bytes == Goal::ANY_BYTES || !is_cheap && search.bound.bytes() <= bytes);
        let floor = if needs_no_floor { &search.bound } else { search.floor(ctx)? }.clone();
        // Some passes were left out for large arenas.
        let floor = Floor { is_bound: floor.is_bound || is_large, ..floor };
        Ok((search, floor))
    }

    fn baseline(&mut self, ctx: &mut Context) -> Result<Baseline, SearchError> {
        get_or_try_init(&mut self.baseline, || Baseline::new(ctx)).copied()
    }

    fn coarse_front(&mut self, ctx: &mut Context) -> Result<Vec<(u64, u64)>, SearchError> {
        let baseline = self.baseline(ctx)?;
        let front = self.coarse_front.get_or_insert_with(|| {
            let mut rows = RowTable::default();
            let fewest = PlanSets::of_fewest_bytes(ctx, baseline.bytes, &mut rows);
            let front = fewest.front.clone();
            self.fewest_bytes = Some((fewest, rows));
            front
        });
        Ok(front.clone())
    }

    fn complete(&mut self, ctx: &mut Context, baseline: Baseline) -> Result<&mut GoalSearch, SearchError> {
        get_or_try_init(&mut self.complete, || {
            let sets = PlanSets::complete(ctx, baseline.bytes, self.fewest_bytes.take());
            self.coarse_front = Some(sets.front.clone());
            GoalSearch::new(ctx, sets)
        })
    }

    /// Plans below half of the baseline's bytes seldom win here.
    fn of_large_arenas(&mut self, ctx: &mut Context, baseline: Baseline) -> Result<&mut GoalSearch, SearchError> {
        get_or_try_init(&mut self.of_large_arenas, || {
            let range = ArenaRange { least_bytes: baseline.bytes / 2, most_bytes: baseline.bytes };
            let sets = PlanSets::of_large_arenas(ctx, range);
            GoalSearch::new(ctx, sets)
        })
    }
}

impl GoalSearch {
    fn new(ctx: &mut Context, sets: PlanSets) -> Result<GoalSearch, SearchError> {
        let mut candidates = Stage::Estimate.run(|| CandidatePool::new(ctx, sets))?;
        let bound = Floor::bound(ctx, &mut candidates)?;
        Ok(GoalSearch { candidates, bound, floor: None })
    }

    fn floor(&mut self, ctx: &mut Context) -> Result<&Floor, SearchError> {
        let candidates = &mut self.candidates;
        let floor = get_or_try_init(&mut self.floor, || Stage::FindFloor.run(|| Floor::find(ctx, candidates)))?;
        Ok(floor)
    }

    /// What a goal wants, and whether the bounds of work left anything out.
    fn find(&mut self, ctx: &mut Context, floor: &Floor, goal: Goal) -> Result<(Vec<Proposal>, bool), SearchError> {
        let mut found = vec![floor.placed[0].proposal.clone()];
        let mut is_cut = floor.is_cut;
        match goal {
            Goal::Floor => found.extend(self.within(ctx, floor, floor.bytes())?),
            Goal::Within(bytes) | Goal::NearlyFastest(bytes) => found.extend(self.within(ctx, floor, bytes)?),
            Goal::Fastest(bytes) => {
                let fastest = self.within(ctx, floor, bytes)?;
                let half = fastest.as_ref().map(|fastest| fastest.sram_bytes() / 2);
                found.extend(fastest);
                found.extend(half.map(|bytes| self.within(ctx, floor, bytes)).transpose()?.flatten());
            }
            Goal::Front => {
                let (front, is_front_cut) = find_front(ctx, &mut self.candidates, floor)?;
                is_cut |= is_front_cut;
                found.extend(front);
                // Where an operator on the CPU sets the floor, many candidates take just that.
                found.extend(self.within(ctx, floor, floor.bytes())?);
            }
        }
        Ok((found, is_cut))
    }

    fn within(&mut self, ctx: &mut Context, floor: &Floor, bytes: u64) -> Result<Option<Proposal>, SearchError> {
        Stage::Place.run(|| fastest_within(ctx, &mut self.candidates, floor, bytes))
    }

    /// The fastest within ever fewer bytes than `found` takes, as long as that takes no more than `most_cycles`.
    fn shrink(
        &mut self,
        ctx: &mut Context,
        floor: &Floor,
        found: Proposal,
        most_cycles: u64,
    ) -> Result<Proposal, SearchError> {
        let mut smallest = found;
        loop {
            let bytes = smallest.sram_bytes();
            match self.within(ctx, floor, bytes - bytes / ctx.options.placing.fragmentation)? {
                Some(less) if less.cycles <= most_cycles && less.sram_bytes() < bytes => smallest = less,
                _ => return Ok(smallest),
            }
        }
    }
}

/// What a slot holds, made now if it is empty.
fn get_or_try_init<T, E>(slot: &mut Option<T>, make: impl FnOnce() -> Result<T, E>) -> Result<&mut T, E> {
    let value = match slot.take() {
        Some(value) => value,
        None => make()?,
    };
    Ok(slot.insert(value))
}

/// Every Pareto-efficient Proposal of a graph.
#[cfg(test)]
pub fn search(graph: &CascaderGraph, options: &Options) -> Result<Frontier, SearchError> {
    Search::new(Arc::new(graph.clone()), options.clone()).run(Goal::Front)
}

/// [`search`] with another memory planner.
#[cfg(test)]
pub fn search_placing(graph: &CascaderGraph, options: &Options, placer: &mut Placer) -> Result<Frontier, SearchError> {
    Search::new(Arc::new(graph.clone()), options.clone()).run_placing(Goal::Front, placer)
}

#[cfg(test)]
mod tests;
