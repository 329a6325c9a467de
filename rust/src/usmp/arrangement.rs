//! First fit: items into pools, one after the other, each at the lowest offset where it meets nothing placed before.
//!
//! Owns the placed state that solvers grow and cut back. No conflict is ever stored: placed sections lie sorted by
//! offset beside their steps, and one pass over them finds the place, also for tens of thousands of buffers.

use super::arithmetic::aligned;
use super::fit::Fit;
use super::instance::Instance;
use super::item::{overflow, Item, PlanCost};
use super::model::{Placement, Section, Slot};
use crate::util::interrupt;
use smallvec::SmallVec;

/// A placed section: bytes `[start, end)` of a pool in steps `[lower, upper)`.
#[derive(Clone, Copy)]
struct Entry {
    start: u64,
    end: u64,
    lower: i64,
    upper: i64,
    item: u32,
}

impl Entry {
    fn new(section: &Section, item: u32, offset: u64) -> Self {
        let Section { lower, upper, low, high } = *section;
        Self { start: offset + low, end: offset + high, lower, upper, item }
    }
}

/// The pool of what is not placed.
const NOWHERE: u32 = u32::MAX;

/// Where items lie, by item index. Only what was placed counts.
#[derive(Clone, Default)]
pub(crate) struct Arrangement {
    slots: Vec<Slot>,
    /// By pool, sorted by start.
    placed: Vec<Vec<Entry>>,
    cost: PlanCost,
    /// Target peaks of a search in bytes, by pool.
    targets: Vec<u64>,
    /// Bytes by which placed sections' items end above their pool's target, summed.
    excess: u64,
}

impl Arrangement {
    /// Nothing but the pinned items, which must not overlap.
    pub fn new(instance: &Instance) -> Self {
        Self::of(instance, instance.items.iter().map(pin))
    }

    /// Places every item of `order` that is not pinned.
    pub fn first_fit(instance: &Instance, order: &[u32]) -> Self {
        let mut arrangement = Self::new(instance);
        for &item in order {
            arrangement.place(instance, item);
        }
        arrangement
    }

    /// Every item where `slots` says, by item index, but the pinned ones where they are pinned to; nothing is checked.
    pub fn from_slots(instance: &Instance, slots: &[Slot]) -> Self {
        Self::of(instance, instance.items.iter().zip(slots).map(|(item, slot)| pin(item).or(Some(*slot))))
    }

    /// Every item in its slot, if it has one.
    fn of(instance: &Instance, slots: impl Iterator<Item = Option<Slot>>) -> Self {
        let mut arrangement = Self {
            slots: vec![Slot { pool: NOWHERE, offset: 0 }; instance.items.len()],
            placed: vec![Vec::new(); instance.pools.len()],
            cost: PlanCost::default(),
            targets: vec![u64::MAX; instance.pools.len()],
            excess: 0,
        };
        arrangement.cost.peaks.resize(instance.pools.len(), 0);
        for ((index, item), slot) in (0u32..).zip(&instance.items).zip(slots) {
            let Some(slot) = slot else { continue };
            arrangement.count(item, index, slot);
            let placed = &mut arrangement.placed[slot.pool as usize];
            placed.extend(item.sections.iter().map(|section| Entry::new(section, index, slot.offset)));
        }
        for placed in &mut arrangement.placed {
            placed.sort_by_key(|entry| entry.start);
        }
        arrangement.cost.overflow = overflow(instance.pools, &arrangement.cost.peaks);
        arrangement
    }

