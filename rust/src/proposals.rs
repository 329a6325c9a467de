//! Proposals: Plans that together run the whole network, on the front of (SRAM bytes, cycles).
//!
//! Bottom-up over the Parts' order: the front of the first k Parts is made of fronts of fewer Parts and one more Plan.
//! While a Plan runs, whatever the rest of the network still holds is counted, so a Proposal's estimate is the largest
//! sum of bytes alive at once. The survivors are interleaved and placed for real: what a Proposal promises is the size
//! of the arena that the memory planner found for exactly its buffers.
//! Owns the combination. Is told how to place by its caller and knows no placement algorithm.

use crate::costs::Costs;
use crate::graph::{CascaderGraph, PartId};
use crate::interleave::{interleave, PlanError};
use crate::pareto::{keep_front, pareto_front, thin, Point};
#[cfg(test)]
use crate::plans::Copies;
use crate::plans::{enumerate, Candidate, Options, PlanTable};
use crate::prefetch::{peak_bytes, prefetch, prefetch_limits, total_cycles};
use crate::program::{Plan, Program, Staging};
use crate::stripe::{Axis, Tiling};

/// A way to run the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Plans that cover the Parts in order.
    pub plans: Vec<Plan>,
    /// Bytes up to which copies of constants may be issued early; 0 for none.
    pub prefetch_bytes: u64,
    /// Arena bytes as placed, a multiple of 16.
    pub sram_bytes: u64,
    /// Modelled cycles.
    pub cycles: u64,
}

