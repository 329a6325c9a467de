//! An estimate of an unplaced program's cycles: kernels and copies side by side, in the order of issue.
//!
//! - State: when the front end is free, when the last copy ends, and the two kernels in flight.
//! - Rules: the front end issues in order and waits for a free place among the kernels, for the copy that a kernel
//!   uses, and for the copy before a copy. A kernel starts when the one before it ends. While a copy and a kernel run
//!   together, each slows the other down as `Load` says.
//! - Cost: constant for each step.
//!
//! Owns the estimate by which Proposals are compared before `cost::ethosu::stream` plays those that are placed.

use crate::model::device::KERNELS_IN_FLIGHT;
use crate::model::ids::{BufferId, IdVec};
use crate::model::operation::Cost;
use crate::model::program::{CopySource, Program, Step, Stripe};

/// The unit of `Load::burden` is a kernel's cycles divided by this.
const BURDENS: u64 = 32;

/// A kernel, and how it and a copy slow each other down while both run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    /// Alone.
    cycles: u64,
    /// Of these, cycles that keep the memory of constants busy, from which copies come too.
    constants: u64,
    /// While copies run all the time and take their share of the arena's memory.
    beside: u64,
}

impl Load {
    /// Of a stripe.
    pub fn of(stripe: &Stripe) -> Load {
        let Cost { cycles, constants, beside_copies, .. } = stripe.cost;
        Load { cycles, constants: constants.min(cycles), beside: beside_copies.max(cycles) }
    }

    /// The load of a tensor's copy: it keeps its place among the kernels and is waited for as one.
    pub fn of_copy(cycles: u64) -> Load {
        Load { cycles, constants: 0, beside: cycles }
    }

    /// By its figures.
    #[cfg(test)]
    pub fn new(cycles: u64, constants: u64, beside: u64) -> Load {
        Load { cycles, constants, beside }
    }

    /// Cycles of a copy beside the kernel: the share left of the memory of constants, at least half.
    pub fn room(&self) -> u64 {
        self.cycles - self.constants.min(self.cycles / 2)
    }

    /// Slowdown by a copy that runs all the while, in 1/32 of the kernel's cycles: coarse, so that like kernels are
    /// equal.
    pub fn burden(&self) -> u64 {
        portion(self.beside - self.cycles, BURDENS, self.cycles.max(1))
    }

    /// How long the last `work` cycles of the kernel take beside a copy of `copy` cycles, and how long that copy
    /// takes if nothing runs after the kernel.
    fn beside(&self, work: u64, copy: u64) -> (u64, u64) {
        let Load { cycles, constants, beside } = *self;
        if copy == 0 || work == 0 || (constants == 0 && beside == cycles) {
            return (work, copy);
        }
        // While both run, a whole kernel takes `takes` cycles instead of `cycles`, and the copy advances by `gets`
        // cycles for every `cycles`. Where both want more than half of the memory of constants, each gets half of it.
        let shares = 2 * constants > cycles;
        let (gets, takes) = if shares { (cycles / 2, 2 * constants) } else { (cycles - constants, beside) };
        let slowed = portion(work, takes, cycles);
        let copied = if shares { slowed / 2 } else { portion(slowed, gets, cycles) };
        if copied < copy {
            return (slowed, slowed + copy - copied);
        }
        let time = if shares { 2 * copy } else { portion(copy, cycles, gets) };
        ((time + work - portion(time, cycles, takes).min(work)).max(work), time)
    }
}

/// `value * times / by`, rounded down.
fn portion(value: u64, times: u64, by: u64) -> u64 {
    (u128::from(value) * u128::from(times) / u128::from(by)) as u64
}

/// One kernel engine, one copy engine, and the front end that issues to both in order.
#[derive(Clone, Default)]
pub struct Estimate {
    /// When the front end is free.
    front: u64,
    /// When the last copy ends, slowed down by the kernels issued so far.
    copied: u64,
    /// When the copies before it ended, in order.
    done: Vec<u64>,
    /// The kernels in flight, the oldest first.
    kernels: [Running; KERNELS_IN_FLIGHT],
}

/// A kernel in flight.
#[derive(Clone, Copy, Default)]
struct Running {
    start: u64,
    end: u64,
    load: Load,
}

impl Estimate {
    /// Nothing issued yet, with capacity for `count` copies.
    pub fn of_copies(count: usize) -> Estimate {
        Estimate { done: Vec::with_capacity(count), ..Estimate::default() }
    }

