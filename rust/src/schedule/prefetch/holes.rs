//! Free bytes of a placed arena (the scarce pool) over time, and the earliest start of a copy in them.
//!
//! - State: `busy(t)`, the ranges of bytes that are taken at slot `t`: tensors, rolling buffers and workspace, which
//!   stay where they were placed, and constants. Those of copies not issued yet lie where the placement put them,
//!   from their use on.
//! - Step: the ranges free for a copy of `b` bytes that is used in slots `u..=v` and begins at `s` are the arena
//!   without `busy(t)` for `s <= t <= v`, those shorter than `b` left out. From `u` backwards, `busy(t)` is taken out
//!   as long as some range is left: that finds the least `s`. Of the ranges left then, the shortest is taken.
//! - Invariant: what fitted before fits again, as every copy can fall back on its old place.
//! - Cost: for each copy the ranges that are taken at `u`, and those that begin behind it or end before it, from `s` to `v`.
//!
//! Owns the free bytes while copies are issued one after the other.

use smallvec::{smallvec, SmallVec};

use super::issue::{Copy, Issuer, Memory};
use crate::model::graph::CascaderGraph;
use crate::model::ids::BufferId;
use crate::model::memory::{Memories, ALIGNMENT};
use crate::model::program::{ByteRange, Content, LiveWindow, Placement, Program};
use crate::schedule::lifetimes::live_windows;
use crate::schedule::shared_bytes::{overlays, SharedBytes};

type Ranges = SmallVec<[ByteRange; 8]>;

/// Constants that lie in the arena from slot `reserved` to slot `last`, both included.
#[derive(Clone, Copy)]
struct ReservedRange {
    reserved: usize,
    last: usize,
    range: ByteRange,
}

/// The arena while copies are issued.
pub struct Holes<'a> {
    arena: &'a Arena,
    room_bytes: u64,
    /// By copy: where its constants lie; those not issued yet, where they would lie without early copies.
    taken: Vec<ReservedRange>,
    /// Issued copies whose constants may still be used.
    alive: Vec<u32>,
}

/// What a placed program keeps of the arena apart from its constants, and where these lie.
pub struct Arena {
    /// By slot, ascending and apart from each other.
    busy: Vec<Ranges>,
    /// By slot, those of its ranges that are none of the slot's before.
    begun: Vec<Ranges>,
    /// By slot, those of its ranges that are none of the slot's behind.
    ended: Vec<Ranges>,
    /// By copy.
    constants: Vec<ReservedRange>,
    /// By slot, the copies whose constants are used there last.
    ending: Vec<SmallVec<[u32; 2]>>,
}

impl Arena {
    /// Of a program whose copies stand right before their first use and whose buffers lie as placed.
    pub fn new(graph: &CascaderGraph, program: &Program, (issuer, placed): (&Issuer, &Placement)) -> Arena {
        let mut slot_of = Vec::with_capacity(program.steps.len() + 1);
        let mut others = issuer.others.iter().peekable();
        for step in 0..=program.steps.len() {
            slot_of.push(issuer.others.len() - others.len());
            others.next_if(|&&other| other == step);
        }
        let slots = |first: u32, last: u32| slot_of[first as usize]..slot_of[last as usize];
        let mut busy: Vec<Ranges> = vec![SmallVec::new(); issuer.others.len()];
        let mut add = |id: BufferId, window: LiveWindow| {
            let LiveWindow { first_step, last_step, low, high } = window;
            let is_tensor = !matches!(program.buffers[id].content, Content::Constants(_));
            if low < high && placed.pools[id] == Memories::SCARCE && is_tensor {
                let offset = placed.offsets[id];
                let range = (offset + low / ALIGNMENT * ALIGNMENT, offset + high.next_multiple_of(ALIGNMENT));
                busy[slots(first_step, last_step)].iter_mut().for_each(|ranges| ranges.push(range));
            }
        };
        for (id, buffer) in program.buffers.iter_ids() {
            live_windows(buffer).into_iter().for_each(|window| add(id, window));
        }
        // What may lie over its operand need not.
        for SharedBytes { step, buffer, with, .. } in overlays(graph, program) {
            for id in [buffer, with] {
                let high = program.buffers[id].size_bytes;
                add(id, LiveWindow { first_step: step, last_step: step + 1, low: 0, high });
            }
        }
        busy.iter_mut().for_each(merge);
        let beside = |slot: usize, other: Option<&Ranges>| -> Ranges {
            let is_new = |range: &&ByteRange| other.is_none_or(|other| !other.contains(range));
            busy[slot].iter().filter(is_new).copied().collect()
        };
        let begun = (0..busy.len()).map(|slot| beside(slot, slot.checked_sub(1).map(|before| &busy[before]))).collect();
        let ended = (0..busy.len()).map(|slot| beside(slot, busy.get(slot + 1))).collect();
        let mut ending: Vec<SmallVec<[u32; 2]>> = vec![SmallVec::new(); issuer.others.len()];
        let taken = |(index, copy): (u32, &Copy)| {
            let buffer = &program.buffers[copy.buffer];
            let last = slot_of[buffer.last_step as usize] - 1;
            ending[last].push(index);
            let offset = placed.offsets[copy.buffer];
            ReservedRange { reserved: copy.user, last, range: (offset, offset + copy.bytes) }
        };
        let constants = (0u32..).zip(&issuer.copies).map(taken).collect();
        Arena { busy, begun, ended, constants, ending }
    }

