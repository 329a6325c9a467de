//! The fastest Proposal within a number of bytes.
//!
//! - State: visits that are pending, each a candidate with a lower bound of its estimated cycles; the answer so far.
//! - Step: the Pareto front of the pending visits, by live bytes and bound, is walked from the fastest on until a visit
//!   fits. A visit places its candidate, and issues the copies into the gaps of the arena.
//! - First all candidates are visited without early copies, then with some: these take longer to place, and fragment.
//! - Invariant: the answer fits, and no step makes it slower.
//! - Stop: no bound is below the answer, or `Options::visits` visits are done.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

use crate::model::memory::{aligned, ALIGNMENT};
use crate::model::plan::Proposal;
use crate::model::program::Program;
use crate::schedule::prefetch::{estimates_beside, Filling};
use crate::search::candidates::{place_early, Candidate, CandidatePool, PlacedCandidate};
use crate::search::context::Context;
use crate::search::error::SearchError;
use crate::search::filling::{expected_cycles, fill};
use crate::search::floor::Floor;
use crate::util::interrupt;
use crate::util::pareto::{pareto_front, Point};

/// With early copies there is one visit per this number without.
const VISITS_PER_EARLY: usize = 4;

/// Find the fastest Proposal of at most `bytes`; None below the floor.
///
/// # Errors
/// Those of placing programs.
pub fn fastest_within(
    ctx: &mut Context,
    candidates: &mut CandidatePool,
    floor: &Floor,
    bytes: u64,
) -> Result<Option<Proposal>, SearchError> {
    if floor.bytes() > bytes {
        return Ok(None);
    }
    // No buffer ends elsewhere.
    let bytes = bytes.min(candidates.most_bytes().max(floor.bytes())) / ALIGNMENT * ALIGNMENT;
    let best = floor.placed[0].proposal.clone();
    let floor_bytes = if floor.is_bound { 0 } else { floor.bytes() };
    let mut search =
        WithinSearch { floor_bytes, bytes, best, least_ratio: (1, 1), early_visits: Vec::new(), filled: None };
    for placed in &floor.placed {
        search.offer(ctx, placed)?;
    }
    let visit = |(number, candidate): (usize, &Candidate)| Visit {
        live_bytes: candidate.live_bytes(),
        bound: candidate.least_cycles(bytes),
        number,
        prefetch_bytes: None,
    };
    let late = candidates.all.iter().enumerate().map(visit).collect();
    let visits = ctx.options.visits;
    search.walk(ctx, candidates, late, visits)?;
    let early = std::mem::take(&mut search.early_visits);
    search.walk(ctx, candidates, early, visits.div_ceil(VISITS_PER_EARLY))?;
    search.tighten(ctx)?;
    Ok(Some(search.best))
}

/// A candidate to place, without early copies or with some.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Visit {
    /// Its peak live bytes.
    live_bytes: u64,
    /// A lower bound of its estimated cycles.
    bound: u64,
    /// The candidate.
    number: usize,
    /// Bytes up to which copies are early, if any are.
    prefetch_bytes: Option<u64>,
}

impl Point for Visit {
    fn memory_bytes(&self) -> u64 {
        self.live_bytes
    }
    fn cycles(&self) -> u64 {
        self.bound
    }
}

/// The search for the fastest Proposal within `bytes`.
struct WithinSearch {
    /// Answers below the floor are dropped: all goals name one floor.
    floor_bytes: u64,
    bytes: u64,
    /// The answer so far.
    best: Proposal,
    /// The placed candidate whose copies were issued into gaps for it, if any were.
    filled: Option<PlacedCandidate>,
    /// The least cycles by estimated cycles of what was offered, 1 at most.
    least_ratio: (u64, u64),
    /// Visits with early copies of the candidates that were visited without.
    early_visits: Vec<Visit>,
}

impl WithinSearch {
    /// Make at most `visits` visits of those pending.
    fn walk(
        &mut self,
        ctx: &mut Context,
        candidates: &mut CandidatePool,
        mut pending: Vec<Visit>,
        visits: usize,
    ) -> Result<(), SearchError> {
        let mut done = 0;
        while done < visits {
            // Kept all the same: as the least ratio falls, others can improve again.
            let can_improve = |visit: &&Visit| visit.live_bytes <= self.bytes && self.can_improve(visit.bound);
            let mut front = pareto_front(pending.iter().filter(can_improve).copied().collect());
            candidates.thin(&mut front);
            let Some(first) = front.last().copied() else { break };
            // From the fastest on: a slower one than one that fits cannot win.
            for visit in front.into_iter().rev().take(visits - done) {
                if visit != first && !self.can_improve(visit.bound) {
                    break;
                }
                done += 1;
                interrupt::reach(done as u64, visits as u64);
                pending.retain(|other| *other != visit);
                self.visit(ctx, candidates, visit)?;
            }
        }
        Ok(())
    }

