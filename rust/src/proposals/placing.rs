//! Which Proposals are placed, in which order, and in which directions their Plans run.
//!
//! - State: Proposals that wait, by live bytes and estimated cycles, and Proposals that are placed.
//! - Invariant: no placement takes fewer bytes than are live at once. So a waiting Proposal is dropped, and no point
//!   lost, if a placed one takes no more bytes than its live bytes and no more cycles. One with early copies, which
//!   is hard to place, is dropped also if the placed one takes up to one part in `PlacingOptions::margin` more.
//! - Cost: the steps of all programs that are placed together are bounded by `Options::max_steps`.
//!
//! Owns the choice. Is told how to place by its caller and knows no placement algorithm.

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::plan::{Plan, Proposal};
use crate::model::program::Arrangement;
use crate::plans::options::{Options, PlacingOptions};
use crate::plans::settled::Settled;
use crate::proposals::arena::Placer;
use crate::proposals::error::SearchError;
use crate::proposals::filling::{filled, AllPlaced, Effort, Found, Placed};
use crate::proposals::restaging::restaged;
use crate::schedule::estimate::total_cycles;
use crate::schedule::interleave::{interleave, PlanError};
use crate::schedule::prefetch::{prefetch, sketches, Filling, Sketch};
use crate::util::interrupt;
use crate::util::pareto::{pareto_front, thin, Point};

impl Point for Proposal {
    fn memory_bytes(&self) -> u64 {
        self.sram_bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// Plans that together run the network, and limits for early copies that are worth trying beside the usual ones.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// They cover the Parts in order.
    pub plans: Vec<Plan>,
    /// Bytes in use.
    pub limits: Vec<u64>,
}

/// A Proposal not placed yet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Waiting {
    /// Index of its Plans.
    plans: usize,
    sketch: Sketch,
    /// Cycles that every Proposal takes, whatever was decided.
    common_cycles: u64,
}

impl Point for Waiting {
    fn memory_bytes(&self) -> u64 {
        self.sketch.peak_bytes
    }
    fn cycles(&self) -> u64 {
        self.sketch.cycles.saturating_sub(self.common_cycles)
    }
}

impl Placed {
    /// Whether a waiting Proposal is of no use beside this one: it is not faster, and its live bytes are no fewer
    /// than this arena, or hardly fewer where it has early copies.
    fn excludes(&self, other: &Waiting, options: &PlacingOptions) -> bool {
        let Sketch { prefetch_bytes, peak_bytes, cycles } = other.sketch;
        let margin = if prefetch_bytes == 0 { 0 } else { peak_bytes / options.margin };
        self.sketched.max(self.proposal.cycles) <= cycles && self.proposal.sram_bytes <= peak_bytes + margin
    }
}

/// Ways to issue the copies of all choices from number `first` on.
fn sketched(
    graph: &CascaderGraph,
    chosen: &[Chosen],
    first: usize,
    common_cycles: u64,
    options: &Options,
    costs: &mut Costs,
) -> Result<Vec<Waiting>, PlanError> {
    let mut found = Vec::new();
    for (plans, Chosen { plans: decisions, limits }) in chosen.iter().enumerate().skip(first) {
        interrupt::ask();
        let program = interleave(graph, decisions, costs)?;
        let sketches = sketches(&program, limits, &options.limits).into_iter();
        found.extend(sketches.map(|sketch| Waiting { plans, sketch, common_cycles }));
    }
    Ok(found)
}

/// Place the Proposals that may be Pareto-efficient, the most promising first, and issue their copies into the room
/// that this leaves; returns those that are, and whether the bounds of work left any out.
///
/// The fastest of all is tried with its constants read otherwise, too. `place` puts the buffers of a program into the
/// arena.
///
/// # Errors
/// Those of interleaving the Plans and of placing programs.
pub fn placed(
    graph: &CascaderGraph,
    mut chosen: Vec<Chosen>,
    options: &Options,
    costs: &mut Costs,
    place: &mut Placer,
) -> Result<(Vec<Found>, bool), SearchError> {
    let common_cycles = Settled::new(graph).cycles(graph, costs);
    let mut waiting = sketched(graph, &chosen, 0, common_cycles, options, costs)?;
    if let Some(fastest) = waiting.iter().min_by_key(|proposal| proposal.sketch.cycles) {
        let plans = restaged(graph, &chosen[fastest.plans].plans, &options.restaging, costs)?;
        chosen.push(Chosen { plans, limits: Vec::new() });
        waiting.extend(sketched(graph, &chosen, chosen.len() - 1, common_cycles, options, costs)?);
    }
    let mut effort = Effort::of(options);
    let mut known = in_rounds(graph, &chosen, waiting.clone(), options, &mut effort, costs, place)?;
    let front = known.take_front();
    let front = filled(graph, front, known.all(), common_cycles, options, &mut effort, costs)?;
    let worthy = promising(waiting, &front, options);
    let worthy = worthy.into_iter().map(|index| alternating(graph, &chosen[index].plans));
    let grounds = grounds(graph, worthy, &mut effort, costs, place)?;
    let front = filled(graph, front, &grounds, common_cycles, options, &mut effort, costs)?;
    Ok((front, effort.is_spent))
}

