//! Every Pareto-efficient Proposal.
//!
//! - State: estimates that are pending, by live bytes and estimated cycles; placed candidates; the frontier so far.
//! - Invariant: no placement takes fewer bytes than are live at once. So an estimate is dropped, and no point lost, if
//!   a placed candidate takes no more bytes than its live bytes and no more cycles.
//! - Copies of what was placed are then issued into gaps: the front of estimates is costed by the timing model, and what is
//!   faster than the frontier within its bytes is added.
//! - Cost: the steps of all programs that are placed are bounded by `Options::max_steps`, of those filled by
//!   `Options::max_fills`.
//!
//! Owns which candidates are placed, and in which order.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

use crate::model::plan::Proposal;
use crate::model::program::Program;
use crate::schedule::prefetch::{Filling, ProgramEstimate};
use crate::search::candidates::{place_early, CandidatePool, PlacedCandidate};
use crate::search::context::Context;
use crate::search::effort::Effort;
use crate::search::error::SearchError;
use crate::search::filling::{expected_cycles, fill, FillEstimate};
use crate::search::floor::Floor;
use crate::search::stage::Stage;
use crate::search::stripe_directions::Direction;
use crate::util::interrupt;
use crate::util::pareto::{keep_front, pareto_front, Point};

impl Point for Proposal {
    fn memory_bytes(&self) -> u64 {
        self.sram_bytes()
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// An estimate of which nothing is placed yet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pending {
    candidate: usize,
    estimate: ProgramEstimate,
    /// Cycles that every candidate takes, whatever was decided.
    common_cycles: u64,
}

impl Point for Pending {
    fn memory_bytes(&self) -> u64 {
        self.estimate.peak_bytes
    }
    fn cycles(&self) -> u64 {
        self.estimate.cycles.saturating_sub(self.common_cycles)
    }
}

/// Bytes of a placed candidate, and the larger of its cycles and its estimate.
type SafePoint = (u64, u64);

/// The search for a frontier.
pub struct FrontSearch<'s, 'a, 'p> {
    ctx: &'s mut Context<'a, 'p>,
    candidates: &'s mut CandidatePool,
    frontier: Vec<Proposal>,
    placed: Vec<PlacedCandidate>,
    fill_effort: Effort,
    effort: Effort,
    /// The front of all that is placed.
    safe: Vec<SafePoint>,
    /// Proposals of fewer bytes are dropped: all goals name one floor.
    floor_bytes: u64,
}

/// Find every Pareto-efficient Proposal, and whether the bounds of work left any out.
///
/// # Errors
/// Those of placing programs.
pub fn find_front(
    ctx: &mut Context,
    candidates: &mut CandidatePool,
    floor: &Floor,
) -> Result<(Vec<Proposal>, bool), SearchError> {
    let (steps, fills) = (ctx.options.max_steps / 2, ctx.options.max_fills);
    let mut search = FrontSearch {
        floor_bytes: if ctx.has_one_pool() { floor.bytes() } else { 0 },
        frontier: Vec::new(),
        placed: Vec::new(),
        fill_effort: Effort::new(fills),
        effort: Effort::new(steps),
        safe: Vec::new(),
        ctx,
        candidates,
    };
    for placed in &floor.placed {
        search.note(placed.clone());
    }
    let pending = search.pending();
    Stage::Place.run(|| search.place_in_rounds(pending.clone()))?;
    Stage::Fill.run(|| {
        search.fill_from(0)?;
        let first = search.placed.len();
        search.place_alternating(pending)?;
        search.fill_from(first)
    })?;
    Ok((search.frontier, search.effort.is_spent || search.fill_effort.is_spent))
}

