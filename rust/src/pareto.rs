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

impl Point for (u64, u64) {
    fn memory_bytes(&self) -> u64 {
        self.0
    }
    fn cycles(&self) -> u64 {
        self.1
    }
}

/// Keep the points that no other point equals or beats in both memory and cycles, ascending in memory.
///
/// Of points equal in both the first given stays. O(n log n).
pub fn pareto_front<T: Point>(mut points: Vec<T>) -> Vec<T> {
    keep_front(&mut points);
    points
}

/// [`pareto_front`] in place.
pub fn keep_front<T: Point>(points: &mut Vec<T>) {
    points.sort_by_key(|point| (point.memory_bytes(), point.cycles()));
    let mut least = u64::MAX;
    points.retain(|point| {
        let keep = point.cycles() < least;
        if keep {
            least = point.cycles();
        }
        keep
    });
}

/// Add a front, ascending in memory, to another one; what is left is the front of both.
///
/// Of points equal in both the one that was there stays. O(n); `spare` is memory to use again.
pub fn merge_front<T: Point + Copy>(front: &mut Vec<T>, more: impl IntoIterator<Item = T>, spare: &mut Vec<T>) {
    let precedes = |a: &T, b: &T| (a.memory_bytes(), a.cycles()) <= (b.memory_bytes(), b.cycles());
    let mut more = more.into_iter();
    // Most fronts add little: what precedes the first new point stays where it is.
    let mut at = 0;
    let new = more.find(|point| {
        at += front[at..].iter().take_while(|other| precedes(other, point)).count();
        at == 0 || point.cycles() < front[at - 1].cycles()
    });
    let Some(new) = new else { return };
    spare.clear();
    spare.extend(front.drain(at..));
    front.push(new);
    let mut least = new.cycles();
    let mut keep = |point: &T| {
        if point.cycles() < least {
            least = point.cycles();
            front.push(*point);
        }
    };
    let mut rest = spare.iter().peekable();
    for point in more {
        while let Some(other) = rest.next_if(|other| precedes(other, &point)) {
            keep(other);
        }
        keep(&point);
    }
    rest.for_each(keep);
}

/// Keep the points that no other point is within, where `is_within` is reflexive and transitive; of equal ones the first.
///
/// O(n^2), for orders that two numbers do not capture.
pub fn keep_minimal<T>(points: &mut Vec<T>, is_within: impl Fn(&T, &T) -> bool) {
    let mut kept: Vec<T> = Vec::new();
    for point in points.drain(..) {
        if !kept.iter().any(|other| is_within(other, &point)) {
            kept.retain(|other| !is_within(&point, other));
            kept.push(point);
        }
    }
    *points = kept;
}

/// Leave out points of a front that are no more than one part in `resolution` faster than the next leaner one that stays;
/// the fastest always stays. 0 leaves out nothing.
///
/// For every point there is one left that takes no more bytes and at most that much longer.
pub fn thin<T: Point>(front: &mut Vec<T>, resolution: u64) {
    if resolution == 0 {
        return;
    }
    let last = front.len().saturating_sub(1);
    let mut kept = None;
    let mut index = 0;
    front.retain(|point| {
        let cycles = point.cycles();
        let near = |kept: u64| u128::from(kept.max(cycles) - cycles) * u128::from(resolution) <= cycles.into();
        let keep = index == last || !kept.is_some_and(near);
        index += 1;
        if keep {
            kept = Some(cycles);
        }
        keep
    });
}

/// How much slower than a point left out by one thinning a leaner one that stays may be: `parts` in `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epsilon {
    /// Numerator; 0 where nothing was left out.
    pub parts: u64,
    /// Denominator, at least 1.
    pub of: u64,
}

impl Epsilon {
    /// What thinning to a resolution allows.
    pub fn of_resolution(resolution: u64) -> Epsilon {
        Epsilon { parts: u64::from(resolution > 0), of: resolution.max(1) }
    }

    /// The larger of two.
    pub fn max(self, other: Epsilon) -> Epsilon {
        let scaled = |a: Epsilon, b: Epsilon| u128::from(a.parts) * u128::from(b.of);
        if scaled(other, self) > scaled(self, other) {
            other
        } else {
            self
        }
    }
}

/// Thin a front, halving the resolution until no more than `limit` points (at least two) are left.
///
/// Returns the coarsest thinning; what the finer ones before it cost comes on top.
pub fn thin_to<T: Point>(front: &mut Vec<T>, resolution: u64, limit: usize) -> Epsilon {
    thin(front, resolution);
    let mut coarser = if resolution == 0 { FINEST } else { resolution };
    let mut taken = Epsilon::of_resolution(resolution);
    while front.len() > limit.max(2) {
        coarser /= 2;
        if coarser == 0 {
            // Points that differ by factors of two are still too many: only the ends are left.
            let fastest = front.pop();
            let beaten = front.last().map_or(1, |point| point.cycles().max(1));
            taken = Epsilon { parts: front[0].cycles().div_ceil(beaten), of: 1 };
            front.truncate(1);
            front.extend(fastest);
        } else {
            thin(front, coarser);
            taken = Epsilon::of_resolution(coarser);
        }
    }
    taken
}

