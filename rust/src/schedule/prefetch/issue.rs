//! The slot at which each copy of constants is issued, for a limit of memory.
//!
//! A program is two queues: the copies, and everything else ("kernels" here, calls of CPU operators among them). Slot
//! `s` is the place right before kernel `s`. Copy `i` has `b_i` bytes and is used by kernel `u_i`.
//!
//! - State: the kernel that is next, the copy that is next, a clock, and the bytes in use at each kernel, `live_j`.
//! - Step: `reserved_i` is the least `r` of `max(latest_i - 2, run_i)..=u_i` with `live_j + b_i <= limit` for all
//!   `r <= j < u_i`. From then on the bytes are the copy's own, and two kernels later, when no kernel in flight can
//!   still use them, the copy may be issued; it waits as long as the copy before it would hold up the front end, but
//!   not beyond `u_i`.
//! - Invariant: `live_j` never exceeds the limit, or what it was before copies were issued early.
//! - Cost: one pass over the kernels, and for each copy one over the slots from `reserved_i` to `u_i`.
//!
//! The load of a table stands right before the kernel that looks up in it, or, if its slots are free so early, ahead of a
//! copy that would hold it up. Owns both queues. The latest starts are `latest_start`'s; a `Memory` says where there is room.

use crate::model::device::KERNELS_IN_FLIGHT;
use crate::model::ids::BufferId;
use crate::model::memory::aligned;
use crate::model::memory::Memories;
use crate::model::program::{CopySource, IssueOrder, IssueSlot, Program, Step};
use crate::schedule::estimate::{Estimate, Load};

/// A copy of constants, and the kernel that waits for it.
pub struct Copy {
    pub step: usize,
    pub buffer: BufferId,
    pub user: usize,
    pub bytes: u64,
    pub cycles: u64,
}

/// A program as two queues: the copies in order, and all other steps in order.
#[derive(Default)]
pub struct Issuer {
    pub copies: Vec<Copy>,
    pub others: Vec<usize>,
    /// What each of the others takes; None for operators on the CPU.
    pub loads: Vec<Option<Load>>,
    /// The tables that are loaded, in the order of their users.
    pub tables: Vec<TableLoad>,
    /// Bytes in use at each of the others while every copy stands right before its first use.
    pub live: Vec<u64>,
    /// First slot of the NPU run that each of the others belongs to.
    pub run: Vec<usize>,
    /// By copy: the latest slot at which it may be issued to be in time.
    pub latest_starts: Vec<usize>,
    /// Latest starts by the ways to share out kernels that were slower with unlimited memory.
    pub other_starts: Vec<Vec<usize>>,
}

/// The load of a table for one of the others.
pub struct TableLoad {
    pub step: usize,
    pub user: usize,
    pub cycles: u64,
    /// The first slot at which no kernel that needs its slots is in flight.
    pub free: usize,
}

/// Where all copies are issued.
pub struct Issue {
    pub order: IssueOrder,
    pub peak_bytes: u64,
    pub cycles: u64,
}

impl Issuer {
    /// Without latest starts.
    pub fn new(program: &Program) -> Issuer {
        let count = program.steps.len();
        let mut issuer = Issuer {
            others: Vec::with_capacity(count),
            loads: Vec::with_capacity(count),
            live: Vec::with_capacity(count),
            run: Vec::with_capacity(count),
            ..Issuer::default()
        };
        let live = live_bytes(program);
        let mut run = 0;
        for (index, step) in program.steps.iter().enumerate() {
            let slot = issuer.others.len();
            match step {
                &Step::Copy { moved: CopySource::Constants(..), buffer, cycles } => {
                    let bytes = aligned(program.buffers[buffer].size_bytes);
                    issuer.copies.push(Copy { step: index, buffer, user: slot, bytes, cycles });
                    continue;
                }
                &Step::LoadTable { ahead, cycles, .. } => {
                    let free = slot - ahead as usize;
                    let free = if free == run { run } else { free + KERNELS_IN_FLIGHT };
                    issuer.tables.push(TableLoad { step: index, user: slot, cycles, free });
                    continue;
                }
                Step::Stripe(stripe) => issuer.loads.push(Some(Load::of(stripe))),
                &Step::Copy { moved: CopySource::Tensor { .. }, cycles, .. } => {
                    issuer.loads.push(Some(Load::of_copy(cycles)))
                }
                Step::Feed { .. } | Step::Take { .. } | Step::Call { .. } => {
                    run = slot + 1;
                    issuer.loads.push(None);
                }
            }
            issuer.others.push(index);
            issuer.live.push(live[index]);
            issuer.run.push(run.min(slot));
        }
        issuer
    }

    /// Issue every copy at its latest start, or later where more than `limit_bytes` would be in use.
    pub fn issued(&self, limit_bytes: u64) -> Issue {
        self.issue(&self.latest_starts, limit_bytes)
    }

    /// Issue every copy at its slot of `wanted`, or as soon afterwards as memory and the transfer before it allow.
    pub fn issue(&self, wanted: &[usize], limit_bytes: u64) -> Issue {
        let mut live = Live { bytes: self.live.clone(), limit_bytes };
        let (order, cycles) = self.issue_into(wanted, &mut live);
        Issue { order, peak_bytes: live.bytes.into_iter().max().unwrap_or(0), cycles }
    }

