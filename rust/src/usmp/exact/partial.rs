//! A partial packing, built from below: the placed blocks, and the least offset of every other block.
//!
//! `start[b]` is the least offset still possible for block `b`; the floor of a section is the least start of the blocks
//! left in it. Owns both, propagates placed blocks and gaps, reports when the rest no longer fits, and undoes changes.
//! `search` decides where to branch.

use super::space::Space;

/// Start of a placed block.
pub(super) const PLACED: u64 = u64::MAX;

/// The floor of a section.
#[derive(Clone, Copy, Default)]
pub(super) struct Floor {
    /// Least first byte in use of the blocks left; [`PLACED`] when none is.
    pub level: u64,
    /// How many blocks could lie at the level.
    pub blocks: u32,
    /// The least first byte in use above the level; [`PLACED`] when there is none.
    pub next: u64,
    /// Bytes of all blocks left.
    pub rest: u64,
}

/// A change, with the value it replaced.
enum PackingChange {
    Start(u32, u64),
    Floor(u32, Floor),
}

/// A partial packing and its propagated bounds.
pub(super) struct PartialPacking<'a> {
    pub space: &'a Space,
    capacity: u64,
    /// The least capacity at which the last failure would not have been one; [`PLACED`] when there is none.
    pub needed: u64,
    /// The least offset still possible, by block.
    start: Vec<u64>,
    size: Vec<u64>,
    pub floors: Vec<Floor>,
    /// Blocks left that are in use on both sides of the end of a section or in between, by section.
    pub across: Vec<u32>,
    /// Blocks left in front, by section; [`Self::left`] says how many.
    covers: Vec<Vec<u32>>,
    left: Vec<u32>,
    changes: Vec<PackingChange>,
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    /// Offsets of the placed blocks, by block.
    pub offsets: Vec<u64>,
    /// Failure weights: by section, one more than the number of branches it made fail.
    pub weights: Vec<u64>,
    /// Capacity plus the padding not needed above the topmost block, by section.
    pub limits: Vec<u64>,
    /// Sections, blocks and cells looked at.
    pub work: u64,
}

impl<'a> PartialPacking<'a> {
    /// An empty packing; `weights` are failure weights of earlier runs and may be empty.
    pub fn new(space: &'a Space, capacity: u64, weights: Vec<u64>) -> Self {
        let sections = space.covers.len();
        Self {
            space,
            capacity,
            needed: PLACED,
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
            weights: if weights.is_empty() { vec![1; sections] } else { weights },
            limits: space.spare.iter().map(|spare| capacity + spare).collect(),
            work: 0,
        }
    }

    /// Lets every block start as low as it can. `false` when what is there does not fit.
    pub fn begin(&mut self) -> bool {
        for (index, block) in self.space.blocks.iter().enumerate() {
            self.start[index] = block.pinned.unwrap_or_else(|| self.space.aligned(block, 0));
            let (first, last) = block.span();
            self.across[first..last].iter_mut().for_each(|count| *count += 1);
        }
        for index in 0..self.space.blocks.len() {
            self.start[index] = self.clear_of_pins(index as u32, self.start[index]);
            if self.start[index] + self.space.blocks[index].size > self.capacity {
                return false;
            }
        }
        for section in 0..self.floors.len() {
            self.floors[section] = self.look(section).0;
            self.work += u64::from(self.left[section]);
            if !self.fits(section) {
                return false;
            }
        }
        true
    }

    /// The unplaced blocks whose first byte in `section` could lie at `level`.
    pub fn blocks(&self, section: usize, level: u64) -> impl Iterator<Item = u32> + '_ {
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

    /// The bytes `[low, high)` in use by `block` in `section`, one of its own.
    fn cell(&self, block: u32, section: usize) -> (u64, u64) {
        let block = &self.space.blocks[block as usize];
        if self.space.solid {
            return (0, block.size);
        }
        let at = block.cells.partition_point(|cell| (cell.section as usize) < section);
        (block.cells[at].low, block.cells[at].high)
    }

    /// Whether an identical block before `block` could lie at `level`. Of identical blocks only the first is tried.
    pub fn twin_is_left(&self, block: u32, level: u64) -> bool {
        self.space.blocks[block as usize].twin.is_some_and(|twin| self.start[twin as usize] == level)
    }

