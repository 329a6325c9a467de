//! One pool's items as an exact search sees them: blocks over the few sections of time that matter.
//!
//! Two items can only collide in a step in which both are in use. A step whose items are all in use in a neighbouring
//! step too, with at least the same bytes, forbids nothing that the neighbour does not forbid, so only the maximal ones
//! stay: the maximal cliques of the interval graph (Fulkerson and Gross, "Incidence matrices and interval graphs",
//! 1965). A few hundred buffers leave one or two hundred sections.

use crate::usmp::arithmetic::gcd;
use crate::usmp::instance::Instance;
use crate::usmp::limits::{LARGE_PROBLEM_BUFFERS, MAX_TABLE_ENTRIES};
use crate::util::interrupt;

/// Most cells in sections made of explicit conflicts: a block may be in many of these.
const MAX_CONFLICT_CELLS: usize = 1 << 17;
/// Most blocks that an exact search takes on: each may be a branch on its stack.
const MAX_BLOCKS: usize = 32_000;

/// A section of time in which a block is in use, and its bytes there, counted from its offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SpaceCell {
    pub section: u32,
    pub low: u64,
    pub high: u64,
}

/// An item of the pool that is in use at least once.
pub(super) struct SpaceBlock {
    /// Index in the instance.
    pub item: u32,
    /// In bytes.
    pub size: u64,
    /// What it takes from those above it, in bytes: more than its size where all offsets are multiples of something.
    pub padded: u64,
    /// Every address is a multiple of this, in bytes.
    pub alignment: u64,
    /// Fixed offset, in bytes.
    pub pinned: Option<u64>,
    /// In order of section; at least one.
    pub cells: Vec<SpaceCell>,
    /// Blocks in use at the same time, ascending.
    pub neighbours: Vec<u32>,
    /// Those among them that are pinned.
    pub pins: Vec<u32>,
    /// The block before this one in every order among those that are the same but for their name.
    pub twin: Option<u32>,
}

impl SpaceBlock {
    /// First section and last section.
    pub fn span(&self) -> (usize, usize) {
        let last = self.cells.last().map_or(0, |cell| cell.section as usize);
        (self.cells[0].section as usize, last)
    }
}

/// The blocks of one pool and the sections that they are in use in.
pub(super) struct Space {
    pub blocks: Vec<SpaceBlock>,
    /// Blocks in use, by section.
    pub covers: Vec<Vec<u32>>,
    /// Bytes of padding that the topmost block may do without, by section.
    pub spare: Vec<u64>,
    /// Address of offset 0, in bytes.
    pub base: u64,
    /// Bytes of which every size, window and alignment is a multiple; at least 1.
    pub grain: u64,
    /// Whether every block uses all its bytes whenever it uses some.
    pub solid: bool,
    /// Whether every block is in use in all sections between its first and its last.
    pub whole: bool,
}

impl Space {
    /// The items of `instance` among `items` in pool `pool`, or `None` where there are too many for an exact search.
    pub fn new(instance: &Instance, pool: u32, items: &[u32]) -> Option<Self> {
        let used: Vec<u32> =
            items.iter().copied().filter(|&item| !instance.items[item as usize].sections.is_empty()).collect();
        if used.len() > MAX_BLOCKS {
            return None;
        }
        let base = instance.pools[pool as usize].base_address;
        let mut blocks: Vec<SpaceBlock> = used
            .iter()
            .map(|&index| {
                let item = &instance.items[index as usize];
                let candidate = item.candidates.iter().find(|candidate| candidate.pool == pool);
                SpaceBlock {
                    item: index,
                    size: item.size_bytes,
                    padded: item.size_bytes,
                    alignment: candidate.map_or(1, |candidate| candidate.alignment),
                    pinned: item.pinned,
                    cells: Vec::new(),
                    neighbours: Vec::new(),
                    pins: Vec::new(),
                    twin: None,
                }
            })
            .collect();
        let mut covers = Vec::new();
        let mut cells = 0;
        for (section, clique) in cliques(instance, &used)?.into_iter().enumerate() {
            cells += clique.len();
            covers.push(clique.iter().map(|&(block, ..)| block).collect());
            for (block, low, high) in clique {
                blocks[block as usize].cells.push(SpaceCell { section: section as u32, low, high });
            }
        }
        if cells > MAX_TABLE_ENTRIES {
            return None;
        }
        let mut space = Self { blocks, covers, spare: Vec::new(), base, grain: 1, solid: true, whole: true };
        space.describe();
        space.find_neighbours().then(|| {
            space.find_twins();
            space
        })
    }