    /// By item index.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub fn cost(&self) -> &PlanCost {
        &self.cost
    }

    /// See the field.
    pub fn excess(&self) -> u64 {
        self.excess
    }

    /// Sets the target peaks, in bytes, by pool.
    pub fn set_targets(&mut self, instance: &Instance, targets: &[u64]) {
        self.targets.clear();
        self.targets.extend_from_slice(targets);
        let entries =
            self.placed.iter().zip(targets).flat_map(|(placed, &target)| placed.iter().map(move |e| (e, target)));
        let above = entries.map(|(entry, target)| self.end(instance, entry.item).saturating_sub(target));
        self.excess = above.sum();
    }

    /// One past the last byte of a placed item.
    fn end(&self, instance: &Instance, item: u32) -> u64 {
        self.slots[item as usize].offset + instance.items[item as usize].size_bytes
    }

    pub fn slot(&self, item: u32) -> Slot {
        self.slots[item as usize]
    }

    /// Turns this into the part of `other` whose items `keep`, reusing memory.
    pub fn copy_part(&mut self, instance: &Instance, other: &Arrangement, keep: impl Fn(u32) -> bool) {
        self.slots.clone_from(&other.slots);
        self.targets.clone_from(&other.targets);
        self.cost.spill = 0;
        self.excess = 0;
        for pool in 0..self.placed.len() {
            let mut mine = std::mem::take(&mut self.placed[pool]);
            mine.clear();
            let mut peak = 0;
            for entry in other.placed[pool].iter().filter(|entry| keep(entry.item)) {
                mine.push(*entry);
                let end = self.end(instance, entry.item);
                peak = peak.max(end);
                self.excess += end.saturating_sub(self.targets[pool]);
            }
            self.placed[pool] = mine;
            self.cost.peaks[pool] = peak;
        }
        if instance.conflicts() > 0 {
            let taken = (0u32..).zip(&mut self.slots).filter(|&(index, _)| !keep(index));
            taken.for_each(|(_, slot)| slot.pool = NOWHERE);
        }
        if instance.pools.len() > 1 {
            let kept = (0u32..).zip(&instance.items).filter(|&(index, _)| keep(index));
            self.cost.spill = kept.map(|(index, item)| item.spill(self.slots[index as usize].pool)).sum();
        }
        self.cost.overflow = overflow(instance.pools, &self.cost.peaks);
    }

    /// Places `item` in the first candidate pool where it fits, as low as it fits.
    ///
    /// Where it fits in none, it goes to the pool with the least overflow, and the cost counts the overflow.
    pub fn place(&mut self, instance: &Instance, index: u32) {
        interrupt::ask();
        let item = &instance.items[index as usize];
        if item.pinned.is_some() {
            return;
        }
        let mut least: Option<(u64, usize, u64)> = None;
        for (rank, candidate) in item.candidates.iter().enumerate() {
            let pool = &instance.pools[candidate.pool as usize];
            let at = (candidate.alignment, pool.base_address);
            let offset = self.lowest_fit(instance, item, candidate.pool, at);
            let end = if item.sections.is_empty() { 0 } else { offset + item.size_bytes };
            let excess = pool.limit_bytes.map_or(0, |limit| end.saturating_sub(limit));
            if least.is_none_or(|(found, _, _)| excess < found) {
                least = Some((excess, rank, offset));
            }
            if excess == 0 {
                break;
            }
        }
        if let Some((_, rank, offset)) = least {
            self.put(instance, index, rank, offset);
        }
    }

    fn put(&mut self, instance: &Instance, index: u32, rank: usize, offset: u64) {
        let item = &instance.items[index as usize];
        let slot = Slot { pool: item.candidates[rank].pool, offset };
        self.count(item, index, slot);
        let placed = &mut self.placed[slot.pool as usize];
        for section in &item.sections {
            let entry = Entry::new(section, index, offset);
            let at = placed.partition_point(|other| other.start <= entry.start);
            placed.insert(at, entry);
        }
        self.cost.overflow = overflow(instance.pools, &self.cost.peaks);
    }

    /// Notes where `item` lies and what that costs, apart from overflow.
    fn count(&mut self, item: &Item, index: u32, slot: Slot) {
        self.slots[index as usize] = slot;
        self.cost.spill += item.spill(slot.pool);
        if item.sections.is_empty() {
            return;
        }
        let end = slot.offset + item.size_bytes;
        self.excess += end.saturating_sub(self.targets[slot.pool as usize]) * item.sections.len() as u64;
        let peak = &mut self.cost.peaks[slot.pool as usize];
        *peak = (*peak).max(end);
    }

    fn lowest_fit(&self, instance: &Instance, item: &Item, pool: u32, (alignment, base): (u64, u64)) -> u64 {
        let mut offset = aligned(0, alignment, base);
        loop {
            let before = offset;
            for section in &item.sections {
                offset = if item.shares.is_empty() {
                    raise(&self.placed[pool as usize], section, offset, alignment, base)
                } else {
                    self.raise_or_share(item, pool, section, offset, (alignment, base))
                };
            }
            if !item.conflicts.is_empty() {
                offset = self.raise_over_conflicts(instance, item, pool, offset, (alignment, base));
            }
            // An offset for one section may collide for an earlier one: repeat until all sections agree.
            let content = item.sections.len() == 1 && item.shares.is_empty() && item.conflicts.is_empty();
            if offset == before || content {
                return offset;
            }
        }
    }

    /// Like [`raise`] for an item that may overlap others where the difference of offsets allows it.
    fn raise_or_share(&self, item: &Item, pool: u32, section: &Section, offset: u64, at: (u64, u64)) -> u64 {
        let (alignment, base) = at;
        let mut offset = offset;
        for entry in &self.placed[pool as usize] {
            let meets = entry.lower < section.upper
                && section.lower < entry.upper
                && entry.start < offset + section.high
                && offset + section.low < entry.end;
            if meets && !self.may_share(item, entry.item, offset) {
                let above = aligned(entry.end - section.low, alignment, base);
                offset = self.over(item, entry.item, offset, at).map_or(above, |over| over.min(above));
            }
        }
        offset
    }

    /// The least offset above `offset` at which `item` may lie over the placed item `other`.
    fn over(&self, item: &Item, other: u32, offset: u64, (alignment, base): (u64, u64)) -> Option<u64> {
        let there = self.slots[other as usize].offset as i64;
        let shared = item.shares.iter().filter(|share| share.0 == other);
        let over = shared.map(|share| aligned(there.saturating_add(share.1).max(0) as u64, alignment, base));
        over.filter(|&least| least > offset && self.may_share(item, other, least)).min()
    }

    /// The lowest offset from `offset` on where `item` meets nothing placed with which it conflicts explicitly.
    fn raise_over_conflicts(&self, instance: &Instance, item: &Item, pool: u32, offset: u64, at: (u64, u64)) -> u64 {
        let mut banned: SmallVec<[(i64, i64); 32]> = SmallVec::new();
        let mut offset = offset;
        for &other in item.conflicts.iter().filter(|&&other| self.slots[other as usize].pool == pool) {
            let (start, end) = (self.slots[other as usize].offset, self.end(instance, other));
            if item.shares.iter().all(|share| share.0 != other) {
                banned.push((start as i64 - item.size_bytes as i64 + 1, end as i64));
            } else if start < offset + item.size_bytes && offset < end && !self.may_share(item, other, offset) {
                let above = aligned(end, at.0, at.1);
                offset = self.over(item, other, offset, at).map_or(above, |over| over.min(above));
            }
        }
        Fit::from(offset, at).rise(&mut banned)
    }

    /// Whether `item` at `offset` may overlap the placed item `other`.
    fn may_share(&self, item: &Item, other: u32, offset: u64) -> bool {
        let apart = offset as i64 - self.slots[other as usize].offset as i64;
        item.shares.iter().any(|&(with, low, high)| with == other && (low..=high).contains(&apart))
    }

    /// Placed items that end above their pool's target, into `found`, in order of index.
    pub fn items_above_target(&self, instance: &Instance, found: &mut Vec<u32>) {
        found.clear();
        for (placed, &target) in self.placed.iter().zip(&self.targets) {
            let above = |entry: &&Entry| self.end(instance, entry.item) > target;
            found.extend(placed.iter().filter(above).map(|entry| entry.item));
        }
        found.sort_unstable();
        found.dedup();
    }

    /// The answer in the problem's own order of buffers.
    pub fn placement(&self, instance: &Instance) -> Placement {
        let mut slots = vec![Slot::default(); self.slots.len()];
        for (item, slot) in instance.items.iter().zip(&self.slots) {
            slots[item.buffer as usize] = *slot;
        }
        Placement { slots, peaks: self.cost.peaks.to_vec() }
    }
}

/// Where an item must lie; None if that is free.
fn pin(item: &Item) -> Option<Slot> {
    Some(Slot { pool: item.candidates[0].pool, offset: item.pinned? })
}

/// The lowest offset from `offset` on where `section` meets nothing of `placed`.
fn raise(placed: &[Entry], section: &Section, mut offset: u64, alignment: u64, base: u64) -> u64 {
    let (mut low, mut high) = (offset + section.low, offset + section.high);
    for entry in placed {
        // Sorted by start: from here on everything lies above the place that was found.
        if entry.start >= high {
            break;
        }
        if entry.lower < section.upper && section.lower < entry.upper && entry.end > low {
            offset = aligned(entry.end - section.low, alignment, base);
            (low, high) = (offset + section.low, offset + section.high);
        }
    }
    offset
}
