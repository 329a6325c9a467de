//! Admissible lower bounds of peaks. Owns the sweep over time; knows nothing of offsets.
//!
//! At any step the bytes in use lie above one another. Take a number `g` and call *coarse* what must start at an address
//! that is a multiple of `g`, *fine* all else. Between a coarse range and another directly above it lies padding up to
//! the next multiple of `g`: its *slack*. Only a fine range, or the top, saves a coarse one its slack, and each saves
//! one. So the peak is at least all sizes and slacks, less the largest slack, less one more for each fine range: the
//! largest again. Leaving a fine range out of account gives a bound too, a better one where it is smaller than the slack
//! that it would save. The floor is like a coarse range that is never the topmost: its slack reaches to the first
//! multiple of `g`.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::arithmetic::gcd;
use super::clique::Graph;
use super::item::Item;
use super::model::{Pool, Section};
use crate::util::interrupt;

/// The buffers counted by a bound for a pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoundScope {
    /// Buffers with no other pool: a bound of every plan.
    Forced,
    /// Buffers whose preferred pool it is: a bound of every plan with all buffers in their preferred pools.
    Preferred,
}

/// Lower bounds of the peaks in bytes, by pool id; `graph` holds explicit conflicts, if there are any.
pub(crate) fn least_peaks(pools: &[Pool], items: &[Item], graph: Option<&Graph>, counted: BoundScope) -> Vec<u64> {
    let least = |(pool, spec): (u32, &Pool)| Bound { items, counted, pool, base: spec.base_address }.least_peak(graph);
    (0u32..).zip(pools).map(least).collect()
}

/// The bound of one pool; it counts some of `items`.
struct Bound<'a> {
    items: &'a [Item],
    counted: BoundScope,
    pool: u32,
    /// Address of offset 0, in bytes.
    base: u64,
}

impl Bound<'_> {
    fn least_peak(&self, graph: Option<&Graph>) -> u64 {
        let pinned = self.items.iter().filter(|item| self.counts(item) && !item.sections.is_empty());
        let pinned = pinned.filter_map(|item| item.pinned.map(|offset| offset + item.size_bytes)).max().unwrap_or(0);
        let steps = self.steps();
        let swept = steps.iter().map(|&step| self.sweep(step)).max();
        let stacked = graph.map_or(0, |graph| self.stacked(graph, &steps));
        swept.unwrap_or(0).max(pinned).max(stacked)
    }

    fn counts(&self, item: &Item) -> bool {
        let forced = item.candidates.len() == 1 || item.pinned.is_some();
        item.candidates[0].pool == self.pool && (forced || self.counted == BoundScope::Preferred)
    }

    /// The numbers `g` worth a sweep: the common divisor of all alignments, and each larger alignment. Nothing is fine to
    /// the former.
    fn steps(&self) -> SmallVec<[u64; 4]> {
        let mut steps: SmallVec<[u64; 4]> = SmallVec::new();
        let mut common = 0;
        for item in self.items.iter().filter(|item| self.counts(item)) {
            let alignment = item.candidates[0].alignment;
            common = item.sections.iter().fold(gcd(common, alignment), |common, section| gcd(common, section.low));
            if !steps.contains(&alignment) {
                steps.push(alignment);
            }
        }
        steps.retain(|step| *step > common);
        steps.push(common.max(1));
        steps
    }

    /// Bytes of the heaviest set of items without a common byte.
    fn stacked(&self, graph: &Graph, steps: &[u64]) -> u64 {
        let common = steps.last().copied().unwrap_or(1);
        let weight = |index: u32| {
            let item = &self.items[index as usize];
            if self.counts(item) {
                item.size_bytes.next_multiple_of(common)
            } else {
                0
            }
        };
        let set = graph.heaviest(weight, None);
        let needed = |&step: &u64| {
            let mut stack = LiveRanges { floor: self.base.next_multiple_of(step) - self.base, ..LiveRanges::default() };
            for item in set.iter().map(|&index| &self.items[index as usize]) {
                stack.add(item.size_bytes, self.slack(item, step, (0, item.size_bytes)));
            }
            stack.needed()
        };
        steps.iter().map(needed).max().unwrap_or(0)
    }

    /// What the bytes `[low, high)` of an item lack to a multiple of `step`, where they must start at one.
    fn slack(&self, item: &Item, step: u64, (low, high): (u64, u64)) -> Option<u64> {
        let alignment = item.candidates[0].alignment;
        let start = item.pinned.map_or(low, |offset| self.base + offset + low);
        let coarse = start % step == 0 && (item.pinned.is_some() || alignment % step == 0);
        let bytes = high - low;
        coarse.then(|| bytes.next_multiple_of(step) - bytes)
    }

    /// The largest number of bytes needed at any step of time, with `step` as the number `g`.
    fn sweep(&self, step: u64) -> u64 {
        let mut events: Vec<(i64, bool, u64, Option<u64>)> = Vec::with_capacity(2 * self.items.len());
        for (index, item) in (0u32..).zip(self.items).filter(|(_, item)| self.counts(item)) {
            for section in unshared(self.items, index, item) {
                let bytes = section.high - section.low;
                let slack = self.slack(item, step, (section.low, section.high));
                events.push((section.lower, true, bytes, slack));
                events.push((section.upper, false, bytes, slack));
            }
        }
        // An end sorts before a start at the same step: ranges are half-open.
        events.sort_unstable();
        let mut now = LiveRanges { floor: self.base.next_multiple_of(step) - self.base, ..LiveRanges::default() };
        let mut most = 0;
        for (_, starts, bytes, slack) in events {
            interrupt::ask();
            if starts {
                now.add(bytes, slack);
            } else {
                now.remove(bytes, slack);
            }
            if starts && now.all() > most {
                most = most.max(now.needed());
            }
        }
        most
    }
}