/// The program of a Proposal of these Plans, and where everything lies.
///
/// # Errors
/// Those of interleaving the Plans and of placing programs.
pub fn arranged(
    graph: &CascaderGraph,
    plans: &[Plan],
    prefetch_bytes: u64,
    fill_bytes: u64,
    costs: &mut Costs,
    place: &mut Placer,
) -> Result<Arrangement, SearchError> {
    let mut program = interleave(graph, plans, costs)?;
    let mut early = program.clone();
    prefetch(graph, &mut early, prefetch_bytes);
    let placed = place(&early)?;
    let room_bytes = fill_bytes.max(placed.bytes());
    match Filling::new(&program, placed.clone()).filter(|_| fill_bytes > 0) {
        Some(filling) => {
            let placement = filling.apply(graph, &mut program, room_bytes);
            Ok(Arrangement { program, placement })
        }
        None => Ok(Arrangement { program: early, placement: placed }),
    }
}

/// Indices of Plans that may beat what is found so far if their copies are issued into holes, the fastest first.
///
/// `Placed::excludes` also dropped Proposals with hardly fewer bytes, because placing costs some. With filling the
/// bytes are fixed, so these may be worth something after all.
fn promising(mut waiting: Vec<Waiting>, found: &[Found], options: &Options) -> Vec<usize> {
    let mut indices: Vec<usize> = Vec::new();
    waiting.sort_by_key(|waiting| (waiting.sketch.cycles, waiting.sketch.peak_bytes));
    for waiting in waiting {
        let Waiting { plans, sketch: Sketch { prefetch_bytes, peak_bytes, cycles }, .. } = waiting;
        let margin = options.placing.ground_margin;
        let (room_bytes, slower) = (peak_bytes + peak_bytes / margin, cycles + waiting.cycles() / margin);
        let within = found.partition_point(|known| known.memory_bytes() <= room_bytes);
        let is_slower = within > 0 && found[within - 1].cycles() <= slower;
        if prefetch_bytes > 0 && peak_bytes <= room_bytes && !is_slower && !indices.contains(&plans) {
            indices.push(plans);
        }
    }
    indices
}

/// Place Plans without early copies, as grounds for filling.
fn grounds(
    graph: &CascaderGraph,
    chosen: impl Iterator<Item = Vec<Plan>>,
    effort: &mut Effort,
    costs: &mut Costs,
    place: &mut Placer,
) -> Result<Vec<Placed>, SearchError> {
    let mut grounds = Vec::new();
    for plans in chosen {
        interrupt::ask();
        let program = interleave(graph, &plans, costs)?;
        if !effort.places(&program, 1) {
            break;
        }
        let placement = place(&program)?;
        let (cycles, sram_bytes) = (costs.program(graph, &program, &placement), placement.bytes());
        let proposal = Proposal { plans, prefetch_bytes: 0, fill_bytes: 0, sram_bytes, cycles };
        grounds.push(Placed { proposal, sketched: total_cycles(&program), placement, program: None });
    }
    Ok(grounds)
}

