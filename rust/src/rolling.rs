//! How many rows a rolling buffer must hold, found by walking the Parts that it depends on; remembered.
//!
//! Owns this question of the search. What a whole program's buffers hold is `interleave`'s to say, by the same walk.

use smallvec::SmallVec;

use crate::graph::{CascaderGraph, PartId};
use crate::hashing::Table;
use crate::program::{Plan, Staging};
use crate::stripe::{Axis, Span, Tiling};
use crate::walk::Walk;

/// What tells walks apart besides stripes: producer, rolling axis, Parts that it passes, and what is wanted of the last.
type SheetKey = (PartId, Axis, u32, Span);

/// Rows alive of tensors, by their producers' and readers' stripes.
#[derive(Debug, Default)]
pub struct RowTable {
    sheets: Table<SheetKey, Sheet>,
}

impl RowTable {
    /// What is known where Parts `first..` run along `roll`, and `wanted` along that axis is wanted of each; to be given
    /// back by `keep`.
    pub fn sheet(&mut self, first: PartId, roll: Axis, wanted: &[Span]) -> Sheet {
        let key = (first, roll, wanted.len() as u32, wanted[wanted.len() - 1]);
        self.sheets.remove(&key).unwrap_or_else(|| Sheet { key, wanted: wanted.into(), known: Vec::new() })
    }

    /// Take back what a sheet has learnt.
    pub fn keep(&mut self, sheet: Sheet) {
        self.sheets.insert(sheet.key, sheet);
    }
}

/// Rows alive of one tensor, where the same is wanted of its readers.
#[derive(Debug)]
pub struct Sheet {
    key: SheetKey,
    wanted: Box<[Span]>,
    /// Rows by stripe extent, then by the extents of the Parts that follow; both ascending.
    known: Vec<(i64, Vec<Answer>)>,
}

/// Stripe extents of the Parts behind the producer, and rows.
type Answer = (SmallVec<[i64; 2]>, i64);

impl Sheet {
    /// Rows that a rolling buffer of the first Part's output needs when that Part runs in stripes of `stripe` and those
    /// behind it in stripes of `next`, which may go on beyond the last that matters.
    pub fn alive(&mut self, graph: &CascaderGraph, stripe: i64, next: &[i64]) -> i64 {
        let next = &next[..self.wanted.len() - 1];
        let row = self.known.binary_search_by_key(&stripe, |row| row.0).unwrap_or_else(|row| {
            self.known.insert(row, (stripe, Vec::new()));
            row
        });
        match self.known[row].1.binary_search_by(|answer| answer.0[..].cmp(next)) {
            Ok(found) => self.known[row].1[found].1,
            Err(place) => {
                let rows = self.walk(graph, stripe, next);
                self.known[row].1.insert(place, (next.into(), rows));
                rows
            }
        }
    }

    fn walk(&self, graph: &CascaderGraph, stripe: i64, next: &[i64]) -> i64 {
        let (first, roll, count, _) = self.key;
        let stripes: Vec<i64> = std::iter::once(stripe).chain(next.iter().copied()).collect();
        let staging = vec![Staging::InPlace; stripes.len()];
        let last = first + count as PartId - 1;
        let plan = Plan { first, last, tiling: Tiling { roll, tiles: 1 }, backwards: false, stripes, staging };
        let mut walk = Walk::new(graph, &plan, self.wanted.to_vec());
        walk.run(&mut |_, _| {});
        ((walk.alive[0] + stripe - 1) / stripe * stripe).min(self.wanted[0].len())
    }
}
