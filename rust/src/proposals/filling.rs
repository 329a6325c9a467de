//! Faster Proposals from the room that placements leave: their copies are issued anew, into holes of the arena.
//!
//! While Proposals are placed, copies are issued early as far as a limit on the bytes in use allows. What such a program takes
//! beyond that limit are holes that fit no buffer. Here nothing but constants moves, and a copy is issued as soon as some
//! hole is large enough for as long as it lasts, so the arena is known beforehand and only the cycles are not.
//! Owns the choice of Proposals and of rooms. Which holes there are is for `prefetch` to say.

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::ids::{BufferId, IdVec};
use crate::model::plan::Proposal;
use crate::model::program::{Placement, Program};
use crate::plans::options::Options;
use crate::schedule::interleave::{interleave, PlanError};
use crate::schedule::prefetch::Filling;
use crate::util::interrupt;
use crate::util::pareto::{keep_front, pareto_front, thin, Point};

/// A Proposal in its place, and what the quick clock said of it.
pub struct Placed {
    /// What it promises.
    pub proposal: Proposal,
    /// Cycles by the quick clock.
    pub sketched: u64,
    /// First byte of each of its program's buffers.
    pub offsets: IdVec<BufferId, u64>,
}

/// Steps of programs that were placed, and filled, and bounds of both.
#[derive(Debug)]
pub struct Effort {
    placed: usize,
    most_placed: usize,
    filled: usize,
    most_filled: usize,
    /// Whether there was more to do.
    pub is_spent: bool,
}

impl Effort {
    /// As much as the options allow.
    pub fn of(options: &Options) -> Effort {
        let Options { max_steps, max_fills, .. } = *options;
        Effort { placed: 0, most_placed: max_steps, filled: 0, most_filled: max_fills, is_spent: false }
    }

    /// Whether a program may be placed as long as one part in `share` of all is not spent, which counts.
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

/// What is known of bytes and cycles so far.
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

/// A room into which the copies of a placed Proposal may be issued.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FillSketch {
    /// Index of the placed Proposal.
    ground: usize,
    room_bytes: u64,
    bytes: u64,
    /// What is expected of the timing model.
    cycles: u64,
}

impl Point for FillSketch {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// The Pareto-efficient ones of those `found`, and of `grounds` with copies issued into what the room of others leaves: of any
/// that is known, or of a budget.
///
/// # Errors
/// Those of interleaving the Plans.
pub fn filled(
    graph: &CascaderGraph,
    mut found: Vec<Proposal>,
    grounds: &[Placed],
    options: &Options,
    effort: &mut Effort,
    costs: &mut Costs,
) -> Result<Vec<Proposal>, PlanError> {
    let mut front = Front(found.iter().map(|of| (of.sram_bytes, of.cycles)).collect());
    let rooms: Vec<u64> = match options.budget_bytes {
        // No more than the fastest takes, and no less than the leanest.
        Some(budget) => {
            front.0.first().zip(front.0.last()).map(|(least, most)| budget.clamp(least.0, most.0)).into_iter().collect()
        }
        None => front.0.iter().map(|point| point.0).collect(),
    };
    let mut sketches = Vec::new();
    for (index, ground) in grounds.iter().enumerate() {
        interrupt::ask();
        sketches.extend(sketched(graph, (index, ground), &rooms, &front, effort, costs)?);
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
            let Placed { proposal, offsets, .. } = &grounds[sketch.ground];
            let mut program = interleave(graph, &proposal.plans, costs)?;
            let ground = Placement { bytes: proposal.sram_bytes, offsets: offsets.clone() };
            let Some(filling) = Filling::new(&program, ground) else { continue };
            let placed = filling.apply(graph, &mut program, sketch.room_bytes);
            let cycles = costs.program(graph, &program, &placed.offsets);
            if cycles < front.within(placed.bytes) {
                front.add((placed.bytes, cycles));
                let fill_bytes = sketch.room_bytes;
                found.push(Proposal { fill_bytes, sram_bytes: placed.bytes, cycles, ..proposal.clone() });
            }
        }
    }
    Ok(pareto_front(found))
}

