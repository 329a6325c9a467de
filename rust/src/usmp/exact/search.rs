//! Branch and bound: does a space have a packing within a given capacity?
//!
//! Every packing can be normalised: each block is lowered until it lies on the floor or on another block. The search
//! builds normalised packings from below. Take a run of sections with one floor and higher floors on both sides. Blocks on
//! that floor lie inside the run, and nothing fits below them. So in any section of the run, one of these blocks lies on
//! the floor, or a gap stays and all of them start higher. These are the branches; the section with the fewest is taken.
//! Blocks without a common section are searched apart. Owns the branching; `partial` propagates its consequences.
//!
//! Blocks may use only parts of themselves at times. Packings in which two such blocks lie above one another in turn are
//! not searched. The search may find a packing then, but proves nothing.
//!
//! A run whose nodes ran out may be completed: with relaxed capacities, as long as these stay below the best packing known.

use super::packing::Verdict;
use super::partial::{PartialPacking, PLACED};
use super::space::Space;
use super::tactic::{Rule, Tactic};
use crate::util::interrupt::{self, Interrupt};

/// Fixed-point scale of a number of branches divided by a section's failure weight.
const FAILURE_WEIGHT_SCALE: u64 = 1 << 20;
/// Deepest recursion on the caller's stack: about a megabyte.
const MAX_DEPTH: u32 = 2_000;
/// A level of recursion takes less than this number of bytes. A large space's search has a stack of its own.
const STACK_BYTES_PER_LEVEL: usize = 2 << 10;

/// One search of a space for one capacity.
pub(super) struct PackingSearch<'a> {
    partial: PartialPacking<'a>,
    tactic: &'a Tactic,
    nodes: u64,
    budget: u64,
    work_limit: u64,
    /// Exclusive limit of a relaxed capacity, in bytes; None where a run is given up when its nodes run out.
    below: Option<u64>,
    /// Nodes at which a run with relaxed capacities takes nothing back any more.
    relaxed_budget: u64,
    /// Depth of recursion, and its limit.
    depth: u32,
    max_depth: u32,
}

impl<'a> PackingSearch<'a> {
    /// A search of one capacity, and of larger ones below `below` bytes, if given, when its nodes run out. `weights` are the
    /// sections' failure weights of earlier runs and may be empty.
    pub fn new(space: &'a Space, capacity: u64, below: Option<u64>, tactic: &'a Tactic, weights: Vec<u64>) -> Self {
        let partial = PartialPacking::new(space, capacity, weights);
        Self {
            partial,
            tactic,
            nodes: 0,
            budget: 0,
            work_limit: 0,
            below,
            relaxed_budget: 0,
            depth: 0,
            max_depth: MAX_DEPTH,
        }
    }

    /// Offsets by block, once a packing was found.
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

    /// The failure weights of the sections.
    pub fn into_weights(self) -> Vec<u64> {
        self.partial.weights
    }

    /// Searches for a packing with at most `budget` nodes and about `work_limit` looks. To be called once.
    pub fn run(&mut self, budget: u64, work_limit: u64) -> Verdict {
        (self.budget, self.work_limit) = (budget, work_limit);
        self.relaxed_budget = 2 * budget;
        if self.partial.begin() {
            self.solve_all()
        } else {
            Verdict::Impossible
        }
    }

    /// Searches all sections; deep recursions get a stack of their own.
    fn solve_all(&mut self) -> Verdict {
        let all = self.partial.floors.len();
        if !self.partial.space.is_large() {
            return self.solve(0, all);
        }
        // Each block takes a level, and some gaps do.
        self.max_depth += self.partial.space.blocks.len() as u32;
        std::thread::scope(|scope| {
            let own = std::thread::Builder::new().stack_size(self.max_depth as usize * STACK_BYTES_PER_LEVEL);
            let token = Interrupt::current();
            // Without a thread, or when it died, nothing is known.
            let run = own.spawn_scoped(scope, move || token.run(|| self.solve(0, all)));
            let verdict = run.ok().and_then(|thread| thread.join().ok().flatten());
            interrupt::ask();
            verdict.unwrap_or(Verdict::Spent)
        })
    }

