//! Squeaky wheel: what ended too high goes earlier into the order of first fit, again and again.
//!
//! After Joslin and Clements, "Squeaky wheel optimization" (Journal of Artificial Intelligence Research 10, 1999): place
//! everything, blame what ends above the target, move each of these to a random earlier place, place everything again. No
//! plan is ever refused, so the walk leaves every dead end; it finds good plans of small problems in a few hundred passes,
//! where local search is still cooling. Owns that walk and its first fit, which sees only what an item may meet: on
//! [`Pairs`] a pass takes microseconds, on [`Timeline`]s one over tens of thousands of items takes a few milliseconds.

use super::instance::{Cost, Instance};
use super::layout::{aligned, overflow, spill};
use super::model::Slot;
use super::pairs::Pairs;
use super::random::Random;
use super::timeline::{meetings, Timeline};

/// Most starts.
const STARTS: usize = 4;
/// The target lies this part of the way from the best peak to the bound.
const AIM: u64 = 2;
/// Where more than this part of all sections meet, plain first fit is faster.
const DENSE: u64 = 16;
/// So many ranges are looked at again and again faster than sorted.
const FEW: usize = 64;
/// Stands for a pool where an item does not lie yet.
const NOWHERE: u32 = u32::MAX;

/// A plan and the order in which first fit makes it.
#[derive(Clone)]
pub(crate) struct Found {
    pub slots: Vec<Slot>,
    pub order: Vec<u32>,
    pub cost: Cost,
}

/// Where a placer learns what an item may meet.
enum Known<'a> {
    Pairs(&'a Pairs),
    /// By pool.
    Timelines(Vec<Timeline>),
}

/// First fit that looks only at what an item may meet.
pub(crate) struct Placer<'a> {
    instance: &'a Instance<'a>,
    known: Known<'a>,
    /// About how much it looks at to place all items.
    effort: u64,
    slots: Vec<Slot>,
    cost: Cost,
    banned: Vec<(i64, i64)>,
}

impl<'a> Placer<'a> {
    /// `None` where too much meets, or may share, for this to be worth it.
    pub fn new(instance: &'a Instance<'a>) -> Option<Self> {
        let (known, effort) = match instance.pairs() {
            Some(pairs) => (Known::Pairs(pairs), pairs.count()),
            None => {
                let sections: u64 = instance.items.iter().map(|item| item.sections.len() as u64).sum();
                let effort = meetings(instance);
                if effort > sections * sections / DENSE || instance.items.iter().any(|item| !item.shares.is_empty()) {
                    return None;
                }
                let timelines = instance.pools.iter().map(|_| Timeline::new(instance)).collect();
                (Known::Timelines(timelines), effort)
            }
        };
        Some(Self { instance, known, effort, slots: Vec::new(), cost: Cost::default(), banned: Vec::new() })
    }

    /// About how much it looks at to place all items; at least 1.
    pub fn effort(&self) -> u64 {
        self.effort.max(1)
    }

    /// First fit in `order`; pinned items lie where they must.
    pub fn first_fit(&mut self, order: Vec<u32>) -> Found {
        self.place_all(&order);
        Found { slots: self.slots.clone(), order, cost: self.cost.clone() }
    }

    fn place_all(&mut self, order: &[u32]) {
        self.cost.spill = 0;
        self.cost.peaks.clear();
        self.cost.peaks.resize(self.instance.pools.len(), 0);
        self.slots.clear();
        self.slots.resize(self.instance.items.len(), Slot { pool: NOWHERE, offset: 0 });
        if let Known::Timelines(timelines) = &mut self.known {
            timelines.iter_mut().for_each(Timeline::clear);
        }
        for (index, item) in (0u32..).zip(&self.instance.items) {
            if let Some(offset) = item.pinned {
                self.put(index, item.candidates[0].pool, offset);
            }
        }
        for &item in order {
            self.place(item);
        }
        self.cost.overflow = overflow(self.instance, &self.cost.peaks);
    }

    /// As [`super::layout::Layout::place`].
    fn place(&mut self, index: u32) {
        let item = &self.instance.items[index as usize];
        if item.pinned.is_some() {
            return;
        }
        let mut least: Option<(u64, u32, u64)> = None;
        for candidate in &item.candidates {
            let pool = &self.instance.pools[candidate.pool as usize];
            let offset = self.lowest_fit(index, candidate.pool, candidate.alignment, pool.base_address);
            let end = if item.sections.is_empty() { 0 } else { offset + item.size_bytes };
            let excess = pool.limit_bytes.map_or(0, |limit| end.saturating_sub(limit));
            if least.is_none_or(|(found, _, _)| excess < found) {
                least = Some((excess, candidate.pool, offset));
            }
            if excess == 0 {
                break;
            }
        }
        if let Some((_, pool, offset)) = least {
            self.put(index, pool, offset);
        }
    }

    fn put(&mut self, index: u32, pool: u32, offset: u64) {
        let item = &self.instance.items[index as usize];
        self.slots[index as usize] = Slot { pool, offset };
        self.cost.spill += spill(item, pool);
        if let Known::Timelines(timelines) = &mut self.known {
            item.sections.iter().for_each(|section| timelines[pool as usize].insert(section, offset));
        }
        if !item.sections.is_empty() {
            let peak = &mut self.cost.peaks[pool as usize];
            *peak = (*peak).max(offset + item.size_bytes);
        }
    }

