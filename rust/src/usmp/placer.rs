//! Incremental first fit: it looks only at items that may overlap and, between orders, only at changes.
//!
//! On [`Pairs`] placing everything takes microseconds, on [`Timeline`]s tens of thousands of items take a few milliseconds.
//! Owns where items lie for one order after the other; which orders are worth a try is for others to decide.

use super::fit::Fit;
use super::instance::Instance;
use super::item::{overflow, PlanCost};
use super::model::Slot;
use super::pairs::Pairs;
use super::timeline::{count_overlaps, Timeline};
use crate::util::interrupt;

/// Plain first fit is faster where more pairs of sections meet than all pairs divided by this.
const MAX_OVERLAP_DIVISOR: u64 = 16;

/// A plan and the order in which first fit makes it.
#[derive(Clone)]
pub(crate) struct OrderedPlan {
    pub slots: Vec<Slot>,
    pub order: Vec<u32>,
    pub cost: PlanCost,
}

/// Where a placer learns what an item may meet.
enum Neighbours<'a> {
    Pairs(&'a Pairs),
    /// By pool.
    Timelines(Vec<Timeline>),
}

/// Where an item lies.
#[derive(Clone, Copy, Default)]
pub(super) struct PlacedItem {
    offset: u64,
    /// One past its last byte; 0 for one that is never in use.
    pub end: u64,
    /// Its part of the cost's spill: 0 where it lies in the pool that it prefers.
    pub spill: u64,
    pub pool: u32,
    /// One more than its position in the order; 0 for pinned items, which are there before all others.
    rank: u32,
}

/// See the module.
pub(crate) struct Placer<'a> {
    instance: &'a Instance<'a>,
    known: Neighbours<'a>,
    /// About how much it looks at to place all items.
    effort: u64,
    placed: Vec<PlacedItem>,
    /// Items that may not lie where first fit would put them now.
    stale: Vec<bool>,
    pinned: Vec<u32>,
    cost: PlanCost,
    banned: Vec<(i64, i64)>,
    before: Vec<u32>,
}

impl<'a> Placer<'a> {
    /// `None` where too much meets, or may share, for this to be worth it.
    pub fn new(instance: &'a Instance<'a>) -> Option<Self> {
        let (known, effort) = match instance.pairs() {
            Some(pairs) => (Neighbours::Pairs(pairs), pairs.count()),
            None => {
                let sections: u64 = instance.items.iter().map(|item| item.sections.len() as u64).sum();
                let effort = count_overlaps(instance) + 2 * instance.conflicts() as u64;
                if effort > sections * sections / MAX_OVERLAP_DIVISOR
                    || instance.items.iter().any(|item| !item.shares.is_empty())
                {
                    return None;
                }
                let timelines = instance.pools.iter().map(|_| Timeline::new(instance)).collect();
                (Neighbours::Timelines(timelines), effort)
            }
        };
        let count = instance.items.len();
        Some(Self {
            instance,
            known,
            effort,
            placed: vec![PlacedItem::default(); count],
            stale: vec![false; count],
            pinned: (0..count as u32).filter(|&item| instance.items[item as usize].pinned.is_some()).collect(),
            cost: PlanCost::default(),
            banned: Vec::new(),
            before: Vec::new(),
        })
    }

    pub fn instance(&self) -> &'a Instance<'a> {
        self.instance
    }

    /// About how much it looks at to place all items; at least 1.
    pub fn effort(&self) -> u64 {
        self.effort.max(1)
    }

    /// The cost of the last placement.
    pub fn cost(&self) -> &PlanCost {
        &self.cost
    }

    pub fn placed(&self, item: u32) -> PlacedItem {
        self.placed[item as usize]
    }

    /// What was placed last, which was in `order`.
    pub fn found(&self, order: &[u32]) -> OrderedPlan {
        let slots = self.placed.iter().map(|there| Slot { pool: there.pool, offset: there.offset });
        OrderedPlan { slots: slots.collect(), order: order.to_vec(), cost: self.cost.clone() }
    }

    /// First fit in `order`; pinned items lie where they must.
    pub fn place_all(&mut self, order: &[u32]) {
        if let Neighbours::Timelines(timelines) = &mut self.known {
            timelines.iter_mut().for_each(Timeline::clear);
        }
        self.number(order);
        for at in 0..self.pinned.len() {
            let item = &self.instance.items[self.pinned[at] as usize];
            self.put(self.pinned[at], item.candidates[0].pool, item.pinned.unwrap_or(0));
        }
        for &item in order {
            self.place(item);
        }
        self.count();
    }

