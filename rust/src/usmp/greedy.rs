//! One first-fit pass over a sorted order. Owns the orders.

use std::cmp::Reverse;

use super::instance::{Instance, Item};
use super::layout::Layout;
use super::model::{StopReason, UsmpError};
use super::placer::{Found, Placer};
use super::{Outcome, Solver, Task};

/// An order in which first fit takes the items; ties go by size, then by canonical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
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

impl Order {
    pub const ALL: [Order; 6] = [Order::Size, Order::Conflicts, Order::Area, Order::Steps, Order::Start, Order::End];

    /// Indices of all items in this order.
    pub fn sort(self, instance: &Instance) -> Vec<u32> {
        let items = &instance.items;
        let mut order: Vec<u32> = (0..items.len() as u32).collect();
        let size = |index: u32| items[index as usize].size_bytes;
        let steps = |index: u32| items[index as usize].steps();
        match self {
            Order::Size => order.sort_by_key(|&i| Reverse((size(i), steps(i)))),
            Order::Steps => order.sort_by_key(|&i| Reverse((steps(i), size(i)))),
            Order::Area => order.sort_by_key(|&i| Reverse((u128::from(size(i)) * u128::from(steps(i)), size(i)))),
            Order::Conflicts => {
                let conflicts = count_conflicts(instance);
                order.sort_by_key(|&i| Reverse((conflicts[i as usize], size(i))));
            }
            Order::Start => order.sort_by_key(|&i| (items[i as usize].span().0, Reverse(size(i)))),
            Order::End => order.sort_by_key(|&i| Reverse((items[i as usize].span().1, size(i)))),
        }
        order
    }
}

/// How many other items each item meets in time, gaps ignored, or conflicts with explicitly. Those that it meets are all,
/// less those that end before and start after it.
fn count_conflicts(instance: &Instance) -> Vec<usize> {
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
pub(crate) fn first_fit(instance: &Instance, placer: Option<&mut Placer>, order: Vec<u32>) -> Result<Found, UsmpError> {
    if let Some(placer) = placer {
        placer.place_all(&order);
        return Ok(placer.found(&order));
    }
    let layout = Layout::first_fit(instance, &order)?;
    Ok(Found { slots: layout.slots().to_vec(), order, cost: layout.cost().clone() })
}

/// First fit in one order.
pub(crate) struct Greedy(pub Order);

impl Solver for Greedy {
    fn solve(&self, task: &Task) -> Result<Outcome, UsmpError> {
        let order = self.0.sort(task.instance);
        let found = first_fit(task.instance, Placer::new(task.instance).as_mut(), order)?;
        Ok(Outcome::of(Layout::from_slots(task.instance, &found.slots)?, StopReason::Complete, 0))
    }
}