    /// Packs what is left in the sections `[from, to)`.
    fn solve(&mut self, from: usize, to: usize) -> Verdict {
        // Parts without a block across their border are independent: one without a packing leaves none for all.
        let mut part = from;
        for section in from..to {
            if section + 1 == to || self.partial.across[section] == 0 {
                if (part..=section).any(|s| self.partial.floors[s].level != PLACED) {
                    if self.depth >= self.max_depth {
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
        let mut blocks: smallvec::SmallVec<[u32; 16]> = self.partial.blocks(section, level).collect();
        blocks.sort_unstable_by_key(|&block| self.tactic.rank[block as usize]);
        let forced = blocks.iter().any(|&block| self.partial.space.blocks[block as usize].pinned.is_some());
        for &block in &blocks {
            let pinned = self.partial.space.blocks[block as usize].pinned.is_some();
            if forced && !pinned || self.partial.twin_is_left(block, level) {
                continue;
            }
            if self.is_spent() {
                return self.relax(from, to, section, &blocks, forced);
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
            return self.relax(from, to, section, &blocks, forced);
        }
        self.nodes += 1;
        let mark = self.partial.changed();
        if self.partial.leave_gap(section, &blocks) {
            let verdict = self.solve(from, to);
            if verdict != Verdict::Impossible {
                return verdict;
            }
        }
        self.partial.undo(mark);
        Verdict::Impossible
    }

    /// Completes a run whose nodes ran out. Where no branch fits, the capacity grows to the least one that any branch needs.
    ///
    /// The packing needs more than the capacity asked for, so it proves nothing about that, but it is mostly a good one.
    fn relax(&mut self, from: usize, to: usize, section: usize, blocks: &[u32], forced: bool) -> Verdict {
        let Some(below) = self.below else { return Verdict::Spent };
        let level = self.partial.floors[section].level;
        loop {
            let mut least = PLACED;
            let options = blocks.iter().map(Some).chain((!forced).then_some(None));
            for option in options {
                if let Some(&block) = option {
                    let pinned = self.partial.space.blocks[block as usize].pinned.is_some();
                    if forced && !pinned || self.partial.twin_is_left(block, level) {
                        continue;
                    }
                }
                self.nodes += 1;
                let mark = self.partial.changed();
                let fits = match option {
                    Some(&block) => self.partial.place(block),
                    None => self.partial.leave_gap(section, blocks),
                };
                if fits {
                    let verdict = self.solve(from, to);
                    if verdict != Verdict::Impossible {
                        return verdict;
                    }
                }
                self.partial.undo(mark);
                least = least.min(self.partial.needed);
                if self.partial.work >= 2 * self.work_limit {
                    return Verdict::Spent;
                }
            }
            if least >= below {
                return Verdict::Spent;
            }
            self.partial.relax(least);
            self.budget = self.relaxed_budget;
        }
    }

    fn is_spent(&self) -> bool {
        self.nodes >= self.budget || self.partial.work >= self.work_limit
    }

    /// The section to branch on, by the rule, among sections whose floor no further block can get below.
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
                    let branches = floor.blocks + u32::from(slack >= self.partial.space.grain);
                    if branches <= 1 && self.partial.space.is_large() {
                        // A look at the others would take longer than the choice is worth.
                        return section;
                    }
                    let key = match self.tactic.rule {
                        Rule::Fewest => (u64::from(branches), slack),
                        Rule::FailureWeighted => {
                            (u64::from(branches) * FAILURE_WEIGHT_SCALE / self.partial.weights[section], slack)
                        }
                        Rule::Tight => (slack, u64::from(branches)),
                        Rule::Lowest => (level, u64::from(branches)),
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
