//! Proposals: Plans that together run the whole network, on the front of (SRAM bytes, cycles).
//!
//! Bottom-up over the Parts' order: the front of the first k Parts is made of fronts of fewer Parts and one more Plan.
//! While a Plan runs, whatever the rest of the network still holds is counted, so a Proposal's estimate is the largest
//! sum of bytes alive at once. The survivors are interleaved and placed for real: what a Proposal promises is the size
//! of the arena that the memory planner found for exactly its buffers.
//! Owns the combination. Is told how to place by its caller and knows no placement algorithm.

use crate::costs::Costs;
use crate::edge::Edge;
use crate::graph::{aligned, CascaderGraph, PartId, TensorId, Work};
use crate::interleave::{interleave, PlanError};
use crate::pareto::{pareto_front, thin, Point};
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

/// Partial Proposals kept per prefix of the network.
const MAX_PARTIAL: usize = 96;
/// Rounds of placing Proposals with early copies.
const ROUNDS: u32 = 2;
/// Proposals of a round closer in cycles than one part in this are merged.
const ROUND_RESOLUTION: u64 = 64;
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
    let (mut plans_considered, mut proposals_considered) = (0, 0);
    let mut found: Vec<Proposal> = Vec::new();
    for &copies in &options.copies {
        let table = enumerate(graph, options, copies, uncascaded_bytes, &mut costs);
        let (fronts, considered) = combine(graph, &table, options);
        for partial in fronts.last().map(Vec::as_slice).unwrap_or_default() {
            let plans = unwind(&table, &fronts, partial);
            found.extend(timed(graph, &plans, &mut costs)?);
        }
        plans_considered += table.considered;
        proposals_considered += considered;
    }
    let proposals = placed(graph, found, &mut costs, place)?;
    Ok(Frontier { proposals, plans_considered, proposals_considered, uncascaded_bytes })
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
            _ => thin(pareto_front(waiting.clone()), ROUND_RESOLUTION),
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

/// Bytes of whole tensors, and of workspace, that the arena holds while Parts `first..=last` run as one group, without
/// the tensors of the group's edge.
fn resident_bytes(graph: &CascaderGraph, first: PartId, last: PartId) -> u64 {
    let edge = Edge::new(graph, first, last);
    let mut bytes = 0;
    for (id, tensor) in graph.tensors.iter().enumerate() {
        if [edge.dying, edge.output].contains(&Some(id as TensorId)) {
            continue;
        }
        let made = match graph.producer[id] {
            Some(part) if part > last => false,
            Some(part) if part >= first => graph.outlives(id as u32, last),
            Some(_) => tensor.is_output || graph.consumers[id].last().is_some_and(|&part| part >= first),
            None => tensor.is_output || first == 0 || graph.consumers[id].last().is_some_and(|&part| part >= first),
        };
        if made {
            bytes += aligned(tensor.size_bytes());
        }
    }
    for part in first..=last {
        if let Work::Opaque { workspace_bytes } = graph.parts[part as usize].work {
            bytes += aligned(workspace_bytes);
        }
    }
    bytes
}

/// Fronts of partial Proposals by number of Parts covered (index 0: none), and how many were looked at.
fn combine(graph: &CascaderGraph, table: &PlanTable, options: &Options) -> (Vec<Vec<Partial>>, u64) {
    let mut considered = 0;
    let nothing = Partial { bytes: 0, cycles: 0, before: None, plan: (0, 0, 0) };
    let mut fronts = vec![vec![nothing]];
    for last in 0..graph.parts.len() as PartId {
        let mut points = Vec::new();
        for (size, group) in table.by_last[last as usize].iter().enumerate() {
            let first = last - size as PartId;
            let resident = if group.is_empty() { 0 } else { resident_bytes(graph, first, last) };
            for (index, candidate) in group.iter().enumerate() {
                let bytes = resident + candidate.own_bytes;
                for (rank, before) in fronts[first as usize].iter().enumerate() {
                    points.push(Partial {
                        bytes: bytes.max(before.bytes),
                        cycles: before.cycles + candidate.cycles,
                        before: Some((first, rank as u32)),
                        plan: (last, size as u32, index as u32),
                    });
                }
            }
        }
        considered += points.len() as u64;
        let mut front = thin(pareto_front(points), 4 * options.resolution);
        if front.len() > MAX_PARTIAL {
            let end = front.len() - 1;
            front = (0..MAX_PARTIAL).map(|i| front[i * end / (MAX_PARTIAL - 1)]).collect();
        }
        fronts.push(front);
    }
    (fronts, considered)
}

fn unwind(table: &PlanTable, fronts: &[Vec<Partial>], end: &Partial) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut partial = *end;
    while let Some((covered, rank)) = partial.before {
        let (last, size, index) = partial.plan;
        let candidate: &Candidate = &table.by_last[last as usize][size as usize][index as usize];
        plans.push(candidate.plan.clone());
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