    /// Item indices, by block.
    pub fn items(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().map(|block| block.item)
    }

    fn describe(&mut self) {
        let mut grain = self.base;
        for block in &self.blocks {
            grain = gcd(gcd(grain, block.size), block.alignment.max(1));
            grain = gcd(grain, block.pinned.unwrap_or(0));
            for cell in &block.cells {
                grain = gcd(gcd(grain, cell.low), cell.high);
                self.solid &= cell.low == 0 && cell.high == block.size;
            }
            let (first, last) = block.span();
            self.whole &= last - first + 1 == block.cells.len();
        }
        // Alignment 1 says nothing when sizes have a common factor: settled offsets are sums of sizes.
        if self.blocks.iter().all(|block| block.alignment == 1) && self.base == 0 {
            grain = self.blocks.iter().fold(0, |all, block| {
                let of_cells = block.cells.iter().fold(0, |all, cell| gcd(gcd(all, cell.low), cell.high));
                gcd(gcd(all, block.size), gcd(of_cells, block.pinned.unwrap_or(0)))
            });
        }
        self.grain = grain.max(1);
        self.pad();
    }

    /// Lists the neighbours of every block. `false` when that would take too much memory.
    fn find_neighbours(&mut self) -> bool {
        let mut listed = 0;
        let mut met = vec![u32::MAX; self.blocks.len()];
        for index in 0..self.blocks.len() {
            interrupt::ask();
            let mut neighbours = Vec::new();
            met[index] = index as u32;
            for cell in &self.blocks[index].cells {
                for &other in &self.covers[cell.section as usize] {
                    if met[other as usize] != index as u32 {
                        met[other as usize] = index as u32;
                        neighbours.push(other);
                    }
                }
            }
            neighbours.sort_unstable();
            listed += neighbours.len();
            if listed > MAX_TABLE_ENTRIES {
                return false;
            }
            let is_pinned = |other: &u32| self.blocks[*other as usize].pinned.is_some();
            self.blocks[index].pins = neighbours.iter().copied().filter(is_pinned).collect();
            self.blocks[index].neighbours = neighbours;
        }
        true
    }

    fn pad(&mut self) {
        let step = self
            .blocks
            .iter()
            .fold(self.base, |step, block| gcd(gcd(step, block.alignment), block.pinned.unwrap_or(0)));
        if step > 1 && self.solid {
            for block in &mut self.blocks {
                block.padded = block.size.next_multiple_of(step);
            }
        }
        let blocks = &self.blocks;
        let spare = |cover: &Vec<u32>| {
            cover.iter().map(|&block| &blocks[block as usize]).map(|block| block.padded - block.size).max().unwrap_or(0)
        };
        self.spare = self.covers.iter().map(spare).collect();
    }

    /// Bytes that no packing can do without: what is in use together, and where the pins end.
    pub fn bound(&self) -> u64 {
        let mut in_use = vec![0; self.covers.len()];
        let mut least = 0;
        for block in &self.blocks {
            least = least.max(block.pinned.unwrap_or(0) + block.size);
            for cell in &block.cells {
                in_use[cell.section as usize] += cell.high - cell.low + (block.padded - block.size);
            }
        }
        in_use.iter().zip(&self.spare).map(|(taken, spare)| taken - spare).max().unwrap_or(0).max(least)
    }

    fn find_twins(&mut self) {
        for index in 0..self.blocks.len() {
            let block = &self.blocks[index];
            let same = |other: &&u32| {
                let other = &self.blocks[**other as usize];
                block.pinned.is_none()
                    && other.pinned.is_none()
                    && (block.size, block.alignment) == (other.size, other.alignment)
                    && block.cells == other.cells
            };
            self.blocks[index].twin =
                block.neighbours.iter().rev().filter(|&&other| (other as usize) < index).find(same).copied();
        }
    }