    /// One past the last byte of all but constants.
    pub fn busy_bytes(&self) -> u64 {
        self.busy.iter().flatten().map(|range| range.1).max().unwrap_or(0)
    }
}

impl Holes<'_> {
    /// Of the first `room_bytes` of an arena, which are no fewer than its program takes.
    pub fn new(arena: &Arena, room_bytes: u64) -> Holes<'_> {
        Holes { arena, room_bytes, taken: arena.constants.clone(), alive: Vec::new() }
    }

    /// One past the last byte of any constants.
    pub fn end(&self) -> u64 {
        self.taken.iter().map(|taken| taken.range.1).max().unwrap_or(0)
    }

    /// Where the constants of copy `index` lie.
    pub fn offset(&self, index: usize) -> u64 {
        self.taken[index].range.0
    }
}

impl Memory for Holes<'_> {
    fn free_from(&mut self, index: usize, copy: &Copy, least: usize) -> usize {
        let ReservedRange { last, .. } = self.taken[index];
        let mut free: Ranges = smallvec![(0, self.room_bytes)];
        let first = self.arena.busy[copy.user].iter();
        let later = self.arena.begun[copy.user + 1..=last].iter().flatten();
        first.chain(later).for_each(|&range| subtract(&mut free, range, copy.bytes));
        // Copies come in the order of their users.
        self.alive.retain(|&other| self.taken[other as usize].last >= copy.user);
        let alive = self.alive.iter().map(|&other| &self.taken[other as usize]);
        let coming = self.taken[index + 1..].iter().take_while(|taken| taken.reserved <= last);
        alive.chain(coming).for_each(|taken| subtract(&mut free, taken.range, copy.bytes));
        let mut reserved = copy.user;
        let mut known = free.clone();
        while reserved > least && !free.is_empty() {
            let slot = reserved - 1;
            self.arena.ended[slot].iter().for_each(|&range| subtract(&mut free, range, copy.bytes));
            for &other in self.arena.ending[slot].iter().filter(|&&other| other as usize != index) {
                subtract(&mut free, self.taken[other as usize].range, copy.bytes);
            }
            if !free.is_empty() {
                known.clone_from(&free);
                reserved = slot;
            }
        }
        // The shortest range that fits keeps the longer ones for others.
        if let Some(&(_, high)) = known.iter().min_by_key(|(low, high)| (high - low, u64::MAX - high)) {
            self.taken[index] = ReservedRange { reserved, last, range: (high - copy.bytes, high) };
        }
        reserved
    }

    fn take(&mut self, index: usize, _: &Copy, reserved: usize) {
        self.taken[index].reserved = reserved;
        self.alive.push(index as u32);
    }
}

/// Sort ranges and join those that touch or overlap.
fn merge(ranges: &mut Ranges) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, range| {
        let meets = next.0 <= range.1;
        if meets {
            range.1 = range.1.max(next.1);
        }
        meets
    });
}

/// Take a range out of those that are `free`, which are ascending; remainders shorter than `least` are dropped.
fn subtract(free: &mut Ranges, (low, high): ByteRange, least: u64) {
    debug_assert!(free.is_sorted_by(|a, b| a.1 <= b.0), "holes that overlap, or not in order");
    let mut index = 0;
    while index < free.len() {
        let (from, to) = free[index];
        if to <= low {
            index += 1;
            continue;
        }
        if from >= high {
            return;
        }
        let below = (from, low.max(from));
        let above = (high.min(to), to);
        match (below.1 - below.0 >= least, above.1 - above.0 >= least) {
            (true, true) => {
                free[index] = below;
                free.insert(index + 1, above);
                index += 2;
            }
            (true, false) => {
                free[index] = below;
                index += 1;
            }
            (false, true) => {
                free[index] = above;
                index += 1;
            }
            (false, false) => {
                free.remove(index);
            }
        }
    }
}
