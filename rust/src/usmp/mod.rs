//! Unified static memory planning: buffers with lifetimes to pools and offsets. Knows nothing of networks.
//!
//! The facade: [`plan`] runs the solvers of an algorithm until one has proved its answer. From the ground up: `model` says
//! what is planned, `check` whether an answer is right. `arithmetic` serves all. `item` is a buffer as searches see it,
//! `canonical` the order of items, `clique` sets of items that all keep apart, `bound` what no plan can beat, `pairs` what
//! any two items forbid each other; `instance` puts these together. `pins` says whether given places agree, `overflow` who is
//! in the way. `fit` is how an item rises, `timeline` what it meets, `arrangement` first fit, `placer` first fit in one order
//! after the other, `orders` the greedy ones, `wheel` those that follow from where items ended. `opening` holds the plans
//! that every search starts from, `solver` says what a solver is, and each has its file, `exact` a folder. `parallel` is the
//! threads, `random` the seeds.

pub mod check;
pub mod model;

mod arithmetic;
mod arrangement;
mod bound;
mod canonical;
mod clique;
mod exact;
mod fit;
mod greedy;
mod hill_climb;
mod instance;
mod item;
mod opening;
mod orders;
mod overflow;
mod pairs;
mod parallel;
mod pins;
mod placer;
mod random;
mod solver;
mod timeline;
mod wheel;

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
pub use model::{
    Algorithm, AllowedOverlap, Buffer, Gap, Lifetime, Params, Placement, Pool, Problem, Section, Slot, Solution,
    StopReason, UsmpError,
};
use orders::GreedyOrder;
use solver::{Outcome, Solver, Task};

/// `Best` looks at a problem with this part of its effort first: most small ones need no more.
const FIRST_LOOK: u32 = 8;
/// It does not come down once more from what the hill climb found where there are more: that takes as long as all before.
const MANY_ITEMS: usize = 500;
const MANY_CONFLICTS: usize = 5_000;

/// The solvers that `algorithm` runs, cheapest first; each runs as it would alone, so none is better than all together.
/// Those that search start from an opening that holds every greedy plan, so none of these is better either.
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
/// Among such plans the preferred ones put more bytes into earlier candidates, then have the least peak in pool 0, then
/// in pool 1 and so on. The same problem, whatever the order of its buffers, and the same parameters give the same
/// peaks; nothing depends on clocks.
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
    let instance = Instance::new(problem)?;
    let mut found = BestSoFar { best: None, proved: SmallVec::new(), exhausted: false, iterations: 0 };
    let task = Task { instance: &instance, params, opening: OnceCell::new() };
    pins::check(&instance.items)?;
    let mut last_was_better = false;
    if params.algorithm == Algorithm::Best {
        let few = Params { iterations: params.iterations / FIRST_LOOK, ..*params };
        let first = Task { instance: &instance, params: &few, opening: OnceCell::new() };
        found.add(Exact.solve(&first));
        if let Some(opening) = first.opening.into_inner().filter(|_| !found.is_optimal(&instance)) {
            let _ = task.opening.set(opening.again(&instance, params));
        }
    }
    for solver in solvers(params.algorithm) {
        if found.is_optimal(&instance) {
            break;
        }
        last_was_better = found.add(solver.solve(&task));
    }
    let few = instance.items.len() <= MANY_ITEMS && instance.conflicts() <= MANY_CONFLICTS;
    if params.algorithm == Algorithm::Best && last_was_better && few && !found.is_optimal(&instance) {
        // What the hill climb found is a better place to come down from.
        if let Some((arrangement, _)) = found.best.clone() {
            found.add(exact::improve(&instance, params, arrangement));
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
    refuse_overflow(&instance, problem, &placement, &lower_bounds)?;
    debug_assert_eq!(check::check(problem, &placement), Ok(()), "what a solver placed breaks the problem's rules");
    debug_assert!(placement.peaks.iter().zip(&lower_bounds).all(|(peak, bound)| bound <= peak), "a bound was beaten");
    let stop_reason = if optimal { StopReason::Complete } else { stop_reason };
    let iterations = found.iterations;
    Ok(Solution { placement, lower_bounds, optimal, algorithm: params.algorithm, stop_reason, iterations })
}

/// What the solvers have found and proved so far.
struct BestSoFar {
    best: Option<(Arrangement, StopReason)>,
    proved: SmallVec<[u64; 2]>,
    exhausted: bool,
    iterations: u64,
}

impl BestSoFar {
    /// Adds what a solver found. `true` when that is better than all before.
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

/// What no plan's peaks are below, in bytes, by pool id: what the buffers that can lie in no other pool take at one step.
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
