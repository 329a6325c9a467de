//! Copies of constants are issued early, so that they run while kernels before them do.
//!
//! Owns the place of each copy among the steps and the limits on memory worth trying for that. Transfers run one after
//! the other in the order in which their constants are used. Backwards over them follows when each should begin for
//! the whole backlog behind it to be in time, and forwards, with the kernels' times, at which step it is issued: not
//! before memory allows, and not so early that the front end would stand still waiting for the transfer before. The
//! times are `clock`'s.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::{total_cycles, Clock, Load, KERNELS_IN_FLIGHT};
use crate::graph::{aligned, CascaderGraph};
use crate::lifetimes::settle;
use crate::program::{Program, Step};

/// The limit below what the program takes anyway spares one part in this of it: early copies are hard to place.
const LEAN: u64 = 4;
/// How often the range of limits is halved, in ratio.
const HALVINGS: u32 = 3;

/// Most bytes in use at any step.
pub fn peak_bytes(program: &Program) -> u64 {
    live_bytes(program).into_iter().max().unwrap_or(0)
}

/// Issue copies early where no more than `limit_bytes` are then in use at any step.
///
/// The buffer of such a copy belongs to it as long before as kernels in flight may still use other bytes: one that had
/// to wait for them would hold up the front end, and the transfers behind it.
pub fn prefetch(graph: &CascaderGraph, program: &mut Program, limit_bytes: u64) {
    let lanes = Lanes::new(program);
    if lanes.copies.is_empty() || limit_bytes == 0 {
        return;
    }
    let issue = lanes.issued(limit_bytes);
    let mut copies = lanes.copies.iter().zip(&issue.places).peekable();
    let mut order = Vec::with_capacity(program.steps.len());
    let mut reserved = Vec::new();
    let mut moved = Vec::with_capacity(lanes.others.len());
    for (slot, &step) in lanes.others.iter().enumerate() {
        while let Some((copy, place)) = copies.next_if(|(_, place)| place.slot <= slot) {
            if place.reserved < slot {
                reserved.push((copy.buffer, moved[place.reserved]));
            }
            order.push(copy.step);
        }
        moved.push(order.len() as u32);
        order.push(step);
    }
    program.steps = order.into_iter().map(|step| program.steps[step].clone()).collect();
    settle(graph, program);
    for (buffer, first_step) in reserved {
        program.buffers[buffer as usize].first_step = first_step;
    }
}

/// What a program takes, as far as that can be told before it is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sketch {
    /// Bytes up to which copies of constants are issued early; 0 for none.
    pub prefetch_bytes: u64,
    /// Most bytes in use at any step.
    pub peak_bytes: u64,
    /// Cycles by the quick clock.
    pub cycles: u64,
}

/// What a program takes with as much room for early copies as is worth trying: none, and from what it takes anyway, in
/// even ratios, up to where every copy is in time, and `extra` limits. Ascending in room; what is no faster with more of it is left out.
pub fn sketches(program: &Program, extra: &[u64]) -> Vec<Sketch> {
    let lanes = Lanes::new(program);
    let (own, cycles) = (peak_bytes(program), total_cycles(program));
    let mut found = vec![Sketch { prefetch_bytes: 0, peak_bytes: own, cycles }];
    for limit in lanes.limits(own, extra) {
        let issue = lanes.issued(limit);
        let peak_bytes = issue.peak_bytes.max(own);
        if found.iter().all(|known| issue.cycles < known.cycles) {
            found.push(Sketch { prefetch_bytes: limit, peak_bytes, cycles: issue.cycles });
        }
    }
    found
}

/// Cycles by the quick clock with all copies as early as is good for them, whatever bytes that takes.
pub fn unlimited_cycles(program: &Program) -> u64 {
    Lanes::new(program).issued(u64::MAX).cycles
}

