//! The floor: the fewest bytes that any candidate takes.
//!
//! Candidates are placed by their peak live bytes, until those of the next are no fewer than the least arena. Then the
//! smallest are placed again with more moves of the memory planner. All goals that search for the floor name the same one;
//! others take an upper bound.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

use crate::search::candidates::{CandidatePool, PlacedCandidate};
use crate::search::context::Context;
use crate::search::effort::Effort;
use crate::search::error::SearchError;
use crate::search::stripe_directions::Direction;

/// The candidates with the least SRAM, and whether their search ran out of work.
#[derive(Clone, Debug)]
pub struct Floor {
    /// The candidate with the least SRAM, placed without early copies, then those placed with more moves.
    pub placed: Vec<PlacedCandidate>,
    /// Whether some candidates were left out.
    pub is_cut: bool,
    /// Whether it is an upper bound: candidates with less SRAM were not searched for.
    pub is_bound: bool,
}

impl Floor {
    /// The candidate of fewest live bytes, as an upper bound.
    ///
    /// # Errors
    /// Those of placing programs.
    pub fn bound(ctx: &mut Context, candidates: &mut CandidatePool) -> Result<Floor, SearchError> {
        let smallest = by_live_bytes(candidates)[0];
        let mut best = None;
        candidates.place(ctx, smallest)?.iter().for_each(|placed| keep_smaller(&mut best, placed));
        Ok(Floor { placed: best.into_iter().collect(), is_cut: false, is_bound: true })
    }

    /// Bytes of its arena.
    pub fn bytes(&self) -> u64 {
        self.placed[0].proposal.sram_bytes()
    }

    /// Find the candidate with the least SRAM.
    ///
    /// # Errors
    /// Those of placing programs.
    pub fn find(ctx: &mut Context, candidates: &mut CandidatePool) -> Result<Floor, SearchError> {
        let smallest = by_live_bytes(candidates);
        let mut effort = Effort::new(ctx.options.max_steps / 2);
        let mut best: Option<PlacedCandidate> = None;
        let mut placed: Vec<PlacedCandidate> = Vec::new();
        for &number in &smallest {
            let live_bytes = candidates.all[number].live_bytes();
            if best.as_ref().is_some_and(|best| best.proposal.sram_bytes() <= live_bytes) {
                break;
            }
            // One is placed whatever the bound: a floor needs an answer.
            if !effort.spend(candidates.all[number].steps) && best.is_some() {
                break;
            }
            candidates.place(ctx, number)?.iter().for_each(|placed| keep_smaller(&mut best, placed));
        }
        // They are few, and the floor must not depend on how much else was placed.
        for &number in smallest.iter().take(ctx.options.placing.floor_tries) {
            let tight_bytes = candidates.all[number].tight_bytes(ctx);
            if best.as_ref().is_none_or(|best| best.proposal.sram_bytes() <= tight_bytes) {
                break;
            }
            let candidate = &candidates.all[number];
            for direction in [Direction::Forwards, Direction::Alternating] {
                let again = candidate.place(ctx, direction, ctx.options.placing.floor_moves)?;
                let is_tight = again.proposal.sram_bytes() <= tight_bytes;
                keep_smaller(&mut best, &again);
                placed.push(again);
                if is_tight || !candidate.alternates(ctx) {
                    break;
                }
            }
        }
        placed.insert(0, best.expect("a network has a candidate"));
        Ok(Floor { placed, is_cut: effort.is_spent, is_bound: false })
    }
}

/// Numbers of all candidates, the least live bytes first.
fn by_live_bytes(candidates: &CandidatePool) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..candidates.all.len()).collect();
    numbers.sort_by_key(|&number| (candidates.all[number].live_bytes(), candidates.all[number].estimates[0].cycles));
    numbers
}

fn keep_smaller(best: &mut Option<PlacedCandidate>, placed: &PlacedCandidate) {
    let point = |placed: &PlacedCandidate| (placed.proposal.sram_bytes(), placed.proposal.cycles);
    if best.as_ref().is_none_or(|best| point(placed) < point(best)) {
        *best = Some(placed.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::passes::PlanSets;
    use crate::testing::worked_example::{in_context, rows_at_a_time};

    /// No candidate takes fewer bytes than rows (1, 1, 1).
    #[test]
    fn example() {
        in_context(|ctx| {
            let sets = PlanSets::complete(ctx, 4096, None);
            let mut candidates = CandidatePool::new(ctx, sets).expect("every block fits");
            let floor = Floor::find(ctx, &mut candidates).expect("a place");
            assert_eq!((floor.bytes(), floor.is_bound), (1472, false));
            assert_eq!(floor.placed[0].proposal.plans, [rows_at_a_time(0, &[1, 1, 1])]);
        });
    }
}
