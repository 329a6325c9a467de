//! Pareto fronts of the first k Parts of a network, and the bound a further Plan must stay below.
//!
//! - State: `front(k)`, the best (bytes, cycles) of the first `k` Parts; `front(0)` is the point (0, 0).
//! - Step: `front(k)` is the front of `(max(b, B), c + C)` over points `(b, c)` of `front(f)` and Plans `(B, C)` of
//!   the Parts `f..k`, for all `f < k`. A Plan's bytes contain what the rest of the network holds meanwhile.
//! - Invariant: later Parts see a partial Proposal through its point alone, so a dominated one is never needed.
//! - Cost: `join` takes one pass over a front and a group's Plans, both ascending in bytes.
//!
//! `front(k)` is known in part while Plans that end with Part `k - 1` are still enumerated. Its thresholds tell how
//! few bytes a Plan of given cycles must take to improve it, so that all others are dropped before their bytes are
//! counted.
//! Owns this combination. Does not enumerate Plans and does not know what they decide.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

use crate::model::ids::{Id, IdVec, PartId};
use crate::util::pareto::{keep_front, thin, Point};

/// Partial Proposal: the first Parts of the network.
#[derive(Clone, Copy, Debug)]
pub struct Partial {
    bytes: u64,
    cycles: u64,
    /// First Part of its last Plan, and the rank of what runs before that Part; None where nothing does.
    pub before: Option<(PartId, u32)>,
    /// Its last Plan: last Part, Parts less one, index among the Plans of that group.
    pub plan: (PartId, u32, u32),
}

impl Point for Partial {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// Fronts by the first Part that is not covered.
#[derive(Debug)]
pub struct PrefixFronts {
    fronts: IdVec<PartId, Vec<Partial>>,
    /// Partial Proposals looked at.
    pub considered: u64,
}

impl PrefixFronts {
    /// The front of no Parts. From there on whatever takes fewer than `least_bytes` is worth no more than these.
    pub fn new(least_bytes: u64) -> PrefixFronts {
        let nothing = Partial { bytes: least_bytes, cycles: 0, before: None, plan: (PartId(0), 0, 0) };
        PrefixFronts { fronts: vec![vec![nothing]].into(), considered: 0 }
    }

    /// The front of all Parts before one.
    pub fn before(&self, part: PartId) -> &[Partial] {
        &self.fronts[part]
    }

    /// The front of all Parts covered.
    pub fn whole(&self) -> &[Partial] {
        self.fronts.last().map_or(&[], Vec::as_slice)
    }

    /// Cover one more Part with the Plans that end with it: fronts with indices, by number of Parts less one.
    pub fn push<T: Point>(&mut self, groups: &[Vec<(u32, &T)>], resolution: u64) {
        let last = PartId::at(self.fronts.len() - 1);
        let mut points = Vec::new();
        for (size, group) in (0u32..).zip(groups) {
            let first = last.before(size as usize);
            join(
                self.before(first),
                group,
                |(_, plan)| *plan,
                |bytes, cycles, rank, (index, _)| {
                    points.push(Partial { bytes, cycles, before: Some((first, rank)), plan: (last, size, *index) });
                },
            );
        }
        self.considered += points.len() as u64;
        keep_front(&mut points);
        thin(&mut points, resolution);
        self.fronts.push(points);
    }
}

/// The front of Plans of `group` after those of `before`: the larger bytes, the sum of cycles.
///
/// At each number of bytes the fastest of either front that takes no more is the best there is, so that one pass over
/// both, ascending in bytes, finds the front.
pub fn join<T, P: Point>(
    before: &[impl Point],
    group: &[T],
    point: impl Fn(&T) -> &P,
    mut found: impl FnMut(u64, u64, u32, &T),
) {
    debug_assert!(before.is_sorted_by_key(Point::memory_bytes), "what runs before does not ascend in bytes");
    debug_assert!(group.is_sorted_by_key(|plan| point(plan).memory_bytes()), "Plans do not ascend in bytes");
    let (mut rank, mut index) = (0, 0);
    while let (Some(partial), Some(plan)) = (before.get(rank), group.get(index)) {
        let (bytes, cycles) = (point(plan).memory_bytes(), point(plan).cycles());
        found(partial.memory_bytes().max(bytes), partial.cycles() + cycles, rank as u32, plan);
        // Whichever side has the next point at fewer bytes becomes faster there.
        let next = |bytes: Option<u64>| bytes.unwrap_or(u64::MAX);
        let partial = next(before.get(rank + 1).map(Point::memory_bytes));
        if partial <= next(group.get(index + 1).map(|plan| point(plan).memory_bytes())) {
            rank += 1;
        } else {
            index += 1;
        }
    }
}

/// The front of the first Parts up to and with a given one, as far as it is known while Plans that end there are found.
#[derive(Debug, Default)]
pub struct KnownFront {
    front: Vec<(u64, u64)>,
}

impl KnownFront {
    /// Add Plans, a front ascending in bytes, that run after those of `before`.
    pub fn add<T: Point>(&mut self, before: &[Partial], group: &[&T]) {
        join(before, group, |plan| *plan, |bytes, cycles, _, _| self.front.push((bytes, cycles)));
        keep_front(&mut self.front);
    }

