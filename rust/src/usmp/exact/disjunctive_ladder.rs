//! The least capacity of a small pool, found by deciding a ladder of capacities as disjunctive problems.
//!
//! For items whose live parts change, and for shares. Owns the capacities and their order; `disjunctions` are the pairs,
//! `disjunctive_search` decides one capacity.

use super::disjunctions::Disjunctions;
use super::disjunctive_search::DisjunctiveSearch;
use super::packing::{Goal, LadderAnswer, Verdict};
use crate::usmp::limits::MAX_SEARCH_LOOKS;

/// Nodes of the shortest run.
const MIN_RUN_NODES: u64 = 100;
/// The rungs of a ladder, in 64ths of the gap from the bound to the best packing.
const RUNGS_64THS: [u64; 5] = [0, 32, 16, 8, 64];

/// A packing of at most `capacity` bytes, if one is found, and the nodes spent.
pub(super) fn decide(disjunctions: &Disjunctions, capacity: u64, nodes: u64) -> (Option<Vec<u64>>, u64) {
    let mut search = DisjunctiveSearch::new(disjunctions);
    let verdict = search.run(capacity, limit_nodes(disjunctions, nodes));
    ((verdict == Verdict::Found).then(|| search.packing()), search.nodes())
}

/// Lowers the best packing until the bound is met, everything is searched, or the nodes run out.
pub(super) fn descend(disjunctions: &Disjunctions, goal: &Goal) -> LadderAnswer {
    let mut found = LadderAnswer { offsets: None, bound: goal.bound, nodes: 0, work: 0 };
    let mut search = DisjunctiveSearch::new(disjunctions);
    let (mut below, most) = (goal.below, limit_nodes(disjunctions, goal.nodes));
    let mut run = MIN_RUN_NODES;
    while found.nodes < most {
        for part in RUNGS_64THS {
            // The largest and the least multiple of the grain between the bound and the best packing.
            let last = (below.max(1) - 1) / disjunctions.grain * disjunctions.grain;
            let first = found.bound.next_multiple_of(disjunctions.grain);
            if first > last || below == 0 {
                found.bound = below;
                return found;
            }
            let capacity = (first + ((u128::from(last - first) * u128::from(part)) / 64) as u64) / disjunctions.grain
                * disjunctions.grain;
            let before = search.nodes();
            let verdict = search.run(capacity, run.min(most - found.nodes));
            found.nodes += (search.nodes() - before).max(1);
            match verdict {
                Verdict::Found => {
                    let packing = search.packing();
                    below = packing
                        .iter()
                        .zip(&disjunctions.members)
                        .map(|(&at, member)| at + member.size as u64)
                        .max()
                        .unwrap_or(0);
                    found.offsets = Some(packing);
                }
                Verdict::Impossible => found.bound = capacity + 1,
                Verdict::Spent => {}
            }
            goal.report(below, found.bound);
            if found.nodes >= most {
                break;
            }
        }
        run *= 2;
    }
    found
}

fn limit_nodes(disjunctions: &Disjunctions, nodes: u64) -> u64 {
    nodes.min(MAX_SEARCH_LOOKS / (disjunctions.edges.len() as u64).max(1))
}