/// What is expected of a Proposal whose copies are issued into its own room, or into one of some larger `rooms`, ascending.
fn sketched(
    graph: &CascaderGraph,
    (index, Placed { proposal, sketched, offsets }): (usize, &Placed),
    rooms: &[u64],
    front: &Front,
    effort: &mut Effort,
    costs: &mut Costs,
) -> Result<Vec<FillSketch>, PlanError> {
    let own = proposal.sram_bytes;
    let program = interleave(graph, &proposal.plans, costs)?;
    let mut found: Vec<FillSketch> = Vec::new();
    let ground = Placement { bytes: own, offsets: offsets.clone() };
    let Some(filling) = Filling::new(&program, ground) else { return Ok(found) };
    // The quick clock is off by the same part before and after.
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
        let (bytes, cycles) = filling.sketch(room_bytes);
        let sketch = FillSketch { ground: index, room_bytes, bytes: bytes.max(own), cycles: expected(cycles) };
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
    use crate::proposals::arena::{self, place};
    use crate::proposals::search;
    use crate::testing::networks::{mobilenet_v1, mobilenet_v2, realised, Network, INPUT};

    /// The fewest cycles within a budget.
    fn fastest(proposals: &[Proposal], budget: u64) -> Option<u64> {
        proposals.iter().rfind(|proposal| proposal.sram_bytes <= budget).map(|proposal| proposal.cycles)
    }

    #[test]
    fn what_fills_holes_is_right_and_faster() {
        for graph in [mobilenet_v1(), mobilenet_v2()] {
            let found = search(&graph, &Options::default(), &mut place).expect("blocks fit").proposals;
            let filled: Vec<&Proposal> = found.iter().filter(|proposal| proposal.fill_bytes > 0).collect();
            assert!(4 * filled.len() > found.len(), "{} of {}", filled.len(), found.len());
            for proposal in filled {
                let (program, placement) = realised(&graph, proposal, &mut place);
                check(&graph, &program).expect("the program is right");
                assert!(arena::is_right(&program, &placement));
                let promised = (proposal.sram_bytes, proposal.cycles);
                assert_eq!((placement.bytes, Costs::default().program(&graph, &program, &placement.offsets)), promised);
                // The same arena without.
                let ground = Proposal { fill_bytes: 0, ..proposal.clone() };
                let (program, before) = realised(&graph, &ground, &mut place);
                assert!(before.bytes <= placement.bytes);
                assert!(proposal.cycles < Costs::default().program(&graph, &program, &before.offsets));
            }
        }
    }

    #[test]
    fn a_network_without_parts_is_planned() {
        let graph = Network::new([4, 4], 16).finish(INPUT);
        let found = search(&graph, &Options::default(), &mut place).expect("nothing to fit").proposals;
        assert_eq!(found.iter().map(|proposal| (proposal.sram_bytes, proposal.cycles)).collect::<Vec<_>>(), [(256, 0)]);
    }

    #[test]
    fn with_a_budget_what_is_leanest_is_the_same_and_what_fits_as_fast() {
        let graph = mobilenet_v2();
        let all = search(&graph, &Options::default(), &mut place).expect("blocks fit").proposals;
        for budget in [0, 250_000, 400_000, 1_000_000, u64::MAX] {
            let options = Options { budget_bytes: Some(budget), ..Options::default() };
            let found = search(&graph, &options, &mut place).expect("blocks fit").proposals;
            assert_eq!(found[0].sram_bytes, all[0].sram_bytes);
            let (one, other) = (fastest(&found, budget), fastest(&all, budget));
            assert_eq!(one.is_none(), other.is_none());
            assert!(100 * one.unwrap_or(0) <= 101 * other.unwrap_or(0), "{budget}: {one:?} {other:?}");
        }
    }
}
