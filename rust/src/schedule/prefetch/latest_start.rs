//! From which step on each copy is wanted, if memory allows.
//!
//! Transfers run one after the other in the order in which their constants are used, so backwards over them follows when
//! each should begin for the whole backlog behind it to be in time. Owns this slot, and which kernels copies are shared
//! out to. Knows nothing of memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::issue::{Copy, Issuer};
use crate::model::device::KERNELS_IN_FLIGHT;
use crate::schedule::estimate::Load;

impl Issuer {
    /// Decide from which slot on each copy is wanted, by what is fastest with unlimited memory: all as late as that goes, or
    /// the backlog beside those kernels that it slows down least, which is earlier; the latter also with a slot to spare, as
    /// kernels that are slowed down come late.
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

    /// Slots before which no copy needs to be issued, `spare` slots earlier than it has to be to end when its user, and the
    /// copy behind it, can start; at once where one behind it is late anyway.
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
            // The front end comes to a slot when it has issued the kernel before, the second one in flight.
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

    /// Cycles of copies beside each of the others, and of each copy, where none may come too late for its user. As every
    /// copy may only use what lies before, those that come first choose first.
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
            run: vec![0; others],
            live: vec![0; others],
            latest_starts: vec![],
            other_starts: vec![],
        }
    }

    #[test]
    fn copies_run_late_or_beside_kernels_that_they_slow_down_least() {
        // Two slots after the kernel beside which it runs: the third one, or the first; one earlier to be safe.
        let one = issuer(&[80]);
        let ways = [one.wanted(|_| 0, 0), one.wanted(Load::burden, 0), one.wanted(Load::burden, 1)];
        assert_eq!(ways, [vec![4], vec![2], vec![1]]);
        // What one leaves of a kernel is the next one's, and then it is the last kernel's turn.
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
