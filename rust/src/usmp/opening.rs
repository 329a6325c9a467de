//! First plans, from which all searches start: first fit in every greedy order and, on small problems, the squeaky wheel.
//!
//! Made once for each problem, so that no search can be worse than a simpler algorithm and none repeats its work.

use super::arrangement::Arrangement;
use super::instance::Instance;
use super::model::Params;
use super::orders::{first_fit, GreedyOrder};
use super::placer::{OrderedPlan, Placer};
use super::wheel::walk;

/// Most passes of the squeaky wheel.
const MOST_TURNS: u64 = 2_000;
/// What is looked at, over all passes, at most.
const WORK: u64 = 1 << 18;

pub(crate) struct Opening {
    /// Plans and the orders that make them, the best first.
    pub starts: Vec<OrderedPlan>,
    /// Passes of the squeaky wheel that were made.
    pub turns: u64,
    /// Whether the first plan is the wheel's.
    is_turned: bool,
}

impl Opening {
    /// First fit, up to the first plan that is as good as can be; then the wheel.
    pub fn new(instance: &Instance, params: &Params) -> Self {
        let mut starts: Vec<OrderedPlan> = Vec::with_capacity(GreedyOrder::ALL.len() + 1);
        let mut placer = Placer::new(instance);
        for kind in GreedyOrder::ALL {
            starts.push(first_fit(instance, placer.as_mut(), kind.sort(instance)));
            if starts.last().is_some_and(|start| instance.proves_optimal(&start.cost, &[])) {
                starts.rotate_right(1);
                return Self { starts, turns: 0, is_turned: false };
            }
        }
        starts.sort_by(|a, b| a.cost.cmp(&b.cost));
        let mut opening = Self { starts, turns: 0, is_turned: false };
        opening.turn(placer, params);
        opening
    }

    /// The opening with other parameters, of which first fit knows nothing.
    pub fn again(mut self, instance: &Instance, params: &Params) -> Self {
        if std::mem::take(&mut self.is_turned) {
            self.starts.remove(0);
        }
        self.turn(Placer::new(instance), params);
        self
    }

    fn turn(&mut self, placer: Option<Placer>, params: &Params) {
        let Some(mut placer) = placer.filter(|placer| placer.effort() <= WORK) else { return };
        let most = u64::from(params.iterations).min(MOST_TURNS).min(WORK / placer.effort());
        let (best, done) = walk(&mut placer, &self.starts, most, params.seed);
        self.turns = done;
        self.is_turned = best.cost < self.starts[0].cost;
        if self.is_turned {
            self.starts.insert(0, best);
        }
    }

    /// The best plan.
    pub fn best(&self, instance: &Instance) -> Arrangement {
        Arrangement::from_slots(instance, &self.starts[0].slots)
    }
}
