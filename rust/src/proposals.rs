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
use crate::plans::{enumerate, Candidate, Options, PlanTable};
use crate::prefetch::{peak_bytes, prefetch, total_cycles};
use crate::program::{Plan, Program, Staging, Step};
use crate::stripe::{Axis, Tiling};

/// A way to run the network.
#[derive(Clone, Debug)]
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

/// Search the whole graph. `place` gives the arena bytes that the buffers of a program take when really placed.
///
/// Never returns an empty frontier for a graph whose Parts all fit SHRAM unstriped.
pub fn search(
    graph: &CascaderGraph,
    options: &Options,
    place: &mut dyn FnMut(&Program) -> u64,
) -> Result<Frontier, PlanError> {
    let mut costs = Costs::default();
    let whole = uncascaded(graph);
    let uncascaded_bytes = place(&interleave(graph, &whole, &mut costs)?);
    let table = enumerate(graph, options, uncascaded_bytes, &mut costs);
    let (fronts, considered) = combine(graph, &table, options, true);
    let (steady, considered_steady) = combine(graph, &table, options, false);
    let considered = considered + considered_steady;
    let ends = [&fronts, &steady].map(|fronts| fronts.last().map(Vec::as_slice).unwrap_or_default());
    let chosen = ends[0].iter().map(|end| unwind(&table, &fronts, end));
    let mut chosen: Vec<Vec<Plan>> = chosen.chain(ends[1].iter().map(|end| unwind(&table, &steady, end))).collect();
    let all = chosen.clone();
    let mut index = 0;
    chosen.retain(|plans| {
        index += 1;
        !all[..index - 1].contains(plans)
    });
    let mut drafts = Vec::new();
    for plans in chosen {
        let program = interleave(graph, &plans, &mut costs)?;
        for prefetch_bytes in prefetch_limits(&program) {
            let mut ahead = program.clone();
            prefetch(graph, &mut ahead, prefetch_bytes);
            drafts.push(Draft { plans: plans.clone(), prefetch_bytes, cycles: total_cycles(&ahead), program: ahead });
        }
    }
    let stopped = if table.crowded { Stop::Width } else { Stop::Complete };
    let proposals = settle_down(drafts, place);
    let plans_considered = table.considered;
    Ok(Frontier { proposals, plans_considered, proposals_considered: considered, uncascaded_bytes, stopped })
}

/// A Proposal before it is placed.
struct Draft {
    plans: Vec<Plan>,
    prefetch_bytes: u64,
    cycles: u64,
    program: Program,
}

/// A draft that something placed beats by more than one part in this is not placed.
const HOPE: u64 = 32;

/// Place drafts, fastest first, and keep the front.
///
/// No placement takes fewer bytes than are live at once, so that many drafts are known to be of no use without one.
fn settle_down(mut drafts: Vec<Draft>, place: &mut dyn FnMut(&Program) -> u64) -> Vec<Proposal> {
    drafts.sort_by_key(|draft| draft.cycles);
    let mut found: Vec<Proposal> = Vec::new();
    for Draft { plans, prefetch_bytes, cycles, program } in drafts {
        let live = peak_bytes(&program);
        let hopeless = |known: &Proposal| known.sram_bytes <= live && known.cycles + known.cycles / HOPE <= cycles;
        if !found.iter().any(hopeless) {
            found.push(Proposal { plans, prefetch_bytes, sram_bytes: place(&program), cycles });
        }
    }
    pareto_front(found)
}

/// How much room to give to early copies: none, what the program takes anyway, and half as much again.
fn prefetch_limits(program: &Program) -> Vec<u64> {
    if !program.steps.iter().any(|step| matches!(step, Step::Copy { .. })) {
        return vec![0];
    }
    let peak = peak_bytes(program);
    vec![0, peak, peak + peak / 2]
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
    use crate::samples::{mobilenet_v1, mobilenet_v2};

    /// Largest sum of bytes alive: what a perfect placement takes.
    fn live_bytes(program: &Program) -> u64 {
        (0..program.steps.len() as u32)
            .map(|step| program.buffers.iter().map(|b| b.live_bytes(step)).sum())
            .max()
            .unwrap_or(0)
    }

    fn frontier(graph: &CascaderGraph) -> Frontier {
        search(graph, &Options::default(), &mut live_bytes).expect("every block fits")
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
                assert_eq!(live_bytes(&program), proposal.sram_bytes);
            }
        }
    }
}
