//! The greedy solvers: one first-fit pass over one sorted order.

use super::arrangement::Arrangement;
use super::orders::{first_fit, GreedyOrder};
use super::params::StopReason;
use super::placer::Placer;
use super::solver::{Outcome, Solver, Task};

/// First fit in one order.
pub(crate) struct Greedy(pub GreedyOrder);

impl Solver for Greedy {
    fn solve(&self, task: &Task) -> Outcome {
        let order = self.0.sort(task.instance);
        let found = first_fit(task.instance, Placer::new(task.instance).as_mut(), order);
        Outcome::of(Arrangement::from_slots(task.instance, &found.slots), StopReason::Complete, 0)
    }
}
