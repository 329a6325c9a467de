//! Stripe directions of Plans: an output made in stripes may begin at its far end.
//!
//! Owns the choice. Placing the program shows its fragmentation.

use crate::model::graph::CascaderGraph;
use crate::model::plan::Plan;

/// In which directions the stripes of a network run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// All from the first row or column on.
    Forwards,
    /// Every second output that is made in stripes from the last one on.
    Alternating,
}

/// The Plans with alternating directions: every second Plan that makes its output in stripes begins at the far end.
///
/// An output that grows into its dying input lies below it if it grows from its first row on, and above it if from its
/// last: taking turns, a chain of them stays where it is.
pub fn alternate(graph: &CascaderGraph, plans: &[Plan]) -> Vec<Plan> {
    let mut backwards = false;
    let turn = |plan: &Plan| {
        // An operator on the CPU need not have an output of its own.
        let extent = || graph.tensors[graph.output(plan.last)].plane[plan.tiling.roll as usize];
        let is_free = graph.kernel(plan.last).is_some() && !graph.is_streamed(plan.parts());
        let grows = is_free && plan.stripes[plan.len() - 1] < extent();
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
        let turned = |graph: &CascaderGraph, striped: &[bool]| directions(&alternate(graph, &pieces(graph, striped)));
        assert_eq!(turned(&graph, &[true; 5]), [false, true, false, true, false]);
        assert_eq!(turned(&graph, &[true, true, false, true, true]), [false, true, false, false, true]);
        assert_eq!(turned(&graph, &[false; 5]), [false; 5]);
        // What runs elsewhere is made as a whole.
        graph.parts[PartId(1)].work = Work::Opaque { workspace_bytes: 0, overlay: None };
        assert_eq!(turned(&graph, &[true; 5]), [false, false, true, false, true]);
    }
}
