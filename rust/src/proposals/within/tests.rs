//! Answers to budgets: they fit, keep their promise, and take little to find.

use super::*;
use crate::checker::check;
use crate::plans::options::Options;
use crate::proposals::arena::{is_right, placer};
use crate::proposals::{search, Enumerated, Uncascaded};
use crate::testing::networks::{mobilenet_v1, mobilenet_v2, realised, stacked};
use crate::testing::schedules::arbitrary_network;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// What is asked of a graph, and the whole frontier.
struct Asked<'a> {
    graph: &'a CascaderGraph,
    contenders: Contenders,
    /// Of the search for the least bytes alone.
    lean: Contenders,
    placements: Placements,
    costs: Costs,
    whole: Vec<Proposal>,
}

impl Asked<'_> {
    fn of(graph: &CascaderGraph) -> Asked<'_> {
        let (options, mut costs) = (Options::default(), Costs::default());
        let uncascaded = Uncascaded::new(graph, &options, &mut costs, &mut placer(graph)).expect("blocks fit");
        let enumerated = Enumerated::new(graph, &options, 0, uncascaded, &mut costs);
        let contenders = Contenders::new(graph, &enumerated, &options, &mut costs).expect("blocks fit");
        let leaner = options.leanest().expect("it is searched for");
        let enumerated = Enumerated::new(graph, &leaner, 0, uncascaded, &mut costs);
        let lean = Contenders::new(graph, &enumerated, &options, &mut costs).expect("blocks fit");
        let whole = search(graph, &options).expect("blocks fit").proposals;
        Asked { graph, contenders, lean, placements: Placements::default(), costs, whole }
    }

    fn fastest(&mut self, bytes: u64) -> Option<Found> {
        let Asked { graph, contenders, placements, costs, .. } = self;
        placements.fastest(graph, contenders, bytes, costs, &mut placer(graph)).expect("blocks fit")
    }

    fn floor(&mut self) -> u64 {
        let Asked { graph, contenders, placements, costs, .. } = self;
        let floor = placements.floor(graph, contenders, costs, &mut placer(graph)).expect("blocks fit");
        floor.expect("there is always a schedule").memory_bytes()
    }

    fn told_beside(&mut self, bytes: u64) -> u64 {
        let Asked { graph, contenders, placements, costs, .. } = self;
        let told = placements.floor_beside(graph, contenders, bytes, costs, &mut placer(graph)).expect("blocks fit");
        told.expect("there is always a schedule").memory_bytes()
    }

    /// The fewest cycles of the whole frontier within so many bytes.
    fn whole_within(&self, bytes: u64) -> Option<u64> {
        self.whole.iter().rfind(|proposal| proposal.sram_bytes <= bytes).map(|proposal| proposal.cycles)
    }

    /// The answer fits, keeps its promise, and is right; the frontier knows no fewer bytes.
    fn assert_right(&mut self, bytes: u64) -> Option<u64> {
        let graph = self.graph;
        let Found { proposal, arrangement } = self.fastest(bytes)?;
        assert!(proposal.sram_bytes <= bytes && self.whole_within(bytes).is_some());
        let (program, placement) = realised(graph, &proposal);
        assert_eq!(program, arrangement.program);
        assert_eq!(placement.offsets, arrangement.placement.offsets);
        check(graph, &program).expect("the program is right");
        assert!(is_right(graph.device.memories(), &program, &placement));
        let cycles = Costs::default().program(graph, &program, &placement);
        assert_eq!((placement.bytes(), cycles), (proposal.sram_bytes, proposal.cycles));
        Some(cycles)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn answers_fit_and_are_right_and_the_frontier_decides_below_the_leanest(graph in arbitrary_network(), more in 0u64..4096) {
        let mut asked = Asked::of(&graph);
        let floor = asked.whole[0].sram_bytes;
        // No schedule takes less than what one has in use at once, of this search or of that for the least bytes, which
        // the frontier has as well; and what is found to fit does.
        let least = asked.contenders.least_live_bytes().min(asked.lean.least_live_bytes());
        prop_assert!(least <= floor && floor <= asked.floor(), "{least} {floor} {}", asked.floor());
        prop_assert!(asked.fastest(floor - 1).is_none());
        let sizes: Vec<u64> = asked.whole.iter().map(|proposal| proposal.sram_bytes).collect();
        for bytes in sizes.into_iter().flat_map(|bytes| [bytes, bytes + more]) {
            let answer = asked.assert_right(bytes);
            prop_assert_eq!(answer.is_none(), bytes < asked.floor());
        }
    }

    #[test]
    fn a_floor_told_beside_room_to_spare_takes_less_and_one_near_the_budget_is_it(
        graph in arbitrary_network(), idle_visits in 1usize..4, eighths in 0u64..40,
    ) {
        let mut asked = Asked::of(&graph);
        asked.contenders.options.within.idle_visits = idle_visits;
        let ample = asked.told_beside(u64::MAX);
        let visited = asked.placements.grounds.len();
        let floor = asked.floor();
        prop_assert!(floor <= ample && visited <= asked.placements.grounds.len());
        let bytes = floor * (8 + eighths) / 8;
        let told = asked.told_beside(bytes);
        prop_assert_eq!(told, if bytes - bytes / 8 <= ample { floor } else { ample });
    }
}

