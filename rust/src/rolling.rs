//! How many rows a rolling buffer must hold, found by walking the Parts that it depends on; remembered.
//!
//! Owns this question of the search. What a whole program's buffers hold is `interleave`'s to say, by the same walk.

use smallvec::SmallVec;

use crate::graph::{CascaderGraph, PartId, TensorId};
use crate::hashing::Table;
use crate::program::{Plan, Staging};
use crate::stripe::{Axis, Tiling};
use crate::walk::{wanted, Walk};

/// Key of a walk: producer, rolling axis, and the stripe extents of the Parts it passes.
type RowKey = (TensorId, Axis, SmallVec<[i64; 4]>);

/// Rows alive of a tensor, by its producer's and readers' stripes.
#[derive(Debug, Default)]
pub struct RowTable {
    known: Table<RowKey, i64>,
}

impl RowTable {
    /// Rows that a rolling buffer of the output of Part `first` needs when Parts `first..=reach` run with `stripes`.
    pub fn alive(
        &mut self,
        graph: &CascaderGraph,
        tensor: TensorId,
        first: PartId,
        reach: PartId,
        roll: Axis,
        stripes: SmallVec<[i64; 4]>,
    ) -> i64 {
        let key = (tensor, roll, stripes);
        if let Some(&rows) = self.known.get(&key) {
            return rows;
        }
        let stripes = key.2.to_vec();
        let stripe = stripes[0];
        let staging = vec![Staging::InPlace; stripes.len()];
        let plan = Plan { first, last: reach, tiling: Tiling { roll, tiles: 1 }, stripes, staging };
        let boxes = wanted(graph, &plan, 0);
        let all = boxes[0][0].len();
        let mut walk = Walk::new(graph, &plan, boxes.iter().map(|b| b[0]).collect());
        walk.run(&mut |_, _| {});
        let rows = ((walk.alive[0] + stripe - 1) / stripe * stripe).min(all);
        self.known.insert(key, rows);
        rows
    }
}
