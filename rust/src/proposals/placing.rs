//! Which Proposals are placed, and in which order.
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
use crate::proposals::directions::{alternating, orders};
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
    let known = AllPlaced::default();
    let mut placing = Placing { graph, chosen: &chosen, options, effort: &mut effort, costs, place, known };
    interrupt::reach(1, 6);
    placing.in_rounds(waiting.clone())?;
    interrupt::reach(3, 6);
    placing.leanest(waiting.clone())?;
    interrupt::reach(4, 6);
    let mut known = placing.known;
    let front = known.take_front();
    let front = filled(graph, front, known.all(), common_cycles, options, &mut effort, costs)?;
    interrupt::reach(5, 6);
    let worthy = promising(waiting, &front, options);
    let worthy = worthy.into_iter().map(|index| alternating(graph, &chosen[index].plans));
    let grounds = grounds(graph, worthy, options.placing.moves, &mut effort, costs, place)?;
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
    moves: u32,
    costs: &mut Costs,
    place: &mut Placer,
) -> Result<Arrangement, SearchError> {
    let mut program = interleave(graph, plans, costs)?;
    let mut early = program.clone();
    prefetch(graph, &mut early, prefetch_bytes);
    let placed = place(&early, moves)?;
    let room_bytes = fill_bytes.max(placed.bytes());
    match Filling::new(&program, placed.clone()).filter(|_| fill_bytes > 0) {
        Some(filling) => {
            let placement = filling.fill(room_bytes).apply(graph, &mut program);
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
    moves: u32,
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
        let placement = place(&program, moves)?;
        let (cycles, sram_bytes) = (costs.program(graph, &program, &placement), placement.bytes());
        let proposal = Proposal { plans, prefetch_bytes: 0, fill_bytes: 0, moves, sram_bytes, cycles };
        grounds.push(Placed { proposal, sketched: total_cycles(&program), placement, program: None });
    }
    Ok(grounds)
}

/// Proposals as they are placed: what is known, and the work that is left.
struct Placing<'a, 'p> {
    graph: &'a CascaderGraph,
    chosen: &'a [Chosen],
    options: &'a Options,
    effort: &'a mut Effort,
    costs: &'a mut Costs,
    place: &'a mut Placer<'p>,
    known: AllPlaced,
}

impl Placing<'_, '_> {
    fn is_excluded(&self, waiting: &Waiting) -> bool {
        self.known.all().iter().any(|other| other.excludes(waiting, &self.options.placing))
    }

    /// Place one in the directions that are worth it, each with so many moves; false if one part in `share` of the work is
    /// spent, None to place it all the same.
    fn place(&mut self, waiting: &Waiting, moves: u32, share: Option<usize>) -> Result<bool, SearchError> {
        let Sketch { prefetch_bytes, peak_bytes, cycles: sketched } = waiting.sketch;
        for plans in orders(self.graph, &self.chosen[waiting.plans].plans, prefetch_bytes) {
            interrupt::ask();
            let mut program = interleave(self.graph, &plans, self.costs)?;
            prefetch(self.graph, &mut program, prefetch_bytes);
            if share.is_some_and(|share| !self.effort.places(&program, share)) {
                return Ok(false);
            }
            let placement = (self.place)(&program, moves)?;
            let (cycles, sram_bytes) = (self.costs.program(self.graph, &program, &placement), placement.bytes());
            let proposal = Proposal { plans, prefetch_bytes, fill_bytes: 0, moves, sram_bytes, cycles };
            self.known.push(Placed { proposal, sketched, placement, program: Some(program) });
            if sram_bytes <= peak_bytes + peak_bytes / self.options.placing.drift {
                break;
            }
        }
        Ok(true)
    }

    /// Place those `waiting`.
    ///
    /// Placing takes most of the time, and how much more than the live bytes a placement takes is not known before. So
    /// fronts by live bytes are placed in rounds, and each round leaves out what the placed ones exclude. Of Proposals
    /// without early copies, which are easy to place and tell the floor, all that are not excluded are placed.
    fn in_rounds(&mut self, mut waiting: Vec<Waiting>) -> Result<(), SearchError> {
        let PlacingOptions { rounds, round_fineness, moves, .. } = self.options.placing;
        // The leanest come first: they must be placed even if the work is soon spent.
        waiting.sort_by_key(|waiting| waiting.sketch.peak_bytes);
        'rounds: for round in 0..=rounds {
            waiting.retain(|proposal| !self.is_excluded(proposal));
            let promising = if round == rounds {
                waiting.retain(|proposal| proposal.sketch.prefetch_bytes == 0);
                all_in_order(std::mem::take(&mut waiting), self.options)
            } else {
                let mut front = pareto_front(waiting.clone());
                thin(&mut front, round_fineness * self.options.resolution);
                front
            };
            for proposal in promising {
                if self.is_excluded(&proposal) {
                    continue;
                }
                waiting.retain(|other| *other != proposal);
                // Half of the work is kept for Proposals without early copies: they tell the floor.
                if !self.place(&proposal, moves, Some(if round < rounds { 2 } else { 1 }))? {
                    continue 'rounds;
                }
            }
        }
        Ok(())
    }

    /// Place the leanest of those `waiting` again, with more moves, as long as one may well take less than all that is
    /// placed.
    fn leanest(&mut self, mut waiting: Vec<Waiting>) -> Result<(), SearchError> {
        let PlacingOptions { floor_moves, floor_tries, drift, .. } = self.options.placing;
        waiting.retain(|proposal| proposal.sketch.prefetch_bytes == 0);
        waiting.sort_by_key(|proposal| (proposal.sketch.peak_bytes, proposal.sketch.cycles));
        for proposal in waiting.into_iter().take(floor_tries) {
            let floor = self.known.all().iter().map(|placed| placed.proposal.sram_bytes).min();
            let hopeless = proposal.sketch.peak_bytes + proposal.sketch.peak_bytes / drift;
            if floor.is_none_or(|floor| floor <= hopeless) {
                break;
            }
            // They are few, and what the least is must not depend on how much else was placed.
            self.place(&proposal, floor_moves, None)?;
        }
        Ok(())
    }
}