impl FrontSearch<'_, '_, '_> {
    /// Every estimate of every candidate, the least live bytes first.
    fn pending(&self) -> Vec<Pending> {
        let common_cycles = self.candidates.common_cycles;
        let of = |(candidate, estimates): (usize, &[ProgramEstimate])| {
            estimates.iter().map(|&estimate| Pending { candidate, estimate, common_cycles }).collect::<Vec<_>>()
        };
        let all = self.candidates.all.iter().map(|candidate| &candidate.estimates[..]);
        let mut pending: Vec<Pending> = all.enumerate().flat_map(of).collect();
        pending.sort_by_key(|pending| pending.estimate.peak_bytes);
        pending
    }

    /// Fewest cycles of the frontier within `bytes`.
    fn cycles_within(&self, bytes: u64) -> u64 {
        let count = self.frontier.partition_point(|found| found.memory_bytes() <= bytes);
        count.checked_sub(1).map_or(u64::MAX, |last| self.frontier[last].cycles())
    }

    /// Add a Proposal to the frontier unless another is at least as good in both. All goals name one floor, so none may have
    /// less SRAM.
    fn offer(&mut self, found: Proposal) {
        if found.memory_bytes() >= self.floor_bytes && found.cycles() < self.cycles_within(found.memory_bytes()) {
            self.frontier.push(found);
            keep_front(&mut self.frontier);
        }
    }

    /// Note a placed candidate and offer it.
    fn note(&mut self, placed: PlacedCandidate) {
        self.safe.push((placed.proposal.sram_bytes(), placed.safe_cycles()));
        keep_front(&mut self.safe);
        self.offer(placed.proposal.clone());
        self.placed.push(placed);
    }

    /// Whether some placed candidate is no slower and takes no more than an estimate's live bytes.
    fn is_dominated(&self, pending: &Pending) -> bool {
        let ProgramEstimate { peak_bytes, cycles, .. } = pending.estimate;
        let count = self.safe.partition_point(|point| point.0 <= peak_bytes);
        count.checked_sub(1).is_some_and(|last| self.safe[last].1 <= cycles)
    }

    /// Place one estimate; false if one part in `share` of the work is spent.
    fn place(&mut self, pending: &Pending, share: usize) -> Result<bool, SearchError> {
        let candidate = &self.candidates.all[pending.candidate];
        if !self.effort.spend_share(candidate.steps, share) {
            return Ok(false);
        }
        if let Some(prefetch_bytes) = pending.estimate.prefetch_bytes {
            let placed = place_early(self.ctx, &candidate.plans, prefetch_bytes)?;
            self.note(placed);
            return Ok(true);
        }
        for placed in self.candidates.place(self.ctx, pending.candidate)?.iter() {
            self.note(PlacedCandidate::clone(placed));
        }
        Ok(true)
    }

    /// Place what is pending.
    ///
    /// How much more than the live bytes a placement takes is not known before. So fronts by live bytes are placed in
    /// rounds, and each round leaves out what the placed ones dominate. Estimates without early copies, which are easy to
    /// place, are all placed at the end, the front first.
    fn place_in_rounds(&mut self, mut pending: Vec<Pending>) -> Result<(), SearchError> {
        let (rounds, count) = (self.ctx.options.placing.rounds, pending.len());
        for round in 0..=rounds {
            pending.retain(|pending| !self.is_dominated(pending));
            let is_last = round == rounds;
            if is_last {
                pending.retain(|pending| pending.estimate.prefetch_bytes.is_none());
            }
            let mut front = pareto_front(pending.clone());
            self.candidates.thin(&mut front);
            if is_last {
                pending.retain(|pending| !front.contains(pending));
                front.append(&mut pending);
            }
            for one in front {
                if self.is_dominated(&one) {
                    continue;
                }
                pending.retain(|other| *other != one);
                interrupt::reach((count - pending.len()) as u64, count as u64);
                // Half of the work is kept for estimates without early copies.
                if !self.place(&one, if is_last { 1 } else { 2 })? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Place candidates in alternating directions that may beat the frontier with their copies issued into gaps, the
    /// fastest first.
    ///
    /// Their early copies were dropped for hardly fewer bytes, because placing costs some. Gaps cost no bytes.
    fn place_alternating(&mut self, mut pending: Vec<Pending>) -> Result<(), SearchError> {
        let margin = self.ctx.options.placing.fill_margin;
        let mut numbers: Vec<usize> = Vec::new();
        pending.sort_by_key(|pending| (pending.estimate.cycles, pending.estimate.peak_bytes));
        for one in pending {
            let ProgramEstimate { prefetch_bytes, peak_bytes, cycles } = one.estimate;
            let (bytes, slower) = (peak_bytes + peak_bytes / margin, cycles + one.cycles() / margin);
            let is_slower = self.cycles_within(bytes) <= slower;
            if prefetch_bytes.is_some() && !is_slower && !numbers.contains(&one.candidate) {
                numbers.push(one.candidate);
            }
        }
        for number in numbers {
            let candidate = &self.candidates.all[number];
            if !self.effort.spend(candidate.steps) {
                break;
            }
            let placed = self.candidates.place_in(self.ctx, number, Direction::Alternating)?;
            self.note(PlacedCandidate::clone(&placed));
        }
        Ok(())
    }

    /// Issue the copies of all placed candidates from number `first` on again, into arenas of all known sizes.
    ///
    /// # Errors
    /// Those of interleaving the Plans.
    fn fill_from(&mut self, first: usize) -> Result<(), SearchError> {
        let sizes: Vec<u64> = self.frontier.iter().map(Point::memory_bytes).collect();
        let mut estimates = Vec::new();
        for placed in first..self.placed.len() {
            interrupt::ask();
            self.estimate_fills(placed, &sizes, &mut estimates)?;
        }
        for _ in 0..self.ctx.options.filling.rounds {
            estimates.retain(|estimate| estimate.cycles < self.cycles_within(estimate.bytes));
            let mut promising = pareto_front(estimates.clone());
            self.candidates.thin(&mut promising);
            for estimate in promising {
                interrupt::ask();
                estimates.retain(|other| *other != estimate);
                if estimate.cycles >= self.cycles_within(estimate.bytes) {
                    continue;
                }
                let placed = &self.placed[estimate.placed];
                let late = placed.late_program(self.ctx)?;
                let Some(filling) = Filling::new(self.ctx.graph, &late, placed.proposal.placement.clone()) else {
                    continue;
                };
                let filled = filling.fill(estimate.arena_bytes);
                let found = fill(self.ctx, placed, Program::clone(&late), &filled);
                self.offer(found);
            }
        }
        Ok(())
    }

    /// Estimates of a placed candidate in its own arena, and in larger ones of `sizes`, ascending.
    fn estimate_fills(
        &mut self,
        number: usize,
        sizes: &[u64],
        estimates: &mut Vec<FillEstimate>,
    ) -> Result<(), SearchError> {
        let common_cycles = self.candidates.common_cycles;
        let placed = &self.placed[number];
        let own = placed.proposal.sram_bytes();
        let program = placed.late_program(self.ctx)?;
        let Some(filling) = Filling::new(self.ctx.graph, &program, placed.proposal.placement.clone()) else {
            return Ok(());
        };
        let larger = sizes.iter().copied().filter(|&size| size > own);
        let mut fewest = u64::MAX;
        for arena_bytes in std::iter::once(own).chain(larger) {
            if expected_cycles(placed, filling.least_cycles(arena_bytes)) >= self.cycles_within(arena_bytes) {
                continue;
            }
            if !self.fill_effort.spend(program.steps.len()) {
                break;
            }
            let filled = filling.fill(arena_bytes);
            let cycles = expected_cycles(placed, filled.cycles());
            if cycles < fewest {
                fewest = cycles;
                let bytes = filled.bytes().max(own);
                estimates.push(FillEstimate { placed: number, arena_bytes, bytes, cycles, common_cycles });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::passes::PlanSets;
    use crate::testing::worked_example::in_context;

    /// The frontier from rows (1, 1, 1) to every layer whole.
    #[test]
    fn example() {
        in_context(|ctx| {
            let sets = PlanSets::complete(ctx, 4096, None);
            let mut candidates = CandidatePool::new(ctx, sets).expect("every block fits");
            let floor = Floor::find(ctx, &mut candidates).expect("a place");
            let (mut found, is_cut) = find_front(ctx, &mut candidates, &floor).expect("a place");
            keep_front(&mut found);
            let bytes: Vec<u64> = found.iter().map(Point::memory_bytes).collect();
            assert_eq!(
                (bytes[..5].to_vec(), bytes.last(), is_cut),
                (vec![1472, 1728, 1920, 1984, 2240], Some(&4096), false)
            );
        });
    }
}