impl Point for Proposal {
    fn memory_bytes(&self) -> u64 {
        self.sram_bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// Where the buffers of a program lie in the arena.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Arena bytes.
    pub bytes: u64,
    /// First byte of each buffer.
    pub offsets: Vec<u64>,
}

/// What a search found and how much it looked at.
#[derive(Clone, Debug)]
pub struct Frontier {
    /// Pareto-efficient Proposals, ascending in SRAM, so the first is the floor and the last the fastest.
    pub proposals: Vec<Proposal>,
    /// Open and closed Plans considered.
    pub plans_considered: u64,
    /// Partial Proposals considered.
    pub proposals_considered: u64,
    /// SRAM of running every Part whole, in order, without cascades.
    pub uncascaded_bytes: u64,
    /// Why the search looked no further.
    pub stopped: Stop,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Every front was kept, as finely as `Options::resolution` asks.
    Complete,
    /// Some fronts had more than `Options::max_points` points and were kept more coarsely.
    Width,
}

/// Partial Proposal: the first Parts of the network.
#[derive(Clone, Copy)]
struct Partial {
    bytes: u64,
    cycles: u64,
    before: Option<(u32, u32)>,
    plan: (PartId, u32, u32),
}

impl Point for Partial {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// Rounds of placing Proposals with early copies.
const ROUNDS: u32 = 2;
/// Proposals of a round closer in cycles than one part in this are merged.
const ROUND_RESOLUTION: u64 = 128;
/// Bytes beyond those in use, as one part in this of them, that placing is expected to cost.
const PLACING_MARGIN: u64 = 32;

/// Search the whole graph. `place` puts the buffers of a program into the arena.
///
/// Never returns an empty frontier for a graph whose Parts all fit SHRAM unstriped.
pub fn search(
    graph: &CascaderGraph,
    options: &Options,
    place: &mut dyn FnMut(&Program) -> Placement,
) -> Result<Frontier, PlanError> {
    let mut costs = Costs::default();
    let whole = uncascaded(graph);
    let uncascaded_bytes = place(&interleave(graph, &whole, &mut costs)?).bytes;
    let mut frontier = Frontier {
        proposals: Vec::new(),
        plans_considered: 0,
        proposals_considered: 0,
        uncascaded_bytes,
        stopped: Stop::Complete,
    };
    let mut chosen: Vec<Vec<Plan>> = Vec::new();
    for &copies in &options.copies {
        let table = enumerate(graph, options, copies, uncascaded_bytes, &mut costs);
        frontier.plans_considered += table.considered;
        if table.crowded {
            frontier.stopped = Stop::Width;
        }
        for growing in [true, false] {
            let (fronts, considered) = combine(graph, &table, options, growing);
            frontier.proposals_considered += considered;
            for end in fronts.last().map(Vec::as_slice).unwrap_or_default() {
                let plans = unwind(&table, &fronts, end);
                if !chosen.contains(&plans) {
                    chosen.push(plans);
                }
            }
        }
    }
    let mut found = Vec::new();
    for plans in &chosen {
        found.extend(timed(graph, plans, &mut costs)?);
    }
    frontier.proposals = placed(graph, found, &mut costs, place)?;
    Ok(frontier)
}

/// Proposals of the same Plans with different room for early copies; `sram_bytes` is what a perfect placement takes.
fn timed(graph: &CascaderGraph, plans: &[Plan], costs: &mut Costs) -> Result<Vec<Proposal>, PlanError> {
    let program = interleave(graph, plans, costs)?;
    let at_limit = |prefetch_bytes| {
        let mut ahead = program.clone();
        prefetch(graph, &mut ahead, prefetch_bytes);
        let (sram_bytes, cycles) = (peak_bytes(&ahead), total_cycles(&ahead));
        Proposal { plans: plans.to_vec(), prefetch_bytes, sram_bytes, cycles }
    };
    Ok(prefetch_limits(&program).into_iter().map(at_limit).collect())
}

/// Place the Proposals that may be Pareto-efficient, the most promising first; returns those that are.
///
/// Placing is what takes time, and what a placement needs beyond the bytes in use is not known before. So fronts of the
/// bytes in use are placed in rounds, each of what the rounds before leave room for; without early copies, which make
/// room scarce and placing hard, every Proposal is.
fn placed(
    graph: &CascaderGraph,
    mut waiting: Vec<Proposal>,
    costs: &mut Costs,
    place: &mut dyn FnMut(&Program) -> Placement,
) -> Result<Vec<Proposal>, PlanError> {
    let mut known: Vec<Proposal> = Vec::new();
    for round in 0..=ROUNDS {
        waiting.retain(|proposal| !known.iter().any(|other| excludes(other, proposal)));
        let chosen = match round {
            ROUNDS => waiting.iter().filter(|proposal| proposal.prefetch_bytes == 0).cloned().collect(),
            _ => {
                let mut front = pareto_front(waiting.clone());
                thin(&mut front, ROUND_RESOLUTION);
                front
            }
        };
        for mut proposal in chosen {
            if known.iter().any(|other| excludes(other, &proposal)) {
                continue;
            }
            let mut program = interleave(graph, &proposal.plans, costs)?;
            prefetch(graph, &mut program, proposal.prefetch_bytes);
            waiting.retain(|other| other != &proposal);
            let placed = place(&program);
            proposal.sram_bytes = placed.bytes;
            proposal.cycles = costs.program(graph, &program, &placed.offsets);
            known.push(proposal);
        }
    }
    Ok(pareto_front(known))
}

/// Whether a placed Proposal is as fast as another one and takes no more than that one takes at best, or hardly more.
fn excludes(placed: &Proposal, other: &Proposal) -> bool {
    let margin = if other.prefetch_bytes == 0 { 0 } else { other.sram_bytes / PLACING_MARGIN };
    placed.cycles <= other.cycles && placed.sram_bytes <= other.sram_bytes + margin
}

/// Every Part whole, constants read in place.
pub fn uncascaded(graph: &CascaderGraph) -> Vec<Plan> {
    (0..graph.parts.len() as PartId)
        .map(|part| {
            let stripe = match graph.kernel(part) {
                Some(_) => graph.tensors[graph.output(part) as usize].plane[0],
                None => 1,
            };
            let tiling = Tiling { roll: Axis::Height, tiles: 1 };
            Plan { first: part, last: part, tiling, stripes: vec![stripe], staging: vec![Staging::InPlace] }
        })
        .collect()
}

/// The front of (bytes, cycles) that Plans and their combination promise before there is a program.
#[cfg(test)]
pub fn estimated(graph: &CascaderGraph, options: &Options, copies: Copies, costs: &mut Costs) -> Vec<(u64, u64)> {
    let (fronts, _) = combine(graph, &enumerate(graph, options, copies, u64::MAX, costs), options, true);
    fronts.last().expect("a front for no Parts").iter().map(|end| (end.bytes, end.cycles)).collect()
}

/// Fronts of partial Proposals by number of Parts covered (index 0: none), and how many were looked at.
///
/// Without `growing`, no Part on its own is striped to let its output grow into its input: rows of such outputs drift
/// through the arena, which takes the fewest live bytes but is hard to place.
fn combine(graph: &CascaderGraph, table: &PlanTable, options: &Options, growing: bool) -> (Vec<Vec<Partial>>, u64) {
    let mut considered = 0;
    let nothing = Partial { bytes: 0, cycles: 0, before: None, plan: (0, 0, 0) };
    let mut fronts = vec![vec![nothing]];
    for last in 0..graph.parts.len() as PartId {
        let mut points = Vec::new();
        for (size, group) in table.by_last[last as usize].iter().enumerate() {
            let steady = |candidate: &Candidate| growing || size > 0 || !table.is_striped(graph, last, candidate);
            let group: Vec<_> = (0..).zip(group).filter(|(_, candidate)| steady(candidate)).collect();
            join(&fronts[last as usize - size], &group, last, size as u32, &mut points);
        }
        considered += points.len() as u64;
        keep_front(&mut points);
        thin(&mut points, 4 * options.resolution);
        fronts.push(points);
    }
    (fronts, considered)
}

/// The front of one Plan of `group` after one of `before`: bytes are the larger of the two, cycles the sum.
///
/// At each number of bytes the fastest of either front that takes no more is the best there is, so that one pass over
/// both, ascending in bytes, finds the front.
fn join(before: &[Partial], group: &[(u32, &Candidate)], last: PartId, size: u32, points: &mut Vec<Partial>) {
    let first = last - size;
    let (mut rank, mut index) = (0, 0);
    while let (Some(partial), Some(&(id, candidate))) = (before.get(rank), group.get(index)) {
        points.push(Partial {
            bytes: partial.bytes.max(candidate.bytes),
            cycles: partial.cycles + candidate.cycles,
            before: Some((first, rank as u32)),
            plan: (last, size, id),
        });
        // Only the side that sets the bytes can be exchanged for a faster one at the next number of bytes.
        let next = |bytes: Option<u64>| bytes.unwrap_or(u64::MAX);
        let (partial, candidate) =
            (next(before.get(rank + 1).map(|p| p.bytes)), next(group.get(index + 1).map(|(_, c)| c.bytes)));
        if partial <= candidate {
            rank += 1;
        } else {
            index += 1;
        }
    }
}

fn unwind(table: &PlanTable, fronts: &[Vec<Partial>], end: &Partial) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut partial = *end;
    while let Some((covered, rank)) = partial.before {
        let (last, size, index) = partial.plan;
        plans.push(table.plan(last - size, last, &table.by_last[last as usize][size as usize][index as usize]));
        partial = fronts[covered as usize][rank as usize];
    }
    plans.reverse();
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::check;
    use crate::samples::{mobilenet_v1, mobilenet_v2, place};

    fn frontier(graph: &CascaderGraph) -> Frontier {
        search(graph, &Options::default(), &mut place).expect("every block fits")
    }

    #[test]
    fn mobilenets_fit_into_300_kib() {
        for graph in [mobilenet_v1(), mobilenet_v2()] {
            let frontier = frontier(&graph);
            assert!(frontier.proposals[0].sram_bytes <= 300 * 1024);
        }
    }

    #[test]
    fn every_proposal_passes_the_checker() {
        for graph in [mobilenet_v1(), mobilenet_v2()] {
            for proposal in frontier(&graph).proposals {
                let mut program = interleave(&graph, &proposal.plans, &mut Costs::default()).expect("a block fits");
                prefetch(&graph, &mut program, proposal.prefetch_bytes);
                check(&graph, &program).expect("the program is right");
                assert_eq!(place(&program).bytes, proposal.sram_bytes);
            }
        }
    }
}