/// Proposals in the order in which they are best placed when all are to be: first the leanest, which tell the floor; then
/// fronts from coarse to fine, so that what is placed before the work is spent covers the whole range.
fn all_in_order(mut waiting: Vec<Waiting>, options: &Options) -> Vec<Waiting> {
    let PlacingOptions { margin, coarse_resolution, round_fineness, .. } = options.placing;
    let least = waiting.first().map_or(0, |leanest| leanest.sketch.peak_bytes);
    let lean = waiting.partition_point(|of| of.sketch.peak_bytes <= least + least / margin);
    let mut all: Vec<Waiting> = waiting.drain(..lean).collect();
    for resolution in [coarse_resolution, round_fineness * options.resolution, 0] {
        let mut front = pareto_front(waiting.clone());
        thin(&mut front, resolution);
        waiting.retain(|proposal| !front.contains(proposal));
        all.append(&mut front);
    }
    all.append(&mut waiting);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::IdVec;
    use crate::model::plan::Staging;
    use crate::model::program::Program;
    use crate::plans::options::MOVES;
    use crate::proposals::arena::{placer, ArenaError};
    use crate::proposals::{search_placing, uncascaded};
    use crate::schedule::prefetch::peak_bytes;
    use crate::testing::networks::{chain, directions, in_one_pool, mobilenet_v1, pieces, realised, stacked};

    #[test]
    fn a_proposal_placed_excludes_what_takes_as_much_and_is_no_faster() {
        let (peak_bytes, cycles) = (3200, 100);
        let excluded = |sram_bytes, took, prefetch_bytes| {
            let sketch = Sketch { prefetch_bytes, peak_bytes, cycles };
            let by = |cycles, sketched| {
                let plans = Vec::new();
                let proposal = Proposal { plans, prefetch_bytes: 0, fill_bytes: 0, moves: MOVES, sram_bytes, cycles };
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
        let (effort, known) = (&mut Effort::of(&options), AllPlaced::default());
        let mut placing = Placing { graph, chosen, options: &options, effort, costs, place, known };
        placing.in_rounds(waiting)?;
        let mut known = placing.known;
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
            let mut drifting = |program: &Program, _| {
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
    fn the_leanest_is_placed_again_with_more_moves_where_it_may_well_take_less() {
        let graph = chain(4);
        let plans = pieces(&graph, &[false; 4]);
        let program = interleave(&graph, &plans, &mut Costs::default()).expect("blocks fit");
        let peak_bytes = peak_bytes(&program);
        let drift = peak_bytes / Options::default().placing.drift;
        for (more, again) in [(0, false), (drift, false), (drift + 16, true), (peak_bytes, true)] {
            let chosen = vec![Chosen { plans: plans.clone(), limits: Vec::new() }];
            let mut place = |program: &Program, moves| {
                let more = if moves > MOVES { 0 } else { more };
                Ok::<_, ArenaError>(in_one_pool(peak_bytes + more, stacked(program).offsets))
            };
            let placed = placed(&graph, chosen, &Options::default(), &mut Costs::default(), &mut place);
            let leanest = placed.expect("blocks fit").0.remove(0).proposal;
            let (moves, more) = if again { (Options::default().placing.floor_moves, 0) } else { (MOVES, more) };
            assert_eq!((leanest.moves, leanest.sram_bytes), (moves, peak_bytes + more));
        }
    }

    #[test]
    fn what_was_placed_with_few_moves_and_with_many_is_made_anew_alike() {
        let graph = mobilenet_v1();
        let mut hasty = |program: &Program, moves: u32| placer(&graph)(program, if moves > MOVES { moves } else { 0 });
        let found = search_placing(&graph, &Options::default(), &mut hasty).expect("blocks fit");
        let leanest = &found.proposals[0];
        assert!(leanest.moves > MOVES, "the memory planner needs no moves");
        let (program, placement) = realised(&graph, leanest);
        let known = &found.arrangements[0];
        assert_eq!((&program, &placement.offsets), (&known.program, &known.placement.offsets));
        let (_, hastily) = realised(&graph, &Proposal { moves: 0, ..leanest.clone() });
        assert!(hastily.bytes() > placement.bytes());
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
        let mut counting = |program: &Program, _| {
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
        let found = coarsely_placed(&graph, &chosen, &mut |program, _| Ok(stacked(program))).expect("blocks fit");
        assert_eq!(found.iter().map(|one| (one.sram_bytes, one.cycles)).collect::<Vec<_>>(), front);
    }
}
