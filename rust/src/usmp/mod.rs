//! Unified static memory planning: buffers with lifetimes to pools and offsets. Knows nothing of networks.
//!
//! [`plan`] runs the solvers of an algorithm until one has proved its answer. In the order of their dependencies:
//! `model` holds problems, `params` what is asked and answered, `check` proves a solution right. `arithmetic` and `limits` serve all. `item`
//! is a buffer as searches see it, `canonical` the order of items, `clique` sets of items without a common byte,
//! `bound` the lower bounds, `pairs` the forbidden offsets of any two items; `instance` puts these together. `pins`
//! checks fixed offsets, `overflow` names the buffers in the way. `fit` finds the lowest free offset, `timeline` the
//! items in use at the same time, `arrangement` is first fit, `placer` first fit in one order after the other. `orders`
//! has the greedy orders, `squeaky_wheel` improves one, `initial_plans` holds the plans that every search starts from.
//! `solver` defines a solver; each has its file, `exact` a folder. `parallel` runs threads, `random` draws numbers.
//! `optimality_gap` is what a search reports while it runs.

pub mod check;
pub mod model;
pub mod params;

mod arithmetic;
mod arrangement;
mod bound;
mod canonical;
mod clique;
mod exact;
mod fit;
mod greedy;
mod hill_climb;
mod initial_plans;
mod instance;
mod item;
mod limits;
mod optimality_gap;
mod orders;
mod overflow;
mod pairs;
mod parallel;
mod pins;
mod placer;
mod random;
mod solver;
mod squeaky_wheel;
mod timeline;

#[cfg(test)]
mod conflict_tests;
#[cfg(test)]
mod proof_tests;
#[cfg(test)]
mod sameness_tests;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use smallvec::SmallVec;

use arrangement::Arrangement;
use exact::Exact;
use greedy::Greedy;
use hill_climb::HillClimb;
use instance::Instance;
pub use model::{AllowedOverlap, Buffer, Gap, Lifetime, Placement, Pool, Problem, Section, Slot, UsmpError};
pub use optimality_gap::OptimalityGap;
use orders::GreedyOrder;
pub use params::{Algorithm, Params, Solution, StopReason};
use solver::{Outcome, Solver, Task};

/// `Best` first runs with its iterations divided by this: most small problems need no more.
const FIRST_EFFORT_DIVISOR: u32 = 8;

/// The solvers of `algorithm`, cheapest first. Each runs as it would alone, so none is better than all together. All
/// searches start from every greedy plan, so no greedy solver is better either.
fn solvers(algorithm: Algorithm) -> &'static [&'static dyn Solver] {
    match algorithm {
        Algorithm::GreedyBySize => &[&Greedy(GreedyOrder::Size)],
        Algorithm::GreedyByConflicts => &[&Greedy(GreedyOrder::Conflicts)],
        Algorithm::HillClimb => &[&HillClimb],
        Algorithm::Exact => &[&Exact],
        Algorithm::Best => &[&Exact, &HillClimb],
    }
}

/// Finds a pool and an offset for every buffer.
///
/// No two buffers share a byte while both are in use, every address has its alignment, no pool exceeds its limit.
/// Of such plans the best puts most bytes into preferred pools, then has the least peak in pool 0, then in pool 1 and so
/// on. The same problem and parameters give the same peaks, whatever the order of the buffers and the speed of the machine.
///
/// ```
/// use ethoscade_core::usmp::{plan, Buffer, Lifetime, Params, Pool, Problem};
///
/// // Steps and bytes: the first and the last buffer are never in use together, so they share.
/// let buffer = |first, end, bytes| Buffer::new(bytes, 16, Lifetime::new(first, end));
/// let buffers = vec![buffer(0, 2, 640), buffer(1, 3, 320), buffer(2, 4, 512)];
/// let solution = plan(&Problem { buffers, pools: vec![Pool::unbounded()] }, &Params::default())?;
/// assert_eq!(solution.placement.peaks, [960]);
/// assert!(solution.optimal);
/// # Ok::<(), ethoscade_core::usmp::UsmpError>(())
/// ```
///
/// # Errors
/// [`UsmpError::PoolOverflow`] when no plan that fits was found, any other variant when the problem makes no sense.
pub fn plan(problem: &Problem, params: &Params) -> Result<Solution, UsmpError> {
    search(Instance::new(problem)?, problem, params)
}

/// As [`plan`]; reports to `gap`, which no other search may use, from the first plan on. At the end it holds the answer's
/// peak and lower bound of pool 0. Of several pools only plans with all buffers in preferred pools are reported meanwhile.
///
/// # Errors
/// As [`plan`].
pub fn plan_reporting(problem: &Problem, params: &Params, gap: &OptimalityGap) -> Result<Solution, UsmpError> {
    let mut instance = Instance::new(problem)?;
    instance.gap = Some(gap);
    search(instance, problem, params)
}

