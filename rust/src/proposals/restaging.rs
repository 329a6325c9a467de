//! A Proposal made faster by changing where single operators read their constants, if SRAM is no concern.
//!
//! Plans are enumerated with copies exposed or free. With room for early copies neither is true: a copy takes its
//! share of both memories from the kernels beside it. Only an estimate of the whole program sees that.
//!
//! - State: one Proposal, and its estimated cycles with unlimited memory.
//! - Step: for each operator that runs alone and uncut, from the last to the first, try each other place of its
//!   constants.
//! - Invariant: cycles never rise, as only what is faster is kept.
//! - Cost: bounded by `RestagingOptions`, in passes and in steps of programs.
//!
//! Owns these changes to one Proposal. Which Proposals deserve them is for `proposals` to say.

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::plan::{Plan, Staging};
use crate::plans::options::RestagingOptions;
use crate::schedule::interleave::{interleave, PlanError};
use crate::schedule::prefetch::unlimited_cycles;
use crate::util::interrupt;

/// The Plans, where operators that run alone and uncut read their constants in the way that is estimated to be
/// fastest with unlimited SRAM. One operator is changed at a time, the last one first, as far as the bound on work
/// allows.
///
/// # Errors
/// Those of interleaving the Plans.
pub fn restaged(
    graph: &CascaderGraph,
    plans: &[Plan],
    options: &RestagingOptions,
    costs: &mut Costs,
) -> Result<Vec<Plan>, PlanError> {
    let mut best = plans.to_vec();
    let mut looked_at = 0;
    let mut cycles = |plans: &[Plan]| {
        interrupt::ask();
        let program = interleave(graph, plans, costs)?;
        looked_at += program.steps.len();
        Ok((unlimited_cycles(&program), looked_at))
    };
    let (mut fewest, _) = cycles(&best)?;
    for _ in 0..options.passes {
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
                if looked_at > options.max_steps {
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

/// Other places from which a Plan's operator can read its constants; none unless it is alone in the Plan and uncut.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::PartId;
    use crate::model::operation::OperationKind;
    use crate::plans::options::Options;
    use crate::proposals::uncascaded;
    use crate::testing::networks::{mobilenet_v1, mobilenet_v2, Network, INPUT};

    fn cycles(graph: &CascaderGraph, plans: &[Plan]) -> u64 {
        unlimited_cycles(&interleave(graph, plans, &mut Costs::default()).expect("blocks fit"))
    }

    #[test]
    fn no_other_way_to_read_one_operators_constants_is_faster() {
        for graph in [mobilenet_v1(), mobilenet_v2()] {
            let plans = uncascaded(&graph);
            let found =
                restaged(&graph, &plans, &Options::default().restaging, &mut Costs::default()).expect("blocks fit");
            let fewest = cycles(&graph, &found);
            assert!(fewest < cycles(&graph, &plans) * 9 / 10);
            // A second call may still find something: the last operators' changes affect what is best for the first
            // ones.
            let again =
                restaged(&graph, &found, &Options::default().restaging, &mut Costs::default()).expect("blocks fit");
            for index in 0..again.len() {
                for staging in others(&graph, &again[index]) {
                    let mut changed = again.clone();
                    changed[index].staging[0] = staging;
                    assert!(cycles(&graph, &changed) >= cycles(&graph, &again), "Part {index}, {staging:?}");
                }
            }
        }
    }

    #[test]
    fn of_a_long_network_only_the_end_is_looked_at() {
        let mut net = Network::new([16, 16], 64);
        let mut t = INPUT;
        for _ in 0..500 {
            t = net.window(t, OperationKind::Convolution, 3, 1, 64);
        }
        let graph = net.finish(t);
        let plans = uncascaded(&graph);
        let found = restaged(&graph, &plans, &Options::default().restaging, &mut Costs::default()).expect("blocks fit");
        let changed: Vec<bool> = found.iter().zip(&plans).map(|(a, b)| a != b).collect();
        assert!(!changed[..200].contains(&true) && changed[400..].contains(&true));
    }

    #[test]
    fn what_runs_in_stripes_or_together_stays_as_it_is() {
        let graph = mobilenet_v1();
        let mut plans = uncascaded(&graph);
        plans[1].stripes = vec![8];
        let two = Plan { last: PartId(3), stripes: vec![8, 8], staging: vec![Staging::InPlace; 2], ..plans[2].clone() };
        plans.splice(2..4, [two]);
        let found = restaged(&graph, &plans, &Options::default().restaging, &mut Costs::default()).expect("blocks fit");
        assert_eq!(found[1..3], plans[1..3]);
        assert_ne!(found, plans);
    }
}
