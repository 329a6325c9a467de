//! From the decisions of a Proposal back to its program.

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::plan::Plan;
use crate::model::program::{Arrangement, IssueOrder, Placement};
use crate::plans::options::MOVES;
use crate::schedule::interleave::interleave;
use crate::schedule::lifetimes::count_apart;
use crate::schedule::prefetch::{issue, prefetch};
use crate::search::arena::{is_right, placer};
use crate::search::error::SearchError;

/// The program of some Plans, its copies in an order of issue, its buffers in a placement.
///
/// What is given is not searched for. Without an order each copy is right before its first use; without a placement the
/// memory planner finds one.
///
/// # Errors
/// Those of interleaving the Plans and of placing programs; an order or a placement that is not right for the program.
pub fn arrange(
    graph: &CascaderGraph,
    plans: &[Plan],
    issue_order: Option<&IssueOrder>,
    placement: Option<&Placement>,
) -> Result<Arrangement, SearchError> {
    let mut program = interleave(graph, plans, &mut Costs::default())?;
    if let Some(order) = issue_order {
        issue(graph, &mut program, order).ok_or(SearchError::IssueOrder)?;
    }
    let placement = match placement {
        Some(given) => given.clone(),
        None => placer(graph)(&program, MOVES)?,
    };
    if !is_right(graph, &program, &placement) {
        return Err(SearchError::Placement);
    }
    count_apart(graph, &mut program, &placement);
    Ok(Arrangement { program, placement })
}

/// The issue order of some Plans' copies, early where no more than `limit_bytes` are then in use.
///
/// # Errors
/// Those of interleaving the Plans.
pub fn decide_issue_order(graph: &CascaderGraph, plans: &[Plan], limit_bytes: u64) -> Result<IssueOrder, SearchError> {
    let mut program = interleave(graph, plans, &mut Costs::default())?;
    Ok(prefetch(graph, &mut program, limit_bytes))
}
