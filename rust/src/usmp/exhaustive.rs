//! Every settled plan of a handful of items: all pools, and all offsets at which an item lies on the floor or on another.
//!
//! The judge of small problems that branch and bound cannot decide alone: several candidate pools, and items of which
//! parts die, which may lie above one another in turn. Owns the enumeration; larger problems are not for it.

use smallvec::SmallVec;

use super::instance::Instance;
use super::layout::Layout;
use super::model::{StopReason, UsmpError};
use super::Outcome;

/// Most items that are not pinned.
pub(crate) const MOST_ITEMS: usize = 7;
/// Most partial plans looked at.
const MOST_PLANS: u64 = 100_000;

/// The best of all settled plans, where there are few, not worse than `layout`.
pub(crate) fn exhaust(instance: &Instance, layout: Layout) -> Result<Outcome, UsmpError> {
    let mut left = instance.movable();
    let solid = instance.items.iter().all(super::instance::Item::is_solid);
    let mut all = Enumeration { instance, solid, best: layout, plans: 0 };
    let start = Layout::new(instance)?;
    all.extend(&start, (0, 0), &mut left);
    let exhausted = all.plans < MOST_PLANS && instance.is_settled_enough();
    let stop_reason = if exhausted { StopReason::Complete } else { StopReason::NodeLimit };
    Ok(Outcome { layout: all.best, stop_reason, iterations: all.plans, proved: SmallVec::new(), exhausted })
}

struct Enumeration<'a> {
    instance: &'a Instance<'a>,
    /// Whether all items use all their bytes always: then the order of offsets is an order to place them in.
    solid: bool,
    best: Layout,
    plans: u64,
}

impl Enumeration<'_> {
    /// Completes `placed`, whose last item lies at (pool, offset) `last`, with all of `left`, which comes back as it was.
    fn extend(&mut self, placed: &Layout, last: (u32, u64), left: &mut Vec<u32>) {
        // Placing more never makes a cost smaller.
        if placed.cost() >= self.best.cost() || self.plans >= MOST_PLANS {
            return;
        }
        if left.is_empty() {
            self.best.clone_from(placed);
            return;
        }
        for index in 0..left.len() {
            let item = left.remove(index);
            for (rank, candidate) in self.instance.items[item as usize].candidates.iter().enumerate() {
                for offset in placed.settled_offsets(self.instance, item, rank, self.solid) {
                    let here = (candidate.pool, offset);
                    if self.solid && here < last {
                        continue;
                    }
                    self.plans += 1;
                    let mut next = placed.clone();
                    next.place_at(self.instance, item, rank, offset);
                    self.extend(&next, here, left);
                }
            }
            left.insert(index, item);
        }
    }
}
