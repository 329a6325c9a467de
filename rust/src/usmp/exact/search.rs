//! Branch and bound: is there a packing of a space with a peak of at most so many bytes?
//!
//! Every packing can be settled: each block lowered until it lies on the floor or on another. The search builds settled
//! packings from below. Where a run of sections has one floor and higher floors on both sides, the blocks that could lie
//! on that floor lie inside the run, and nothing can get below them. So in any section of the run either one of them lies
//! there, or a gap stays and all of them start higher. That is the branching; the section with the fewest ways is taken.
//! Blocks that share no section with others are searched apart. Owns the branching; `partial` draws the conclusions.
//!
//! Where blocks use only parts of themselves at times, packings in which two blocks lie above one another in turn are
//! not looked at, so the search may find a packing but proves nothing.

use super::packing::Verdict;
use super::partial::{PartialPacking, PLACED};
use super::space::Space;
use super::tactic::{Rule, Tactic};
use crate::util::interrupt::{self, Interrupt};

/// A way counts as so much, divided by what was learned.
const LESSON: u64 = 1 << 20;
/// In a longer run of sections the first one that leaves no choice is taken without a look at the others.
const LONG: usize = 1_000;
/// Most blocks whose search may use the caller's stack.
const FEW_BLOCKS: usize = 500;
/// Most branches above one another there: about a megabyte.
const DEEPEST: u32 = 2_000;
/// The same on a stack of its own, and that stack's size in bytes.
const DEEPEST_ON_OWN_STACK: u32 = 40_000;
const OWN_STACK_BYTES: usize = 64 << 20;

/// One search of a space for one capacity.
pub(super) struct PackingSearch<'a> {
    partial: PartialPacking<'a>,
    tactic: &'a Tactic,
    nodes: u64,
    budget: u64,
    most_work: u64,
    /// Branches above the current one, and most that the stack bears.
    depth: u32,
    deepest: u32,
}

impl<'a> PackingSearch<'a> {
    /// A search that starts with what others on the same capacity learned; `weights` may be empty.
    pub fn new(space: &'a Space, capacity: u64, tactic: &'a Tactic, weights: Vec<u64>) -> Self {
        let partial = PartialPacking::new(space, capacity, weights);
        Self { partial, tactic, nodes: 0, budget: 0, most_work: 0, depth: 0, deepest: DEEPEST }
    }

    /// By block, once a packing was found.
    pub fn offsets(&self) -> &[u64] {
        &self.partial.offsets
    }

    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Sections, blocks and cells looked at.
    pub fn work(&self) -> u64 {
        self.partial.work
    }

    /// What was learned about the sections.
    pub fn into_weights(self) -> Vec<u64> {
        self.partial.weights
    }

    /// Searches for a packing, with at most `budget` nodes and about `most_work` looks. Once only.
    pub fn run(&mut self, budget: u64, most_work: u64) -> Verdict {
        (self.budget, self.most_work) = (budget, most_work);
        if self.partial.begin() {
            self.solve_all()
        } else {
            Verdict::Impossible
        }
    }

    /// Deep recursions get a stack of their own, whatever thread the caller is on.
    fn solve_all(&mut self) -> Verdict {
        let all = self.partial.floors.len();
        if self.partial.space.blocks.len() <= FEW_BLOCKS {
            return self.solve(0, all);
        }
        self.deepest = DEEPEST_ON_OWN_STACK;
        std::thread::scope(|scope| {
            let own = std::thread::Builder::new().stack_size(OWN_STACK_BYTES);
            let token = Interrupt::current();
            // Where no thread can be had, or it died, nothing is known.
            let run = own.spawn_scoped(scope, move || token.run(|| self.solve(0, all)));
            let verdict = run.ok().and_then(|thread| thread.join().ok().flatten());
            interrupt::ask();
            verdict.unwrap_or(Verdict::Spent)
        })
    }

