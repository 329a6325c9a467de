//! An index of placed sections by the steps in which they are in use. It replaces a list of conflicts.
//!
//! A section that meets another is in use at the other's first step or starts later while that one lasts. The former are
//! found on one path of a segment tree over all first steps (Bentley, "Solutions to Klee's rectangle problems", 1977),
//! the latter by their own first step. Owns that index for one pool; where sections lie is for others to decide.

use super::instance::Instance;
use super::model::Section;

/// First byte in use and one past the last.
type Bytes = (i64, i64);

pub(crate) struct Timeline {
    /// First steps of all sections that may ever be placed, ascending.
    starts: Vec<i64>,
    by_start: Vec<Vec<Bytes>>,
    /// Sections by node of the tree, whose leaves are the starts.
    ///
    /// A section lies at the nodes whose leaves it covers completely, where it does not cover the parent's.
    covering: Vec<Vec<Bytes>>,
}

impl Timeline {
    /// With room for all sections of `instance`, none of them placed.
    pub fn new(instance: &Instance) -> Self {
        let mut starts: Vec<i64> = instance.items.iter().flat_map(|item| &item.sections).map(|s| s.lower).collect();
        starts.sort_unstable();
        starts.dedup();
        let count = starts.len();
        Self { starts, by_start: vec![Vec::new(); count], covering: vec![Vec::new(); 2 * count] }
    }

    /// Takes everything off, keeping memory.
    pub fn clear(&mut self) {
        self.by_start.iter_mut().chain(&mut self.covering).for_each(Vec::clear);
    }

    /// Places `section` of an item at `offset`.
    pub fn insert(&mut self, section: &Section, offset: u64) {
        let bytes = ((offset + section.low) as i64, (offset + section.high) as i64);
        let (first, last) = self.ranks(section);
        self.by_start[first].push(bytes);
        let (mut left, mut right) = (first + self.starts.len(), last + self.starts.len());
        while left < right {
            if left % 2 == 1 {
                self.covering[left].push(bytes);
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                self.covering[right].push(bytes);
            }
            (left, right) = (left / 2, right / 2);
        }
    }

    /// Shows `see` the bytes of every placed section that is in use at a step of `section`, once each.
    pub fn each(&self, section: &Section, mut see: impl FnMut(Bytes)) {
        let (first, last) = self.ranks(section);
        let mut node = first + self.starts.len();
        while node > 0 {
            self.covering[node].iter().for_each(|&bytes| see(bytes));
            node /= 2;
        }
        self.by_start[first + 1..last].iter().flatten().for_each(|&bytes| see(bytes));
    }

    /// The starts in `section`, as a range of positions; never empty.
    fn ranks(&self, section: &Section) -> (usize, usize) {
        let first = self.starts.partition_point(|&start| start < section.lower);
        (first, first + self.starts[first..].partition_point(|&start| start < section.upper))
    }
}

/// An upper bound of the pairs of sections in use at the same step.
pub(crate) fn count_overlaps(instance: &Instance) -> u64 {
    let sections = || instance.items.iter().flat_map(|item| &item.sections);
    let mut starts: Vec<i64> = sections().map(|section| section.lower).collect();
    starts.sort_unstable();
    // Each pair is counted where the later of the two starts.
    let later = |section: &Section| {
        let from = starts.partition_point(|&start| start < section.lower);
        starts.partition_point(|&start| start < section.upper) - from
    };
    sections().map(|section| later(section) as u64).sum()
}
