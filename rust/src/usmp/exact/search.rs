//! Branch and bound: is there a packing of a space with a peak of at most so many bytes?
//!
//! Every packing can be settled: each block lowered until it lies on the floor or on another. The search builds settled
//! packings from below. `start[b]` is the least offset that block `b` can still have; the floor of a section is the
//! least start of the blocks left in it. Where a run of sections has one floor and higher floors on both sides, the
//! blocks that could lie on that floor lie inside the run, and nothing can get below them. So in any section of the run
//! either one of them lies there, or a gap stays and all of them start higher. That is the branching; the section with
//! the fewest ways is taken. Blocks that share no section with others are searched apart.
//!
//! Where blocks use only parts of themselves at times, packings in which two blocks lie above one another in turn are
//! not looked at, so the search may find a packing but proves nothing.

use super::space::Space;
use super::tactic::{Rule, Tactic};
use crate::util::interrupt::{self, Interrupt};

/// Start of a block that has been placed.
const PLACED: u64 = u64::MAX;
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

/// How a search for one capacity ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is a packing, in [`Search::offsets`].
    Found,
    /// There is none.
    Impossible,
    /// The nodes ran out.
    Spent,
}

/// What the floor of a section is and who could lie on it.
#[derive(Clone, Copy, Default)]
struct Floor {
    /// Least first byte in use of the blocks left; [`PLACED`] when none is.
    level: u64,
    /// Blocks that could lie at the level.
    ways: u32,
    /// The least first byte in use above the level; [`PLACED`] when there is none.
    next: u64,
    /// Bytes of all blocks left.
    rest: u64,
}

enum Change {
    Start(u32, u64),
    Floor(u32, Floor),
}

pub(super) struct Search<'a> {
    space: &'a Space,
    capacity: u64,
    tactic: &'a Tactic,
    start: Vec<u64>,
    size: Vec<u64>,
    floors: Vec<Floor>,
    /// Blocks left that are in use on both sides of the end of a section or in between, by section.
    across: Vec<u32>,
    /// Blocks left in front, by section; [`Search::left`] says how many.
    covers: Vec<Vec<u32>>,
    left: Vec<u32>,
    changes: Vec<Change>,
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    offsets: Vec<u64>,
    nodes: u64,
    /// One more than how often a section made a branch fail.
    weights: Vec<u64>,
    /// Capacity plus the padding that the topmost block does without, by section.
    limits: Vec<u64>,
    budget: u64,
    /// Sections, blocks and cells looked at, and most of them.
    work: u64,
    most_work: u64,
    /// Branches above the current one, and most that the stack bears.
    depth: u32,
    deepest: u32,
}

impl<'a> Search<'a> {
    /// A search that starts with what others on the same capacity learned; `weights` may be empty.
    pub fn new(space: &'a Space, capacity: u64, tactic: &'a Tactic, weights: Vec<u64>) -> Self {
        let sections = space.covers.len();
        Self {
            space,
            capacity,
            tactic,
            start: vec![0; space.blocks.len()],
            size: space.blocks.iter().map(|block| block.padded).collect(),
            floors: vec![Floor::default(); sections],
            across: vec![0; sections],
            covers: space.covers.clone(),
            left: space.covers.iter().map(|cover| cover.len() as u32).collect(),
            changes: Vec::new(),
            dirty: Vec::new(),
            is_dirty: vec![false; sections],
            offsets: vec![0; space.blocks.len()],
            nodes: 0,
            weights: if weights.is_empty() { vec![1; sections] } else { weights },
            limits: space.spare.iter().map(|spare| capacity + spare).collect(),
            budget: 0,
            work: 0,
            most_work: 0,
            depth: 0,
            deepest: DEEPEST,
        }
    }

    /// By block, once a packing was found.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Sections, blocks and cells looked at.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// What was learned about the sections.
    pub fn into_weights(self) -> Vec<u64> {
        self.weights
    }

