//! Bottleneck hill climb: local search over the order in which first fit takes the items.
//!
//! Only a change of the stack under the peak can lower the peak. A move takes an item above a target, or an item below it
//! in its stack, and places it earlier. The target lies below the best peak. The bytes above the target, summed, rank plans
//! of equal peak. Simulated annealing accepts some moves for the worse; the best plan ever seen is returned. Several starts
//! share the iterations: first the initial plans, then the best order again.

use super::arrangement::Arrangement;
use super::instance::Instance;
use super::limits::{LARGE_PROBLEM_BUFFERS, MAX_SEARCH_LOOKS, MAX_STEP_LOOKS};
use super::parallel::until;
use super::params::StopReason;
use super::placer::Placer;
use super::random::Random;
use super::solver::{Outcome, Solver, Task};
use super::squeaky_wheel::{improve, targets};
use crate::util::interrupt;

/// Least moves of one start: annealing needs time to cool.
const MIN_MOVES_PER_START: u64 = 4_000;
/// Most starts.
const MAX_STARTS: u64 = 8;
/// Random move rate: one move in this number moves any item, whatever the peak.
const MOVES_PER_RANDOM_MOVE: usize = 10;
/// Annealing starts at a temperature of the mean item size, divided by this.
const T0_DIVISOR: u64 = 8;
/// A listed conflict costs as much time as this number of items in a row.
const LOOKS_PER_CONFLICT: u64 = 32;

pub(crate) struct HillClimb;

impl Solver for HillClimb {
    fn solve(&self, task: &Task) -> Outcome {
        let (instance, initial) = (task.instance, task.initial_plans());
        let count = instance.items.len() as u64;
        let left = u64::from(task.params.iterations) - initial.passes;
        let looks = count * count + LOOKS_PER_CONFLICT * instance.conflicts() as u64;
        // The searches before take long already where there are many items.
        let most_looks = MAX_SEARCH_LOOKS / if instance.items.len() > LARGE_PROBLEM_BUFFERS { 4 } else { 1 };
        let moves = left.min(most_looks / looks.max(1));
        if moves < left.min(MIN_MOVES_PER_START) {
            // Each move places nearly all items again, so few moves are left; the squeaky wheel gets further.
            if let Some(mut placer) = Placer::new(instance) {
                let passes = left.min(MAX_STEP_LOOKS / placer.effort());
                let (best, done) = improve(&mut placer, &initial.starts, passes, task.params.seed);
                let arrangement = Arrangement::from_slots(instance, &best.slots);
                return Outcome::of(arrangement, StopReason::IterationLimit, initial.passes + done);
            }
        }
        // A short rest is not worth a start, unless nothing else was tried.
        let least = u64::from(initial.passes == 0);
        let rounds = (moves / MIN_MOVES_PER_START).clamp(least, MAX_STARTS);
        let mut best = (initial.best(instance), initial.starts[0].order.clone());
        let mut done = 0;
        // Starts share no state. Those beyond the initial plans start from the best of these.
        let first = rounds.min(initial.starts.len() as u64);
        for wave in [0..first, first..rounds] {
            let run = |round: u64, _: &dyn Fn() -> bool| {
                let mut best = best.clone();
                let start = match initial.starts.get(round as usize) {
                    Some(start) => (Arrangement::from_slots(instance, &start.slots), start.order.clone()),
                    None => best.clone(),
                };
                let share = moves * (round + 1) / rounds - moves * round / rounds;
                let mut climb = Climb::new(instance, task.params.seed.wrapping_add(round));
                let done = climb.run(start, share, &mut best);
                (best, done)
            };
            let is_best = |(found, _): &(Start, u64)| instance.proves_optimal(found.0.cost(), &[]);
            if instance.proves_optimal(best.0.cost(), &[]) {
                break;
            }
            for (found, moves) in until(task.params.threads, wave.collect(), run, is_best) {
                done += moves;
                if found.0.cost() < best.0.cost() {
                    best = found;
                }
            }
        }
        let proved = instance.proves_optimal(best.0.cost(), &[]);
        let stop_reason = if proved { StopReason::Complete } else { StopReason::IterationLimit };
        Outcome::of(best.0, stop_reason, initial.passes + done)
    }
}

