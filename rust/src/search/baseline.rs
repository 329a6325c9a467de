//! The network without cascades: every Part whole, in order, constants read in place.

use crate::model::graph::CascaderGraph;
use crate::model::plan::{Plan, Staging};
use crate::schedule::interleave::interleave;
use crate::schedule::prefetch::peak_bytes;
use crate::search::context::Context;
use crate::search::error::SearchError;
use crate::stripe::Tiling;

/// Bytes and cycles of the network without cascades.
#[derive(Clone, Copy, Debug)]
pub struct Baseline {
    /// Its arena. Between several pools: its peak live bytes.
    pub bytes: u64,
    /// Modelled cycles.
    pub cycles: u64,
}

impl Baseline {
    /// Place the network without cascades.
    ///
    /// # Errors
    /// Where a Part fits no block, or the program has no place.
    pub fn new(ctx: &mut Context) -> Result<Baseline, SearchError> {
        let program = interleave(ctx.graph, &uncascaded(ctx.graph), ctx.costs)?;
        let placement = ctx.place(&program, ctx.options.placing.moves)?;
        let bytes = if ctx.has_one_pool() { placement.bytes() } else { peak_bytes(&program) };
        Ok(Baseline { bytes, cycles: ctx.costs.program(ctx.graph, &program, &placement) })
    }
}

/// Plans that run every Part whole, constants read in place.
pub fn uncascaded(graph: &CascaderGraph) -> Vec<Plan> {
    graph
        .parts
        .ids()
        .map(|part| Plan {
            first: part,
            last: part,
            tiling: Tiling::WHOLE_ROWS,
            backwards: false,
            stripes: vec![graph.uncut_rows(part)],
            staging: vec![Staging::InPlace],
            copied: Vec::new(),
        })
        .collect()
}
