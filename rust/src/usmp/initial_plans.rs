//! Initial plans of all searches: first fit in every greedy order and, on small problems, the squeaky wheel.
//!
//! They are made once for each problem. No search is worse than a simpler algorithm, and none repeats its work.

use super::arrangement::Arrangement;
use super::instance::Instance;
use super::orders::{first_fit, GreedyOrder};
use super::params::Params;
use super::placer::{OrderedPlan, Placer};
use super::squeaky_wheel::improve;

/// Most items looked at by the squeaky wheel, over all passes.
const MAX_LOOKS: u64 = 1 << 18;

pub(crate) struct InitialPlans {
    /// Plans and the orders that make them, the best first.
    pub starts: Vec<OrderedPlan>,
    /// Passes of the squeaky wheel made.
    pub passes: u64,
    /// Whether the first plan is the wheel's.
    is_wheel_first: bool,
}

impl InitialPlans {
    /// First fit, up to the first plan proved optimal; then the squeaky wheel.
    pub fn new(instance: &Instance, params: &Params) -> Self {
        let mut starts: Vec<OrderedPlan> = Vec::with_capacity(GreedyOrder::ALL.len() + 1);
        let mut placer = Placer::new(instance);
        for kind in GreedyOrder::ALL {
            let start = first_fit(instance, placer.as_mut(), kind.sort(instance));
            instance.report(&start.cost);
            let is_optimal = instance.proves_optimal(&start.cost, &[]);
            starts.push(start);
            if is_optimal {
                starts.rotate_right(1);
                return Self { starts, passes: 0, is_wheel_first: false };
            }
        }
        starts.sort_by(|a, b| a.cost.cmp(&b.cost));
        let mut initial = Self { starts, passes: 0, is_wheel_first: false };
        initial.run_wheel(placer, params);
        initial
    }

    /// The same first-fit plans, with the squeaky wheel's passes under other parameters.
    pub fn rerun_wheel(mut self, instance: &Instance, params: &Params) -> Self {
        if std::mem::take(&mut self.is_wheel_first) {
            self.starts.remove(0);
        }
        self.run_wheel(Placer::new(instance), params);
        self
    }

    fn run_wheel(&mut self, placer: Option<Placer>, params: &Params) {
        let Some(mut placer) = placer.filter(|placer| placer.effort() <= MAX_LOOKS) else { return };
        let passes = u64::from(params.iterations).min(MAX_LOOKS / placer.effort());
        let (best, done) = improve(&mut placer, &self.starts, passes, params.seed);
        self.passes = done;
        self.is_wheel_first = best.cost < self.starts[0].cost;
        if self.is_wheel_first {
            self.starts.insert(0, best);
        }
    }

    /// The best plan.
    pub fn best(&self, instance: &Instance) -> Arrangement {
        Arrangement::from_slots(instance, &self.starts[0].slots)
    }
}
