//! Candidates: sets of Plans with estimates of their programs, and what is placed of them.
//!
//! Owns the estimates, and the placements without early copies, which all questions share. `floor`, `front` and `within`
//! decide which candidates are placed.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

use std::sync::Arc;

use crate::model::plan::{Plan, Proposal};
use crate::model::program::{IssueOrder, Program};
use crate::plans::trivial_parts::TrivialParts;
use crate::schedule::estimate::total_cycles;
use crate::schedule::prefetch::{estimates, prefetch, ProgramEstimate};
use crate::search::constant_residency::improve_residency;
use crate::search::context::Context;
use crate::search::error::SearchError;
use crate::search::passes::{PlanSet, PlanSets};
use crate::search::stripe_directions::{alternate, Direction};
use crate::util::hashing::Table;
use crate::util::interrupt;
use crate::util::pareto::{thin, Epsilon, Point};

/// Plans of the whole network, and estimates of their program.
#[derive(Debug)]
pub struct Candidate {
    /// They cover the Parts in order.
    pub plans: Vec<Plan>,
    /// One for each limit of early copies, ascending in limits; the first has none.
    pub estimates: Vec<ProgramEstimate>,
    /// Steps of its program.
    pub steps: usize,
}

impl Candidate {
    fn new(ctx: &mut Context, set: PlanSet) -> Result<Candidate, SearchError> {
        interrupt::ask();
        let program = ctx.program(&set.plans)?;
        let estimates = estimates(&program, &set.limits, ctx.options.limit_halvings);
        Ok(Candidate { plans: set.plans, estimates, steps: program.steps.len() })
    }

    /// Peak live bytes without early copies: a lower bound of every placement.
    pub fn live_bytes(&self) -> u64 {
        self.estimates[0].peak_bytes
    }

    /// Bytes up to which an arena is hardly larger than its live bytes.
    pub fn tight_bytes(&self, ctx: &Context) -> u64 {
        self.live_bytes() + self.live_bytes() / ctx.options.placing.fragmentation
    }

    /// Whether its stripes can run in alternating directions.
    pub fn alternates(&self, ctx: &Context) -> bool {
        alternate(ctx.graph, &self.plans) != self.plans
    }

    /// Place it without early copies.
    ///
    /// # Errors
    /// Those of placing programs.
    pub fn place(&self, ctx: &mut Context, direction: Direction, moves: u32) -> Result<PlacedCandidate, SearchError> {
        let plans = match direction {
            Direction::Forwards => self.plans.clone(),
            Direction::Alternating => alternate(ctx.graph, &self.plans),
        };
        let program = ctx.program(&plans)?;
        PlacedCandidate::new(ctx, plans, &program, None, moves)
    }

    /// A lower bound of the estimated cycles within `bytes`, under any limit: more room makes none slower.
    pub fn least_cycles(&self, bytes: u64) -> u64 {
        let within = self.estimates.partition_point(|estimate| estimate.peak_bytes <= bytes);
        self.estimates[within.min(self.estimates.len() - 1)].cycles
    }
}

/// A candidate placed in one direction, under one limit of early copies.
#[derive(Clone, Debug)]
pub struct PlacedCandidate {
    /// Decisions, bytes and cycles.
    pub proposal: Proposal,
    /// Estimated cycles of its program.
    pub estimate: u64,
}

impl PlacedCandidate {
    /// Place a program of `plans` whose copies are issued in `issue_order`.
    ///
    /// # Errors
    /// Those of the memory planner.
    pub fn new(
        ctx: &mut Context,
        plans: Vec<Plan>,
        program: &Program,
        issue_order: Option<IssueOrder>,
        moves: u32,
    ) -> Result<PlacedCandidate, SearchError> {
        interrupt::ask();
        let placement = ctx.place(program, moves)?;
        let cycles = ctx.costs.program(ctx.graph, program, &placement);
        let proposal = Proposal { plans, issue_order, placement, cycles };
        Ok(PlacedCandidate { proposal, estimate: total_cycles(program) })
    }

    /// The larger of cycles and estimate: a candidate of no fewer estimated cycles is no faster.
    pub fn safe_cycles(&self) -> u64 {
        self.proposal.cycles.max(self.estimate)
    }

    /// Its program with every copy right before its first use.
    ///
    /// # Errors
    /// Those of interleaving the Plans.
    pub fn late_program(&self, ctx: &mut Context) -> Result<Arc<Program>, SearchError> {
        Ok(ctx.program(&self.proposal.plans)?)
    }
}