fn search(instance: Instance, problem: &Problem, params: &Params) -> Result<Solution, UsmpError> {
    let mut found = BestSoFar { best: None, proved: SmallVec::new(), exhausted: false, iterations: 0 };
    let task = Task { instance: &instance, params, initial_plans: OnceCell::new() };
    pins::check(&instance.items)?;
    let mut is_climb_better = false;
    if params.algorithm == Algorithm::Best {
        let few = Params { iterations: params.iterations / FIRST_EFFORT_DIVISOR, ..*params };
        let first = Task { instance: &instance, params: &few, initial_plans: OnceCell::new() };
        found.add(Exact.solve(&first));
        if let Some(initial) = first.initial_plans.into_inner().filter(|_| !found.is_optimal(&instance)) {
            let _ = task.initial_plans.set(initial.rerun_wheel(&instance, params));
        }
    }
    for solver in solvers(params.algorithm) {
        if found.is_optimal(&instance) {
            break;
        }
        is_climb_better = found.add(solver.solve(&task));
    }
    if params.algorithm == Algorithm::Best && is_climb_better && !found.is_optimal(&instance) {
        // Branch and bound below the hill climb's plan, which is better than all before it.
        if let Some((arrangement, _)) = found.best.clone() {
            let outcome = exact::improve(&instance, params, arrangement);
            // What was too large to be searched adds nothing, and did not end the climb.
            if outcome.stop_reason != StopReason::TooLarge {
                found.add(outcome);
            }
        }
    }
    let optimal = found.is_optimal(&instance);
    // Every algorithm names at least one solver.
    let Some((arrangement, stop_reason)) = found.best else { unreachable!("an algorithm without a solver") };
    let lower_bounds = if optimal {
        arrangement.cost().peaks.to_vec()
    } else {
        instance.lower_bounds(arrangement.cost(), &found.proved)
    };
    let placement = arrangement.placement(&instance);
    if let (Some(gap), Some(&peak), Some(&bound)) = (instance.gap, placement.peaks.first(), lower_bounds.first()) {
        gap.narrow(peak, bound);
        debug_assert_eq!(gap.read(), Some((peak, bound)), "more was reported than is answered");
    }
    refuse_overflow(&instance, problem, &placement, &lower_bounds)?;
    debug_assert_eq!(check::check(problem, &placement), Ok(()), "what a solver placed breaks the problem's rules");
    debug_assert!(placement.peaks.iter().zip(&lower_bounds).all(|(peak, bound)| bound <= peak), "a bound was beaten");
    let stop_reason = if optimal { StopReason::Complete } else { stop_reason };
    let iterations = found.iterations;
    Ok(Solution { placement, lower_bounds, optimal, algorithm: params.algorithm, stop_reason, iterations })
}

/// The best plan and the proved bounds so far.
struct BestSoFar {
    best: Option<(Arrangement, StopReason)>,
    proved: SmallVec<[u64; 2]>,
    exhausted: bool,
    iterations: u64,
}

impl BestSoFar {
    /// Adds a solver's outcome. Returns `true` when its plan is better than all before.
    fn add(&mut self, outcome: Outcome) -> bool {
        let Outcome { arrangement, stop_reason, iterations, proved, exhausted } = outcome;
        self.iterations += iterations;
        self.exhausted |= exhausted;
        self.proved.resize(self.proved.len().max(proved.len()), 0);
        for (known, new) in self.proved.iter_mut().zip(proved) {
            *known = (*known).max(new);
        }
        let (arrangement, better) = match self.best.take() {
            Some((best, _)) if best.cost() <= arrangement.cost() => (best, false),
            _ => (arrangement, true),
        };
        self.best = Some((arrangement, stop_reason));
        better
    }

    fn is_optimal(&self, instance: &Instance) -> bool {
        self.best.as_ref().is_some_and(|(arrangement, _)| {
            arrangement.cost().overflow == 0
                && (self.exhausted || instance.proves_optimal(arrangement.cost(), &self.proved))
        })
    }
}

/// Lower bounds of the peaks in bytes, by pool id, from the buffers with no other pool.
///
/// # Errors
/// As [`plan`], when the problem makes no sense.
pub fn lower_bounds(problem: &Problem) -> Result<Vec<u64>, UsmpError> {
    Ok(Instance::new(problem)?.forced_peaks())
}

fn refuse_overflow(
    instance: &Instance,
    problem: &Problem,
    placement: &Placement,
    lower_bounds: &[u64],
) -> Result<(), UsmpError> {
    for (pool, (spec, &needed_bytes)) in (0u32..).zip(problem.pools.iter().zip(&placement.peaks)) {
        if let Some(available_bytes) = spec.limit_bytes.filter(|&limit| needed_bytes > limit) {
            let lower_bound_bytes = lower_bounds[pool as usize];
            let live = overflow::in_the_way(instance, problem, placement, pool);
            return Err(UsmpError::PoolOverflow { pool, needed_bytes, available_bytes, lower_bound_bytes, live });
        }
    }
    Ok(())
}