/// The geometric mean, rounded down.
fn mean(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let (mut low, mut high) = (a.min(b), a.max(b));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if u128::from(middle) * u128::from(middle) <= product {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// A copy, and the kernel that waits for it.
struct Copy {
    step: usize,
    buffer: u32,
    user: usize,
    bytes: u64,
    cycles: u64,
}

/// A program as its two engines see it: copies in order, and everything else in order. A slot is a place right before
/// one of the others.
#[derive(Default)]
struct Lanes {
    copies: Vec<Copy>,
    others: Vec<usize>,
    /// What each of the others takes, None for what runs elsewhere.
    loads: Vec<Option<Load>>,
    /// Bytes in use at each of the others, copies standing right before their first use.
    live: Vec<u64>,
    /// First slot of the NPU run that each of the others belongs to.
    run: Vec<usize>,
    /// Slots before which no copy needs to be issued.
    wishes: Vec<usize>,
}

/// Where a copy is issued, and from which slot on its buffer is kept free for it.
#[derive(Clone, Copy)]
struct Place {
    slot: usize,
    reserved: usize,
}

/// Where all copies are issued.
struct Issue {
    places: Vec<Place>,
    peak_bytes: u64,
    cycles: u64,
}

impl Lanes {
    fn new(program: &Program) -> Lanes {
        let mut lanes = Lanes::default();
        let live = live_bytes(program);
        let mut run = 0;
        for (index, step) in program.steps.iter().enumerate() {
            let slot = lanes.others.len();
            match step {
                &Step::Copy { buffer, cycles, .. } => {
                    let bytes = aligned(program.buffers[buffer as usize].size_bytes);
                    lanes.copies.push(Copy { step: index, buffer, user: slot, bytes, cycles });
                    continue;
                }
                Step::Stripe(stripe) => lanes.loads.push(Some(Load::of(stripe))),
                Step::Call { .. } => {
                    run = slot + 1;
                    lanes.loads.push(None);
                }
            }
            lanes.others.push(index);
            lanes.live.push(live[index]);
            lanes.run.push(run.min(slot));
        }
        lanes.wish();
        lanes
    }

    /// How much room to give to early copies, where there are any, if the program takes `own` bytes without.
    fn limits(&self, own: u64, extra: &[u64]) -> Vec<u64> {
        if self.copies.is_empty() {
            return Vec::new();
        }
        let most = self.issued(u64::MAX).peak_bytes.max(own);
        let mut limits = vec![own, most];
        for _ in 0..HALVINGS {
            let means: Vec<u64> = limits.windows(2).map(|pair| mean(pair[0], pair[1])).collect();
            limits.extend(means);
            limits.sort_unstable();
        }
        limits.extend(extra.iter().copied().filter(|limit| (own..most).contains(limit)));
        limits.push(own - own / LEAN);
        limits.sort_unstable();
        limits.dedup();
        limits
    }

    /// Decide from which slot on each copy is wanted, by what is fastest with unlimited memory: all as late as that goes, or
    /// the backlog beside those kernels that it slows down least, which is earlier; the latter also with a slot to spare, as
    /// kernels that are slowed down come late.
    fn wish(&mut self) {
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
        self.wishes = ways.swap_remove(best);
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

    fn issued(&self, limit_bytes: u64) -> Issue {
        self.issue(&self.wishes, limit_bytes)
    }

    /// Issue every copy where it is wanted or, if memory or the transfer before do not allow that, as soon as they do.
    fn issue(&self, wanted: &[usize], limit_bytes: u64) -> Issue {
        let mut live = self.live.clone();
        let mut places: Vec<Place> = Vec::with_capacity(self.copies.len());
        let mut ready = vec![None; self.others.len()];
        let mut clock = Clock::default();
        let mut next = None;
        for (slot, load) in self.loads.iter().enumerate() {
            while let Some(copy) = self.copies.get(places.len()) {
                let earliest =
                    *next.get_or_insert_with(|| self.earliest(copy, wanted[places.len()], &live, limit_bytes));
                if slot < earliest.slot || (slot < copy.user && clock.copies_late()) {
                    break;
                }
                let reserved = earliest.reserved.max(slot.saturating_sub(KERNELS_IN_FLIGHT));
                live[reserved..copy.user].iter_mut().for_each(|bytes| *bytes += copy.bytes);
                ready[copy.user] = Some(clock.copy(copy.cycles, slot - reserved));
                places.push(Place { slot, reserved });
                next = None;
            }
            match load {
                Some(load) => clock.kernel(*load, ready[slot]),
                None => clock.call(),
            }
        }
        Issue { places, peak_bytes: live.into_iter().max().unwrap_or(0), cycles: clock.end() }
    }

    /// The first slot from `wanted` on at which memory allows a copy to be issued.
    fn earliest(&self, copy: &Copy, wanted: usize, live: &[u64], limit_bytes: u64) -> Place {
        let run = self.run[copy.user];
        let least = wanted.saturating_sub(KERNELS_IN_FLIGHT).max(run);
        let mut reserved = copy.user;
        while reserved > least && live[reserved - 1] + copy.bytes <= limit_bytes {
            reserved -= 1;
        }
        let free = if reserved == run { run } else { reserved + KERNELS_IN_FLIGHT };
        Place { slot: free.max(wanted).min(copy.user), reserved }
    }
}

/// Bytes in use at each step.
fn live_bytes(program: &Program) -> Vec<u64> {
    let mut change = vec![0i64; program.steps.len() + 2];
    for buffer in &program.buffers {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::check;
    use crate::costs::Costs;
    use crate::interleave::interleave;
    use crate::performance::Primitive;
    use crate::program::{Plan, Staging};
    use crate::proposals::uncascaded;
    use crate::samples::{mobilenet_v1, mobilenet_v2, Network};

    /// Every Part whole and alone, convolutions with their constants staged so.
    fn staged(graph: &CascaderGraph, staging: Staging) -> Program {
        let plan = |plan: Plan| {
            let kernel = graph.kernel(plan.first).expect("samples are NPU Parts");
            let can = kernel.constant_bytes > 0 && (staging != Staging::Sliced || kernel.sliced.is_some());
            Plan { staging: vec![if can { staging } else { Staging::InPlace }], ..plan }
        };
        let plans: Vec<Plan> = uncascaded(graph).into_iter().map(plan).collect();
        interleave(graph, &plans, &mut Costs::default()).expect("legal plans")
    }

    fn ahead(graph: &CascaderGraph, program: &Program, limit_bytes: u64) -> Program {
        let mut ahead = program.clone();
        prefetch(graph, &mut ahead, limit_bytes);
        ahead
    }

    fn kernels(program: &Program) -> impl Iterator<Item = u64> + '_ {
        program
            .steps
            .iter()
            .filter_map(|step| if let Step::Stripe(stripe) = step { Some(stripe.cost.cycles) } else { None })
    }

    #[test]
    fn limits_are_kept_and_programs_stay_right() {
        for (graph, staging) in [(mobilenet_v1(), Staging::Whole), (mobilenet_v2(), Staging::Sliced)] {
            let program = staged(&graph, staging);
            let own = peak_bytes(&program);
            let lanes = Lanes::new(&program);
            let limits = lanes.limits(own, &[]);
            assert!(limits.len() > 2 && limits.is_sorted());
            for limit in limits {
                let ahead = ahead(&graph, &program, limit);
                check(&graph, &ahead).expect("the program is right");
                assert!(peak_bytes(&ahead) <= limit.max(own));
                let issue = lanes.issued(limit);
                assert_eq!((peak_bytes(&ahead), total_cycles(&ahead)), (issue.peak_bytes.max(own), issue.cycles));
                assert_eq!(ahead.steps.len(), program.steps.len());
            }
        }
    }

    #[test]
    fn sketches_are_faster_with_more_room() {
        for (graph, staging) in [(mobilenet_v1(), Staging::Whole), (mobilenet_v2(), Staging::Sliced)] {
            let program = staged(&graph, staging);
            let sketches = sketches(&program, &[]);
            let none = Sketch { prefetch_bytes: 0, peak_bytes: peak_bytes(&program), cycles: total_cycles(&program) };
            assert!(sketches[0] == none && sketches.len() > 1);
            let better = |a: &Sketch, b: &Sketch| a.prefetch_bytes < b.prefetch_bytes && a.cycles > b.cycles;
            assert!(sketches.is_sorted_by(better));
            let fastest = total_cycles(&ahead(&graph, &program, u64::MAX));
            assert_eq!(sketches.last().map(|sketch| sketch.cycles), Some(fastest));
        }
    }

    #[test]
    fn no_limit_beyond_the_last_one_changes_anything() {
        let graph = mobilenet_v1();
        let program = staged(&graph, Staging::Whole);
        let last = *Lanes::new(&program).limits(peak_bytes(&program), &[]).last().expect("limits");
        assert_eq!(ahead(&graph, &program, last), ahead(&graph, &program, u64::MAX));
        assert_eq!(peak_bytes(&ahead(&graph, &program, last)), last);
    }

    /// Light layers on a large plane, then heavy ones on a small plane.
    fn heavy_at_the_end() -> CascaderGraph {
        let mut net = Network::new([64, 64], 16);
        let mut t = 0;
        for _ in 0..24 {
            t = net.window(t, Primitive::Convolution, 3, 1, 16);
        }
        t = net.window(t, Primitive::Convolution, 3, 8, 16);
        for depth in [512, 512, 512] {
            t = net.window(t, Primitive::Convolution, 1, 1, depth);
        }
        net.finish(t)
    }

    #[test]
    fn with_room_everything_but_the_first_copy_hides() {
        let graph = heavy_at_the_end();
        for staging in [Staging::Whole, Staging::Sliced] {
            let mut program = staged(&graph, staging);
            // Kernels that read constants in place would hold up copies.
            for step in &mut program.steps {
                if let Step::Stripe(stripe) = step {
                    stripe.cost.constants = 0;
                }
            }
            let fast = ahead(&graph, &program, u64::MAX);
            let first = match program.steps.iter().find(|step| matches!(step, Step::Copy { .. })) {
                Some(Step::Copy { cycles, .. }) if staging == Staging::Whole => *cycles,
                _ => 0,
            };
            assert_eq!(total_cycles(&fast), first + kernels(&fast).sum::<u64>());
            assert!(total_cycles(&program) > total_cycles(&fast));
        }
    }

    #[test]
    fn heavy_copies_start_many_kernels_ahead() {
        let graph = heavy_at_the_end();
        let fast = ahead(&graph, &staged(&graph, Staging::Whole), u64::MAX);
        let last = graph.parts.len() as u32 - 1;
        let of = |wanted: u32, copy: bool| {
            fast.steps.iter().position(|step| match step {
                Step::Copy { part, .. } => copy && *part == wanted,
                Step::Stripe(stripe) => !copy && stripe.part == wanted,
                Step::Call { .. } => false,
            })
        };
        let (copy, user) = (of(last, true).expect("a copy"), of(last, false).expect("a kernel"));
        let between = fast.steps[copy..user].iter().filter(|step| matches!(step, Step::Stripe(_))).count();
        assert!(between > 2, "{between} kernels");
    }

    #[test]
    fn bytes_of_an_early_copy_are_free_of_kernels_in_flight() {
        let graph = mobilenet_v1();
        let program = ahead(&graph, &staged(&graph, Staging::Sliced), u64::MAX);
        let is_kernel = |step: &Step| matches!(step, Step::Stripe(_));
        for (index, step) in program.steps.iter().enumerate() {
            let Step::Copy { buffer, .. } = step else { continue };
            let since = program.buffers[*buffer as usize].first_step as usize;
            let before = program.steps[..index].iter().filter(|step| is_kernel(step)).count();
            let kept = program.steps[since..index].iter().filter(|step| is_kernel(step)).count();
            assert_eq!(kept, before.min(KERNELS_IN_FLIGHT));
        }
    }

    #[test]
    fn means_are_rounded_down() {
        assert_eq!((mean(4, 9), mean(9, 4), mean(2, 3), mean(7, 7)), (6, 6, 2, 7));
    }

    /// One kernel of 100 cycles that copies cost nothing, three that they cost a fifth, then the users of `copies`.
    fn lanes(copies: &[u64]) -> Lanes {
        let load = |beside| Some(Load::new(100, 0, beside));
        let mut loads = vec![load(100), load(120), load(120), load(120)];
        let copy = |(index, &cycles)| Copy { step: 0, buffer: 0, user: 4 + index, bytes: 16, cycles };
        let copies: Vec<Copy> = copies.iter().enumerate().map(copy).collect();
        loads.extend(copies.iter().map(|_| load(120)));
        let others = loads.len();
        Lanes {
            copies,
            others: (0..others).collect(),
            loads,
            run: vec![0; others],
            live: vec![0; others],
            wishes: vec![],
        }
    }

    #[test]
    fn copies_run_late_or_beside_kernels_that_they_slow_down_least() {
        // Two slots after the kernel beside which it runs: the third one, or the first; one earlier to be safe.
        let one = lanes(&[80]);
        let ways = [one.wanted(|_| 0, 0), one.wanted(Load::burden, 0), one.wanted(Load::burden, 1)];
        assert_eq!(ways, [vec![4], vec![2], vec![1]]);
        // What one leaves of a kernel is the next one's, and then it is the last kernel's turn.
        assert_eq!(lanes(&[80, 10]).wanted(Load::burden, 0), [2, 2]);
        assert_eq!(lanes(&[80, 20, 10]).wanted(Load::burden, 0), [2, 2, 6]);
        assert_eq!(lanes(&[80, 130]).shared_out(Load::burden), (vec![100, 0, 0, 10, 100, 0], vec![80, 130]));
    }

    #[test]
    fn what_comes_before_a_late_copy_is_wanted_at_once() {
        assert_eq!(lanes(&[10, 491, 10]).wanted(|_| 0, 0), [0, 0, 6]);
        assert_eq!(lanes(&[10, 490, 10]).wanted(|_| 0, 0), [2, 2, 6]);
    }

    #[test]
    fn the_wish_is_the_fastest_with_unlimited_memory() {
        for copies in [&[80][..], &[80, 130], &[300, 90, 10]] {
            let mut lanes = lanes(copies);
            lanes.wish();
            let ways = [lanes.wanted(|_| 0, 0), lanes.wanted(Load::burden, 0), lanes.wanted(Load::burden, 1)];
            let fewest = ways.iter().map(|way| lanes.issue(way, u64::MAX).cycles).min();
            assert_eq!(Some(lanes.issued(u64::MAX).cycles), fewest);
        }
    }
}
