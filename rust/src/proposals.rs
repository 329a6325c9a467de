//! Proposals: Plans that together run the whole network, on the front of (SRAM bytes, cycles).
//!
//! `prefixes` combines Plans; while a Plan runs, whatever the rest of the network still holds is counted, so a Proposal's
//! estimate is the largest sum of bytes alive at once. The survivors are interleaved and placed for real: what a Proposal
//! promises is the size of the arena that the memory planner found for exactly its buffers.
//! Owns the choice of what is placed. Is told how to place by its caller and knows no placement algorithm.

use crate::ahead::Ahead;
use crate::costs::Costs;
use crate::graph::{CascaderGraph, PartId};
use crate::hashing::Table;
use crate::interleave::{interleave, PlanError};
#[cfg(test)]
use crate::options::Copies;
use crate::options::Options;
use crate::pareto::{keep_front, pareto_front, thin, Epsilon, Point};
use crate::plans::{enumerate, PlanTable};
use crate::prefetch::{prefetch, sketches, Sketch};
use crate::prefixes::{Partial, Prefixes};
use crate::program::{Plan, Program, Staging};
use crate::restage::restaged;
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
    /// The coarsest that any front was thinned.
    pub epsilon: Epsilon,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Every front was kept, as finely as `Options::resolution` asks.
    Complete,
    /// Some fronts had more than `Options::max_points` points and were kept more coarsely.
    Width,
}

/// Rounds of placing Proposals with early copies.
const ROUNDS: u32 = 2;
/// Proposals of a round closer in cycles than one part in this many times the options' resolution are merged.
const ROUND_RESOLUTION: u64 = 2;
/// Bytes beyond those in use, as one part in this of them, that placing is expected to cost.
const PLACING_MARGIN: u64 = 32;
/// A placement that takes one part in this more than the bytes in use is tried anew with outputs that grow both ways.
const DRIFT: u64 = 64;

/// Search the whole graph, and once more finely if that was cheap. `place` puts the buffers of a program into the arena.
///
/// Never returns an empty frontier for a graph whose Parts all fit SHRAM unstriped.
pub fn search(
    graph: &CascaderGraph,
    options: &Options,
    place: &mut dyn FnMut(&Program) -> Placement,
) -> Result<Frontier, PlanError> {
    let mut costs = Costs::default();
    let mut frontier = search_once(graph, options, &mut costs, place)?;
    if let Some(finer) = options.refined(frontier.plans_considered) {
        let Frontier { proposals, plans_considered, proposals_considered, .. } = frontier;
        frontier = search_once(graph, &finer, &mut costs, place)?;
        frontier.proposals.extend(proposals);
        keep_front(&mut frontier.proposals);
        frontier.plans_considered += plans_considered;
        frontier.proposals_considered += proposals_considered;
    }
    Ok(frontier)
}

fn search_once(
    graph: &CascaderGraph,
    options: &Options,
    costs: &mut Costs,
    place: &mut dyn FnMut(&Program) -> Placement,
) -> Result<Frontier, PlanError> {
    let whole = uncascaded(graph);
    let uncascaded_bytes = place(&interleave(graph, &whole, costs)?).bytes;
    let mut frontier = Frontier {
        proposals: Vec::new(),
        plans_considered: 0,
        proposals_considered: 0,
        uncascaded_bytes,
        stopped: Stop::Complete,
        epsilon: Epsilon::of_resolution(options.resolution),
    };
    let mut chosen: Vec<Chosen> = Vec::new();
    let mut seen: Table<Vec<Plan>, usize> = Table::default();
    let mut choose = |plans: Vec<Plan>, limit: Option<u64>| {
        let index = *seen.entry(plans.clone()).or_insert(chosen.len());
        if index == chosen.len() {
            chosen.push(Chosen { plans, limits: Vec::new() });
        }
        chosen[index].limits.extend(limit);
    };
    let mut tables = Vec::new();
    for &copies in &options.copies {
        let table = enumerate(graph, options, copies, uncascaded_bytes, costs);
        frontier.plans_considered += table.considered;
        if let Some(taken) = table.crowded {
            frontier.stopped = Stop::Width;
            frontier.epsilon = frontier.epsilon.max(taken);
        }
        for prefixes in [&table.growing, &table.steady] {
            frontier.proposals_considered += prefixes.considered;
            for end in prefixes.whole() {
                choose(unwind(&table, prefixes, end), None);
            }
        }
        tables.push(table);
    }
    let ahead = Ahead::new(graph, &tables, 4 * options.resolution);
    frontier.proposals_considered += ahead.considered;
    ahead.proposals().for_each(|(plans, bytes)| choose(plans, Some(bytes)));
    let mut waiting = sketched(graph, &chosen, 0, costs)?;
    if let Some(fastest) = waiting.iter().min_by_key(|proposal| proposal.sketch.cycles) {
        let plans = restaged(graph, &chosen[fastest.plans].plans, costs)?;
        chosen.push(Chosen { plans, limits: Vec::new() });
        waiting.extend(sketched(graph, &chosen, chosen.len() - 1, costs)?);
    }
    frontier.proposals = placed(graph, &chosen, waiting, ROUND_RESOLUTION * options.resolution, costs, place)?;
    Ok(frontier)
}

