//! Bottleneck hill climb: local search over the order in which first fit takes the items.
//!
//! Only a plan whose peak stack changes can be better. So a move takes an item that ends above a target below the best
//! peak, or one of those that hold it up, and lets first fit take it earlier. What ends above the target, summed, tells
//! plans of equal peak apart. Moves that make the plan worse are accepted by annealing; the best plan ever seen is what
//! comes back. Several starts share the iterations: the opening's plans, then the best order again.

use super::arrangement::Arrangement;
use super::instance::Instance;
use super::model::StopReason;
use super::parallel::until;
use super::placer::Placer;
use super::random::Random;
use super::solver::{Outcome, Solver, Task};
use super::wheel::walk;
use crate::util::interrupt;

/// Moves of one start at least, so that annealing has time to cool.
const LEAST_MOVES_PER_START: u64 = 4_000;
/// Most starts.
const STARTS: u64 = 8;
/// One move in so many ignores the peak.
const WANDER: usize = 10;
/// The target lies this part of the way from the best peak to the bound.
const AIM: u64 = 2;
/// Annealing starts with this part of the mean size.
const HEAT: u64 = 8;
/// Items placed times items looked at, over all moves, at most; of many items fewer, as their searches are long already.
const WORK: u64 = 1 << 33;
const MANY: u64 = 500;
const WORK_OF_MANY: u64 = 1 << 31;
/// A conflict that is listed takes as long as so many items that are looked at in a row.
const LISTED: u64 = 32;
/// What is looked at where there are too many items to climb, over all passes, at most.
const WALK: u64 = 1 << 25;

pub(crate) struct HillClimb;