    /// Searches for a packing, with at most `budget` nodes and about `most_work` looks. Once only.
    pub fn run(&mut self, budget: u64, most_work: u64) -> Verdict {
        (self.budget, self.most_work) = (budget, most_work);
        for (index, block) in self.space.blocks.iter().enumerate() {
            self.start[index] = block.pinned.unwrap_or_else(|| self.space.aligned(block, 0));
            let (first, last) = block.span();
            self.across[first..last].iter_mut().for_each(|count| *count += 1);
        }
        for index in 0..self.space.blocks.len() {
            self.start[index] = self.clear_of_pins(index as u32, self.start[index]);
            if self.start[index] + self.space.blocks[index].size > self.capacity {
                return Verdict::Impossible;
            }
        }
        for section in 0..self.floors.len() {
            self.floors[section] = self.look(section).0;
            self.work += u64::from(self.left[section]);
            if !self.fits(section) {
                return Verdict::Impossible;
            }
        }
        self.solve_all()
    }

    /// Deep recursions get a stack of their own, whatever thread the caller is on.
    fn solve_all(&mut self) -> Verdict {
        let all = self.floors.len();
        if self.space.blocks.len() <= FEW_BLOCKS {
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
            if section + 1 == to || self.across[section] == 0 {
                if (part..=section).any(|s| self.floors[s].level != PLACED) {
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
        self.work += 2 * (to - from) as u64;
        let section = self.narrowest(from, to);
        let level = self.floors[section].level;
        let mut ways: smallvec::SmallVec<[u32; 16]> = self.ways(section, level).collect();
        ways.sort_unstable_by_key(|&block| self.tactic.rank[block as usize]);
        let forced = ways.iter().any(|&block| self.space.blocks[block as usize].pinned.is_some());
        for &block in &ways {
            let pinned = self.space.blocks[block as usize].pinned.is_some();
            if forced && !pinned || self.twin_is_left(block, level) {
                continue;
            }
            if self.is_spent() {
                return Verdict::Spent;
            }
            self.nodes += 1;
            let mark = self.changes.len();
            let fits = self.place(block);
            if fits {
                let verdict = self.solve(from, to);
                if verdict != Verdict::Impossible {
                    return verdict;
                }
            }
            self.undo(mark);
        }
        if forced {
            return Verdict::Impossible;
        }
        if self.is_spent() {
            return Verdict::Spent;
        }
        self.nodes += 1;
        let mark = self.changes.len();
        if self.leave_gap(section, &ways) {
            let verdict = self.solve(from, to);
            if verdict != Verdict::Impossible {
                return verdict;
            }
        }
        self.undo(mark);
        Verdict::Impossible
    }

    fn is_spent(&self) -> bool {
        self.nodes >= self.budget || self.work >= self.most_work
    }

    /// Blocks left that could lie at `level` of `section`.
    fn ways(&self, section: usize, level: u64) -> impl Iterator<Item = u32> + '_ {
        self.covers[section][..self.left[section] as usize]
            .iter()
            .copied()
            .filter(move |&block| self.first_byte(block, section) == level)
    }

    fn first_byte(&self, block: u32, section: usize) -> u64 {
        let start = self.start[block as usize];
        if self.space.solid || start == PLACED {
            start
        } else {
            start + self.cell(block, section).0
        }
    }

    /// First and last byte that `block` uses in `section`, which must be one of its own.
    fn cell(&self, block: u32, section: usize) -> (u64, u64) {
        let block = &self.space.blocks[block as usize];
        if self.space.solid {
            return (0, block.size);
        }
        let at = block.cells.partition_point(|cell| (cell.section as usize) < section);
        (block.cells[at].low, block.cells[at].high)
    }

    /// Whether the same as `block` under another name could lie there instead: only the first of equals is tried.
    fn twin_is_left(&self, block: u32, level: u64) -> bool {
        self.space.blocks[block as usize].twin.is_some_and(|twin| self.start[twin as usize] == level)
    }

    /// The section with the fewest ways, of those in whose run nothing can get below what lies on the floor.
    fn narrowest(&self, from: usize, to: usize) -> usize {
        let local = self.space.whole && self.space.solid;
        let lowest = (from..to).map(|section| self.floors[section].level).min().unwrap_or(0);
        let mut best = (u64::MAX, 0, from);
        let mut first = from;
        while first < to {
            let level = self.floors[first].level;
            let mut last = first;
            while last + 1 < to && self.floors[last + 1].level == level {
                last += 1;
            }
            let closed = (first == from || self.floors[first - 1].level > level || self.across[first - 1] == 0)
                && (last + 1 == to || self.floors[last + 1].level > level || self.across[last] == 0);
            if level != PLACED && (level == lowest || local && closed) {
                for section in first..=last {
                    let floor = &self.floors[section];
                    let slack = self.limits[section] - level - floor.rest;
                    let ways = floor.ways + u32::from(slack >= self.space.grain);
                    if ways <= 1 && to - from > LONG {
                        return section;
                    }
                    let key = match self.tactic.rule {
                        Rule::Fewest => (u64::from(ways), slack),
                        Rule::Learned => (u64::from(ways) * LESSON / self.weights[section], slack),
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

    /// Puts `block` at its start. `false` when what is left no longer fits.
    fn place(&mut self, block: u32) -> bool {
        let space = self.space;
        let spec = &space.blocks[block as usize];
        let offset = self.start[block as usize];
        self.offsets[block as usize] = offset;
        self.changes.push(Change::Start(block, offset));
        self.start[block as usize] = PLACED;
        let (first, last) = spec.span();
        self.across[first..last].iter_mut().for_each(|count| *count -= 1);
        for cell in &spec.cells {
            self.mark(cell.section);
            let section = cell.section as usize;
            self.left[section] -= 1;
            let cover = &mut self.covers[section][..=self.left[section] as usize];
            if let Some(at) = cover.iter().position(|&other| other == block) {
                let last = cover.len() - 1;
                cover.swap(at, last);
            }
        }
        self.work += spec.neighbours.len() as u64;
        for &other in &spec.neighbours {
            let start = self.start[other as usize];
            if start == PLACED {
                continue;
            }
            let above = if space.solid { offset + spec.size } else { space.above(spec, offset, other) };
            if above > start && !self.raise(other, above) {
                self.forget();
                return false;
            }
        }
        self.settle()
    }

    /// Lets `block` start at `from` or higher. `false` when it no longer fits.
    fn raise(&mut self, block: u32, from: u64) -> bool {
        let spec = &self.space.blocks[block as usize];
        if spec.pinned.is_some() {
            return false;
        }
        let start = self.clear_of_pins(block, self.space.aligned(spec, from));
        if start + spec.size > self.capacity {
            return false;
        }
        let before = self.start[block as usize];
        self.changes.push(Change::Start(block, before));
        self.start[block as usize] = start;
        self.work += self.space.blocks[block as usize].cells.len() as u64;
        for cell in &self.space.blocks[block as usize].cells {
            // Elsewhere it is neither on the floor nor next to it, so nothing changes.
            let floor = &self.floors[cell.section as usize];
            if before + cell.low <= floor.next {
                self.mark(cell.section);
            }
        }
        true
    }

    /// The least offset from `start` on at which `block` meets no pinned block.
    fn clear_of_pins(&self, block: u32, mut start: u64) -> u64 {
        let spec = &self.space.blocks[block as usize];
        if spec.pinned.is_some() || spec.pins.is_empty() {
            return start;
        }
        loop {
            let before = start;
            for &other in &spec.pins {
                let pin = &self.space.blocks[other as usize];
                let Some(at) = pin.pinned else { continue };
                let meets = pin.cells.iter().any(|theirs| {
                    spec.cells.binary_search_by_key(&theirs.section, |cell| cell.section).is_ok_and(|mine| {
                        start + spec.cells[mine].low < at + theirs.high
                            && at + theirs.low < start + spec.cells[mine].high
                    })
                });
                if meets {
                    // One step further; blocks beside pins are few.
                    start = self.space.aligned(spec, if self.space.solid { at + pin.size } else { start + 1 });
                }
            }
            if start == before {
                return start;
            }
        }
    }

    /// None of `ways` lies on the floor of `section`: each must rest on some other block. `false` when that cannot be.
    fn leave_gap(&mut self, section: usize, ways: &[u32]) -> bool {
        let level = self.floors[section].level;
        let floor = &self.floors[section];
        if level + self.space.grain + floor.rest > self.limits[section] {
            return false;
        }
        let mut starts: smallvec::SmallVec<[u64; 16]> = smallvec::SmallVec::new();
        for &block in ways {
            let mut least = PLACED;
            for &other in &self.space.blocks[block as usize].neighbours {
                let start = self.start[other as usize];
                if start == PLACED || ways.contains(&other) {
                    continue;
                }
                let end = start + if self.space.solid { self.space.blocks[other as usize].size } else { 1 };
                least = least.min(end);
            }
            starts.push(least);
        }
        let lowest = starts.iter().copied().min().unwrap_or(PLACED);
        if lowest == PLACED {
            return false;
        }
        for (&block, &start) in ways.iter().zip(&starts) {
            let start = start.min(lowest + self.space.grain).max(level + 1);
            if !self.raise(block, start.max(self.start[block as usize] + 1)) {
                self.forget();
                return false;
            }
        }
        self.settle()
    }

    fn mark(&mut self, section: u32) {
        if !self.is_dirty[section as usize] {
            self.is_dirty[section as usize] = true;
            self.dirty.push(section);
        }
    }

    fn forget(&mut self) {
        for section in self.dirty.drain(..) {
            self.is_dirty[section as usize] = false;
        }
    }

    /// Looks at all marked sections again. `false` when one no longer fits.
    fn settle(&mut self) -> bool {
        while let Some(section) = self.dirty.pop() {
            self.is_dirty[section as usize] = false;
            let (floor, fits) = self.look(section as usize);
            self.work += u64::from(self.left[section as usize]);
            self.changes.push(Change::Floor(section, self.floors[section as usize]));
            self.floors[section as usize] = floor;
            if !fits {
                self.weights[section as usize] += 1;
                self.forget();
                return false;
            }
        }
        true
    }

    fn fits(&self, section: usize) -> bool {
        let floor = &self.floors[section];
        floor.level == PLACED || floor.level + floor.rest <= self.limits[section]
    }

    /// The floor of a section, and whether what is left fits above it and above the level next to it.
    fn look(&self, section: usize) -> (Floor, bool) {
        let mut floor = Floor { level: PLACED, ways: 0, next: PLACED, rest: 0 };
        let (mut lying, limit) = (0, self.limits[section]);
        for &block in &self.covers[section][..self.left[section] as usize] {
            let (mut start, mut size) = (self.start[block as usize], self.size[block as usize]);
            if !self.space.solid {
                let (low, high) = self.cell(block, section);
                start += low;
                size = high - low;
            }
            floor.rest += size;
            if start < floor.level {
                floor.next = floor.level;
                (floor.level, floor.ways, lying) = (start, 1, size);
            } else if start == floor.level {
                floor.ways += 1;
                lying += size;
            } else {
                floor.next = floor.next.min(start);
            }
        }
        let fits = floor.level == PLACED
            || floor.level + floor.rest <= limit
                && (floor.next == PLACED || floor.next + (floor.rest - lying) <= limit);
        (floor, fits)
    }

    fn undo(&mut self, mark: usize) {
        while self.changes.len() > mark {
            match self.changes.pop() {
                Some(Change::Start(block, start)) => {
                    if self.start[block as usize] == PLACED {
                        let (first, last) = self.space.blocks[block as usize].span();
                        self.across[first..last].iter_mut().for_each(|count| *count += 1);
                        for cell in &self.space.blocks[block as usize].cells {
                            self.left[cell.section as usize] += 1;
                        }
                    }
                    self.start[block as usize] = start;
                }
                Some(Change::Floor(section, floor)) => self.floors[section as usize] = floor,
                None => break,
            }
        }
    }
}
