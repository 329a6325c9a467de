//! The latest issue slot of each copy: it and all copies behind it are done in time.
//!
//! Slot `s` is the place right before kernel `s`. Copy `i` takes `t_i` cycles and is used by kernel `u_i` of an NPU
//! run that begins at slot `run_i`. Copies run one after the other, in the order of their use.
//!
//! - State: `x_ij`, cycles of copy `i` that run beside kernel `j`.
//! - Invariant: `sum_i x_ij <= room_j`, where `room_j` is what kernel `j` leaves to copies; `x_ij > 0` only for
//!   `run_i <= j < u_i`; copy `i` is late if `g_i = sum_j x_ij < t_i`. No copy is late that another choice would have
//!   in time.
//! - Result: with `U(s) = sum_(j < s) sum_i x_ij`, copy `i` begins beside kernel `begin_i`, the least `s` with
//!   `U(s + 1) > sum_(k < i) g_k`, and `latest_i = min(begin_i + 2 - spare, u_i)`; `run_i` if it or one behind it is
//!   late.
//! - Cost: each kernel enters and leaves a heap once, `(n + m) log n` for `n` kernels and `m` copies.
//!
//! Owns these slots and how kernels' time is shared out. Knows nothing of memory: `issue` waits for that.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::issue::{Copy, Issuer};
use crate::model::device::KERNELS_IN_FLIGHT;
use crate::schedule::estimate::Load;

impl Issuer {
    /// Decide the latest start of each copy. Three ways are compared by the cycles that they take with unlimited
    /// memory: all copies as late as possible; beside the kernels that they slow down least, which is earlier; and
    /// these one slot earlier still, because kernels that are slowed down end late.
    pub fn find_latest_starts(&mut self) {
        let mut ways = vec![self.wanted(|_| 0, 0)];
        for spare in [0, 1] {
            let sparing = self.wanted(Load::burden, spare);
            if !ways.contains(&sparing) {
                ways.push(sparing);
            }
        }
        let taken = |way: &Vec<usize>| {
            let issue = self.issue(way, u64::MAX);
            (issue.cycles, issue.peak_bytes)
        };
        let best = if ways.len() == 1 { 0 } else { (0..ways.len()).min_by_key(|&way| taken(&ways[way])).unwrap_or(0) };
        self.latest_starts = ways.swap_remove(best);
        self.other_starts = ways;
    }

    /// Latest start of each copy, `spare` slots earlier than needed, where copies prefer kernels of the least `burden`.
    /// Where a copy is late whatever happens, it and those before it start with their NPU run.
    fn wanted(&self, burden: impl Fn(&Load) -> u64, spare: usize) -> Vec<usize> {
        let (used, granted) = self.shared_out(burden);
        let (mut slot, mut before, mut done) = (0, 0, 0);
        let mut wanted = Vec::with_capacity(self.copies.len());
        for (copy, granted) in self.copies.iter().zip(&granted) {
            while slot < copy.user && before + used[slot] <= done {
                before += used[slot];
                slot += 1;
            }
            done += granted;
            // Two kernels are in flight: the front end comes to slot + 2 when the kernel at slot starts.
            wanted.push((slot + KERNELS_IN_FLIGHT - spare).min(copy.user));
        }
        let mut late = None;
        for ((copy, granted), wanted) in self.copies.iter().zip(granted).zip(&mut wanted).rev() {
            let run = self.run[copy.user];
            if granted < copy.cycles {
                late = Some(run);
            }
            if late == Some(run) {
                *wanted = run;
            }
        }
        wanted
    }

    /// Shares out the time of kernels to copies. Returns the cycles of copies beside each kernel (`sum_i x_ij`) and the
    /// cycles that each copy was given (`g_i`). A copy can only run before its user, and whatever serves an early copy
    /// serves the later ones too, so that early copies choose first.
    fn shared_out(&self, burden: impl Fn(&Load) -> u64) -> (Vec<u64>, Vec<u64>) {
        let mut used = vec![0; self.others.len()];
        let mut rooms: BinaryHeap<(Reverse<u64>, usize)> = BinaryHeap::new();
        let mut known = 0;
        let share = |copy: &Copy| {
            if known <= self.run[copy.user] {
                rooms.clear();
                known = self.run[copy.user];
            }
            rooms.extend(
                (known..copy.user).filter_map(|slot| Some((Reverse(burden(self.loads[slot].as_ref()?)), slot))),
            );
            known = copy.user;
            let mut wanted = copy.cycles;
            while let Some(&(_, slot)) = rooms.peek().filter(|_| wanted > 0) {
                let room = self.loads[slot].map_or(0, |load| load.room()) - used[slot];
                used[slot] += room.min(wanted);
                if room <= wanted {
                    rooms.pop();
                }
                wanted -= room.min(wanted);
            }
            copy.cycles - wanted
        };
        let granted = self.copies.iter().map(share).collect();
        (used, granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::BufferId;

    /// One kernel of 100 cycles that copies cost nothing, three that they cost a fifth, then the users of `copies`.
    fn issuer(copies: &[u64]) -> Issuer {
        let load = |beside| Some(Load::new(100, 0, beside));
        let mut loads = vec![load(100), load(120), load(120), load(120)];
        let copy = |(index, &cycles)| Copy { step: 0, buffer: BufferId(0), user: 4 + index, bytes: 16, cycles };
        let copies: Vec<Copy> = copies.iter().enumerate().map(copy).collect();
        loads.extend(copies.iter().map(|_| load(120)));
        let others = loads.len();
        Issuer {
            copies,
            others: (0..others).collect(),
            loads,
            tables: vec![],
            run: vec![0; others],
            live: vec![0; others],
            latest_starts: vec![],
            other_starts: vec![],
        }
    }

    #[test]
    fn copies_run_late_or_beside_kernels_that_they_slow_down_least() {
        // It runs beside the last kernel or the first, and is issued two slots later; with a slot to spare, one later.
        let one = issuer(&[80]);
        let ways = [one.wanted(|_| 0, 0), one.wanted(Load::burden, 0), one.wanted(Load::burden, 1)];
        assert_eq!(ways, [vec![4], vec![2], vec![1]]);
        // The second copy gets what the first one leaves of a kernel; when that is used up, it gets the last kernel.
        assert_eq!(issuer(&[80, 10]).wanted(Load::burden, 0), [2, 2]);
        assert_eq!(issuer(&[80, 20, 10]).wanted(Load::burden, 0), [2, 2, 6]);
        assert_eq!(issuer(&[80, 130]).shared_out(Load::burden), (vec![100, 0, 0, 10, 100, 0], vec![80, 130]));
    }

    #[test]
    fn what_comes_before_a_late_copy_is_wanted_at_once() {
        assert_eq!(issuer(&[10, 491, 10]).wanted(|_| 0, 0), [0, 0, 6]);
        assert_eq!(issuer(&[10, 490, 10]).wanted(|_| 0, 0), [2, 2, 6]);
    }

    #[test]
    fn the_wish_is_the_fastest_with_unlimited_memory() {
        for copies in [&[80][..], &[80, 130], &[300, 90, 10]] {
            let mut issuer = issuer(copies);
            issuer.find_latest_starts();
            let ways = [issuer.wanted(|_| 0, 0), issuer.wanted(Load::burden, 0), issuer.wanted(Load::burden, 1)];
            let fewest = ways.iter().map(|way| issuer.issue(way, u64::MAX).cycles).min();
            assert_eq!(Some(issuer.issued(u64::MAX).cycles), fewest);
        }
    }
}
