//! Buffers that must lie at a given offset: whether any two of them are in each other's way there.
//!
//! - State: sections of pinned items in order of their first steps, and those of them that are still in use at the next.
//! - Step: a section is held against these alone.
//! - Cost: the number of pinned sections times how many are in use at once.
//!
//! Owns that question. Placing other buffers around them is for solvers, which are not asked where pins overlap.

use super::item::Item;
use super::model::UsmpError;

/// Bytes `[start, end)` of a pool that a pinned item uses in steps `[lower, upper)`.
struct PinnedSection {
    pool: u32,
    lower: i64,
    upper: i64,
    start: u64,
    end: u64,
    item: u32,
}

/// Whether all pinned items may lie where they are pinned to.
///
/// # Errors
/// [`UsmpError::PinsOverlap`] with the first two buffers, by their ids, that may not.
pub(crate) fn check(items: &[Item]) -> Result<(), UsmpError> {
    let pinned = || (0u32..).zip(items).filter_map(|(index, item)| Some((index, item, item.pinned?)));
    let sections = pinned().flat_map(|(item, Item { sections, candidates, .. }, offset)| {
        let pool = candidates[0].pool;
        sections.iter().map(move |section| PinnedSection {
            pool,
            lower: section.lower,
            upper: section.upper,
            start: offset + section.low,
            end: offset + section.high,
            item,
        })
    });
    let mut sections: Vec<PinnedSection> = sections.collect();
    sections.sort_unstable_by_key(|taken| (taken.lower, taken.item));
    let mut overlaps: Vec<(u32, u32)> = Vec::new();
    let mut in_use: Vec<&PinnedSection> = Vec::new();
    for taken in &sections {
        in_use.retain(|other| other.upper > taken.lower);
        let meets =
            |other: &&&PinnedSection| other.pool == taken.pool && other.start < taken.end && taken.start < other.end;
        overlaps.extend(in_use.iter().filter(meets).map(|other| (other.item, taken.item)));
        in_use.push(taken);
    }
    for (index, item, offset) in pinned() {
        let meets = |&other: &u32| {
            let there = &items[other as usize];
            let touches = |at: u64| at < offset + item.size_bytes && offset < at + there.size_bytes;
            there.candidates[0].pool == item.candidates[0].pool && there.pinned.is_some_and(touches)
        };
        overlaps.extend(item.conflicts.iter().copied().filter(meets).map(|other| (other, index)));
    }
    let buffer = |item: u32| items[item as usize].buffer;
    let refused = overlaps.into_iter().filter(|&(one, other)| one != other && !may_share(items, one, other));
    let pair = |(one, other)| (buffer(one).min(buffer(other)), buffer(one).max(buffer(other)));
    match refused.map(pair).min() {
        Some((first, second)) => Err(UsmpError::PinsOverlap { first, second }),
        None => Ok(()),
    }
}

/// Whether two pinned items may overlap at the offsets that they have.
fn may_share(items: &[Item], one: u32, other: u32) -> bool {
    let [here, there] = [one, other].map(|item| &items[item as usize]);
    let Some(apart) = here.pinned.zip(there.pinned).map(|(here, there)| here as i64 - there as i64) else {
        return true;
    };
    here.shares.iter().any(|&(with, low, high)| with == other && (low..=high).contains(&apart))
}