/// Place those `waiting`.
///
/// Placing takes most of the time, and how much more than the live bytes a placement takes is not known before. So
/// fronts by live bytes are placed in rounds, and each round leaves out what the placed ones exclude. Of Proposals
/// without early copies, which are easy to place and tell the floor, all that are not excluded are placed.
fn in_rounds(
    graph: &CascaderGraph,
    chosen: &[Chosen],
    mut waiting: Vec<Waiting>,
    options: &Options,
    effort: &mut Effort,
    costs: &mut Costs,
    place: &mut Placer,
) -> Result<AllPlaced, SearchError> {
    let (rounds, resolution) = (options.placing.rounds, options.placing.round_fineness * options.resolution);
    let mut known = AllPlaced::default();
    // The leanest come first: they must be placed even if the work is soon spent.
    waiting.sort_by_key(|waiting| waiting.sketch.peak_bytes);
    'rounds: for round in 0..=rounds {
        waiting.retain(|proposal| !known.all().iter().any(|other| other.excludes(proposal, &options.placing)));
        let promising = match round {
            _ if round == rounds => {
                waiting.retain(|proposal| proposal.sketch.prefetch_bytes == 0);
                // First the leanest, which tell the floor; then fronts from coarse to fine, so that what is placed
                // before the work is spent covers the whole range.
                let least = waiting.first().map_or(0, |leanest| leanest.sketch.peak_bytes);
                let lean = waiting.partition_point(|of| of.sketch.peak_bytes <= least + least / options.placing.margin);
                let mut all: Vec<Waiting> = waiting.drain(..lean).collect();
                for resolution in [options.placing.coarse_resolution, resolution, 0] {
                    let mut front = pareto_front(waiting.clone());
                    thin(&mut front, resolution);
                    waiting.retain(|proposal| !front.contains(proposal));
                    all.append(&mut front);
                }
                all.append(&mut waiting);
                all
            }
            _ => {
                let mut front = pareto_front(waiting.clone());
                thin(&mut front, resolution);
                front
            }
        };
        for proposal in promising {
            if known.all().iter().any(|other| other.excludes(&proposal, &options.placing)) {
                continue;
            }
            waiting.retain(|other| *other != proposal);
            let Sketch { prefetch_bytes, peak_bytes, cycles: sketched } = proposal.sketch;
            let plans = &chosen[proposal.plans].plans;
            for plans in orders(graph, plans, prefetch_bytes) {
                interrupt::ask();
                let mut program = interleave(graph, &plans, costs)?;
                prefetch(graph, &mut program, prefetch_bytes);
                // Half of the work is kept for Proposals without early copies: they tell the floor.
                if !effort.places(&program, if round < rounds { 2 } else { 1 }) {
                    continue 'rounds;
                }
                let placement = place(&program)?;
                let (cycles, bytes) = (costs.program(graph, &program, &placement), placement.bytes());
                let proposal = Proposal { plans, prefetch_bytes, fill_bytes: 0, sram_bytes: bytes, cycles };
                known.push(Placed { proposal, sketched, placement, program: Some(program) });
                if bytes <= peak_bytes + peak_bytes / options.placing.drift {
                    break;
                }
            }
        }
    }
    Ok(known)
}

/// The directions in which Plans are placed, one after the other until an arena is hardly larger than the live bytes.
pub fn orders(graph: &CascaderGraph, plans: &[Plan], prefetch_bytes: u64) -> Vec<Vec<Plan>> {
    let turning = alternating(graph, plans);
    // Early copies want large holes, which a chain of outputs that drifts through the arena seldom leaves.
    if prefetch_bytes > 0 || turning == plans {
        return vec![turning];
    }
    vec![plans.to_vec(), turning]
}

