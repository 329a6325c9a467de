//! Prefetch into free gaps: the copies of a placed program are issued again, into gaps that its placement left.
//!
//! When candidates are placed, copies are issued early as far as a limit on live bytes allows; their arenas are larger
//! than that limit, because some gaps fit no buffer. Here the size of the arena is fixed, only constants move, and a
//! copy is issued as soon as some gap is large enough until its last use. So the bytes are known beforehand, and the
//! cycles are found.
//!
//! Owns estimates of that, and the Proposals that come of it. `front` and `within` choose candidates and sizes,
//! `prefetch` finds the gaps.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

use crate::model::plan::Proposal;
use crate::model::program::Program;
use crate::schedule::prefetch::FilledHoles;
use crate::search::candidates::PlacedCandidate;
use crate::search::context::Context;
use crate::util::pareto::Point;

/// What a placed candidate is expected to take with its copies issued into the gaps of an arena.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FillEstimate {
    /// Index of the placed candidate.
    pub placed: usize,
    /// Size of the arena whose gaps are filled.
    pub arena_bytes: u64,
    /// Bytes of it in use.
    pub bytes: u64,
    /// Cycles expected of the timing model.
    pub cycles: u64,
    /// Of these, what every candidate takes, whatever was decided.
    pub common_cycles: u64,
}

impl Point for FillEstimate {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles.saturating_sub(self.common_cycles)
    }
}

/// Expected cycles of a placed candidate with its copies issued again, from their `estimate`.
///
/// The estimate is assumed to be wrong by the same factor before and after.
pub fn expected_cycles(placed: &PlacedCandidate, estimate: u64) -> u64 {
    let expected = u128::from(estimate) * u128::from(placed.proposal.cycles) / u128::from(placed.estimate).max(1);
    expected as u64
}

/// The Proposal of a placed candidate whose `program` has its copies issued as `filled` says.
pub fn fill(ctx: &mut Context, placed: &PlacedCandidate, mut program: Program, filled: &FilledHoles) -> Proposal {
    let placement = filled.apply(ctx.graph, &mut program);
    let cycles = ctx.costs.program(ctx.graph, &program, &placement);
    let (plans, issue_order) = (placed.proposal.plans.clone(), Some(filled.order().clone()));
    Proposal { plans, issue_order, placement, cycles }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::prefetch::Filling;
    use crate::testing::worked_example::{copied_layers, in_context};

    /// An arena with 352 bytes more has a gap for the constants of `project` while `filter` runs.
    #[test]
    fn example() {
        in_context(|ctx| {
            let program = Program::clone(&*ctx.program(&copied_layers()).expect("legal Plans"));
            let placed = PlacedCandidate::new(ctx, copied_layers(), &program, None, 200).expect("a place");
            let arena_bytes = placed.proposal.sram_bytes() + 352;
            let filling = Filling::new(ctx.graph, &program, placed.proposal.placement.clone()).expect("it has copies");
            let found = fill(ctx, &placed, program, &filling.fill(arena_bytes));
            assert_eq!((placed.proposal.sram_bytes(), found.sram_bytes()), (4096 + 656, 4096 + 656 + 352));
            assert!(found.cycles < placed.proposal.cycles);
        });
    }
}