/// A plan and the order in which first fit makes it.
type Start = (Arrangement, Vec<u32>);

/// A change of the order, between two positions.
#[derive(Clone, Copy)]
enum Move {
    /// What is at `late` goes to `early`, all between one back.
    Insert { early: usize, late: usize },
    /// The two change places.
    Swap { early: usize, late: usize },
}

/// The energy that annealing lowers. Unlike the cost it ranks plans of equal peak, by the bytes above the target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Energy {
    overflow: u64,
    spill: u64,
    excess: u64,
}

impl Energy {
    fn of(arrangement: &Arrangement) -> Self {
        Self { overflow: arrangement.cost().overflow, spill: arrangement.cost().spill, excess: arrangement.excess() }
    }
}

struct Climb<'a> {
    instance: &'a Instance<'a>,
    random: Random,
    order: Vec<u32>,
    /// One more than the position in `order`, by item; 0 for pinned items, which are always there.
    rank: Vec<u32>,
    current: Arrangement,
    trial: Arrangement,
    choices: Vec<u32>,
    /// Temperature at the start, in bytes.
    t0: u64,
}

impl<'a> Climb<'a> {
    fn new(instance: &'a Instance<'a>, seed: u64) -> Self {
        let items = &instance.items;
        let bytes: u64 = items.iter().map(|item| item.size_bytes).sum();
        Self {
            instance,
            random: Random::new(seed),
            order: Vec::new(),
            rank: vec![0; items.len()],
            current: Arrangement::default(),
            trial: Arrangement::default(),
            choices: Vec::new(),
            t0: bytes / (items.len() as u64).max(1) / T0_DIVISOR,
        }
    }

    /// Tries `moves` moves from `start` and keeps the best plan seen in `best`. Repasses how many were tried.
    fn run(&mut self, start: (Arrangement, Vec<u32>), moves: u64, best: &mut (Arrangement, Vec<u32>)) -> u64 {
        self.trial = start.0.clone();
        self.current = start.0;
        self.order = start.1;
        self.order.retain(|&item| self.instance.items[item as usize].pinned.is_none());
        for (position, &item) in (1u32..).zip(&self.order) {
            self.rank[item as usize] = position;
        }
        self.lower_targets(&best.0);
        for done in 0..moves {
            interrupt::ask();
            let Some(change) = self.propose() else {
                continue;
            };
            let early = self.apply(change);
            let limit = self.draw_energy_limit(moves - done, moves);
            if !self.replace_from(early, &limit) {
                self.undo(change);
                continue;
            }
            std::mem::swap(&mut self.current, &mut self.trial);
            if self.current.cost() < best.0.cost() {
                best.0.clone_from(&self.current);
                best.1.clone_from(&self.order);
                // Should this start be forgotten, then for one that meets the lower bounds.
                self.instance.report(best.0.cost());
                if self.instance.proves_optimal(best.0.cost(), &[]) {
                    return done + 1;
                }
                self.lower_targets(&best.0);
            }
        }
        moves
    }

    /// Sets the targets between the best plan's peaks and the lower bounds.
    fn lower_targets(&mut self, best: &Arrangement) {
        self.current.set_targets(self.instance, &targets(self.instance, best.cost()));
    }

    fn propose(&mut self) -> Option<Move> {
        if self.random.below(MOVES_PER_RANDOM_MOVE) == 0 {
            return self.propose_random();
        }
        let mut item = self.pick_item_above_target()?;
        // Down the stack that holds it up, each step less likely than the one before.
        while self.random.below(2) == 0 {
            match self.pick_supporter(item) {
                Some(below) => item = below,
                None => break,
            }
        }
        let partner = self.pick_earlier_neighbour(item)?;
        let (early, late) = (self.rank[partner as usize] as usize - 1, self.rank[item as usize] as usize - 1);
        Some(if self.random.below(3) == 0 { Move::Swap { early, late } } else { Move::Insert { early, late } })
    }

    /// A move between any two positions. It keeps every order within reach of every other.
    fn propose_random(&mut self) -> Option<Move> {
        if self.order.len() < 2 {
            return None;
        }
        let (one, other) = (self.random.below(self.order.len()), self.random.below(self.order.len()));
        let (early, late) = (one.min(other), one.max(other));
        (early < late).then_some(Move::Insert { early, late })
    }