#[test]
fn of_mobilenets_little_is_placed_for_an_answer_as_fast() {
    for graph in [mobilenet_v1(), mobilenet_v2()] {
        let mut asked = Asked::of(&graph);
        let floor = asked.floor();
        assert_eq!(floor, asked.whole[0].sram_bytes);
        for bytes in [floor, 250_000, 400_000, 1_000_000, u64::MAX] {
            let (cycles, whole) = (asked.assert_right(bytes), asked.whole_within(bytes));
            assert_eq!(cycles.is_none(), whole.is_none());
            assert!(100 * cycles.unwrap_or(0) <= 101 * whole.unwrap_or(0), "{bytes}: {cycles:?} {whole:?}");
        }
    }
}

#[test]
fn an_answer_does_not_depend_on_what_was_asked_before() {
    let graph = mobilenet_v1();
    let budgets = [1_000_000, 300_000, 240_000, 500_000];
    let mut asked = Asked::of(&graph);
    let one: Vec<Proposal> = budgets.map(|bytes| asked.fastest(bytes).expect("it fits").proposal).into();
    let again = budgets.map(|bytes| asked.fastest(bytes).expect("it fits").proposal);
    asked.placements = Placements::default();
    let mut reversed = budgets;
    reversed.reverse();
    let mut other: Vec<Proposal> = reversed.map(|bytes| asked.fastest(bytes).expect("it fits").proposal).into();
    other.reverse();
    assert_eq!(one, again);
    assert_eq!(one, other);
}

#[test]
fn less_room_serves_some_answers_and_harms_none() {
    let (mut better, mut runner) = (0, TestRunner::deterministic());
    for _ in 0..48 {
        let graph = arbitrary_network().new_tree(&mut runner).expect("drawn").current();
        let mut asked = Asked::of(&graph);
        let floor = asked.floor();
        for bytes in [2, 4, 6].map(|times| times * floor) {
            let [without, with] = [0, 2].map(|refills| {
                asked.contenders.options.within.refills = refills;
                asked.assert_right(bytes)
            });
            assert!(with <= without, "{bytes}: {with:?} {without:?}");
            better += u32::from(with < without);
        }
    }
    assert!(better > 0);
}

/// Placements with early copies for four budgets when what contenders took leaves out others after so many of them; by
/// budget the bytes in use at once and those of the arena.
fn early_placements(drifts: usize) -> Vec<(u64, Vec<(u64, u64)>)> {
    let graph = mobilenet_v2();
    let mut asked = Asked::of(&graph);
    asked.contenders.options.within.drifts = drifts;
    let ask = |bytes| {
        asked.fastest(bytes);
        // What is placed without early copies is known now, so all that is placed has some.
        let (mut found, mut place) = (Vec::new(), placer(&graph));
        let watching: &mut Placer = &mut |program, moves| {
            let placement = place(program, moves)?;
            found.push((stacked(program).bytes(), placement.bytes()));
            Ok(placement)
        };
        let Asked { contenders, placements, costs, .. } = &mut asked;
        placements.fastest(&graph, contenders, bytes, costs, watching).expect("blocks fit");
        (bytes, found)
    };
    [400_000, 700_000, 1_000_000, 1_300_000].map(ask).into()
}