    /// The same after an order that differed only in where `moved` were.
    ///
    /// An item's offset depends only on the earlier items whose bytes it may meet, and on their offsets. It is placed again
    /// only when one of these has changed.
    pub fn place_moved(&mut self, order: &[u32], moved: &[u32]) {
        let Neighbours::Pairs(pairs) = self.known else { return self.place_all(order) };
        self.before.clear();
        self.before.extend(self.placed.iter().map(|there| there.rank));
        self.number(order);
        let mut first = u32::MAX;
        for &item in moved {
            let (here, rank) = (self.before[item as usize], self.placed[item as usize].rank);
            for ban in pairs.of(item) {
                let (there, other) = (self.before[ban.other as usize], self.placed[ban.other as usize].rank);
                if (there < here) != (other < rank) {
                    self.stale[item as usize] = true;
                    self.stale[ban.other as usize] = true;
                    first = first.min(rank).min(other);
                }
            }
        }
        for &item in order.iter().skip(first.saturating_sub(1) as usize) {
            if !std::mem::take(&mut self.stale[item as usize]) {
                continue;
            }
            let before = self.placed[item as usize];
            self.place(item);
            let now = self.placed[item as usize];
            if (before.pool, before.offset) != (now.pool, now.offset) {
                for ban in pairs.of(item) {
                    self.stale[ban.other as usize] |= self.placed[ban.other as usize].rank > now.rank;
                }
            }
        }
        self.count();
    }

    /// Tells every item its rank.
    fn number(&mut self, order: &[u32]) {
        for (rank, &item) in (1u32..).zip(order) {
            self.placed[item as usize].rank = rank;
        }
        for &item in &self.pinned {
            self.placed[item as usize].rank = 0;
        }
    }

    /// Adds up what the plan costs.
    fn count(&mut self) {
        self.cost.spill = 0;
        self.cost.peaks.clear();
        self.cost.peaks.resize(self.instance.pools.len(), 0);
        for there in &self.placed {
            self.cost.spill += there.spill;
            let peak = &mut self.cost.peaks[there.pool as usize];
            *peak = (*peak).max(there.end);
        }
        self.cost.overflow = overflow(self.instance.pools, &self.cost.peaks);
    }

    /// As [`super::arrangement::Arrangement::place`].
    fn place(&mut self, index: u32) {
        interrupt::ask();
        let item = &self.instance.items[index as usize];
        if item.pinned.is_some() {
            return;
        }
        let mut least: Option<(u64, u32, u64)> = None;
        for candidate in &item.candidates {
            let pool = &self.instance.pools[candidate.pool as usize];
            let fit = Fit::new(candidate.alignment, pool.base_address);
            let offset = match self.known {
                Neighbours::Pairs(_) => self.lowest_of_pairs(index, candidate.pool, fit),
                Neighbours::Timelines(_) => self.lowest_of_timelines(index, candidate.pool, fit),
            };
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
        let end = if item.sections.is_empty() { 0 } else { offset + item.size_bytes };
        let rank = self.placed[index as usize].rank;
        self.placed[index as usize] = PlacedItem { offset, end, spill: item.spill(pool), pool, rank };
        if let Neighbours::Timelines(timelines) = &mut self.known {
            item.sections.iter().for_each(|section| timelines[pool as usize].insert(section, offset));
        }
    }

    fn lowest_of_pairs(&mut self, index: u32, pool: u32, fit: Fit) -> u64 {
        let Neighbours::Pairs(pairs) = self.known else { return fit.offset as u64 };
        let placed = &self.placed[..];
        let rank = placed[index as usize].rank;
        let bans = pairs.of(index);
        self.banned.resize(self.banned.len().max(bans.len()), (0, 0));
        // Which of them count cannot be foreseen: all are written, and those that do not are written over.
        let mut count = 0;
        // Large items come last among the pairs and mostly lie low, so that these are nearly sorted.
        for ban in bans.iter().rev() {
            let there = &placed[ban.other as usize];
            let offset = there.offset as i64;
            self.banned[count] = (offset.wrapping_add(ban.low), offset.wrapping_add(ban.high));
            count += usize::from((there.rank < rank) & (there.pool == pool));
        }
        fit.rise(&mut self.banned[..count])
    }

    fn lowest_of_timelines(&mut self, index: u32, pool: u32, fit: Fit) -> u64 {
        let Neighbours::Timelines(timelines) = &self.known else { return fit.offset as u64 };
        self.banned.clear();
        let item = &self.instance.items[index as usize];
        for &other in &item.conflicts {
            let there = &self.placed[other as usize];
            if there.rank < self.placed[index as usize].rank && there.pool == pool {
                self.banned.push((there.offset as i64 - item.size_bytes as i64 + 1, there.end as i64));
            }
        }
        for section in &item.sections {
            timelines[pool as usize].each(section, |(start, end)| {
                self.banned.push((start - section.high as i64 + 1, end - section.low as i64));
            });
        }
        fit.rise(&mut self.banned)
    }
}
