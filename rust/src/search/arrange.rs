//! From the decisions of a Proposal back to its program.

use crate::model::plan::Plan;
use crate::model::program::Arrangement;
use crate::schedule::interleave::interleave;
use crate::schedule::prefetch::{prefetch, Filling};
use crate::search::context::Context;
use crate::search::error::SearchError;

/// Rebuild the program of a Proposal's decisions, and where everything lies.
///
/// # Errors
/// Those of interleaving the Plans and of placing programs.
pub fn arrange(
    ctx: &mut Context,
    plans: &[Plan],
    prefetch_bytes: u64,
    fill_bytes: u64,
    moves: u32,
) -> Result<Arrangement, SearchError> {
    let mut program = interleave(ctx.graph, plans, ctx.costs)?;
    let mut early = program.clone();
    prefetch(ctx.graph, &mut early, prefetch_bytes);
    let placed = ctx.place(&early, moves)?;
    let arena_bytes = fill_bytes.max(placed.bytes());
    match Filling::new(&program, placed.clone()).filter(|_| fill_bytes > 0) {
        Some(filling) => {
            let placement = filling.fill(arena_bytes).apply(ctx.graph, &mut program);
            Ok(Arrangement { program, placement })
        }
        None => Ok(Arrangement { program: early, placement: placed }),
    }
}