impl Solver for HillClimb {
    fn solve(&self, task: &Task) -> Outcome {
        let (instance, opening) = (task.instance, task.opening());
        let count = instance.items.len() as u64;
        let left = u64::from(task.params.iterations) - opening.turns;
        let looks = count * count + LISTED * instance.conflicts() as u64;
        let moves = left.min(if count > MANY { WORK_OF_MANY } else { WORK } / looks.max(1));
        if moves < left.min(LEAST_MOVES_PER_START) {
            // Too few moves to get anywhere, each of which places nearly all items anew; the wheel gets further.
            if let Some(mut placer) = Placer::new(instance) {
                let turns = left.min(WALK / placer.effort());
                let (best, done) = walk(&mut placer, &opening.starts, turns, task.params.seed);
                let arrangement = Arrangement::from_slots(instance, &best.slots);
                return Outcome::of(arrangement, StopReason::IterationLimit, opening.turns + done);
            }
        }
        // What is left of a short search is not worth a start, unless nothing else was tried.
        let least = u64::from(opening.turns == 0);
        let rounds = (moves / LEAST_MOVES_PER_START).clamp(least, STARTS);
        let mut best = (opening.best(instance), opening.starts[0].order.clone());
        let mut done = 0;
        // Starts know nothing of one another; what there is beyond the opening's plans starts from the best of them.
        let first = rounds.min(opening.starts.len() as u64);
        for wave in [0..first, first..rounds] {
            let run = |round: u64, _: &dyn Fn() -> bool| {
                let mut best = best.clone();
                let start = match opening.starts.get(round as usize) {
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
        Outcome::of(best.0, stop_reason, opening.turns + done)
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

/// What the search lowers. Unlike the cost it tells plans of equal peak apart: by all that ends above the target.
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
    found: Vec<u32>,
    targets: Vec<u64>,
    /// Bytes of tolerance at the start.
    heat: u64,
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
            found: Vec::new(),
            targets: Vec::new(),
            heat: bytes / (items.len() as u64).max(1) / HEAT,
        }
    }

    /// Tries `moves` moves from `start` and keeps the best plan seen in `best`. Returns how many were tried.
    fn run(&mut self, start: (Arrangement, Vec<u32>), moves: u64, best: &mut (Arrangement, Vec<u32>)) -> u64 {
        self.trial = start.0.clone();
        self.current = start.0;
        self.order = start.1;
        self.order.retain(|&item| self.instance.items[item as usize].pinned.is_none());
        for (position, &item) in (1u32..).zip(&self.order) {
            self.rank[item as usize] = position;
        }
        self.aim_below(&best.0);
        for done in 0..moves {
            interrupt::ask();
            let Some(change) = self.propose() else {
                continue;
            };
            let early = self.apply(change);
            let limit = self.tolerated(moves - done, moves);
            if !self.replace_from(early, &limit) {
                self.undo(change);
                continue;
            }
            std::mem::swap(&mut self.current, &mut self.trial);
            if self.current.cost() < best.0.cost() {
                best.0.clone_from(&self.current);
                best.1.clone_from(&self.order);
                if self.instance.proves_optimal(best.0.cost(), &[]) {
                    return done + 1;
                }
                self.aim_below(&best.0);
            }
        }
        moves
    }

    /// Aims below the best plan's peaks, between them and what is possible.
    fn aim_below(&mut self, best: &Arrangement) {
        self.targets.clear();
        for (pool, spec) in self.instance.pools.iter().enumerate() {
            let (peak, goal) = (best.cost().peaks[pool], self.instance.goal(pool));
            let wanted = peak - peak.saturating_sub(goal).div_ceil(AIM);
            self.targets.push(wanted.min(spec.limit_bytes.unwrap_or(u64::MAX)));
        }
        self.current.aim(self.instance, &self.targets);
    }

    fn propose(&mut self) -> Option<Move> {
        if self.random.below(WANDER) == 0 {
            return self.wander();
        }
        let mut item = self.item_in_the_way()?;
        // Down the stack that holds it up, each step less likely than the one before.
        while self.random.below(2) == 0 {
            match self.supporter(item) {
                Some(below) => item = below,
                None => break,
            }
        }
        let partner = self.earlier_neighbour(item)?;
        let (early, late) = (self.rank[partner as usize] as usize - 1, self.rank[item as usize] as usize - 1);
        Some(if self.random.below(3) == 0 { Move::Swap { early, late } } else { Move::Insert { early, late } })
    }

    /// Any two positions, so that every order can be reached from every other.
    fn wander(&mut self) -> Option<Move> {
        if self.order.len() < 2 {
            return None;
        }
        let (one, other) = (self.random.below(self.order.len()), self.random.below(self.order.len()));
        let (early, late) = (one.min(other), one.max(other));
        (early < late).then_some(Move::Insert { early, late })
    }

    /// An item that ends above its pool's target or, with several pools, sometimes one that was denied its preferred pool.
    fn item_in_the_way(&mut self) -> Option<u32> {
        if self.current.cost().spill > 0 && self.random.below(2) == 0 {
            let (current, items) = (&self.current, &self.instance.items);
            let denied = |&&index: &&u32| current.slot(index).pool != items[index as usize].candidates[0].pool;
            self.found.clear();
            self.found.extend(self.order.iter().filter(denied));
        } else {
            self.current.items_above_target(self.instance, &mut self.found);
            self.found.retain(|&item| self.rank[item as usize] > 0);
        }
        self.pick_found()
    }

    /// An item that `item` lies upon.
    fn supporter(&mut self, item: u32) -> Option<u32> {
        let slot = self.current.slot(item);
        let alignment = self.instance.items[item as usize].candidates[0].alignment;
        let rank = self.rank[item as usize] as usize;
        self.found.clear();
        for &other in &self.order[..rank - 1] {
            let below = self.current.slot(other);
            let end = below.offset + self.instance.items[other as usize].size_bytes;
            let touches = below.pool == slot.pool && end <= slot.offset && slot.offset - end < alignment;
            if touches && self.neighbours(item, other) {
                self.found.push(other);
            }
        }
        self.pick_found()
    }

    /// An item that first fit takes before `item` and that it may meet.
    fn earlier_neighbour(&mut self, item: u32) -> Option<u32> {
        let rank = self.rank[item as usize] as usize;
        self.found.clear();
        for &other in &self.order[..rank - 1] {
            if self.neighbours(item, other) {
                self.found.push(other);
            }
        }
        self.pick_found()
    }

    fn pick_found(&mut self) -> Option<u32> {
        if self.found.is_empty() {
            None
        } else {
            Some(self.found[self.random.below(self.found.len())])
        }
    }

    fn neighbours(&self, one: u32, other: u32) -> bool {
        let item = &self.instance.items[one as usize];
        item.meets_in_time(&self.instance.items[other as usize]) || item.conflicts_with(other)
    }

    /// The worst energy that is accepted with `left` of `moves` moves to go.
    fn tolerated(&mut self, left: u64, moves: u64) -> Energy {
        let mut limit = Energy::of(&self.current);
        let cooled = u128::from(self.heat) * u128::from(left) / u128::from(moves);
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

    /// Places what comes from position `early` on anew. `false` as soon as the plan is worse than `limit`.
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