    fn lowest_fit(&mut self, index: u32, pool: u32, alignment: u64, base: u64) -> u64 {
        let mut fit = Fit { offset: aligned(0, alignment, base), alignment, base };
        self.banned.clear();
        let (banned, mut nearest) = (&mut self.banned, i64::MAX);
        // What lies above the place that is found may yet be in its way, once others have raised it.
        let mut avoid = |(low, high)| {
            if fit.clears(low, high) {
                banned.push((low, high));
                nearest = nearest.min(low);
            }
        };
        match &self.known {
            Known::Pairs(pairs) => {
                for ban in pairs.of(index) {
                    let there = self.slots[ban.other as usize];
                    if there.pool == pool {
                        avoid((there.offset as i64 + ban.low, there.offset as i64 + ban.high));
                    }
                }
            }
            Known::Timelines(timelines) => {
                for section in &self.instance.items[index as usize].sections {
                    timelines[pool as usize].each(section, |(start, end)| {
                        avoid((start - section.high as i64 + 1, end - section.low as i64));
                    });
                }
            }
        }
        fit.rise(&mut self.banned, nearest)
    }
}

/// The lowest offset that nothing looked at so far forbids.
struct Fit {
    offset: u64,
    alignment: u64,
    base: u64,
}

impl Fit {
    /// Rises above `[low, high)` if that is in the way. `true` if it lies above, where it may be in the way later.
    #[inline]
    fn clears(&mut self, low: i64, high: i64) -> bool {
        let offset = self.offset as i64;
        if low <= offset && high > offset {
            self.offset = aligned(high as u64, self.alignment, self.base);
        }
        low > offset
    }

    /// Rises until none of `banned` is in the way, the lowest of which begins at `nearest`.
    fn rise(mut self, banned: &mut Vec<(i64, i64)>, mut nearest: i64) -> u64 {
        if banned.len() > FEW {
            banned.sort_unstable_by_key(|&(low, _)| low);
            for &(low, high) in &*banned {
                if self.clears(low, high) {
                    break;
                }
            }
            return self.offset;
        }
        while nearest <= self.offset as i64 {
            nearest = i64::MAX;
            banned.retain(|&(low, high)| {
                let above = self.clears(low, high);
                nearest = if above { nearest.min(low) } else { nearest };
                above
            });
        }
        self.offset
    }
}

/// The best plan of `turns` passes from the best of `starts`, which is not empty, and how many were made.
pub(crate) fn walk(placer: &mut Placer, starts: &[Found], turns: u64, seed: u64) -> (Found, u64) {
    let instance = placer.instance;
    let starts = &starts[..starts.len().min(STARTS)];
    let mut best = starts[0].clone();
    let mut random = Random::new(seed);
    let mut blame = Blame { targets: targets(instance, &best.cost), keys: Vec::new() };
    let mut done = 0;
    for (round, start) in (1u64..).zip(starts) {
        let mut order = start.order.clone();
        placer.place_all(&order);
        while done < turns * round / starts.len() as u64 && !instance.proves_optimal(&best.cost, &[]) {
            if !blame.reorder(placer, &mut order, &mut random) {
                break;
            }
            placer.place_all(&order);
            done += 1;
            if placer.cost < best.cost {
                best = Found { slots: placer.slots.clone(), order: order.clone(), cost: placer.cost.clone() };
                blame.targets = targets(instance, &best.cost);
            }
        }
    }
    (best, done)
}

/// Peaks between those of the best plan and what is possible, in bytes, by pool.
fn targets(instance: &Instance, best: &Cost) -> Vec<u64> {
    let aim = |(pool, spec): (usize, &super::model::Pool)| {
        let peak = best.peaks[pool];
        let wanted = peak - peak.saturating_sub(instance.goal(pool)).div_ceil(AIM);
        wanted.min(spec.limit_bytes.unwrap_or(u64::MAX))
    };
    instance.pools.iter().enumerate().map(aim).collect()
}

struct Blame {
    targets: Vec<u64>,
    keys: Vec<(u32, u32)>,
}

impl Blame {
    /// Moves what ends above its target, or was denied its preferred pool, to earlier places. `false` when nothing did.
    fn reorder(&mut self, placer: &Placer, order: &mut [u32], random: &mut Random) -> bool {
        self.keys.clear();
        let mut blamed = false;
        for (position, &index) in (0u32..).zip(order.iter()) {
            let (item, slot) = (&placer.instance.items[index as usize], placer.slots[index as usize]);
            let denied = slot.pool != item.candidates[0].pool;
            let high = !item.sections.is_empty() && slot.offset + item.size_bytes > self.targets[slot.pool as usize];
            let key = if denied || high {
                blamed = true;
                2 * random.below(position as usize + 1) as u32
            } else {
                2 * position + 1
            };
            self.keys.push((key, index));
        }
        self.keys.sort_by_key(|&(key, _)| key);
        for (place, &(_, index)) in order.iter_mut().zip(&self.keys) {
            *place = index;
        }
        blamed
    }
}