/// The byte ranges in use at one step.
#[derive(Default)]
struct LiveRanges {
    coarse_bytes: u64,
    /// Bytes from the pool's start to the first multiple.
    floor: u64,
    /// Bytes of fine ranges.
    fine: Bag,
    /// Bytes from the ends of coarse ranges to the next multiple.
    slacks: Bag,
}

impl LiveRanges {
    fn add(&mut self, bytes: u64, slack: Option<u64>) {
        match slack {
            Some(slack) => {
                self.coarse_bytes += bytes;
                self.slacks.add(slack);
            }
            None => self.fine.add(bytes),
        }
    }

    fn remove(&mut self, bytes: u64, slack: Option<u64>) {
        match slack {
            Some(slack) => {
                self.coarse_bytes -= bytes;
                self.slacks.remove(slack);
            }
            None => self.fine.remove(bytes),
        }
    }

    /// As if nothing saved any slack: cheap, and not below [`Self::needed`].
    fn all(&self) -> u64 {
        self.coarse_bytes + self.fine.total + self.slacks.total + self.floor
    }

    fn needed(&self) -> u64 {
        if self.coarse_bytes == 0 {
            return self.fine.total;
        }
        let mut slacks = self.slacks.descending().peekable();
        let mut floor = self.floor;
        let mut bytes = self.coarse_bytes + floor + self.slacks.total - slacks.next().unwrap_or(0);
        let mut most = bytes;
        for fine in self.fine.descending() {
            let saved = slacks.next_if(|&slack| slack >= floor).unwrap_or_else(|| std::mem::take(&mut floor));
            bytes = bytes + fine - saved;
            most = most.max(bytes);
        }
        most
    }
}

/// Numbers of bytes, some of them several times; zeros are not kept.
#[derive(Default)]
struct Bag {
    counts: BTreeMap<u64, u32>,
    total: u64,
}

impl Bag {
    fn add(&mut self, bytes: u64) {
        if bytes > 0 {
            self.total += bytes;
            *self.counts.entry(bytes).or_default() += 1;
        }
    }

    fn remove(&mut self, bytes: u64) {
        if let Some(count) = self.counts.get_mut(&bytes) {
            self.total -= bytes;
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&bytes);
            }
        }
    }

    fn descending(&self) -> impl Iterator<Item = u64> + '_ {
        self.counts.iter().rev().flat_map(|(&bytes, &count)| std::iter::repeat_n(bytes, count as usize))
    }
}

/// The sections of `item` without the steps in which an earlier item may overlap it. There both together may take no more
/// than the earlier one.
fn unshared(items: &[Item], index: u32, item: &Item) -> SmallVec<[Section; 1]> {
    let mut sections = item.sections.clone();
    for &(other, ..) in item.shares.iter().filter(|share| share.0 < index) {
        for theirs in &items[other as usize].sections {
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
