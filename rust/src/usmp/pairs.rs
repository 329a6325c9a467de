//! What any two items forbid each other: differences of offsets. Where all of them are kept, nothing overlaps.
//!
//! Time, windows, explicit conflicts and leave to share are all in these differences, so a search that knows them needs
//! none of the rest. Two buffers whose rows die and appear have as many sections as stripes, but nearly always just one
//! range of forbidden differences. Owns that table; only for problems small enough to store it.

use smallvec::SmallVec;

use super::item::{count_conflicts, Item};
use super::limits::MAX_TABLE_ENTRIES;
use super::model::Section;
use crate::util::interrupt;

/// Most items of a table, and most ranges beside those of explicit conflicts, of which there is a list already.
pub(crate) const MAX_ITEMS: usize = 2_000;
const MAX_TIMED_BANS: usize = 100_000;

/// An item's offset less `other`'s must not lie in `[low, high)` when both lie in the same pool. In bytes.
#[derive(Clone, Copy)]
pub(crate) struct Ban {
    pub other: u32,
    pub low: i64,
    pub high: i64,
}

/// Ranges `[low, high)`.
type BannedRanges = SmallVec<[(i64, i64); 4]>;

/// The bans of each item, by item index; each is listed with both of its items.
pub(crate) struct Pairs {
    bans: Vec<Ban>,
    /// One past each item's last ban.
    ends: Vec<u32>,
}

impl Pairs {
    /// All bans of `items`, or `None` where there are too many to store.
    pub fn new(items: &[Item]) -> Option<Self> {
        if items.len() > MAX_ITEMS {
            return None;
        }
        let mut lists: Vec<Vec<Ban>> = vec![Vec::new(); items.len()];
        let mut by_start: Vec<(i64, i64, u32)> = Vec::with_capacity(items.len());
        for (index, item) in (0u32..).zip(items) {
            if let (Some(first), Some(last)) = (item.sections.first(), item.sections.last()) {
                by_start.push((first.lower, last.upper, index));
            }
        }
        by_start.sort_unstable();
        let mut live: Vec<(i64, u32)> = Vec::new();
        let mut list = |one: u32, other: u32| {
            let ranges = forbidden(&items[one as usize], &items[other as usize], other);
            for &(low, high) in &ranges {
                lists[one as usize].push(Ban { other, low, high });
                lists[other as usize].push(Ban { other: one, low: 1 - high, high: 1 - low });
            }
            2 * ranges.len()
        };
        let mut count = 0;
        let explicit = 2 * count_conflicts(items);
        for (lower, upper, one) in by_start {
            interrupt::ask();
            live.retain(|&(end, _)| end > lower);
            for &(_, other) in &live {
                if !items[one as usize].conflicts_with(other) {
                    count += list(one, other);
                }
            }
            if count > MAX_TIMED_BANS || explicit > MAX_TABLE_ENTRIES {
                return None;
            }
            live.push((upper, one));
        }
        for (one, item) in (0u32..).zip(items) {
            for &other in item.conflicts.iter().filter(|&&other| other < one) {
                count += list(one, other);
            }
        }
        let mut pairs = Self { bans: Vec::with_capacity(count), ends: Vec::with_capacity(items.len()) };
        for list in lists {
            pairs.bans.extend(list);
            pairs.ends.push(pairs.bans.len() as u32);
        }
        Some(pairs)
    }

    /// How many bans are listed.
    pub fn count(&self) -> u64 {
        self.bans.len() as u64
    }

    /// What restricts `item`.
    pub fn of(&self, item: u32) -> &[Ban] {
        let from = if item == 0 { 0 } else { self.ends[item as usize - 1] };
        &self.bans[from as usize..self.ends[item as usize] as usize]
    }
}

/// Differences of `one`'s offset less that of `other`, whose index is `index`, at which the two overlap without leave.
fn forbidden(one: &Item, other: &Item, index: u32) -> BannedRanges {
    let (mut ours, mut theirs) = (one.sections.iter().peekable(), other.sections.iter().peekable());
    let mut ranges = BannedRanges::new();
    if one.conflicts_with(index) {
        // Sizes stay below 2^60.
        ranges.push((1 - one.size_bytes as i64, other.size_bytes as i64));
    }
    while let (Some(our), Some(their)) = (ours.peek(), theirs.peek()) {
        if our.meets(their) {
            add(&mut ranges, overlapping(our, their));
        }
        if our.upper < their.upper {
            ours.next();
        } else {
            theirs.next();
        }
    }
    unite(&mut ranges);
    for &(_, low, high) in one.shares.iter().filter(|share| share.0 == index) {
        let cut = |&(from, to): &(i64, i64)| [(from, to.min(low)), (from.max(high.saturating_add(1)), to)];
        ranges = ranges.iter().flat_map(cut).filter(|&(from, to)| from < to).collect();
    }
    ranges
}

fn overlapping(our: &Section, their: &Section) -> (i64, i64) {
    // Sizes stay below 2^60.
    (their.low as i64 - our.high as i64 + 1, their.high as i64 - our.low as i64)
}

/// Adds a range to the one before it where they touch: windows that move leave few others.
fn add(ranges: &mut BannedRanges, (low, high): (i64, i64)) {
    match ranges.last_mut() {
        Some(last) if low <= last.1 && last.0 <= high => *last = (last.0.min(low), last.1.max(high)),
        _ => ranges.push((low, high)),
    }
}

/// Sorts ranges and makes one of those that touch.
fn unite(ranges: &mut BannedRanges) {
    if ranges.len() > 1 {
        ranges.sort_unstable();
        let mut united = BannedRanges::new();
        ranges.drain(..).for_each(|range| add(&mut united, range));
        *ranges = united;
    }
}