/// The Plans with alternating directions: every second Plan that makes its output in stripes begins at the far end.
///
/// An output that grows into its dying input lies below it if it grows from its first row on, and above it if from its
/// last: taking turns, a chain of them stays where it is.
pub fn alternating(graph: &CascaderGraph, plans: &[Plan]) -> Vec<Plan> {
    let mut backwards = false;
    let turn = |plan: &Plan| {
        // An operator on the CPU need not have an output of its own.
        let extent = || graph.tensors[graph.output(plan.last)].plane[plan.tiling.roll as usize];
        let grows = graph.kernel(plan.last).is_some() && plan.stripes[plan.len() - 1] < extent();
        backwards ^= grows;
        Plan { backwards: grows && !backwards, ..plan.clone() }
    };
    plans.iter().map(turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::graph::Work;
    use crate::model::ids::{IdVec, PartId};
    use crate::model::operation::OperationKind;
    use crate::model::plan::Staging;
    use crate::model::program::Program;
    use crate::proposals::arena::{placer, ArenaError};
    use crate::proposals::uncascaded;
    use crate::schedule::prefetch::peak_bytes;
    use crate::testing::networks::{in_one_pool, mobilenet_v1, stacked, Network, INPUT};

    fn chain(layers: usize) -> CascaderGraph {
        let mut net = Network::new([16, 16], 16);
        let t = (0..layers).fold(INPUT, |t, _| net.window(t, OperationKind::Convolution, 3, 1, 16));
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
        graph.parts[PartId(1)].work = Work::Opaque { workspace_bytes: 0 };
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
                let plans = Vec::new();
                let proposal = Proposal { plans, prefetch_bytes: 0, fill_bytes: 0, sram_bytes, cycles };
                let placement = in_one_pool(sram_bytes, IdVec::default());
                let placed = Placed { proposal, sketched, placement, program: None };
                placed.excludes(&Waiting { plans: 0, sketch, common_cycles: 0 }, &Options::default().placing)
            };
            // By the quick clock and by the other one.
            assert_eq!(by(took, 0), by(0, took));
            by(took, took)
        };
        assert!(excluded(peak_bytes, cycles, 0) && excluded(peak_bytes, cycles, 16));
        assert!(!excluded(peak_bytes, cycles + 1, 0) && !excluded(peak_bytes, cycles + 1, 16));
        assert!(!excluded(peak_bytes + 1, cycles, 0));
        let margin = peak_bytes / Options::default().placing.margin;
        assert!(excluded(peak_bytes + margin, cycles, 16) && !excluded(peak_bytes + margin + 1, cycles, 16));
    }

    fn coarsely_placed(
        graph: &CascaderGraph,
        chosen: &[Chosen],
        place: &mut Placer,
    ) -> Result<Vec<Proposal>, SearchError> {
        let costs = &mut Costs::default();
        let defaults = Options::default();
        let placing = PlacingOptions { round_fineness: 1, ..defaults.placing.clone() };
        let options = Options { resolution: 1, placing, ..defaults };
        let waiting = sketched(graph, chosen, 0, 0, &options, costs)?;
        let mut known = in_rounds(graph, chosen, waiting, &options, &mut Effort::of(&options), costs, place)?;
        let all = pareto_front(known.all().iter().map(|placed| placed.proposal.clone()).collect());
        // Those whose programs are kept are the front of all.
        let front: Vec<Proposal> = known.take_front().into_iter().map(|found| found.proposal).collect();
        assert_eq!(front, all);
        Ok(front)
    }

    #[test]
    fn outputs_take_turns_only_where_a_placement_drifts() {
        let graph = chain(4);
        let plans = pieces(&graph, &[true; 4]);
        let program = interleave(&graph, &plans, &mut Costs::default()).expect("blocks fit");
        let peak_bytes = peak_bytes(&program);
        let chosen = [Chosen { plans: plans.clone(), limits: Vec::new() }];
        let drift = peak_bytes / Options::default().placing.drift;
        for (more, tries) in [(0, 1), (drift, 1), (drift + 1, 2), (peak_bytes, 2)] {
            let mut tried = 0;
            let mut drifting = |program: &Program| {
                tried += 1;
                let more = if tried == 1 { more } else { 0 };
                Ok::<_, ArenaError>(in_one_pool(peak_bytes + more, stacked(program).offsets))
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
        let sketches = sketches(&program, &[], &Options::default().limits);
        let mut count = 0;
        let mut counting = |program: &Program| {
            count += 1;
            Ok(stacked(program))
        };
        let chosen = [Chosen { plans, limits: Vec::new() }];
        let found = coarsely_placed(&graph, &chosen, &mut counting).expect("blocks fit");
        // All are within a factor of two: a round places the ends of what is left, and the last one nothing with
        // copies.
        let front =
            pareto_front(sketches.into_iter().map(|sketch| Waiting { plans: 0, sketch, common_cycles: 0 }).collect());
        let limit = |index: usize| front[index].sketch.prefetch_bytes;
        let last = front.len() - 1;
        assert!(last > 4 && front[0].cycles() < 2 * front[last].cycles());
        let early: Vec<u64> = found.iter().map(|proposal| proposal.prefetch_bytes).collect();
        assert_eq!(early, [0, 1, last - 1, last].map(limit));
        assert_eq!(count, 4);
    }

    #[test]
    fn the_fastest_is_tried_with_its_constants_read_otherwise() {
        let graph = mobilenet_v1();
        let plans = uncascaded(&graph);
        let chosen = vec![Chosen { plans: plans.clone(), limits: Vec::new() }];
        let placed = super::placed(&graph, chosen, &Options::default(), &mut Costs::default(), &mut placer(&graph));
        let (found, _) = placed.expect("blocks fit");
        let fastest = found.last().expect("something is placed");
        let otherwise =
            restaged(&graph, &plans, &Options::default().restaging, &mut Costs::default()).expect("blocks fit");
        let reads = |plans: &[Plan]| plans.iter().map(|plan| plan.staging.clone()).collect::<Vec<_>>();
        assert_eq!(reads(&fastest.proposal.plans), reads(&otherwise));
        assert_ne!(reads(&fastest.proposal.plans), reads(&plans));
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
            let placement = stacked(&program);
            each.push((placement.bytes(), Costs::default().program(&graph, &program, &placement)));
        }
        let front = pareto_front(each);
        assert!(front.len() > 4, "{front:?}");
        // So coarse a round merges all but the ends.
        let found = coarsely_placed(&graph, &chosen, &mut |program| Ok(stacked(program))).expect("blocks fit");
        assert_eq!(found.iter().map(|one| (one.sram_bytes, one.cycles)).collect::<Vec<_>>(), front);
    }
}
