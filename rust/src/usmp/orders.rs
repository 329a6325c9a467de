//! The orders of greedy planning, hard items first by one measure each, and first fit in one of them.
//!
//! Owns the orders; where searches go from there is for others.

use std::cmp::Reverse;

use super::arrangement::Arrangement;
use super::instance::Instance;
use super::item::Item;
use super::placer::{OrderedPlan, Placer};

/// An order in which first fit takes the items; ties go by size, then by canonical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GreedyOrder {
    /// Largest first.
    Size,
    /// Longest in use first.
    Steps,
    /// Largest product of size and steps first.
    Area,
    /// Most other items in use at the same time, or in conflict, first.
    Conflicts,
    /// First in use first.
    Start,
    /// Last in use first: a cascade's output then lies below the input into which it grows.
    End,
}

impl GreedyOrder {
    pub const ALL: [GreedyOrder; 6] = [
        GreedyOrder::Size,
        GreedyOrder::Conflicts,
        GreedyOrder::Area,
        GreedyOrder::Steps,
        GreedyOrder::Start,
        GreedyOrder::End,
    ];

    /// Indices of all items in this order.
    pub fn sort(self, instance: &Instance) -> Vec<u32> {
        let items = &instance.items;
        let mut order: Vec<u32> = (0..items.len() as u32).collect();
        let size = |index: u32| items[index as usize].size_bytes;
        let steps = |index: u32| items[index as usize].steps();
        match self {
            GreedyOrder::Size => order.sort_by_key(|&i| Reverse((size(i), steps(i)))),
            GreedyOrder::Steps => order.sort_by_key(|&i| Reverse((steps(i), size(i)))),
            GreedyOrder::Area => order.sort_by_key(|&i| Reverse((u128::from(size(i)) * u128::from(steps(i)), size(i)))),
            GreedyOrder::Conflicts => {
                let conflicts = neighbours(instance);
                order.sort_by_key(|&i| Reverse((conflicts[i as usize], size(i))));
            }
            GreedyOrder::Start => order.sort_by_key(|&i| (items[i as usize].span().0, Reverse(size(i)))),
            GreedyOrder::End => order.sort_by_key(|&i| Reverse((items[i as usize].span().1, size(i)))),
        }
        order
    }
}

/// How many other items each item meets in time, gaps ignored, or conflicts with explicitly. Those that it meets are all,
/// less those that end before and start after it.
fn neighbours(instance: &Instance) -> Vec<usize> {
    let items = &instance.items;
    let mut starts: Vec<i64> = items.iter().map(|item| item.span().0).collect();
    let mut ends: Vec<i64> = items.iter().map(|item| item.span().1).collect();
    starts.sort_unstable();
    ends.sort_unstable();
    let met = |item: &Item| {
        let (lower, upper) = item.span();
        let before = ends.partition_point(|&end| end <= lower);
        let after = items.len() - starts.partition_point(|&start| start < upper);
        let apart = item.conflicts.iter().filter(|&&other| !item.meets_in_time(&items[other as usize]));
        items.len().saturating_sub(before + after) + apart.count()
    };
    items.iter().map(met).collect()
}

/// First fit in `order`, by a placer of the instance where it has one.
pub(crate) fn first_fit(instance: &Instance, placer: Option<&mut Placer>, order: Vec<u32>) -> OrderedPlan {
    if let Some(placer) = placer {
        placer.place_all(&order);
        return placer.found(&order);
    }
    let arrangement = Arrangement::first_fit(instance, &order);
    OrderedPlan { slots: arrangement.slots().to_vec(), order, cost: arrangement.cost().clone() }
}
