//! In which directions the Plans of a network run: an output that is made in stripes may begin at its far end.
//!
//! Owns the choice. How tight a program of theirs can be placed is for who places it to see.

use crate::model::graph::CascaderGraph;
use crate::model::plan::Plan;

/// The directions in which Plans are placed, one after the other until an arena is hardly larger than the live bytes.
pub fn orders(graph: &CascaderGraph, plans: &[Plan], prefetch_bytes: u64) -> Vec<Vec<Plan>> {
    let turning = alternating(graph, plans);
    // Early copies want large holes, which a chain of outputs that drifts through the arena seldom leaves.
    if prefetch_bytes > 0 || turning == plans {
        return vec![turning];
    }
    vec![plans.to_vec(), turning]
}

/// The Plans with alternating directions: every second Plan that makes its output in stripes begins at the far end.
///
/// An output that grows into its dying input lies below it if it grows from its first row on, and above it if from its
/// last: taking turns, a chain of them stays where it is.
pub fn alternating(graph: &CascaderGraph, plans: &[Plan]) -> Vec<Plan> {
    let mut backwards = false;
    let turn = |plan: &Plan| {
        // An operator on the CPU need not have an output of its own.
        let extent = || graph.tensors[graph.output(plan.last)].plane[plan.tiling.roll as usize];
        let grows = graph.kernel(plan.last).is_some() && plan.stripes[plan.len() - 1] < extent();
        backwards ^= grows;
        Plan { backwards: grows && !backwards, ..plan.clone() }
    };
    plans.iter().map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::graph::Work;
    use crate::model::ids::PartId;
    use crate::testing::networks::{chain, directions, pieces};

    #[test]
    fn every_other_output_made_piece_by_piece_is_made_backwards() {
        let mut graph = chain(5);
        let turned = |graph: &CascaderGraph, striped: &[bool]| directions(&alternating(graph, &pieces(graph, striped)));
        assert_eq!(turned(&graph, &[true; 5]), [false, true, false, true, false]);
        assert_eq!(turned(&graph, &[true, true, false, true, true]), [false, true, false, false, true]);
        assert_eq!(turned(&graph, &[false; 5]), [false; 5]);
        // What runs elsewhere is made as a whole.
        graph.parts[PartId(1)].work = Work::Opaque { workspace_bytes: 0 };
        assert_eq!(turned(&graph, &[true; 5]), [false, false, true, false, true]);
    }

    #[test]
    fn without_early_copies_outputs_are_tried_forwards_and_in_turns() {
        let graph = chain(3);
        let (striped, whole) = (pieces(&graph, &[true; 3]), pieces(&graph, &[false; 3]));
        let turning = alternating(&graph, &striped);
        assert_eq!(orders(&graph, &striped, 0), [striped.clone(), turning.clone()]);
        assert_eq!(orders(&graph, &striped, 16), [turning]);
        assert_eq!(orders(&graph, &whole, 0), [whole]);
    }
}
