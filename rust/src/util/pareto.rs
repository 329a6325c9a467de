//! Exact, deterministic Pareto fronts on (memory, cycles), and their bounded thinning.
//!
//! Owns dominance. Knows nothing of what the points stand for.

use crate::util::interrupt;

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
///
/// ```
/// use ethoscade_core::util::pareto::pareto_front;
///
/// // (bytes, cycles): 300 bytes for 80 cycles are beaten by 200 bytes for 70.
/// assert_eq!(pareto_front(vec![(300, 80), (100, 90), (200, 70)]), [(100, 90), (200, 70)]);
/// ```
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

/// Whether points ascend in memory and descend in cycles, so that none equals or beats another.
pub fn is_front<T: Point>(points: &[T]) -> bool {
    points.is_sorted_by(|a, b| a.memory_bytes() < b.memory_bytes() && a.cycles() > b.cycles())
}

/// Many points, by number, of which the front is wanted; forgets them, but not its memory, when cleared.
#[derive(Debug, Default)]
pub struct FrontBuilder {
    points: Vec<NumberedPoint>,
    /// The front of those looked at so far.
    front: Vec<NumberedPoint>,
}

/// A point and its number.
#[derive(Clone, Copy, Debug)]
struct NumberedPoint {
    bytes: u64,
    cycles: u64,
    number: usize,
}

impl FrontBuilder {
    /// How many points there are.
    pub fn count(&self) -> usize {
        self.points.len()
    }

    /// Forget all points.
    pub fn clear(&mut self) {
        self.points.clear();
    }

    /// Add points, each plus `bytes` and `cycles`. They get the next numbers.
    pub fn add<T: Point>(&mut self, points: &[T], bytes: u64, cycles: u64) {
        let numbered = |(number, point): (usize, &T)| NumberedPoint {
            bytes: point.memory_bytes() + bytes,
            cycles: point.cycles() + cycles,
            number,
        };
        self.points.extend((self.points.len()..).zip(points).map(numbered));
    }

    /// All points, in the order of their numbers: these, bytes and cycles.
    pub fn all(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        self.points.iter().map(|point| (point.number, point.bytes, point.cycles))
    }

    /// The front, ascending in memory: numbers, bytes and cycles. Of points equal in both it is the first.
    ///
    /// Points mostly come as fronts that were moved, and most of them are beaten at once: so none is sorted, each finds
    /// its place behind that of the one before.
    pub fn front(&mut self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        let FrontBuilder { points, front } = self;
        front.clear();
        let mut place = 0;
        for point in points {
            if place > 0 && front[place - 1].bytes <= point.bytes {
                while front.get(place).is_some_and(|known| known.bytes <= point.bytes) {
                    place += 1;
                }
            } else {
                place = front.partition_point(|known| known.bytes <= point.bytes);
            }
            if place > 0 && front[place - 1].cycles <= point.cycles {
                continue;
            }
            // What takes as many bytes is slower.
            place -= usize::from(place > 0 && front[place - 1].bytes == point.bytes);
            let beaten = front[place..].iter().take_while(|known| known.cycles >= point.cycles).count();
            match beaten {
                0 => front.insert(place, *point),
                _ => {
                    front[place] = *point;
                    front.drain(place + 1..place + beaten);
                }
            }
            place += 1;
        }
        debug_assert!(front.is_sorted_by(|a, b| a.bytes < b.bytes && a.cycles > b.cycles), "no front");
        front.iter().map(|point| (point.number, point.bytes, point.cycles))
    }
}

/// Keep the points that no other point is within, where `is_within` is reflexive and transitive; of equal ones the first.
///
/// O(n^2), for orders that two numbers do not capture.
pub fn keep_minimal<T>(points: &mut Vec<T>, is_within: impl Fn(&T, &T) -> bool) {
    let mut kept: Vec<T> = Vec::new();
    for point in points.drain(..) {
        interrupt::ask();
        if !kept.iter().any(|other| is_within(other, &point)) {
            kept.retain(|other| !is_within(&point, other));
            kept.push(point);
        }
    }
    *points = kept;
}

/// Leave out points of a front that are no more than one part in `resolution` faster than the next kept one with fewer bytes;
/// the fastest always stays. 0 leaves out nothing.
///
/// For every point there is one left that takes no more bytes and at most that much longer.
///
/// ```
/// use ethoscade_core::util::pareto::thin;
///
/// // 995 cycles are within a hundredth of the leaner point's 1000, 900 are not; the fastest stays whatever it gains.
/// let mut front = vec![(10, 1000), (20, 995), (30, 900), (40, 899)];
/// thin(&mut front, 100);
/// assert_eq!(front, [(10, 1000), (30, 900), (40, 899)]);
/// ```
pub fn thin<T: Point>(front: &mut Vec<T>, resolution: u64) {
    if resolution == 0 {
        return;
    }
    debug_assert!(is_front(front), "no front, or not in its order");
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

/// How much slower a kept point may be than one left out by one thinning: `parts` in `of`.
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

    /// A point with a name, to distinguish equal points.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct NamedPoint(u64, u64, char);

    impl Point for NamedPoint {
        fn memory_bytes(&self) -> u64 {
            self.0
        }
        fn cycles(&self) -> u64 {
            self.1
        }
    }

    #[test]
    fn of_equal_points_the_first_stays() {
        assert_eq!(pareto_front(vec![NamedPoint(1, 2, 'a'), NamedPoint(1, 2, 'b')]), [NamedPoint(1, 2, 'a')]);
        let mut builder = FrontBuilder::default();
        builder.add(&[(5, 3), (2, 7), (3, 5), (1, 9)], 0, 0);
        builder.add(&[(2, 5), (4, 3)], 1, 0);
        let found: Vec<(usize, u64, u64)> = builder.front().collect();
        assert_eq!(found, [(3, 1, 9), (1, 2, 7), (2, 3, 5), (0, 5, 3)]);
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
        fn the_builder_keeps_the_front_of_all(
            fronts in prop::collection::vec((prop::collection::vec((0u64..30, 0u64..30), 0..20), 0u64..5, 0u64..5), 0..6),
            scale in prop::sample::select(vec![1, 1 << 58]),
        ) {
            let (mut builder, mut all) = (FrontBuilder::default(), Vec::new());
            builder.add(&[(7u64, 7u64)], 0, 0);
            builder.clear();
            for (points, bytes, cycles) in fronts {
                let points: Vec<(u64, u64)> = points.into_iter().map(|(a, b)| (a * scale, b)).collect();
                builder.add(&points, bytes * scale, cycles);
                all.extend(points.iter().map(|point| (point.0 + bytes * scale, point.1 + cycles)));
            }
            prop_assert_eq!(builder.count(), all.len());
            let found: Vec<(usize, u64, u64)> = builder.front().collect();
            for &(number, bytes, cycles) in &found {
                prop_assert_eq!(all.iter().position(|&point| point == (bytes, cycles)), Some(number));
            }
            prop_assert_eq!(found.into_iter().map(|found| (found.1, found.2)).collect::<Vec<_>>(), pareto_front(all));
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
