//! Remembered costs of stripes: the search asks for the same few shapes thousands of times.
//!
//! Owns a table from (Part, plane, where its constants are) to the cost of that stripe. Looked up by key only.

use std::collections::HashMap;

use crate::graph::{CascaderGraph, PartId};
use crate::performance::{best_block, Cost};

/// Which constants an operation uses, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// All, from their home.
    InPlace,
    /// All, from the arena.
    Staged,
    /// One slice of the output channels, from the arena.
    Slice(u32),
}

/// Costs known so far, for one graph.
#[derive(Debug, Default)]
pub struct Costs {
    known: HashMap<(PartId, [i64; 2], Source), Option<Cost>>,
}

impl Costs {
    /// Cost of an NPU Part on an output of `plane` pixels; None if it is opaque, not sliced so, or no block fits.
    pub fn stripe(&mut self, graph: &CascaderGraph, part: PartId, plane: [i64; 2], source: Source) -> Option<Cost> {
        *self.known.entry((part, plane, source)).or_insert_with(|| {
            let kernel = graph.kernel(part)?;
            match source {
                Source::InPlace => best_block(&graph.device, kernel, plane, false),
                Source::Staged => best_block(&graph.device, kernel, plane, true),
                Source::Slice(index) => best_block(&graph.device, &kernel.slice(index as usize)?, plane, true),
            }
        })
    }
}