/// Plans that together run the network, and limits for early copies that are worth trying beside the usual ones.
struct Chosen {
    plans: Vec<Plan>,
    limits: Vec<u64>,
}

/// A Proposal not placed yet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Waiting {
    /// Index of its Plans.
    plans: usize,
    sketch: Sketch,
}

impl Point for Waiting {
    fn memory_bytes(&self) -> u64 {
        self.sketch.peak_bytes
    }
    fn cycles(&self) -> u64 {
        self.sketch.cycles
    }
}

/// A Proposal in its place, and what the quick clock said of it.
struct Placed {
    proposal: Proposal,
    sketched: u64,
}

impl Placed {
    /// Whether it is as fast as another one by the same clock and takes no more than that one takes at best, or hardly
    /// more.
    fn excludes(&self, other: &Waiting) -> bool {
        let Sketch { prefetch_bytes, peak_bytes, cycles } = other.sketch;
        let margin = if prefetch_bytes == 0 { 0 } else { peak_bytes / PLACING_MARGIN };
        self.sketched.max(self.proposal.cycles) <= cycles && self.proposal.sram_bytes <= peak_bytes + margin
    }
}

/// Ways to issue the copies of all choices from number `first` on.
fn sketched(
    graph: &CascaderGraph,
    chosen: &[Chosen],
    first: usize,
    costs: &mut Costs,
) -> Result<Vec<Waiting>, PlanError> {
    let mut found = Vec::new();
    for (plans, Chosen { plans: decisions, limits }) in chosen.iter().enumerate().skip(first) {
        let program = interleave(graph, decisions, costs)?;
        found.extend(sketches(&program, limits).into_iter().map(|sketch| Waiting { plans, sketch }));
    }
    Ok(found)
}

/// Place the Proposals that may be Pareto-efficient, the most promising first; returns those that are.
///
/// Placing is what takes time, and what a placement needs beyond the bytes in use is not known before. So fronts of the
/// bytes in use are placed in rounds, each of what the rounds before leave room for; without early copies, which make
/// room scarce and placing hard, every Proposal is.
fn placed(
    graph: &CascaderGraph,
    chosen: &[Chosen],
    mut waiting: Vec<Waiting>,
    resolution: u64,
    costs: &mut Costs,
    place: &mut dyn FnMut(&Program) -> Placement,
) -> Result<Vec<Proposal>, PlanError> {
    let mut known: Vec<Placed> = Vec::new();
    for round in 0..=ROUNDS {
        waiting.retain(|proposal| !known.iter().any(|other| other.excludes(proposal)));
        let promising = match round {
            ROUNDS => waiting.iter().filter(|proposal| proposal.sketch.prefetch_bytes == 0).copied().collect(),
            _ => {
                let mut front = pareto_front(waiting.clone());
                thin(&mut front, resolution);
                front
            }
        };
        for proposal in promising {
            if known.iter().any(|other| other.excludes(&proposal)) {
                continue;
            }
            waiting.retain(|other| *other != proposal);
            let Sketch { prefetch_bytes, peak_bytes, cycles: sketched } = proposal.sketch;
            let plans = &chosen[proposal.plans].plans;
            for plans in orders(graph, plans, prefetch_bytes) {
                let mut program = interleave(graph, &plans, costs)?;
                prefetch(graph, &mut program, prefetch_bytes);
                let placed = place(&program);
                let cycles = costs.program(graph, &program, &placed.offsets);
                let proposal = Proposal { plans, prefetch_bytes, sram_bytes: placed.bytes, cycles };
                known.push(Placed { proposal, sketched });
                if placed.bytes <= peak_bytes + peak_bytes / DRIFT {
                    break;
                }
            }
        }
    }
    Ok(pareto_front(known.into_iter().map(|placed| placed.proposal).collect()))
}

