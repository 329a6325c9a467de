//! Lower bounds of peaks: what no plan can beat. Owns the sweep over time; knows nothing of offsets.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::instance::{Instance, Item};
use super::model::Section;

/// Which buffers a bound counts for a pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Those that may lie nowhere else: a bound of every plan.
    Forced,
    /// Those that prefer it: a bound of every plan that grants all preferences.
    Preferred,
}

/// The largest sum of sizes in use at one step, in bytes, by pool id.
pub(crate) fn live_bytes(instance: &Instance, counted: Counted) -> Vec<u64> {
    let pools = instance.pools.len() as u32;
    (0..pools).map(|pool| sweep(sections_of(instance, counted, pool).map(|s| (s, s.high - s.low, 0)))).collect()
}

/// Like [`live_bytes`] for preferred pools, but also counts the bytes that alignment must waste.
///
/// Where every offset is a multiple of some `g`, each buffer but the topmost occupies its size rounded up to `g`.
pub(crate) fn aligned_live_bytes(instance: &Instance) -> Vec<u64> {
    let pools = instance.pools.len() as u32;
    let bound = |pool| {
        let step = common_step(instance, pool);
        let starts_on_step = sections_of(instance, Counted::Preferred, pool).all(|s| s.low % step == 0);
        let step = if starts_on_step { step } else { 1 };
        sweep(sections_of(instance, Counted::Preferred, pool).map(|s| {
            let size = s.high - s.low;
            let taken = size.next_multiple_of(step);
            (s, taken, taken - size)
        }))
    };
    (0..pools).map(bound).collect()
}

fn in_pool(item: &Item, counted: Counted, pool: u32) -> bool {
    let forced = item.candidates.len() == 1 || item.pinned.is_some();
    item.candidates[0].pool == pool && (forced || counted == Counted::Preferred)
}

fn sections_of<'a>(instance: &'a Instance<'a>, counted: Counted, pool: u32) -> impl Iterator<Item = Section> + 'a {
    let items = (0u32..).zip(&instance.items).filter(move |(_, item)| in_pool(item, counted, pool));
    items.flat_map(move |(index, item)| unshared(instance, index, item))
}

/// The sections of `item` less the steps in which an earlier item may lie over it: what both take then may be as little
/// as what the earlier one takes.
fn unshared(instance: &Instance, index: u32, item: &Item) -> SmallVec<[Section; 1]> {
    let mut sections = item.sections.clone();
    for &(other, ..) in item.shares.iter().filter(|share| share.0 < index) {
        for theirs in &instance.items[other as usize].sections {
            let parts = sections.iter().flat_map(|mine| {
                let before = Section { upper: mine.upper.min(theirs.lower), ..*mine };
                let after = Section { lower: mine.lower.max(theirs.upper), ..*mine };
                [before, after].into_iter().filter(|part| part.lower < part.upper)
            });
            sections = if sections.iter().any(|mine| mine.meets(theirs)) { parts.collect() } else { sections };
        }
    }
    sections
}

/// The largest number of which every possible offset in `pool` is a multiple.
fn common_step(instance: &Instance, pool: u32) -> u64 {
    let base = instance.pools[pool as usize].base_address;
    let mut step = 0;
    for item in instance.items.iter().filter(|item| in_pool(item, Counted::Preferred, pool)) {
        step = gcd(step, item.candidates[0].alignment);
        step = gcd(step, item.pinned.unwrap_or(0));
    }
    gcd(step, base).max(1)
}

/// The largest of all numbers that divide both; `gcd(0, b)` is `b`.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// The largest over all steps of: bytes taken at that step, less the largest slack among the sections that take them.
fn sweep(sections: impl Iterator<Item = (Section, u64, u64)>) -> u64 {
    let mut events: Vec<(i64, bool, u64, u64)> = Vec::with_capacity(2 * sections.size_hint().0.max(16));
    for (section, taken, slack) in sections {
        events.push((section.lower, true, taken, slack));
        events.push((section.upper, false, taken, slack));
    }
    // An end sorts before a start at the same step: ranges are half-open.
    events.sort_unstable();
    let slackless = events.iter().all(|&(_, _, _, slack)| slack == 0);
    let mut slacks: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut taken_now, mut most) = (0u64, 0u64);
    for (_, starts, taken, slack) in events {
        if !starts {
            taken_now -= taken;
            if !slackless {
                let count = slacks.entry(slack).or_default();
                *count -= 1;
                if *count == 0 {
                    slacks.remove(&slack);
                }
            }
            continue;
        }
        taken_now += taken;
        if !slackless {
            *slacks.entry(slack).or_default() += 1;
        }
        let spare = slacks.keys().next_back().copied().unwrap_or(0);
        most = most.max(taken_now - spare);
    }
    most
}
