//! How many rows a rolling buffer must hold, found by walking the Parts that it depends on; remembered.
//!
//! Owns this question of the search. What a whole program's buffers hold is `interleave`'s to say, by the same walk.

use smallvec::SmallVec;

use crate::graph::{CascaderGraph, PartId, TensorId};
use crate::hashing::Table;
use crate::program::{Plan, Staging};
use crate::stripe::{Axis, Span, Tiling};
use crate::walk::Walk;

/// Key of a walk: producer, rolling axis, the stripe extents of the Parts it passes, and what is wanted of the last one.
type RowKey = (TensorId, Axis, SmallVec<[i64; 4]>, Span);

/// Rows alive of a tensor, by its producer's and readers' stripes.
#[derive(Debug, Default)]
pub struct RowTable {
    known: Table<RowKey, i64>,
}

impl RowTable {
    /// Rows that a rolling buffer of the output of Part `first` needs when Parts `first..` run with `stripes`, and
    /// `wanted` along the rolling axis is wanted of each.
    pub fn alive(
        &mut self,
        graph: &CascaderGraph,
        tensor: TensorId,
        first: PartId,
        roll: Axis,
        stripes: SmallVec<[i64; 4]>,
        wanted: &[Span],
    ) -> i64 {
        let key = (tensor, roll, stripes, wanted[wanted.len() - 1]);
        if let Some(&rows) = self.known.get(&key) {
            return rows;
        }
        let stripes = key.2.to_vec();
        let stripe = stripes[0];
        let staging = vec![Staging::InPlace; stripes.len()];
        let last = first + wanted.len() as PartId - 1;
        let plan = Plan { first, last, tiling: Tiling { roll, tiles: 1 }, backwards: false, stripes, staging };
        let mut walk = Walk::new(graph, &plan, wanted.to_vec());
        walk.run(&mut |_, _| {});
        let rows = ((walk.alive[0] + stripe - 1) / stripe * stripe).min(wanted[0].len());
        self.known.insert(key, rows);
        rows
    }
}
