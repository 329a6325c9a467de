//! What is asked about one pool and what is answered, whichever search is asked.
//!
//! Owns questions, answers and how a packing comes into a plan; knows no search.

use crate::usmp::model::Slot;
use crate::usmp::optimality_gap::OptimalityGap;

/// Items and their offsets.
pub(super) type Packing = Vec<(u32, u64)>;

/// What is wanted of a ladder.
pub(super) struct Goal<'a> {
    /// No packing needs less, in bytes.
    pub bound: u64,
    /// Only packings that need less are wanted, in bytes.
    pub below: u64,
    /// Most nodes, over all runs.
    pub nodes: u64,
    /// Most looks at blocks and cells, about; only searches of spaces count them.
    pub work: u64,
    pub seed: u64,
    pub threads: u32,
    /// Where the pool's gap is reported, if anywhere.
    pub gap: Option<&'a OptimalityGap>,
}

impl Goal<'_> {
    /// Reports the peak of the best packing and what no packing needs less than, in bytes.
    pub fn report(&self, peak: u64, bound: u64) {
        if let Some(gap) = self.gap {
            gap.narrow(peak, bound);
        }
    }
}

/// What a ladder found.
pub(super) struct LadderAnswer {
    /// By block, when there is a packing below what was asked for.
    pub offsets: Option<Vec<u64>>,
    /// No packing needs less, in bytes; proved.
    pub bound: u64,
    /// Nodes searched.
    pub nodes: u64,
    /// Looks at blocks and cells.
    pub work: u64,
}

/// How a search for one capacity ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is a packing.
    Found,
    /// There is none.
    Impossible,
    /// The nodes ran out.
    Spent,
}

/// Items that lie in `pool`, ascending.
pub(super) fn in_pool(pool: u32, slots: &[Slot]) -> Vec<u32> {
    (0u32..).zip(slots).filter(|(_, slot)| slot.pool == pool).map(|(item, _)| item).collect()
}

/// Moves the items of `packing` to where it says.
pub(super) fn put(packing: &Packing, slots: &mut [Slot]) {
    for &(item, offset) in packing {
        slots[item as usize].offset = offset;
    }
}