    /// An item above its pool's target or, with several pools, sometimes one outside its preferred pool.
    fn pick_item_above_target(&mut self) -> Option<u32> {
        if self.current.cost().spill > 0 && self.random.below(2) == 0 {
            let (current, items) = (&self.current, &self.instance.items);
            let denied = |&&index: &&u32| current.slot(index).pool != items[index as usize].candidates[0].pool;
            self.choices.clear();
            self.choices.extend(self.order.iter().filter(denied));
        } else {
            self.current.items_above_target(self.instance, &mut self.choices);
            self.choices.retain(|&item| self.rank[item as usize] > 0);
        }
        self.pick_choice()
    }

    /// An item directly below `item`.
    fn pick_supporter(&mut self, item: u32) -> Option<u32> {
        let slot = self.current.slot(item);
        let alignment = self.instance.items[item as usize].candidates[0].alignment;
        let rank = self.rank[item as usize] as usize;
        self.choices.clear();
        for &other in &self.order[..rank - 1] {
            let below = self.current.slot(other);
            let end = below.offset + self.instance.items[other as usize].size_bytes;
            let touches = below.pool == slot.pool && end <= slot.offset && slot.offset - end < alignment;
            if touches && self.neighbours(item, other) {
                self.choices.push(other);
            }
        }
        self.pick_choice()
    }

    /// An item placed before `item` whose bytes may meet those of `item`.
    fn pick_earlier_neighbour(&mut self, item: u32) -> Option<u32> {
        let rank = self.rank[item as usize] as usize;
        self.choices.clear();
        for &other in &self.order[..rank - 1] {
            if self.neighbours(item, other) {
                self.choices.push(other);
            }
        }
        self.pick_choice()
    }

    fn pick_choice(&mut self) -> Option<u32> {
        if self.choices.is_empty() {
            None
        } else {
            Some(self.choices[self.random.below(self.choices.len())])
        }
    }

    fn neighbours(&self, one: u32, other: u32) -> bool {
        let item = &self.instance.items[one as usize];
        item.meets_in_time(&self.instance.items[other as usize]) || item.conflicts_with(other)
    }

    /// The worst energy accepted with `left` of `moves` moves to go, drawn at random.
    fn draw_energy_limit(&mut self, left: u64, moves: u64) -> Energy {
        let mut limit = Energy::of(&self.current);
        let cooled = u128::from(self.t0) * u128::from(left) / u128::from(moves);
        let more = self.random.tolerance(cooled as u64);
        if limit.overflow > 0 {
            limit = Energy { overflow: limit.overflow + more, spill: u64::MAX, excess: u64::MAX };
        } else if limit.spill > 0 && self.random.below(2) == 0 {
            limit = Energy { spill: limit.spill + more, excess: u64::MAX, ..limit };
        } else {
            limit.excess += more;
        }
        limit
    }

    /// Places all items from position `early` on again. Repasses `false` as soon as the plan is worse than `limit`.
    fn replace_from(&mut self, early: usize, limit: &Energy) -> bool {
        let rank = &self.rank;
        self.trial.copy_part(self.instance, &self.current, |item| rank[item as usize] as usize <= early);
        for &item in &self.order[early..] {
            self.trial.place(self.instance, item);
            if Energy::of(&self.trial) > *limit {
                return false;
            }
        }
        true
    }

    fn apply(&mut self, change: Move) -> usize {
        let (early, late) = match change {
            Move::Insert { early, late } => {
                self.order[early..=late].rotate_right(1);
                (early, late)
            }
            Move::Swap { early, late } => {
                self.order.swap(early, late);
                (early, late)
            }
        };
        self.renumber(early, late);
        early
    }

    fn undo(&mut self, change: Move) {
        match change {
            Move::Insert { early, late } => {
                self.order[early..=late].rotate_left(1);
                self.renumber(early, late);
            }
            Move::Swap { early, late } => {
                self.order.swap(early, late);
                self.renumber(early, late);
            }
        }
    }

    fn renumber(&mut self, early: usize, late: usize) {
        for position in early..=late {
            self.rank[self.order[position] as usize] = position as u32 + 1;
        }
    }
}
