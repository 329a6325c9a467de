//! The interface of solvers: their task and their outcome. Owns both; knows no solver.

use std::cell::OnceCell;

use smallvec::SmallVec;

use super::arrangement::Arrangement;
use super::initial_plans::InitialPlans;
use super::instance::Instance;
use super::params::{Params, StopReason};

/// What a solver hands back: its best plan, which may overflow, and why it stopped.
pub(crate) struct Outcome {
    pub arrangement: Arrangement,
    pub stop_reason: StopReason,
    pub iterations: u64,
    /// Lower bounds of the peaks of plans with all buffers in their preferred pools, in bytes, by pool id. Empty when
    /// nothing was searched.
    pub proved: SmallVec<[u64; 2]>,
    /// Whether every plan that could be better was looked at.
    pub exhausted: bool,
}

impl Outcome {
    /// A plan about which nothing is proved.
    pub fn of(arrangement: Arrangement, stop_reason: StopReason, iterations: u64) -> Self {
        Self { arrangement, stop_reason, iterations, proved: SmallVec::new(), exhausted: false }
    }
}

/// A problem, how to search it, and the plans that every search of it starts from.
pub(crate) struct Task<'a> {
    pub instance: &'a Instance<'a>,
    pub params: &'a Params,
    pub initial_plans: OnceCell<InitialPlans>,
}

impl Task<'_> {
    /// The plans that every search starts from, made when they are first asked for.
    pub fn initial_plans(&self) -> &InitialPlans {
        self.initial_plans.get_or_init(|| InitialPlans::new(self.instance, self.params))
    }
}

/// A way to plan. Must be a pure function of its arguments.
pub(crate) trait Solver {
    /// The best plan found, whether it fits or not.
    fn solve(&self, task: &Task) -> Outcome;
}
