//! Every first-fit order of a handful of items. Owns the recursion over orders; larger problems are not for it.

use super::instance::Instance;
use super::layout::Layout;
use super::model::{Params, StopReason, UsmpError};
use super::{Outcome, Solver};

/// Most items that are not pinned: 720 orders.
pub(crate) const MOST_ITEMS: usize = 6;

/// Tries all orders; what a partial order costs already is what prunes.
pub(crate) struct Exhaustive;

impl Solver for Exhaustive {
    fn solve(&self, instance: &Instance, _params: &Params) -> Result<Outcome, UsmpError> {
        let mut left = instance.movable();
        let start = Layout::new(instance)?;
        let mut best = Layout::first_fit(instance, &left)?;
        extend(instance, &start, &mut left, &mut best);
        Ok(Outcome { layout: best, stop_reason: StopReason::Complete, iterations: 0 })
    }
}

/// Completes `placed` with all orders of `left`, which comes back as it was, and keeps what beats `best`.
fn extend(instance: &Instance, placed: &Layout, left: &mut Vec<u32>, best: &mut Layout) {
    // Placing more never makes a cost smaller.
    if placed.cost() >= best.cost() {
        return;
    }
    if left.is_empty() {
        best.clone_from(placed);
        return;
    }
    for index in 0..left.len() {
        let item = left.remove(index);
        let mut next = placed.clone();
        next.place(instance, item);
        extend(instance, &next, left, best);
        left.insert(index, item);
    }
}
