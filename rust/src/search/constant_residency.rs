//! Constant residency: a local search over the places from which operators read their constants, with enough SRAM.
//!
//! Plans are enumerated with copies exposed or free. With room for early copies neither is true: a copy takes its
//! share of both memories from the kernels beside it. Only an estimate of the whole program sees that.
//!
//! - State: Plans of the network, and their estimated cycles with unlimited memory.
//! - Step: for each operator that runs alone and uncut, from the last to the first, try each other place of its
//!   constants.
//! - Invariant: cycles never rise, as only what is faster is kept.
//! - Cost: bounded by `PASSES` over all operators and by `MAX_STEPS` of programs.
//!
//! Owns these changes. Which candidate they begin with is for `candidates` to say.

use crate::model::graph::CascaderGraph;
use crate::model::plan::{Plan, Staging};
use crate::schedule::legal_plans::PlanError;
use crate::schedule::prefetch::unlimited_cycles;
use crate::search::context::Context;
use crate::util::interrupt;

/// Passes over all operators.
const PASSES: u32 = 3;

/// Steps of all programs that are estimated: long networks take no longer than others.
const MAX_STEPS: usize = 100_000;

/// The Plans, where operators that run alone and uncut read their constants in the way that is estimated to be
/// fastest with unlimited SRAM. One operator is changed at a time, the last one first, as far as the bound on work
/// allows.
///
/// # Errors
/// Those of interleaving the Plans.
pub fn improve_residency(ctx: &mut Context, plans: &[Plan]) -> Result<Vec<Plan>, PlanError> {
    let graph = ctx.graph;
    let mut best = plans.to_vec();
    let mut looked_at = 0;
    let mut cycles = |plans: &[Plan]| {
        interrupt::ask();
        let program = ctx.program(plans)?;
        looked_at += program.steps.len();
        Ok((unlimited_cycles(&program), looked_at))
    };
    let (mut fewest, _) = cycles(&best)?;
    for _ in 0..PASSES {
        let before = fewest;
        for index in (0..best.len()).rev() {
            for staging in others(graph, &best[index]) {
                let known = std::mem::replace(&mut best[index].staging[0], staging);
                let (cycles, looked_at) = cycles(&best)?;
                if cycles < fewest {
                    fewest = cycles;
                } else {
                    best[index].staging[0] = known;
                }
                if looked_at > MAX_STEPS {
                    return Ok(best);
                }
            }
        }
        if fewest == before {
            break;
        }
    }
    Ok(best)
}

/// Other places for the constants of a Plan's operator; none unless it is alone and uncut.
fn others(graph: &CascaderGraph, plan: &Plan) -> Vec<Staging> {
    let Some(kernel) = graph.kernel(plan.first).filter(|_| plan.len() == 1) else { return Vec::new() };
    let extent = graph.tensors[graph.output(plan.first)].plane[plan.tiling.roll as usize];
    if kernel.staged_bytes() == 0 || plan.tiling.tiles > 1 || plan.stripes[0] < extent {
        return Vec::new();
    }
    let sliced = kernel.sliced.as_ref().map(|_| Staging::Sliced);
    let ways = [Staging::InPlace, Staging::Whole].into_iter().chain(sliced);
    ways.filter(|&staging| staging != plan.staging[0]).collect()
}
