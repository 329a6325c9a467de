//! The common inputs of all steps of a search.

use std::sync::Arc;

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::plan::Plan;
use crate::model::program::{Placement, Program};
use crate::plans::options::Options;
use crate::schedule::interleave::interleave;
use crate::schedule::legal_plans::PlanError;
use crate::search::arena::{ArenaError, Placer};

/// A network, the options of its search, a cost model and a memory planner.
pub struct Context<'a, 'p> {
    /// The network.
    pub graph: &'a CascaderGraph,
    /// How finely it is searched.
    pub options: &'a Options,
    /// Cycles of stripes and of programs, memoised.
    pub costs: &'a mut Costs,
    /// Puts the buffers of a program into the arena.
    pub placer: &'a mut Placer<'p>,
    /// Programs placed.
    pub placements: u64,
    /// The program interleaved last, and its Plans.
    last_program: Option<(Vec<Plan>, Arc<Program>)>,
}

impl<'a, 'p> Context<'a, 'p> {
    /// A context in which nothing is placed yet.
    pub fn new(
        graph: &'a CascaderGraph,
        options: &'a Options,
        costs: &'a mut Costs,
        placer: &'a mut Placer<'p>,
    ) -> Context<'a, 'p> {
        Context { graph, options, costs, placer, placements: 0, last_program: None }
    }

    /// Interleave Plans that cover the network. The last program is kept: a candidate is estimated, placed and filled
    /// in turn.
    ///
    /// # Errors
    /// Those of interleaving the Plans.
    pub fn program(&mut self, plans: &[Plan]) -> Result<Arc<Program>, PlanError> {
        if let Some((_, program)) = self.last_program.as_ref().filter(|last| last.0 == plans) {
            return Ok(Arc::clone(program));
        }
        let program = Arc::new(interleave(self.graph, plans, self.costs)?);
        self.last_program = Some((plans.to_vec(), Arc::clone(&program)));
        Ok(program)
    }

    /// Put the buffers of a program into the arena, trying at most `moves` moves.
    ///
    /// # Errors
    /// Those of the memory planner.
    pub fn place(&mut self, program: &Program, moves: u32) -> Result<Placement, ArenaError> {
        self.placements += 1;
        (self.placer)(program, moves)
    }

    /// Whether the device has one memory for tensors.
    pub fn has_one_pool(&self) -> bool {
        self.graph.device.memories().spacious().is_empty()
    }
}
