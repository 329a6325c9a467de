//! Faster Proposals in the same arena: the copies of a placed program are issued anew, into holes that its placement
//! left.
//!
//! When Proposals are placed, copies are issued early as far as a limit on live bytes allows; their arenas are larger
//! than that limit, because some holes fit no buffer. Here the size of the arena, the room, is fixed, only constants
//! move, and a copy is issued as soon as some hole is large enough until its last use. So the bytes are known
//! beforehand, and the cycles are found.
//!
//! - State: the front of (bytes, cycles) known so far, and sketches: a placed Proposal, a room, and expected cycles.
//! - Step: the front of the sketches is played by the timing model, and what is faster than the known front within
//!   its bytes is added to it.
//! - Invariant: no point of the front is ever lost, as points are only added.
//! - Cost: one sketch for each Proposal and room that may be of use, bounded by `Options::max_fills` steps of
//!   programs.
//!
//! Owns the choice of Proposals and of rooms. Which holes there are is for `prefetch` to say.

use std::sync::Arc;

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::plan::Proposal;
use crate::model::program::{Arrangement, Placement, Program};
use crate::plans::options::Options;
use crate::schedule::interleave::{interleave, PlanError};
use crate::schedule::prefetch::Filling;
use crate::util::interrupt;
use crate::util::pareto::{keep_front, pareto_front, thin, Point};

/// A Proposal and the program that keeps its promise.
#[derive(Clone)]
pub struct Found {
    /// What it promises.
    pub proposal: Proposal,
    /// Its program, and where everything lies.
    pub arrangement: Arc<Arrangement>,
}

impl Point for Found {
    fn memory_bytes(&self) -> u64 {
        self.proposal.sram_bytes
    }
    fn cycles(&self) -> u64 {
        self.proposal.cycles
    }
}

/// A placed Proposal and its estimated cycles.
pub struct Placed {
    /// What it promises.
    pub proposal: Proposal,
    /// Estimated cycles.
    pub sketched: u64,
    /// Where its program's buffers lie.
    pub placement: Placement,
    /// Its program, kept only while no other Proposal is as lean and as fast: programs are many and large.
    pub program: Option<Program>,
}

impl Placed {
    fn covers(&self, other: &Placed) -> bool {
        self.proposal.sram_bytes <= other.proposal.sram_bytes && self.proposal.cycles <= other.proposal.cycles
    }
}

/// Proposals as they are placed, in that order.
#[derive(Default)]
pub struct AllPlaced(Vec<Placed>);

impl AllPlaced {
    /// Add a Proposal, and drop the programs of all that are now dominated, its own perhaps. Of equals the first stays.
    pub fn push(&mut self, mut placed: Placed) {
        if self.0.iter().any(|other| other.program.is_some() && other.covers(&placed)) {
            placed.program = None;
        } else {
            self.0.iter_mut().filter(|other| placed.covers(other)).for_each(|other| other.program = None);
        }
        self.0.push(placed);
    }

    /// All of them.
    pub fn all(&self) -> &[Placed] {
        &self.0
    }

    /// The Pareto-efficient ones, ascending in memory, with their programs, which are here no more.
    pub fn take_front(&mut self) -> Vec<Found> {
        let found = self.0.iter_mut().filter_map(|placed| {
            let Placed { proposal, placement, program, .. } = placed;
            let arrangement = Arrangement { program: program.take()?, placement: placement.clone() };
            Some(Found { proposal: proposal.clone(), arrangement: Arc::new(arrangement) })
        });
        pareto_front(found.collect())
    }
}

/// Steps of programs that were placed, and filled, and bounds of both.
#[derive(Debug)]
pub struct Effort {
    placed: usize,
    most_placed: usize,
    filled: usize,
    most_filled: usize,
    /// Whether something was left out because the work was spent.
    pub is_spent: bool,
}

impl Effort {
    /// As much as the options allow.
    pub fn of(options: &Options) -> Effort {
        let Options { max_steps, max_fills, .. } = *options;
        Effort { placed: 0, most_placed: max_steps, filled: 0, most_filled: max_fills, is_spent: false }
    }

    /// Whether a program may be placed, which counts its steps: as long as one part in `share` of the work is not
    /// spent.
    pub fn places(&mut self, program: &Program, share: usize) -> bool {
        let may = self.placed < self.most_placed / share;
        self.placed += if may { program.steps.len() } else { 0 };
        self.is_spent |= !may;
        may
    }

    fn fills(&mut self, program: &Program) -> bool {
        let may = self.filled < self.most_filled;
        self.filled += program.steps.len();
        self.is_spent |= !may;
        may
    }
}

/// The points known so far.
struct Front(Vec<(u64, u64)>);

impl Front {
    /// The fewest cycles within `bytes`.
    fn within(&self, bytes: u64) -> u64 {
        let count = self.0.partition_point(|point| point.0 <= bytes);
        count.checked_sub(1).map_or(u64::MAX, |last| self.0[last].1)
    }

    fn add(&mut self, point: (u64, u64)) {
        self.0.push(point);
        keep_front(&mut self.0);
    }
}

/// What is expected of a placed Proposal if its copies are issued into an arena of `room_bytes`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FillSketch {
    /// Index of the placed Proposal.
    ground: usize,
    room_bytes: u64,
    bytes: u64,
    /// Cycles expected of the timing model.
    cycles: u64,
    /// Of these, what every Proposal takes, whatever was decided.
    common_cycles: u64,
}