    /// Packs what is left in the sections `[from, to)`.
    fn solve(&mut self, from: usize, to: usize) -> Verdict {
        // The parts between which nothing lies across are independent: one that fails condemns all.
        let mut part = from;
        for section in from..to {
            if section + 1 == to || self.partial.across[section] == 0 {
                if (part..=section).any(|s| self.partial.floors[s].level != PLACED) {
                    if self.depth >= self.deepest {
                        return Verdict::Spent;
                    }
                    self.depth += 1;
                    let verdict = self.branch(part, section + 1);
                    self.depth -= 1;
                    if verdict != Verdict::Found {
                        return verdict;
                    }
                }
                part = section + 1;
            }
        }
        Verdict::Found
    }

    fn branch(&mut self, from: usize, to: usize) -> Verdict {
        interrupt::ask();
        self.partial.work += 2 * (to - from) as u64;
        let section = self.narrowest(from, to);
        let level = self.partial.floors[section].level;
        let mut ways: smallvec::SmallVec<[u32; 16]> = self.partial.ways(section, level).collect();
        ways.sort_unstable_by_key(|&block| self.tactic.rank[block as usize]);
        let forced = ways.iter().any(|&block| self.partial.space.blocks[block as usize].pinned.is_some());
        for &block in &ways {
            let pinned = self.partial.space.blocks[block as usize].pinned.is_some();
            if forced && !pinned || self.partial.twin_is_left(block, level) {
                continue;
            }
            if self.is_spent() {
                return Verdict::Spent;
            }
            self.nodes += 1;
            let mark = self.partial.changed();
            let fits = self.partial.place(block);
            if fits {
                let verdict = self.solve(from, to);
                if verdict != Verdict::Impossible {
                    return verdict;
                }
            }
            self.partial.undo(mark);
        }
        if forced {
            return Verdict::Impossible;
        }
        if self.is_spent() {
            return Verdict::Spent;
        }
        self.nodes += 1;
        let mark = self.partial.changed();
        if self.partial.leave_gap(section, &ways) {
            let verdict = self.solve(from, to);
            if verdict != Verdict::Impossible {
                return verdict;
            }
        }
        self.partial.undo(mark);
        Verdict::Impossible
    }

    fn is_spent(&self) -> bool {
        self.nodes >= self.budget || self.partial.work >= self.most_work
    }

    /// The section with the fewest ways, of those in whose run nothing can get below what lies on the floor.
    fn narrowest(&self, from: usize, to: usize) -> usize {
        let local = self.partial.space.whole && self.partial.space.solid;
        let lowest = (from..to).map(|section| self.partial.floors[section].level).min().unwrap_or(0);
        let mut best = (u64::MAX, 0, from);
        let mut first = from;
        while first < to {
            let level = self.partial.floors[first].level;
            let mut last = first;
            while last + 1 < to && self.partial.floors[last + 1].level == level {
                last += 1;
            }
            let closed = (first == from
                || self.partial.floors[first - 1].level > level
                || self.partial.across[first - 1] == 0)
                && (last + 1 == to || self.partial.floors[last + 1].level > level || self.partial.across[last] == 0);
            if level != PLACED && (level == lowest || local && closed) {
                for section in first..=last {
                    let floor = &self.partial.floors[section];
                    let slack = self.partial.limits[section] - level - floor.rest;
                    let ways = floor.ways + u32::from(slack >= self.partial.space.grain);
                    if ways <= 1 && to - from > LONG {
                        return section;
                    }
                    let key = match self.tactic.rule {
                        Rule::Fewest => (u64::from(ways), slack),
                        Rule::Learned => (u64::from(ways) * LESSON / self.partial.weights[section], slack),
                        Rule::Tight => (slack, u64::from(ways)),
                        Rule::Lowest => (level, u64::from(ways)),
                    };
                    if key < (best.0, best.1) {
                        best = (key.0, key.1, section);
                    }
                }
            }
            first = last + 1;
        }
        best.2
    }
}