    /// Whether a copy issued now would make the front end wait, because the copy before still runs.
    pub fn copies_late(&self) -> bool {
        self.copied > self.room()
    }

    /// When another kernel could be issued.
    fn room(&self) -> u64 {
        self.front.max(self.kernels[0].end)
    }

    /// Issue a copy. Its bytes have been reserved for it while the last `kernels` kernels were issued, so that it
    /// waits only for kernels before these. Returns its number.
    pub fn copy(&mut self, cycles: u64, kernels: usize) -> usize {
        // When the last kernel ends that was issued before the reservation and may still use these bytes.
        let users = self.kernels.iter().rev().nth(kernels).map_or(0, |kernel| kernel.end);
        self.front = self.front.max(self.copied).max(users);
        self.done.push(self.copied);
        let (mut now, mut left, mut late) = (self.front, cycles, 0);
        for kernel in &mut self.kernels {
            kernel.start += late;
            kernel.end += late;
            let begin = now.max(kernel.start);
            if kernel.end <= begin || left == 0 {
                continue;
            }
            let alone = left.min(begin - now);
            let (took, copied) = kernel.load.beside(kernel.end - begin, left - alone);
            late += begin + took - kernel.end;
            kernel.end = begin + took;
            (now, left) = if copied > took { (kernel.end, copied - took) } else { (now + alone + copied, 0) };
        }
        self.copied = now + left;
        self.done.len()
    }

    /// Issue a copy of a table into slots unused by kernels in flight; returns its number.
    pub fn table(&mut self, cycles: u64) -> usize {
        self.copy(cycles, KERNELS_IN_FLIGHT)
    }

    /// When a copy, by its number, is done; 0 for none.
    fn ready(&self, copy: Option<usize>) -> u64 {
        copy.map_or(0, |number| self.done.get(number).copied().unwrap_or(self.copied))
    }

    /// Issue a kernel whose constants are what a copy brings, if any.
    pub fn kernel(&mut self, load: Load, constants: Option<usize>) {
        self.front = self.room().max(self.ready(constants));
        let start = self.front.max(self.kernels[KERNELS_IN_FLIGHT - 1].end);
        let left = self.copied.saturating_sub(start);
        let (took, copied) = load.beside(load.cycles, left);
        self.copied += copied - left;
        self.kernels.rotate_left(1);
        self.kernels[KERNELS_IN_FLIGHT - 1] = Running { start, end: start + took, load };
    }

    /// Issue a step that waits for everything before it.
    pub fn call(&mut self) {
        self.front = self.end();
    }

    /// When everything issued so far is done.
    pub fn end(&self) -> u64 {
        self.front.max(self.copied).max(self.kernels[KERNELS_IN_FLIGHT - 1].end)
    }
}

