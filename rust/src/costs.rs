//! Remembered costs of stripes: the search asks for the same few shapes thousands of times.
//!
//! Owns a table from (Part, plane, staged) to the cost of that stripe. Looked up by key only, never walked.

use std::collections::HashMap;

use crate::graph::{CascaderGraph, PartId};
use crate::performance::{best_block, Cost};

/// Costs known so far, for one graph.
#[derive(Debug, Default)]
pub struct Costs {
    known: HashMap<(PartId, [i64; 2], bool), Option<Cost>>,
}

impl Costs {
    /// Cost of an NPU Part on an output of `plane` pixels; None if it is opaque or no block fits.
    pub fn stripe(&mut self, graph: &CascaderGraph, part: PartId, plane: [i64; 2], staged: bool) -> Option<Cost> {
        *self
            .known
            .entry((part, plane, staged))
            .or_insert_with(|| graph.kernel(part).and_then(|kernel| best_block(&graph.device, kernel, plane, staged)))
    }
}