/// Resolution that thinning starts from where none is given.
const FINEST: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn brute_force(points: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut front: Vec<_> =
            points.iter().copied().filter(|p| !points.iter().any(|q| q != p && q.0 <= p.0 && q.1 <= p.1)).collect();
        front.sort_unstable();
        front.dedup();
        front
    }

    #[test]
    fn thinning_knows_no_overflow() {
        let mut front = vec![(1, u64::MAX), (2, u64::MAX - 1), (3, 1 << 63), (4, 1)];
        thin(&mut front, 1 << 20);
        assert_eq!(front, [(1, u64::MAX), (3, 1 << 63), (4, 1)]);
    }

    /// A point that is told from its equals by its last number.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Named(u64, u64, char);

    impl Point for Named {
        fn memory_bytes(&self) -> u64 {
            self.0
        }
        fn cycles(&self) -> u64 {
            self.1
        }
    }

    #[test]
    fn of_equal_points_the_one_that_was_there_stays() {
        let mut front = vec![Named(1, 9, 'a'), Named(3, 5, 'b'), Named(5, 3, 'c')];
        let more = [Named(2, 7, 'd'), Named(3, 5, 'e'), Named(5, 3, 'f')];
        merge_front(&mut front, more, &mut Vec::new());
        assert_eq!(front, [Named(1, 9, 'a'), Named(2, 7, 'd'), Named(3, 5, 'b'), Named(5, 3, 'c')]);
        assert_eq!(pareto_front(vec![Named(1, 2, 'a'), Named(1, 2, 'b')]), [Named(1, 2, 'a')]);
    }

    #[test]
    fn points_as_near_as_a_resolution_says_are_left_out_and_others_stay() {
        let mut front = vec![(1, 1000), (2, 910), (3, 909), (4, 500), (5, 499)];
        thin(&mut front, 10);
        // 90 of 910 is less than a tenth, 91 of 909 is more; the fastest stays however near.
        assert_eq!(front, [(1, 1000), (3, 909), (4, 500), (5, 499)]);
    }

    #[test]
    fn of_two_thinnings_the_coarser_one_counts() {
        let [fine, coarse] = [64, 2].map(Epsilon::of_resolution);
        assert_eq!((fine.max(coarse), coarse.max(fine), fine.max(fine)), (coarse, coarse, fine));
        let all = Epsilon::of_resolution(0);
        assert_eq!((all.max(fine), fine.max(all)), (fine, fine));
    }

    proptest! {
        #[test]
        fn equals_brute_force(points in prop::collection::vec((0u64..30, 0u64..30), 0..60)) {
            prop_assert_eq!(pareto_front(points.clone()), brute_force(&points));
        }

        #[test]
        fn merged_fronts_are_the_front_of_all(
            fronts in prop::collection::vec(prop::collection::vec((0u64..30, 0u64..30), 0..20), 0..6),
        ) {
            let (mut merged, mut spare) = (Vec::new(), Vec::new());
            for points in &fronts {
                merge_front(&mut merged, pareto_front(points.clone()), &mut spare);
            }
            prop_assert_eq!(merged, pareto_front(fronts.concat()));
        }

        #[test]
        fn minimal_points_are_the_front(points in prop::collection::vec((0u64..30, 0u64..30), 0..60)) {
            let mut minimal = points.clone();
            keep_minimal(&mut minimal, |a, b| a.0 <= b.0 && a.1 <= b.1);
            minimal.sort_unstable();
            prop_assert_eq!(minimal, pareto_front(points));
        }

        #[test]
        fn thinning_keeps_the_ends_and_loses_no_more_than_it_says(
            points in prop::collection::vec((1u64..1000, 1u64..1000), 1..60),
        ) {
            let front = pareto_front(points);
            let mut thinned = front.clone();
            thin(&mut thinned, 50);
            prop_assert_eq!(thinned.first(), front.first());
            prop_assert_eq!(thinned.last(), front.last());
            for point in &front {
                let covers = |kept: &(u64, u64)| kept.0 <= point.0 && kept.1 <= point.1 + point.1 / 50;
                prop_assert!(thinned.iter().any(covers));
            }
        }

        #[test]
        fn thinning_to_a_number_keeps_the_ends(
            points in prop::collection::vec((1u64..1_000_000, 1u64..1_000_000), 1..60),
            limit in 2usize..20,
        ) {
            let front = pareto_front(points);
            let mut thinned = front.clone();
            let taken = thin_to(&mut thinned, 0, limit);
            prop_assert_eq!(taken.parts > 0, front.len() > limit);
            prop_assert!(thinned.len() <= limit);
            prop_assert_eq!((thinned.first(), thinned.last()), (front.first(), front.last()));
            // Halving on the way there costs as well.
            let halved = std::iter::successors(Some(FINEST / 2), |n| Some(n / 2)).take_while(|&n| n >= taken.of);
            let once = 1.0 + taken.parts as f64 / taken.of as f64;
            let factor = halved.fold(once, |factor, n| factor * (1.0 + 1.0 / n as f64));
            for point in &front {
                let covers = |kept: &(u64, u64)| {
                    kept.0 <= point.0 && kept.1 as f64 <= point.1 as f64 * factor * (1.0 + 1e-9)
                };
                prop_assert!(thinned.iter().any(covers));
            }
        }
    }
}