#[test]
fn limits_that_will_not_fit_are_not_tried() {
    let early = early_placements(1);
    for (bytes, found) in &early {
        let mut least = f64::INFINITY;
        for &(live, placed) in found {
            // The search counts in whole 16 bytes.
            let expected = live as f64 * least;
            assert!(least == f64::INFINITY || expected <= 1.01 * *bytes as f64, "{bytes}: {live} * {least}");
            least = least.min(placed as f64 / live as f64);
        }
    }
    let count = |early: &[(u64, Vec<(u64, u64)>)]| early.iter().map(|(_, found)| found.len()).sum::<usize>();
    assert!(count(&early) > 4, "{early:?}");
    // Where several contenders must have been placed first, more is tried.
    assert!(count(&early_placements(4)) > count(&early));
}

#[test]
fn a_repeated_question_places_less_and_one_below_the_leanest_nothing() {
    let graph = mobilenet_v2();
    let mut asked = Asked::of(&graph);
    let mut count = |bytes| {
        let (mut count, mut placer) = (0u64, placer(&graph));
        let counting: &mut Placer = &mut |program, moves| {
            count += 1;
            placer(program, moves)
        };
        let Asked { contenders, placements, costs, .. } = &mut asked;
        placements.fastest(&graph, contenders, bytes, costs, counting).expect("blocks fit");
        count
    };
    let (first, second) = (count(300_000), count(300_000));
    assert!(0 < second && 2 * second < first, "{first} {second}");
    // A budget below the floor needs no more than the floor, which is known.
    assert_eq!(count(16), 0);
}

#[test]
fn pieces_that_fit_only_in_turns_are_sketched_in_turns() {
    let (mut fitting, mut others, mut runner) = (0, 0, TestRunner::deterministic());
    for _ in 0..24 {
        let graph = arbitrary_network().new_tree(&mut runner).expect("drawn").current();
        let Asked { contenders, mut costs, .. } = Asked::of(&graph);
        for contender in &contenders.all {
            let turned = alternating(&graph, &contender.chosen.plans);
            let program = interleave(&graph, &turned, &mut costs).expect("blocks fit");
            let (in_turns, bytes) = (peak_bytes(&program), contender.live_bytes() - 1);
            let mut place = placer(&graph);
            let mut question = Question::new(&graph, &contenders.options, bytes, &mut costs, &mut place);
            let (sketched, found) = ways(&mut question, contender, &turned).expect("blocks fit");
            assert!(sketched == program && found.iter().all(|sketch| (in_turns..=bytes).contains(&sketch.peak_bytes)));
            assert_eq!(found.is_empty(), in_turns > bytes);
            *(if found.is_empty() { &mut others } else { &mut fitting }) += 1;
        }
    }
    assert!(fitting > 0 && others > 0, "{fitting} {others}");
}

#[test]
fn contenders_that_do_not_fit_in_turns_take_no_visit_from_those_that_fit() {
    let (mut crowded, mut runner) = (0, TestRunner::deterministic());
    for _ in 0..24 {
        let graph = arbitrary_network().new_tree(&mut runner).expect("drawn").current();
        let mut asked = Asked::of(&graph);
        asked.contenders.options.within.visits = 1;
        let sizes: Vec<u64> = asked.whole.iter().map(|proposal| proposal.sram_bytes).collect();
        for bytes in sizes {
            asked.placements = Placements::default();
            if asked.fastest(bytes).is_none() {
                continue;
            }
            let promised = |contender: &Contender| contender.least_cycles(bytes.max(contender.live_bytes()));
            let (fit, others): (Vec<usize>, Vec<usize>) =
                (0..asked.contenders.all.len()).partition(|&number| asked.contenders.all[number].live_bytes() <= bytes);
            let first = |numbers: Vec<usize>| {
                numbers.into_iter().map(|number| (promised(&asked.contenders.all[number]), number)).min()
            };
            let (Some(fits), Some(other)) = (first(fit), first(others)) else { continue };
            let mut place = placer(&graph);
            let mut question = Question::new(&graph, &asked.contenders.options, bytes, &mut asked.costs, &mut place);
            let contender = &asked.contenders.all[other.1];
            let turned = alternating(&graph, &contender.chosen.plans);
            let (_, found) = ways(&mut question, contender, &turned).expect("blocks fit");
            if other < fits && contender.live_bytes() <= bytes + bytes / TURNED && found.is_empty() {
                crowded += 1;
                assert!(asked.placements.grounds.contains_key(&fits.1), "{bytes}");
            }
        }
    }
    assert!(crowded > 0);
}