    /// Whether each run of a search takes long here.
    pub fn is_large(&self) -> bool {
        self.blocks.len() > LARGE_PROBLEM_BUFFERS
    }

    /// The least start of `other` above `block` at `offset`, in all sections in which both are in use.
    pub fn above(&self, block: &SpaceBlock, offset: u64, other: u32) -> u64 {
        let mut theirs = self.blocks[other as usize].cells.iter().peekable();
        let mut least = 0;
        for cell in &block.cells {
            while theirs.next_if(|their| their.section < cell.section).is_some() {}
            if let Some(their) = theirs.peek().filter(|their| their.section == cell.section) {
                least = least.max((offset + cell.high).saturating_sub(their.low));
            }
        }
        least
    }

    /// The least offset from `offset` on whose address suits `block`.
    pub fn aligned(&self, block: &SpaceBlock, offset: u64) -> u64 {
        if block.alignment == 1 {
            offset
        } else {
            (self.base + offset).next_multiple_of(block.alignment) - self.base
        }
    }
}

/// Position in the list of items, first and last byte in use.
type Use = (u32, u64, u64);

/// The maximal sets of items in use at one step, in order of time; behind them, cliques of explicit conflicts.
fn cliques(instance: &Instance, used: &[u32]) -> Option<Vec<Vec<Use>>> {
    let mut events: Vec<(i64, bool, Use)> = Vec::new();
    for (position, &item) in (0u32..).zip(used) {
        for section in &instance.items[item as usize].sections {
            let taken = (position, section.low, section.high);
            events.push((section.lower, true, taken));
            events.push((section.upper, false, taken));
        }
    }
    events.sort_unstable();
    let mut live: Vec<Use> = Vec::new();
    let mut kept: Vec<Vec<Use>> = Vec::new();
    let mut cells = 0;
    let mut next = 0;
    while next < events.len() {
        let step = events[next].0;
        while let Some(&(_, starts, taken)) = events.get(next).filter(|event| event.0 == step) {
            match live.binary_search(&taken) {
                Ok(at) if !starts => {
                    live.remove(at);
                }
                Err(at) if starts => live.insert(at, taken),
                _ => {}
            }
            next += 1;
        }
        if live.is_empty() || kept.last().is_some_and(|last| within(&live, last)) {
            continue;
        }
        while kept.last().is_some_and(|last| within(last, &live)) {
            cells -= kept.pop().map_or(0, |last| last.len());
        }
        cells += live.len();
        if cells > MAX_TABLE_ENTRIES {
            return None;
        }
        kept.push(live.clone());
    }
    if let Some(graph) = instance.graph() {
        let sets = graph.cover(&instance.items, used, MAX_CONFLICT_CELLS)?;
        // A section with one block forbids nothing that another section with it does not.
        let mut is_met = vec![false; instance.items.len()];
        sets.iter().flatten().for_each(|&item| is_met[item as usize] = true);
        kept.retain(|uses| uses.len() > 1 || !is_met[used[uses[0].0 as usize] as usize]);
        kept.extend(sets.into_iter().map(|set| stacked(instance, used, &set)));
    }
    Some(kept)
}

/// The items of `set`, which are among `used`, with all their bytes.
fn stacked(instance: &Instance, used: &[u32], set: &[u32]) -> Vec<Use> {
    let place = |item: u32| used.partition_point(|&other| other < item) as u32;
    let mut uses: Vec<Use> =
        set.iter().map(|&item| (place(item), 0, instance.items[item as usize].size_bytes)).collect();
    uses.sort_unstable();
    uses
}

/// Whether all uses of `small` are covered by uses of the same items in `large`; both sorted.
fn within(small: &[Use], large: &[Use]) -> bool {
    let mut rest = large.iter();
    small.len() <= large.len()
        && small
            .iter()
            .all(|one| rest.by_ref().find(|other| other.0 == one.0).is_some_and(|o| o.1 <= one.1 && o.2 >= one.2))
}