    /// Puts `block` at its start. `false` when what is left no longer fits.
    pub fn place(&mut self, block: u32) -> bool {
        let space = self.space;
        let spec = &space.blocks[block as usize];
        let offset = self.start[block as usize];
        self.offsets[block as usize] = offset;
        self.changes.push(PackingChange::Start(block, offset));
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
            self.needed = PLACED;
            return false;
        }
        let start = self.clear_of_pins(block, self.space.aligned(spec, from));
        if start + spec.size > self.capacity {
            self.needed = start + spec.size;
            return false;
        }
        let before = self.start[block as usize];
        self.changes.push(PackingChange::Start(block, before));
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

    /// None of `blocks` lies on the floor of `section`: each must rest on some other block. `false` when that cannot be.
    pub fn leave_gap(&mut self, section: usize, blocks: &[u32]) -> bool {
        let level = self.floors[section].level;
        let floor = &self.floors[section];
        let top = level + self.space.grain + floor.rest;
        if top > self.limits[section] {
            self.needed = self.capacity + (top - self.limits[section]);
            return false;
        }
        let mut starts: smallvec::SmallVec<[u64; 16]> = smallvec::SmallVec::new();
        for &block in blocks {
            let mut least = PLACED;
            for &other in &self.space.blocks[block as usize].neighbours {
                let start = self.start[other as usize];
                if start == PLACED || blocks.contains(&other) {
                    continue;
                }
                let end = start + if self.space.solid { self.space.blocks[other as usize].size } else { 1 };
                least = least.min(end);
            }
            starts.push(least);
        }
        let lowest = starts.iter().copied().min().unwrap_or(PLACED);
        if lowest == PLACED {
            self.needed = PLACED;
            return false;
        }
        for (&block, &start) in blocks.iter().zip(&starts) {
            let start = start.min(lowest + self.space.grain).max(level + 1);
            if !self.raise(block, start.max(self.start[block as usize] + 1)) {
                self.forget();
                return false;
            }
        }
        self.settle()
    }

    /// Raises the capacity to `capacity` bytes, or by the grain where that is more.
    pub fn relax(&mut self, capacity: u64) {
        let more = capacity.saturating_sub(self.capacity).max(self.space.grain);
        self.capacity += more;
        self.limits.iter_mut().for_each(|limit| *limit += more);
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
            let (floor, top) = self.look(section as usize);
            self.work += u64::from(self.left[section as usize]);
            self.changes.push(PackingChange::Floor(section, self.floors[section as usize]));
            self.floors[section as usize] = floor;
            if top > self.limits[section as usize] {
                self.needed = self.capacity + (top - self.limits[section as usize]);
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

    /// The floor of a section, and where what is left ends at least, above it and above the level next to it.
    fn look(&self, section: usize) -> (Floor, u64) {
        let mut floor = Floor { level: PLACED, blocks: 0, next: PLACED, rest: 0 };
        let mut lying = 0;
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
                (floor.level, floor.blocks, lying) = (start, 1, size);
            } else if start == floor.level {
                floor.blocks += 1;
                lying += size;
            } else {
                floor.next = floor.next.min(start);
            }
        }
        let top = match (floor.level, floor.next) {
            (PLACED, _) => 0,
            (level, PLACED) => level + floor.rest,
            (level, next) => (level + floor.rest).max(next + (floor.rest - lying)),
        };
        (floor, top)
    }

    /// How many changes have been made: what [`Self::undo`] goes back to.
    pub fn changed(&self) -> usize {
        self.changes.len()
    }

    /// Takes back all changes beyond the first `mark`.
    pub fn undo(&mut self, mark: usize) {
        while self.changes.len() > mark {
            match self.changes.pop() {
                Some(PackingChange::Start(block, start)) => {
                    if self.start[block as usize] == PLACED {
                        let (first, last) = self.space.blocks[block as usize].span();
                        self.across[first..last].iter_mut().for_each(|count| *count += 1);
                        for cell in &self.space.blocks[block as usize].cells {
                            self.left[cell.section as usize] += 1;
                        }
                    }
                    self.start[block as usize] = start;
                }
                Some(PackingChange::Floor(section, floor)) => self.floors[section as usize] = floor,
                None => break,
            }
        }
    }
}