    /// How few bytes a Plan that runs after those of `before` must take, by its cycles; descending in bytes.
    ///
    /// Let `c` be the cycles of the fastest point of `before` with fewer bytes than point `i + 1` of the front. A
    /// Plan `(B, C)` improves the front between points `i` and `i + 1` if `B < bytes(i + 1)` and `c + C < cycles(i)`.
    pub fn thresholds(&self, before: &[Partial]) -> Vec<DominanceBound> {
        let mut rank = before.len();
        let mut found = Vec::new();
        for index in (0..=self.front.len()).rev() {
            let below_bytes = self.front.get(index).map_or(u64::MAX, |point| point.0);
            while rank > 0 && before[rank - 1].bytes >= below_bytes {
                rank -= 1;
            }
            let Some(fastest) = rank.checked_sub(1).map(|rank| before[rank].cycles) else { break };
            let slowest = index.checked_sub(1).map_or(u64::MAX, |index| self.front[index].1);
            let below_cycles = slowest.saturating_sub(fastest);
            if found.last().is_none_or(|threshold: &DominanceBound| threshold.below_cycles < below_cycles) {
                found.push(DominanceBound { below_bytes, below_cycles });
            }
        }
        found
    }
}

/// A Plan below both of these numbers improves the front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DominanceBound {
    /// Bytes.
    pub below_bytes: u64,
    /// Cycles.
    pub below_cycles: u64,
}

impl DominanceBound {
    /// The rest of the bound for a Plan that already has `bytes` and `cycles`; None if nothing is left.
    pub fn less(&self, bytes: u64, cycles: u64) -> Option<DominanceBound> {
        let below_bytes = self.below_bytes.checked_sub(bytes).filter(|&left| left > 0)?;
        let below_cycles = self.below_cycles.checked_sub(cycles).filter(|&left| left > 0)?;
        Some(DominanceBound { below_bytes, below_cycles })
    }
}

/// Bytes that a Plan of `cycles` must stay below to improve the front; 0 if it cannot.
pub fn limit_bytes(thresholds: &[DominanceBound], cycles: u64) -> u64 {
    let passed = thresholds.partition_point(|threshold| threshold.below_cycles <= cycles);
    thresholds.get(passed).map_or(0, |threshold| threshold.below_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::pareto::pareto_front;
    use proptest::prelude::*;

    /// `expand` whole, then `filter` and `project` two rows at a time, beside one group of all three row by row.
    #[test]
    fn example() {
        let (expand, filter_project, all) = ((2560, 896), (2560, 4544), (1472, 14_720));
        let mut fronts = PrefixFronts::new(0);
        fronts.push(&[vec![(0, &expand)]], 0);
        fronts.push::<(u64, u64)>(&[], 0);
        fronts.push(&[vec![], vec![(0, &filter_project)], vec![(0, &all)]], 0);
        let whole: Vec<(u64, u64)> = fronts.whole().iter().map(|end| (end.bytes, end.cycles)).collect();
        assert_eq!(whole, [(1472, 14_720), (2560, 896 + 4544)]);
    }

    fn partials(points: &[(u64, u64)]) -> Vec<Partial> {
        let partial = |&(bytes, cycles): &(u64, u64)| Partial { bytes, cycles, before: None, plan: (PartId(0), 0, 0) };
        points.iter().map(partial).collect()
    }

    fn points() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((0u64..40, 1u64..40), 1..12).prop_map(pareto_front)
    }

    proptest! {
        #[test]
        fn a_join_is_the_front_of_all_pairs(before in points(), group in points()) {
            let mut known = KnownFront::default();
            known.add(&partials(&before), &group.iter().collect::<Vec<_>>());
            let pairs = before.iter().flat_map(|a| group.iter().map(move |b| (a.0.max(b.0), a.1 + b.1)));
            prop_assert_eq!(known.front, pareto_front(pairs.collect()));
        }

        #[test]
        fn a_plan_passes_its_bar_if_it_improves_the_front(
            before in points(), front in prop::collection::vec((0u64..40, 1u64..80), 0..12), plan in (0u64..50, 0u64..90),
        ) {
            let known = KnownFront { front: pareto_front(front) };
            let useful = before.iter().any(|a| {
                let (bytes, cycles) = (a.0.max(plan.0), a.1 + plan.1);
                !known.front.iter().any(|known| known.0 <= bytes && known.1 <= cycles)
            });
            prop_assert_eq!(plan.0 < limit_bytes(&known.thresholds(&partials(&before)), plan.1), useful);
        }
    }
}
