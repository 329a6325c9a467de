//! The optimality gap of a running search: its best plan's peak, and a lower bound of all peaks.
//!
//! Owns the two numbers, which any thread may read meanwhile. No result depends on them. Knows nothing of plans.

use std::sync::atomic::{AtomicU64, Ordering};

/// The gap of one search, for pool 0 and in bytes. The peak never rises and the bound never falls.
#[derive(Debug)]
pub struct OptimalityGap {
    /// `u64::MAX` before the first plan.
    peak: AtomicU64,
    bound: AtomicU64,
}

impl Default for OptimalityGap {
    fn default() -> Self {
        Self { peak: AtomicU64::new(u64::MAX), bound: AtomicU64::new(0) }
    }
}

impl OptimalityGap {
    /// The best plan's peak and the proved lower bound; None before the first plan.
    pub fn read(&self) -> Option<(u64, u64)> {
        let peak = self.peak.load(Ordering::Acquire);
        (peak < u64::MAX).then(|| (peak, self.bound.load(Ordering::Relaxed)))
    }

    /// Takes over a plan's peak and a lower bound, where they are better than those known.
    pub(crate) fn narrow(&self, peak: u64, bound: u64) {
        self.bound.fetch_max(bound, Ordering::Relaxed);
        // Released last: who reads a peak reads a bound, too.
        self.peak.fetch_min(peak, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::OptimalityGap;
    use crate::usmp::tests::any_related_problem;
    use crate::usmp::{plan, plan_reporting, Algorithm, Params, UsmpError};

    #[test]
    fn a_gap_only_narrows() {
        let gap = OptimalityGap::default();
        assert_eq!(gap.read(), None);
        gap.narrow(90, 10);
        gap.narrow(80, 5);
        gap.narrow(85, 20);
        assert_eq!(gap.read(), Some((80, 20)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

        /// Better than the answer is never reported: it would stay. Of one pool and of two.
        #[test]
        fn the_gap_ends_at_the_answer(problem in any_related_problem(), is_single in prop::bool::ANY) {
            let mut problem = problem;
            if is_single {
                problem.pools.truncate(1);
                problem.buffers.iter_mut().for_each(|buffer| buffer.pools = [0].as_slice().into());
            }
            for (algorithm, threads) in Algorithm::ALL.into_iter().flat_map(|one| [(one, 1), (one, 3)]) {
                let (params, gap) = (Params { algorithm, seed: 1, iterations: 300, threads }, OptimalityGap::default());
                let answer = plan_reporting(&problem, &params, &gap);
                match &answer {
                    Ok(found) => prop_assert_eq!(gap.read(), Some((found.placement.peaks[0], found.lower_bounds[0]))),
                    Err(UsmpError::PoolOverflow { pool: 0, needed_bytes, lower_bound_bytes, .. }) => {
                        prop_assert_eq!(gap.read(), Some((*needed_bytes, *lower_bound_bytes)));
                    }
                    Err(_) => {}
                }
                let peaks = |answer: Result<crate::usmp::Solution, UsmpError>| answer.ok().map(|it| it.placement.peaks);
                prop_assert_eq!(peaks(answer), peaks(plan(&problem, &params)));
            }
        }
    }
}