/// Cycles from the first command to the last write: one kernel engine and one copy engine, commands in order.
pub fn total_cycles(program: &Program) -> u64 {
    let mut clock = Estimate::default();
    let mut ready: IdVec<BufferId, _> = vec![None; program.buffers.len()].into();
    let mut kernels = Vec::with_capacity(program.steps.len());
    let (mut count, mut tables) = (0, Vec::new());
    for step in &program.steps {
        kernels.push(count);
        match step {
            Step::Copy { moved: CopySource::Constants(..), buffer, cycles } => {
                let since = count - kernels[program.buffers[*buffer].first_step as usize];
                ready[*buffer] = Some(clock.copy(*cycles, since));
            }
            Step::Copy { moved: CopySource::Tensor { .. }, cycles, .. } => {
                count += 1;
                clock.kernel(Load::of_copy(*cycles), None);
            }
            Step::Stripe(stripe) => {
                count += 1;
                let user = (stripe.part, stripe.piece);
                let table = tables.iter().position(|&(of, _)| of == user).map(|at| tables.swap_remove(at).1);
                clock.kernel(Load::of(stripe), table.max(stripe.constants.and_then(|buffer| ready[buffer])));
            }
            Step::LoadTable { part, piece, cycles, .. } => tables.push(((*part, *piece), clock.table(*cycles))),
            Step::Feed { .. } | Step::Take { .. } | Step::Call { .. } => clock.call(),
        }
    }
    clock.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(cycles: u64, constants: u64) -> Load {
        Load { cycles, constants, beside: cycles }
    }

    #[test]
    fn a_copy_into_bytes_just_freed_waits_for_the_kernel() {
        let mut clock = Estimate::default();
        clock.kernel(load(100, 0), None);
        clock.kernel(load(50, 0), None);
        for (kernels, end) in [(2, 10), (1, 110), (0, 160)] {
            let mut clock = clock.clone();
            clock.copy(10, kernels);
            assert_eq!(clock.copied, end);
        }
    }

    #[test]
    fn kernels_and_copies_share_the_memory_of_constants() {
        // What the kernel leaves, until one of them is done; half each where both want more.
        assert_eq!(load(100, 0).beside(100, 40), (100, 40));
        assert_eq!(load(100, 25).beside(100, 60), (100, 80));
        assert_eq!(load(100, 25).beside(100, 90), (100, 115));
        assert_eq!(load(100, 100).beside(100, 30), (130, 60));
        assert_eq!(load(100, 100).beside(100, 150), (200, 250));
    }

    #[test]
    fn a_copy_that_slows_a_kernel_in_flight_delays_the_one_behind_it() {
        let mut clock = Estimate::default();
        let slow = Load { beside: 120, ..load(100, 0) };
        clock.kernel(slow, None);
        clock.kernel(load(50, 0), None);
        clock.copy(60, 2);
        assert_eq!(clock.kernels.map(|kernel| (kernel.start, kernel.end)), [(0, 110), (110, 160)]);
    }

    #[test]
    fn a_copy_takes_its_share_of_the_arena_from_a_kernel() {
        let load = Load { beside: 120, ..load(100, 0) };
        // All of the kernel, the half of it, and its second half alone.
        assert_eq!(load.beside(100, 120), (120, 120));
        assert_eq!(load.beside(100, 60), (110, 60));
        assert_eq!(load.beside(50, 100), (60, 100));
    }

    #[test]
    fn kernels_of_any_length_are_compared() {
        let load = Load { beside: u64::MAX / 2, ..load(u64::MAX / 4, 0) };
        assert_eq!(load.burden(), 32);
        assert_eq!(load.beside(1 << 50, 1 << 61), (1 << 51, 1 << 61));
    }

    #[test]
    fn a_kernel_in_place_holds_up_the_copy_beside_it() {
        let mut clock = Estimate::default();
        let copy = clock.copy(90, 0);
        clock.kernel(load(100, 25), None);
        clock.kernel(load(10, 0), Some(copy));
        assert_eq!((clock.ready(Some(copy)), clock.end()), (115, 125));
    }

    #[test]
    fn copies_are_left_half_of_a_kernel_at_least() {
        let room = |constants| load(100, constants).room();
        assert_eq!([0, 25, 50, 80, 100].map(room), [100, 75, 50, 50, 50]);
    }

    #[test]
    fn transfers_run_one_after_the_other_and_hold_up_the_front_end() {
        let mut clock = Estimate::default();
        assert!(!clock.copies_late());
        let first = clock.copy(50, 0);
        assert!(clock.copies_late());
        // The second one is issued when the first is done; what waits for the first alone starts beside it.
        clock.copy(70, 0);
        assert_eq!((clock.front, clock.copied, clock.ready(Some(first))), (50, 120, 50));
        clock.kernel(load(30, 0), Some(first));
        assert_eq!((clock.kernels[1].end, clock.end()), (80, 120));
        clock.kernel(load(200, 0), None);
        assert!(clock.copies_late());
        clock.kernel(load(10, 0), None);
        // The front end has waited for the first of three kernels, and is to wait for the second.
        assert!(!clock.copies_late());
    }

    #[test]
    fn a_copy_slows_down_kernels_in_flight_that_read_in_place_and_those_behind_them() {
        let busy = load(100, 100);
        let mut clock = Estimate::default();
        clock.kernel(busy, None);
        clock.kernel(load(50, 0), None);
        clock.copy(130, 2);
        assert_eq!((clock.kernels[0].end, clock.kernels[1].start, clock.kernels[1].end), (200, 200, 250));
        assert_eq!((clock.copied, clock.end()), (230, 250));
        // So does one that runs when the kernel starts.
        let mut clock = Estimate::default();
        clock.copy(30, 0);
        clock.kernel(busy, None);
        assert_eq!((clock.copied, clock.end()), (60, 130));
    }

    #[test]
    fn a_call_waits_for_copies_and_kernels() {
        let mut clock = Estimate::default();
        clock.kernel(load(20, 0), None);
        clock.copy(90, 0);
        clock.call();
        clock.kernel(load(10, 0), None);
        // The copy waited for the kernel, whose bytes may be its own.
        assert_eq!(clock.end(), 120);
    }
}