/// The Plans in the directions worth placing, until one of them takes hardly more than is in use.
fn orders(graph: &CascaderGraph, plans: &[Plan], prefetch_bytes: u64) -> Vec<Vec<Plan>> {
    let turning = alternating(graph, plans);
    // Early copies want contiguous room, which a chain that drifts seldom leaves them.
    if prefetch_bytes > 0 || turning == plans {
        return vec![turning];
    }
    vec![plans.to_vec(), turning]
}

/// The Plans with every other one of those that make their output piece by piece doing so backwards.
///
/// An output that grows into its dying input lies below it if it grows from its first row on, and above it if from its
/// last: taking turns, a chain of them stays where it is.
fn alternating(graph: &CascaderGraph, plans: &[Plan]) -> Vec<Plan> {
    let mut backwards = false;
    let turn = |plan: &Plan| {
        // An operator elsewhere need not have an output of its own.
        let extent = || graph.tensors[graph.output(plan.last) as usize].plane[plan.tiling.roll as usize];
        let grows = graph.kernel(plan.last).is_some() && plan.stripes[plan.len() - 1] < extent();
        backwards ^= grows;
        Plan { backwards: grows && !backwards, ..plan.clone() }
    };
    plans.iter().map(turn).collect()
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
            Plan {
                first: part,
                last: part,
                tiling,
                backwards: false,
                stripes: vec![stripe],
                staging: vec![Staging::InPlace],
            }
        })
        .collect()
}

/// The front of (bytes, cycles) that Plans and their combination promise before there is a program.
#[cfg(test)]
pub fn estimated(graph: &CascaderGraph, options: &Options, copies: Copies, costs: &mut Costs) -> Vec<(u64, u64)> {
    let table = enumerate(graph, options, copies, u64::MAX, costs);
    table.growing.whole().iter().map(|end| (end.memory_bytes(), end.cycles())).collect()
}