impl Point for FillSketch {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles.saturating_sub(self.common_cycles)
    }
}

/// Issue the copies of placed `grounds` anew into arenas of the sizes of all points known. Returns
/// the front of what comes of it and of what was `found` before. `common_cycles` are those that every Proposal takes.
///
/// # Errors
/// Those of interleaving the Plans.
pub fn filled(
    graph: &CascaderGraph,
    mut found: Vec<Found>,
    grounds: &[Placed],
    common_cycles: u64,
    options: &Options,
    effort: &mut Effort,
    costs: &mut Costs,
) -> Result<Vec<Found>, PlanError> {
    let mut front = Front(found.iter().map(|of| (of.memory_bytes(), of.cycles())).collect());
    let rooms: Vec<u64> = front.0.iter().map(|point| point.0).collect();
    let mut sketches = Vec::new();
    for (index, ground) in grounds.iter().enumerate() {
        interrupt::ask();
        sketches.extend(sketched(graph, (index, ground), common_cycles, &rooms, &front, effort, costs)?);
    }
    for _ in 0..options.filling.rounds {
        sketches.retain(|sketch| sketch.cycles < front.within(sketch.bytes));
        let mut promising = pareto_front(sketches.clone());
        thin(&mut promising, options.filling.round_fineness * options.resolution);
        for sketch in promising {
            interrupt::ask();
            sketches.retain(|other| *other != sketch);
            if sketch.cycles >= front.within(sketch.bytes) {
                continue;
            }
            let Placed { proposal, placement, .. } = &grounds[sketch.ground];
            let mut program = interleave(graph, &proposal.plans, costs)?;
            let Some(filling) = Filling::new(&program, placement.clone()) else { continue };
            let placement = filling.fill(sketch.room_bytes).apply(graph, &mut program);
            let cycles = costs.program(graph, &program, &placement);
            let (fill_bytes, sram_bytes) = (sketch.room_bytes, placement.bytes());
            if cycles < front.within(sram_bytes) {
                front.add((sram_bytes, cycles));
                let proposal = Proposal { fill_bytes, sram_bytes, cycles, ..proposal.clone() };
                found.push(Found { proposal, arrangement: Arc::new(Arrangement { program, placement }) });
            }
        }
    }
    Ok(pareto_front(found))
}

/// Sketches of a placed Proposal whose copies are issued into its own arena, or into a larger one of `rooms`,
/// ascending.
fn sketched(
    graph: &CascaderGraph,
    (index, Placed { proposal, sketched, placement, .. }): (usize, &Placed),
    common_cycles: u64,
    rooms: &[u64],
    front: &Front,
    effort: &mut Effort,
    costs: &mut Costs,
) -> Result<Vec<FillSketch>, PlanError> {
    let own = proposal.sram_bytes;
    let program = interleave(graph, &proposal.plans, costs)?;
    let mut found: Vec<FillSketch> = Vec::new();
    let Some(filling) = Filling::new(&program, placement.clone()) else { return Ok(found) };
    // The estimate is taken to be wrong by the same factor before and after.
    let (played, sketched) = (u128::from(proposal.cycles), u128::from(*sketched).max(1));
    let expected = |cycles: u64| (u128::from(cycles) * played / sketched) as u64;
    let larger = rooms.iter().copied().filter(|&room| room > own);
    for room_bytes in std::iter::once(own).chain(larger) {
        if expected(filling.least_cycles(room_bytes)) >= front.within(room_bytes) {
            continue;
        }
        if !effort.fills(&program) {
            break;
        }
        let filled = filling.fill(room_bytes);
        let (bytes, cycles) = (filled.bytes().max(own), expected(filled.cycles()));
        let sketch = FillSketch { ground: index, room_bytes, bytes, cycles, common_cycles };
        if found.last().is_none_or(|last| sketch.cycles < last.cycles) {
            found.push(sketch);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::check;
    use crate::proposals::arena;
    use crate::proposals::search;
    use crate::testing::networks::{mobilenet_v1, mobilenet_v2, realised, Network, INPUT};

    #[test]
    fn what_fills_holes_is_right_and_faster() {
        for graph in [mobilenet_v1(), mobilenet_v2()] {
            let found = search(&graph, &Options::default()).expect("blocks fit").proposals;
            let filled: Vec<&Proposal> = found.iter().filter(|proposal| proposal.fill_bytes > 0).collect();
            assert!(4 * filled.len() > found.len(), "{} of {}", filled.len(), found.len());
            for proposal in filled {
                let (program, placement) = realised(&graph, proposal);
                check(&graph, &program).expect("the program is right");
                assert!(arena::is_right(graph.device.memories(), &program, &placement));
                let promised = (proposal.sram_bytes, proposal.cycles);
                assert_eq!((placement.bytes(), Costs::default().program(&graph, &program, &placement)), promised);
                // The same arena without.
                let ground = Proposal { fill_bytes: 0, ..proposal.clone() };
                let (program, before) = realised(&graph, &ground);
                assert!(before.bytes() <= placement.bytes());
                assert!(proposal.cycles < Costs::default().program(&graph, &program, &before));
            }
        }
    }

    #[test]
    fn a_network_without_parts_is_planned() {
        let graph = Network::new([4, 4], 16).finish(INPUT);
        let found = search(&graph, &Options::default()).expect("nothing to fit").proposals;
        assert_eq!(found.iter().map(|proposal| (proposal.sram_bytes, proposal.cycles)).collect::<Vec<_>>(), [(256, 0)]);
    }
}