    /// Place one candidate and offer it; without early copies, note what it is estimated to take with some.
    fn visit(&mut self, ctx: &mut Context, candidates: &mut CandidatePool, visit: Visit) -> Result<(), SearchError> {
        let candidate = &candidates.all[visit.number];
        if let Some(prefetch_bytes) = visit.prefetch_bytes {
            let placed = place_early(ctx, &candidate.plans, prefetch_bytes)?;
            return self.offer(ctx, &placed);
        }
        let program = ctx.program(&candidate.plans)?;
        for early in estimates_beside(&program, &candidate.estimates, &[self.bytes]) {
            if early.prefetch_bytes.is_some() {
                let (prefetch_bytes, live_bytes, bound) = (early.prefetch_bytes, early.peak_bytes, early.cycles);
                self.early_visits.push(Visit { bound, prefetch_bytes, live_bytes, ..visit });
            }
        }
        for placed in candidates.place(ctx, visit.number)? {
            self.offer(ctx, &placed)?;
        }
        Ok(())
    }

    /// Take a placed candidate, or what it becomes with its copies issued into gaps, if it fits and is faster.
    fn offer(&mut self, ctx: &mut Context, placed: &PlacedCandidate) -> Result<(), SearchError> {
        if placed.proposal.sram_bytes() > self.bytes {
            return Ok(());
        }
        let late = placed.late_program(ctx)?;
        if let Some(filling) = Filling::new(ctx.graph, &late, placed.proposal.placement.clone()) {
            let filled = filling.fill(self.bytes);
            if expected_cycles(placed, filled.cycles()) < self.best.cycles() {
                let estimate = filled.cycles();
                let found = fill(ctx, placed, Program::clone(&late), &filled);
                self.note_ratio(found.cycles(), estimate);
                if self.take(found) {
                    self.filled = Some(placed.clone());
                }
            }
        }
        self.note_ratio(placed.proposal.cycles, placed.estimate);
        if self.take(placed.proposal.clone()) {
            self.filled = None;
        }
        Ok(())
    }

    /// Issue the answer's copies into a smaller arena, while it is no slower.
    fn tighten(&mut self, ctx: &mut Context) -> Result<(), SearchError> {
        let Some(placed) = self.filled.take() else { return Ok(()) };
        let late = placed.late_program(ctx)?;
        let Some(filling) = Filling::new(ctx.graph, &late, placed.proposal.placement.clone()) else { return Ok(()) };
        let (mut too_small, mut enough) = (placed.proposal.sram_bytes(), self.best.memory_bytes());
        while enough > too_small + too_small / ctx.options.placing.fragmentation {
            interrupt::ask();
            let arena_bytes = aligned((too_small + enough) / 2);
            let found = fill(ctx, &placed, Program::clone(&late), &filling.fill(arena_bytes));
            if self.take(found) {
                enough = self.best.memory_bytes();
            } else {
                too_small = arena_bytes;
            }
        }
        Ok(())
    }

    /// Whether a candidate of these estimated cycles can be faster, by the least ratio so far.
    fn can_improve(&self, estimate: u64) -> bool {
        let (cycles, of) = self.least_ratio;
        u128::from(estimate) * u128::from(cycles) < u128::from(self.best.cycles()) * u128::from(of.max(1))
    }

    fn note_ratio(&mut self, cycles: u64, estimate: u64) {
        let (least, of) = self.least_ratio;
        if u128::from(cycles) * u128::from(of) < u128::from(least) * u128::from(estimate) {
            self.least_ratio = (cycles, estimate);
        }
    }

    /// Make it the answer if it is faster, or as fast with less SRAM.
    fn take(&mut self, found: Proposal) -> bool {
        let is_better = (found.cycles(), found.memory_bytes()) < (self.best.cycles(), self.best.memory_bytes());
        let is_taken = is_better && (self.floor_bytes..=self.bytes).contains(&found.memory_bytes());
        if is_taken {
            self.best = found;
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::passes::PlanSets;
    use crate::testing::worked_example::{in_context, rows_at_a_time};

    /// Within 1,800 bytes the fastest has rows (2, 1, 1); within 1,471 there is none.
    #[test]
    fn example() {
        in_context(|ctx| {
            let sets = PlanSets::complete(ctx, 4096, None);
            let mut candidates = CandidatePool::new(ctx, sets).expect("every block fits");
            let floor = Floor::find(ctx, &mut candidates).expect("a place");
            let found = fastest_within(ctx, &mut candidates, &floor, 1800).expect("a place").expect("it fits");
            assert_eq!((found.memory_bytes(), &found.plans[..]), (1728, &[rows_at_a_time(0, &[2, 1, 1])][..]));
            assert!(fastest_within(ctx, &mut candidates, &floor, 1471).expect("a place").is_none());
        });
    }
}
