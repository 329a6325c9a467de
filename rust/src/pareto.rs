//! Exact, deterministic Pareto fronts on (memory, cycles), and their bounded thinning.
//!
//! Owns dominance. Knows nothing of what the points stand for.

/// Something that occupies memory and takes time.
pub trait Point {
    /// Bytes.
    fn memory_bytes(&self) -> u64;
    /// Cycles.
    fn cycles(&self) -> u64;
}

/// Keep the points that no other point equals or beats in both memory and cycles, ascending in memory.
///
/// Of points equal in both the first given stays. O(n log n).
pub fn pareto_front<T: Point>(mut points: Vec<T>) -> Vec<T> {
    points.sort_by_key(|point| (point.memory_bytes(), point.cycles()));
    let mut least = u64::MAX;
    points.retain(|point| {
        let keep = point.cycles() < least;
        if keep {
            least = point.cycles();
        }
        keep
    });
    points
}

/// Drop points of a front that are less than one part in `resolution` slower than the next point kept, from the fast
/// end down; the leanest and the fastest point always stay.
///
/// What is lost is bounded: for each dropped point there is a kept one with no more memory that is slower by at most
/// that part per step.
pub fn thin<T: Point>(front: Vec<T>, resolution: u64) -> Vec<T> {
    let last = front.len().saturating_sub(1);
    let mut kept_cycles = u64::MAX;
    front
        .into_iter()
        .enumerate()
        .filter(|(i, point)| {
            let gain = kept_cycles.saturating_sub(point.cycles());
            let keep = *i == 0 || *i == last || gain > point.cycles() / resolution;
            if keep {
                kept_cycles = point.cycles();
            }
            keep
        })
        .map(|(_, point)| point)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Point for (u64, u64) {
        fn memory_bytes(&self) -> u64 {
            self.0
        }
        fn cycles(&self) -> u64 {
            self.1
        }
    }

    fn brute_force(points: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut front: Vec<_> =
            points.iter().copied().filter(|p| !points.iter().any(|q| q != p && q.0 <= p.0 && q.1 <= p.1)).collect();
        front.sort_unstable();
        front.dedup();
        front
    }

    proptest! {
        #[test]
        fn equals_brute_force(points in prop::collection::vec((0u64..30, 0u64..30), 0..60)) {
            prop_assert_eq!(pareto_front(points.clone()), brute_force(&points));
        }

        #[test]
        fn thinning_keeps_the_ends(points in prop::collection::vec((0u64..1000, 1u64..1000), 1..60)) {
            let front = pareto_front(points);
            let thinned = thin(front.clone(), 50);
            prop_assert_eq!(thinned.first(), front.first());
            prop_assert_eq!(thinned.last(), front.last());
            prop_assert!(thinned.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 > w[1].1));
        }
    }
}
