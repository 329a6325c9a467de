//! Proposals: Plans that together run the whole network, on the front of (SRAM bytes, cycles).
//!
//! 1. `passes` enumerates Plans and combines them to sets that cover the network.
//! 2. `candidates` interleaves each set into a program and estimates it, for several limits of early copies.
//! 3. `floor` places the leanest candidates.
//! 4. `front` places candidates for a whole frontier, `within` for one size of the arena.
//! 5. `filling` issues copies into gaps that a placement left.
//!
//! What a Proposal promises is the size of the arena that the memory planner found for exactly its buffers, and the cycles
//! that the predicted stream takes. An answer depends on the network, the options and the goal alone.

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
mod passes;
mod stage;
mod stripe_directions;
mod within;

use std::sync::{Arc, Mutex, PoisonError};

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::plans::options::Options;
use crate::plans::pass::ArenaRange;
use crate::search::arena::{placer, Placer};
use crate::search::candidates::{CandidatePool, FoundProposal};
use crate::search::error::SearchError;
use crate::search::floor::Floor;
use crate::search::front::find_front;
use crate::search::passes::PlanSets;
use crate::search::stage::Stage;
use crate::search::within::fastest_within;
use crate::util::interrupt;

pub use arrange::arrange;
pub use baseline::{uncascaded, Baseline};
pub use context::Context;
pub use frontier::{Frontier, Stop};
#[cfg(test)]
pub use passes::estimated;

/// What is wanted of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The fastest Proposal, whatever it takes, the fastest within half of that, and an upper bound of the floor.
    Fastest,
    /// The fastest Proposal within so many bytes, and the floor; the floor alone where that takes more.
    Within(u64),
    /// The fastest Proposal of the fewest bytes.
    Floor,
    /// Every Pareto-efficient Proposal.
    Front,
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
    /// Of every pass.
    complete: Option<GoalSearch>,
    /// For arenas that hold the network without cascades several times.
    of_large_arenas: Option<GoalSearch>,
}

/// Candidates, and the leanest of them.
struct GoalSearch {
    candidates: CandidatePool,
    /// An upper bound of the floor, and the floor once a goal needs it.
    bound: Floor,
    floor: Option<Floor>,
}

/// An arena that holds the network without cascades this many times is large: cascades seldom gain there.
const LARGE: u64 = 3;

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

    /// Whether so many bytes are enough.
    ///
    /// # Errors
    /// As [`Search::run`].
    pub fn fits(&self, bytes: u64) -> Result<bool, SearchError> {
        Ok(self.run(Goal::Within(0))?.proposals[0].sram_bytes <= bytes)
    }

    /// [`Search::run`] with another memory planner.
    ///
    /// # Errors
    /// As [`Search::run`].
    pub fn run_placing(&self, goal: Goal, placer: &mut Placer) -> Result<Frontier, SearchError> {
        let lock = || self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out meanwhile: a question that is asked at the same time, or after one that was stopped, begins anew.
        let mut memo = std::mem::take(&mut *lock());
        let mut costs = std::mem::take(&mut memo.costs);
        let frontier = memo.answer(&mut Context::new(&self.graph, &self.options, &mut costs, placer), goal)?;
        *lock() = SearchMemo { costs, ..memo };
        Ok(frontier)
    }
}

impl SearchMemo {
    fn answer(&mut self, ctx: &mut Context, goal: Goal) -> Result<Frontier, SearchError> {
        let baseline = self.baseline(ctx)?;
        let is_large = match goal {
            Goal::Fastest => true,
            Goal::Within(bytes) => bytes / LARGE >= baseline.bytes,
            Goal::Floor | Goal::Front => false,
        };
        let is_large = is_large && ctx.has_one_pool();
        let search = if is_large { self.of_large_arenas(ctx, baseline)? } else { self.complete(ctx, baseline)? };
        let is_bound = match goal {
            Goal::Fastest => true,
            // Where passes are cheap, or few, so is the floor.
            Goal::Within(bytes) => !is_large && !search.candidates.were_cheap && search.bound.bytes() <= bytes,
            Goal::Floor | Goal::Front => false,
        };
        let floor = if is_bound { &search.bound } else { search.floor(ctx)? }.clone();
        let (found, is_cut) = search.find(ctx, &floor, goal)?;
        interrupt::reach(1, 1);
        let frontier = Frontier::new(found, is_cut, &search.candidates, baseline, ctx.placements);
        Ok(Frontier { floor_is_bound: is_large || is_bound, ..frontier })
    }

    fn baseline(&mut self, ctx: &mut Context) -> Result<Baseline, SearchError> {
        Ok(match self.baseline {
            Some(baseline) => baseline,
            None => *self.baseline.insert(Baseline::new(ctx)?),
        })
    }

    fn complete(&mut self, ctx: &mut Context, baseline: Baseline) -> Result<&mut GoalSearch, SearchError> {
        if self.complete.is_none() {
            let sets = PlanSets::complete(ctx, baseline.bytes);
            self.complete = Some(GoalSearch::new(ctx, sets)?);
        }
        Ok(self.complete.as_mut().expect("it was made just now"))
    }

    /// Plans below half of the baseline's bytes seldom win here.
    fn of_large_arenas(&mut self, ctx: &mut Context, baseline: Baseline) -> Result<&mut GoalSearch, SearchError> {
        if self.of_large_arenas.is_none() {
            let range = ArenaRange { least_bytes: baseline.bytes / 2, most_bytes: baseline.bytes };
            let sets = PlanSets::of_large_arenas(ctx, range);
            self.of_large_arenas = Some(GoalSearch::new(ctx, sets)?);
        }
        Ok(self.of_large_arenas.as_mut().expect("it was made just now"))
    }
}

impl GoalSearch {
    fn new(ctx: &mut Context, sets: PlanSets) -> Result<GoalSearch, SearchError> {
        let mut candidates = Stage::Estimate.run(|| CandidatePool::new(ctx, sets))?;
        let bound = Floor::bound(ctx, &mut candidates)?;
        Ok(GoalSearch { candidates, bound, floor: None })
    }

    fn floor(&mut self, ctx: &mut Context) -> Result<&Floor, SearchError> {
        if self.floor.is_none() {
            self.floor = Some(Stage::FindFloor.run(|| Floor::find(ctx, &mut self.candidates))?);
        }
        Ok(self.floor.as_ref().expect("it was found just now"))
    }

    /// What a goal wants, and whether the bounds of work left anything out.
    fn find(
        &mut self,
        ctx: &mut Context,
        floor: &Floor,
        goal: Goal,
    ) -> Result<(Vec<FoundProposal>, bool), SearchError> {
        let candidates = &mut self.candidates;
        if goal == Goal::Front {
            let (found, is_cut) = find_front(ctx, candidates, floor)?;
            return Ok((found, is_cut || floor.is_cut));
        }
        let mut found = vec![floor.placed[0].found(ctx)?];
        let mut find_within = |bytes| Stage::Place.run(|| fastest_within(ctx, candidates, floor, bytes));
        match goal {
            Goal::Floor => found.extend(find_within(floor.bytes())?),
            Goal::Within(bytes) => found.extend(find_within(bytes)?),
            Goal::Fastest | Goal::Front => {
                let fastest = find_within(u64::MAX)?;
                let half = fastest.as_ref().map(|fastest| fastest.proposal.sram_bytes / 2);
                found.extend(fastest);
                found.extend(half.map(find_within).transpose()?.flatten());
            }
        }
        Ok((found, floor.is_cut))
    }
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
