//! An admissible lower bound of bytes and cycles, for pruning partial groups.
//!
//! - State: by the first Part `f` of a group that ends with a given Part, pairs `(b, c)`: a group in which no Part has `b`
//!   bytes of buffers of its own, and that takes fewer than `c` cycles, may improve a front, closed or with Parts ahead of it.
//! - Step: closed, the group becomes a Plan of at least `CloseCost::beside_bytes` more, so pairs are what
//!   `prefix_fronts::KnownFront` asks of a Plan, less these. With Part `f - 1` it takes at least that Part's fewest cycles
//!   more, so pairs of `f - 1`, less these, are pairs of `f`.
//! - Invariant: every Plan of a front that a group grows into was below one of its pairs all along.
//! - Cost: a pass over all pairs for each Part that the group may grow to.
//!
//! Owns this bound. `prefix_fronts` says which Plans improve a front, `open_groups` grows groups.

use crate::plans::prefix_fronts::DominanceBound;

/// The cost of closing a group of given Parts into a Plan.
#[derive(Clone, Debug, Default)]
pub struct CloseCost {
    /// Bytes that are in use while its own buffers are, whatever its Plan decides.
    pub beside_bytes: u64,
    /// Bytes that are in use at some time even without its own buffers.
    pub least_bytes: u64,
    /// What `KnownFront::thresholds` asks of a Plan; one is enough.
    pub thresholds: Vec<DominanceBound>,
}

/// Pairs of bytes and cycles below which an open group may improve a front, by number of Parts less one.
#[derive(Debug)]
pub struct OpenGroupBound(Vec<Vec<DominanceBound>>);

impl OpenGroupBound {
    /// Of all groups with the same last Part: by number of Parts less one, the fewest cycles of the first one, and what it
    /// takes to end there.
    pub fn new(groups: &[(u64, CloseCost)]) -> OpenGroupBound {
        let mut by_size: Vec<Vec<DominanceBound>> = Vec::new();
        let mut ahead = 0;
        for (growing, closing) in groups.iter().rev() {
            let cycles = std::mem::replace(&mut ahead, *growing);
            let later = by_size.last().into_iter().flatten().filter_map(|later| later.less(0, cycles));
            let now = closing.thresholds.iter().filter(|threshold| threshold.below_bytes > closing.least_bytes);
            let mut all: Vec<DominanceBound> =
                later.chain(now.filter_map(|now| now.less(closing.beside_bytes, 0))).collect();
            keep_widest(&mut all);
            by_size.push(all);
        }
        by_size.reverse();
        OpenGroupBound(by_size)
    }

    /// A bound that prunes nothing, for groups of up to `most` Parts.
    pub fn unknown(most: usize) -> OpenGroupBound {
        OpenGroupBound(vec![vec![DominanceBound { below_bytes: u64::MAX, below_cycles: u64::MAX }]; most])
    }

    /// The pairs of groups with `size` Parts, less one.
    pub fn of(&self, size: usize) -> &[DominanceBound] {
        self.0.get(size).map_or(&[], Vec::as_slice)
    }
}

/// Keep the pairs that no other one contains, ascending in cycles and descending in bytes.
fn keep_widest(pairs: &mut Vec<DominanceBound>) {
    pairs.sort_unstable_by_key(|pair| std::cmp::Reverse((pair.below_bytes, pair.below_cycles)));
    let mut most = 0;
    pairs.retain(|pair| {
        let is_wider = pair.below_cycles > most;
        most = most.max(pair.below_cycles);
        is_wider
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::model::graph::CascaderGraph;
    use crate::plans::enumerate;
    use crate::plans::options::{CopyCost, Options};
    use crate::plans::pass::{ArenaRange, Pass};
    use crate::plans::prefix_fronts::limit_bytes;
    use crate::plans::rolling_rows::RowTable;
    use crate::testing::networks::mobilenet_v1;
    use crate::testing::schedules::arbitrary_network;
    use crate::util::pareto::{pareto_front, Point};
    use proptest::prelude::*;

    fn pair(below_bytes: u64, below_cycles: u64) -> DominanceBound {
        DominanceBound { below_bytes, below_cycles }
    }

    /// By number of Parts less one, what the first adds and what it takes to end there.
    fn groups() -> impl Strategy<Value = Vec<(u64, CloseCost)>> {
        let pairs = prop::collection::vec((1u64..60, 1u64..60), 0..4);
        let group = (0u64..8, 0u64..20, 0u64..40, pairs).prop_map(|(cycles, beside, least, pairs)| {
            let thresholds = pairs.into_iter().map(|(bytes, cycles)| pair(bytes, cycles)).collect();
            (cycles, CloseCost { beside_bytes: beside, least_bytes: least, thresholds })
        });
        prop::collection::vec(group, 1..7)
    }

    proptest! {
        #[test]
        fn a_group_stays_below_the_bound_if_it_can_improve_the_front(
            groups in groups(), bytes in 0u64..50, cycles in 0u64..50, size in 0usize..7,
        ) {
            let bound = OpenGroupBound::new(&groups);
            let is_of_use = (size..groups.len()).any(|end| {
                let added = || groups[size + 1..=end].iter().map(|&(cycles, _)| cycles);
                let cycles = cycles + added().sum::<u64>();
                let closing = &groups[end].1;
                let taken = closing.least_bytes.max(bytes + closing.beside_bytes);
                closing.thresholds.iter().any(|pair| taken < pair.below_bytes && cycles < pair.below_cycles)
            });
            prop_assert_eq!(bytes < limit_bytes(bound.of(size), cycles), is_of_use);
        }

        #[test]
        fn nothing_of_use_is_dropped(graph in arbitrary_network(), sixteenths in 0u64..24) {
            // Open groups are ranked by sums of buffers that need not meet, so one of no use may scratch out one of some
            // use: without it there can be more.
            let (kept, all) = (front(&graph, 1, 0), front(&graph, 0, 0));
            let is_kept = |&(bytes, cycles): &(u64, u64)| kept.iter().any(|&found| found.0 <= bytes && found.1 <= cycles);
            prop_assert!(all.iter().all(is_kept), "{kept:?} {all:?}");
            // Where few bytes are worth nothing, what is left of the front is as fast.
            let least = all[0].0 * sixteenths / 8;
            let worth = pareto_front(all.iter().map(|point| (point.0.max(least), point.1)).collect());
            prop_assert_eq!(front(&graph, 0, least), worth);
        }
    }

    /// The front of a network if as good as nothing is thinned.
    fn front(graph: &CascaderGraph, open_group_bound: u64, least_bytes: u64) -> Vec<(u64, u64)> {
        let fine = Options {
            resolution: 1 << 20,
            max_points: 10_000,
            max_fork: 10_000,
            open_group_bound,
            ..Options::default()
        };
        let (costs, rows) = (&mut Costs::default(), &mut RowTable::default());
        let range = ArenaRange { least_bytes, ..ArenaRange::ALL };
        let table = enumerate(graph, &fine, &Pass { range, ..Pass::new(&fine, CopyCost::Serial) }, costs, rows);
        table.with_overlap.whole().iter().map(|end| (end.memory_bytes(), end.cycles())).collect()
    }

    #[test]
    fn most_open_groups_of_a_deep_network_are_dropped() {
        let graph = mobilenet_v1();
        let considered = |open_group_bound| {
            let options = Options { open_group_bound, ..Options::default() };
            let (costs, rows) = (&mut Costs::default(), &mut RowTable::default());
            enumerate(&graph, &options, &Pass::new(&options, CopyCost::Serial), costs, rows).considered
        };
        assert!(2 * considered(1) < considered(0));
    }
}