    /// As `issue`, with another notion of memory. Returns the order and the cycles of the program.
    pub fn issue_into(&self, wanted: &[usize], memory: &mut impl Memory) -> (IssueOrder, u64) {
        let mut places: Vec<IssueSlot> = Vec::with_capacity(self.copies.len());
        let mut clock = Estimate::of_copies(self.copies.len());
        let (mut numbers, mut arrived) = (Vec::with_capacity(self.copies.len()), 0);
        let mut tables = Tables::of(self);
        let mut next = None;
        for (slot, load) in self.loads.iter().enumerate() {
            while let Some(copy) = self.copies.get(places.len()) {
                let index = places.len();
                let earliest = *next.get_or_insert_with(|| self.earliest(index, wanted[index], memory));
                if slot < earliest.slot || (slot < copy.user && clock.copies_late()) {
                    break;
                }
                let reserved = earliest.reserved.max(slot.saturating_sub(KERNELS_IN_FLIGHT));
                tables.load_ahead(index, slot, &mut clock);
                memory.take(index, copy, reserved);
                numbers.push(clock.copy(copy.cycles, slot - reserved));
                places.push(IssueSlot { slot, reserved });
                next = None;
            }
            // The last transfer that this kernel waits for: copies come in the order of their users.
            let mut ready = None;
            while self.copies.get(arrived).is_some_and(|copy| copy.user == slot) {
                ready = Some(numbers[arrived]);
                arrived += 1;
            }
            ready = ready.max(tables.used(slot, &mut clock));
            match load {
                Some(load) => clock.kernel(*load, ready),
                None => clock.call(),
            }
        }
        (IssueOrder { copies: places, tables: tables.places }, clock.end())
    }

    /// The first slot from `wanted` on at which memory allows copy `index` to be issued.
    fn earliest(&self, index: usize, wanted: usize, memory: &mut impl Memory) -> IssueSlot {
        let copy = &self.copies[index];
        let run = self.run[copy.user];
        let least = wanted.saturating_sub(KERNELS_IN_FLIGHT).max(run);
        let reserved = memory.free_from(index, copy, least);
        let free = if reserved == run { run } else { reserved + KERNELS_IN_FLIGHT };
        IssueSlot { slot: free.max(wanted).min(copy.user), reserved }
    }
}

/// The loads of tables while a program is issued.
struct Tables<'a> {
    issuer: &'a Issuer,
    places: Vec<Option<usize>>,
    /// What waits for a load waits for the transfer of this number.
    numbers: Vec<Option<usize>>,
    /// The first load whose user is still to come.
    next: usize,
}

impl<'a> Tables<'a> {
    fn of(issuer: &'a Issuer) -> Tables<'a> {
        let count = issuer.tables.len();
        Tables { issuer, places: vec![None; count], numbers: vec![None; count], next: 0 }
    }

    /// Load the tables of kernels from `slot` up to the user of copy `index`, as far as slots are free.
    fn load_ahead(&mut self, index: usize, slot: usize, clock: &mut Estimate) {
        let user = self.issuer.copies[index].user;
        for (at, load) in self.issuer.tables.iter().enumerate().skip(self.next) {
            if load.user > user {
                break;
            }
            if self.numbers[at].is_none() && load.free <= slot {
                self.places[at] = Some(index);
                self.numbers[at] = Some(clock.table(load.cycles));
            }
        }
    }

    /// The number of the load that the kernel at `slot` waits for, issued now if it was not before; None for no load.
    fn used(&mut self, slot: usize, clock: &mut Estimate) -> Option<usize> {
        let load = self.issuer.tables.get(self.next).filter(|load| load.user == slot)?;
        self.next += 1;
        Some(self.numbers[self.next - 1].unwrap_or_else(|| clock.table(load.cycles)))
    }
}

/// What tells from when on a copy's constants have room.
pub trait Memory {
    /// The first slot from `least` on such that there is room for the constants of copy `index` from it until their
    /// use.
    fn free_from(&mut self, index: usize, copy: &Copy, least: usize) -> usize;
    /// Give the copy its room from slot `reserved` on.
    fn take(&mut self, index: usize, copy: &Copy, reserved: usize);
}

/// Memory as a limit on the sum of bytes in use, without addresses.
struct Live {
    /// In use at each of the other steps.
    bytes: Vec<u64>,
    limit_bytes: u64,
}

impl Memory for Live {
    fn free_from(&mut self, _: usize, copy: &Copy, least: usize) -> usize {
        let mut reserved = copy.user;
        while reserved > least && self.bytes[reserved - 1] + copy.bytes <= self.limit_bytes {
            reserved -= 1;
        }
        reserved
    }

    fn take(&mut self, _: usize, copy: &Copy, reserved: usize) {
        self.bytes[reserved..copy.user].iter_mut().for_each(|bytes| *bytes += copy.bytes);
    }
}

/// Bytes of the scarce pool in use at each step, as far as it holds what prefers it.
pub fn live_bytes(program: &Program) -> Vec<u64> {
    let mut change = vec![0i64; program.steps.len() + 2];
    for buffer in program.buffers.iter().filter(|buffer| buffer.pools.first() == Some(&Memories::SCARCE)) {
        let mut add = |from: u32, to: u32, bytes: u64| {
            change[from as usize] += aligned(bytes) as i64;
            change[to as usize] -= aligned(bytes) as i64;
        };
        if buffer.windows.is_empty() {
            add(buffer.first_step, buffer.last_step, buffer.size_bytes);
        }
        for window in &buffer.windows {
            add(window.first_step, window.last_step, window.high - window.low);
        }
    }
    let mut alive = 0;
    change[..program.steps.len()]
        .iter()
        .map(|&step| {
            alive += step;
            alive as u64
        })
        .collect()
}