fn unwind(table: &PlanTable, prefixes: &Prefixes, end: &Partial) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut partial = *end;
    while let Some((covered, rank)) = partial.before {
        let (last, size, index) = partial.plan;
        plans.push(table.plan(last - size, last, &table.by_last[last as usize][size as usize][index as usize]));
        partial = prefixes.of(covered as usize)[rank as usize];
    }
    plans.reverse();
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::check;
    use crate::graph::Work;
    use crate::performance::Primitive;
    use crate::prefetch::peak_bytes;
    use crate::samples::{mobilenet_v1, mobilenet_v2, place, Network};

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
    fn cheap_searches_are_followed_by_finer_ones_and_lose_nothing() {
        let mut net = Network::new([48, 48], 16);
        let mut t = 0;
        for (stride, depth) in [(1, 16), (2, 32), (1, 32), (2, 64), (1, 64)] {
            t = net.window(t, Primitive::Convolution, 3, stride, depth);
            t = net.window(t, Primitive::Convolution, 1, 1, depth);
        }
        let graph = net.finish(t);
        let run = |options: &Options| search(&graph, options, &mut place).expect("every block fits");
        let once = Options { refined_up_to: 0, ..Options::default() };
        let coarse = run(&once);
        let finer = Options { refined_up_to: coarse.plans_considered, ..once.clone() };
        let fine = run(&finer.refined(coarse.plans_considered).expect("cheap enough"));
        let both = run(&finer);
        assert_eq!(both.plans_considered, coarse.plans_considered + fine.plans_considered);
        assert_eq!(both.proposals_considered, coarse.proposals_considered + fine.proposals_considered);
        assert!(fine.plans_considered > coarse.plans_considered);
        assert_eq!(both.epsilon, fine.epsilon);
        let all = [&coarse, &fine].map(|found| found.proposals.clone()).concat();
        let covers = |a: &Proposal, b: &Proposal| a.sram_bytes <= b.sram_bytes && a.cycles <= b.cycles;
        assert!(all.iter().all(|known| both.proposals.iter().any(|found| covers(found, known))));
        assert_eq!(both.proposals, pareto_front(both.proposals.clone()));
        let dear = run(&Options { refined_up_to: coarse.plans_considered - 1, ..once });
        assert_eq!(dear.proposals, coarse.proposals);
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

    fn chain(layers: usize) -> CascaderGraph {
        let mut net = Network::new([16, 16], 16);
        let t = (0..layers).fold(0, |t, _| net.window(t, Primitive::Convolution, 3, 1, 16));
        net.finish(t)
    }

    /// Every Part on its own, made piece by piece where `striped` says so.
    fn pieces(graph: &CascaderGraph, striped: &[bool]) -> Vec<Plan> {
        let plan = |(plan, &striped): (Plan, &bool)| Plan { stripes: vec![if striped { 4 } else { 16 }], ..plan };
        uncascaded(graph).into_iter().zip(striped).map(plan).collect()
    }

    fn directions(plans: &[Plan]) -> Vec<bool> {
        plans.iter().map(|plan| plan.backwards).collect()
    }

    #[test]
    fn every_other_output_made_piece_by_piece_is_made_backwards() {
        let mut graph = chain(5);
        let turned = |graph: &CascaderGraph, striped: &[bool]| directions(&alternating(graph, &pieces(graph, striped)));
        assert_eq!(turned(&graph, &[true; 5]), [false, true, false, true, false]);
        assert_eq!(turned(&graph, &[true, true, false, true, true]), [false, true, false, false, true]);
        assert_eq!(turned(&graph, &[false; 5]), [false; 5]);
        // What runs elsewhere is made as a whole.
        graph.parts[1].work = Work::Opaque { workspace_bytes: 0 };
        assert_eq!(turned(&graph, &[true; 5]), [false, false, true, false, true]);
    }

    #[test]
    fn without_early_copies_outputs_are_tried_forwards_and_in_turns() {
        let graph = chain(3);
        let (striped, whole) = (pieces(&graph, &[true; 3]), pieces(&graph, &[false; 3]));
        let turning = alternating(&graph, &striped);
        assert_eq!(orders(&graph, &striped, 0), [striped.clone(), turning.clone()]);
        assert_eq!(orders(&graph, &striped, 16), [turning]);
        assert_eq!(orders(&graph, &whole, 0), [whole]);
    }

    #[test]
    fn a_proposal_placed_excludes_what_takes_as_much_and_is_no_faster() {
        let (peak_bytes, cycles) = (3200, 100);
        let excluded = |sram_bytes, took, prefetch_bytes| {
            let sketch = Sketch { prefetch_bytes, peak_bytes, cycles };
            let by = |cycles, sketched| {
                let proposal = Proposal { plans: Vec::new(), prefetch_bytes: 0, sram_bytes, cycles };
                Placed { proposal, sketched }.excludes(&Waiting { plans: 0, sketch })
            };
            // By the quick clock and by the other one.
            assert_eq!(by(took, 0), by(0, took));
            by(took, took)
        };
        assert!(excluded(peak_bytes, cycles, 0) && excluded(peak_bytes, cycles, 16));
        assert!(!excluded(peak_bytes, cycles + 1, 0) && !excluded(peak_bytes, cycles + 1, 16));
        assert!(!excluded(peak_bytes + 1, cycles, 0));
        let margin = peak_bytes / PLACING_MARGIN;
        assert!(excluded(peak_bytes + margin, cycles, 16) && !excluded(peak_bytes + margin + 1, cycles, 16));
    }

    fn coarsely_placed(
        graph: &CascaderGraph,
        chosen: &[Chosen],
        place: &mut dyn FnMut(&Program) -> Placement,
    ) -> Result<Vec<Proposal>, PlanError> {
        let costs = &mut Costs::default();
        let waiting = sketched(graph, chosen, 0, costs)?;
        placed(graph, chosen, waiting, 1, costs, place)
    }

    #[test]
    fn outputs_take_turns_only_where_a_placement_drifts() {
        let graph = chain(4);
        let plans = pieces(&graph, &[true; 4]);
        let program = interleave(&graph, &plans, &mut Costs::default()).expect("blocks fit");
        let peak_bytes = peak_bytes(&program);
        let chosen = [Chosen { plans: plans.clone(), limits: Vec::new() }];
        for (more, tries) in [(0, 1), (peak_bytes / DRIFT, 1), (peak_bytes / DRIFT + 1, 2), (peak_bytes, 2)] {
            let mut tried = 0;
            let mut drifting = |program: &Program| {
                tried += 1;
                let more = if tried == 1 { more } else { 0 };
                Placement { bytes: peak_bytes + more, ..place(program) }
            };
            let found = coarsely_placed(&graph, &chosen, &mut drifting).expect("blocks fit");
            assert_eq!(tried, tries, "{more} bytes more");
            let leanest = &found[0];
            assert_eq!(leanest.sram_bytes, peak_bytes + if tries == 1 { more } else { 0 });
            let turning = [false, true, false, true];
            assert_eq!(directions(&leanest.plans), if tries == 1 { [false; 4] } else { turning });
            assert_eq!(found, pareto_front(found.clone()));
        }
    }

    #[test]
    fn what_a_round_merges_the_next_one_places() {
        let graph = mobilenet_v1();
        let staged = |plan: Plan| {
            let staging = if graph.kernel(plan.first).is_some_and(|kernel| kernel.constant_bytes > 0) {
                Staging::Whole
            } else {
                Staging::InPlace
            };
            Plan { staging: vec![staging], ..plan }
        };
        let plans: Vec<Plan> = uncascaded(&graph).into_iter().map(staged).collect();
        let program = interleave(&graph, &plans, &mut Costs::default()).expect("blocks fit");
        let sketches = sketches(&program, &[]);
        let mut count = 0;
        let mut counting = |program: &Program| {
            count += 1;
            place(program)
        };
        let chosen = [Chosen { plans, limits: Vec::new() }];
        let found = coarsely_placed(&graph, &chosen, &mut counting).expect("blocks fit");
        // All are within a factor of two: a round places the ends of what is left, and the last one nothing with copies.
        let front = pareto_front(sketches.into_iter().map(|sketch| Waiting { plans: 0, sketch }).collect());
        let limit = |index: usize| front[index].sketch.prefetch_bytes;
        let last = front.len() - 1;
        assert!(last > 4 && front[0].cycles() < 2 * front[last].cycles());
        let early: Vec<u64> = found.iter().map(|proposal| proposal.prefetch_bytes).collect();
        assert_eq!(early, [0, 1, last - 1, last].map(limit));
        assert_eq!(count, 4);
    }

    #[test]
    fn without_early_copies_everything_is_placed() {
        let graph = chain(4);
        let chosen: Vec<Chosen> = [1, 2, 3, 4, 5, 6, 8, 16]
            .map(|stripe| {
                let plans = uncascaded(&graph).into_iter().map(|plan| Plan { stripes: vec![stripe], ..plan });
                Chosen { plans: plans.collect(), limits: Vec::new() }
            })
            .into();
        let mut each = Vec::new();
        for one in &chosen {
            let program = interleave(&graph, &one.plans, &mut Costs::default()).expect("blocks fit");
            let placement = place(&program);
            each.push((placement.bytes, Costs::default().program(&graph, &program, &placement.offsets)));
        }
        let front = pareto_front(each);
        assert!(front.len() > 4, "{front:?}");
        // So coarse a round merges all but the ends.
        let found = coarsely_placed(&graph, &chosen, &mut place).expect("blocks fit");
        assert_eq!(found.iter().map(|one| (one.sram_bytes, one.cycles)).collect::<Vec<_>>(), front);
    }

    #[test]
    fn a_search_says_how_coarsely_it_looked() {
        let graph = chain(3);
        let run = |max_points| {
            let options = Options { max_points, refined_up_to: 0, ..Options::default() };
            search(&graph, &options, &mut place).expect("blocks fit")
        };
        let (all, few) = (run(usize::MAX), run(2));
        let asked = Epsilon::of_resolution(Options::default().resolution);
        assert_eq!((all.stopped, all.epsilon), (Stop::Complete, asked));
        assert_eq!(few.stopped, Stop::Width);
        assert!(few.epsilon.parts * asked.of > few.epsilon.of * asked.parts);
    }

    #[test]
    fn no_view_of_the_search_knows_better_than_the_frontier() {
        // Constants that take more than planes.
        let mut net = Network::new([8, 8], 16);
        let layers = [(3, 1, 64), (1, 1, 128), (3, 2, 128), (1, 1, 256)];
        let t = layers
            .into_iter()
            .fold(0, |t, (size, stride, depth)| net.window(t, Primitive::Convolution, size, stride, depth));
        let graph = net.finish(t);
        let options = Options { refined_up_to: 0, ..Options::default() };
        let mut costs = Costs::default();
        let frontier = search(&graph, &options, &mut place).expect("blocks fit");
        let most = frontier.uncascaded_bytes;
        let tables = options.copies.iter().map(|&copies| enumerate(&graph, &options, copies, most, &mut costs));
        let tables: Vec<PlanTable> = tables.collect();
        let mut known: Vec<(Vec<Plan>, u64)> =
            Ahead::new(&graph, &tables, 4 * options.resolution).proposals().collect();
        for table in &tables {
            for prefixes in [&table.growing, &table.steady] {
                known.extend(prefixes.whole().iter().map(|end| (unwind(table, prefixes, end), 0)));
            }
        }
        for (plans, limit) in known {
            let mut program = interleave(&graph, &plans, &mut costs).expect("blocks fit");
            prefetch(&graph, &mut program, limit);
            let placement = place(&program);
            let cycles = costs.program(&graph, &program, &placement.offsets);
            let covers = |found: &Proposal| found.sram_bytes <= placement.bytes && found.cycles <= cycles;
            let missing = (placement.bytes, cycles, limit);
            assert!(frontier.proposals.iter().any(covers), "{missing:?}");
        }
    }
}