/// All candidates of some passes, and what all questions about them share.
#[derive(Debug)]
pub struct CandidatePool {
    /// Each once, in the order of the passes.
    pub all: Vec<Candidate>,
    /// Cycles that every candidate takes, whatever was decided.
    pub common_cycles: u64,
    /// As of `PlanSets`.
    pub plans_considered: u64,
    /// As of `PlanSets`.
    pub proposals_considered: u64,
    /// As of `PlanSets`.
    pub resolution: u64,
    /// As of `PlanSets`.
    pub crowded: Option<Epsilon>,
    /// As of `PlanSets`.
    pub is_cheap: bool,
    /// Candidates placed without early copies, by number and direction.
    placed: Table<(usize, Direction), Arc<PlacedCandidate>>,
}

impl CandidatePool {
    /// Estimate the program of every set of Plans.
    ///
    /// # Errors
    /// Those of interleaving the Plans.
    pub fn new(ctx: &mut Context, sets: PlanSets) -> Result<CandidatePool, SearchError> {
        let PlanSets { plans_considered, proposals_considered, resolution, crowded, is_cheap, .. } = sets;
        let mut all = sets.all.into_iter().map(|set| Candidate::new(ctx, set)).collect::<Result<Vec<_>, _>>()?;
        if let Some(fastest) = all.iter().min_by_key(|candidate| candidate.estimates.iter().map(|e| e.cycles).min()) {
            let plans = improve_residency(ctx, &fastest.plans)?;
            if all.iter().all(|candidate| candidate.plans != plans) {
                all.push(Candidate::new(ctx, PlanSet { plans, limits: Vec::new() })?);
            }
        }
        Ok(CandidatePool {
            all,
            common_cycles: TrivialParts::new(ctx.graph).cycles(ctx.graph, ctx.costs),
            plans_considered,
            proposals_considered,
            resolution,
            crowded,
            is_cheap,
            placed: Table::default(),
        })
    }

    /// Thin a front of candidates to twice the resolution of the finest pass.
    pub fn thin<T: Point>(&self, front: &mut Vec<T>) {
        thin(front, 2 * self.resolution);
    }

    /// Bytes beyond which more cannot help: the largest peak of any estimate, and as much again for fragmentation.
    pub fn most_bytes(&self) -> u64 {
        let most = self.all.iter().flat_map(|candidate| &candidate.estimates).map(|estimate| estimate.peak_bytes).max();
        2 * most.unwrap_or(0)
    }

    /// Place a candidate without early copies, once. The alternating direction is tried where the other is fragmented.
    ///
    /// # Errors
    /// Those of placing programs.
    pub fn place(&mut self, ctx: &mut Context, number: usize) -> Result<Vec<Arc<PlacedCandidate>>, SearchError> {
        let forwards = self.place_in(ctx, number, Direction::Forwards)?;
        let is_tight = forwards.proposal.sram_bytes() <= self.all[number].tight_bytes(ctx);
        Ok(match is_tight || !self.all[number].alternates(ctx) {
            true => vec![forwards],
            false => vec![forwards, self.place_in(ctx, number, Direction::Alternating)?],
        })
    }

    /// Place a candidate without early copies in one direction, once.
    ///
    /// # Errors
    /// Those of placing programs.
    pub fn place_in(
        &mut self,
        ctx: &mut Context,
        number: usize,
        direction: Direction,
    ) -> Result<Arc<PlacedCandidate>, SearchError> {
        if let Some(known) = self.placed.get(&(number, direction)) {
            return Ok(Arc::clone(known));
        }
        let moves = ctx.options.placing.moves;
        let placed = Arc::new(self.all[number].place(ctx, direction, moves)?);
        self.placed.insert((number, direction), Arc::clone(&placed));
        Ok(placed)
    }
}

/// Place a candidate with early copies up to a limit, stripes in alternating directions.
///
/// Early copies need large gaps, which a chain of outputs that moves through the arena seldom leaves.
///
/// # Errors
/// Those of placing programs.
pub fn place_early(ctx: &mut Context, plans: &[Plan], limit_bytes: u64) -> Result<PlacedCandidate, SearchError> {
    let plans = alternate(ctx.graph, plans);
    let mut program = Program::clone(&*ctx.program(&plans)?);
    let issue_order = prefetch(ctx.graph, &mut program, limit_bytes);
    let moves = ctx.options.placing.moves;
    PlacedCandidate::new(ctx, plans, &program, Some(issue_order), moves)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::worked_example::{in_context, rows_at_a_time};

    /// The arena of rows (1, 1, 1) takes no more than its live bytes.
    #[test]
    fn example() {
        in_context(|ctx| {
            let set = PlanSet { plans: vec![rows_at_a_time(0, &[1, 1, 1])], limits: Vec::new() };
            let candidate = Candidate::new(ctx, set).expect("a legal Plan");
            assert_eq!(candidate.live_bytes(), 1472);
            let placed = candidate.place(ctx, Direction::Forwards, ctx.options.placing.moves).expect("a place");
            assert_eq!(placed.proposal.sram_bytes(), 1472);
        });
    }
}
