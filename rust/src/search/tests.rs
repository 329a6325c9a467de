//! The search as a whole: what it promises, for every goal.

use super::*;
use crate::checker::check;
use crate::model::memory::Memories;
use crate::model::operation::OperationKind;
use crate::model::plan::{Plan, Proposal};
use crate::model::program::{IssueOrder, Placement};
use crate::plans::options::{CopyCost, MOVES};
use crate::plans::pass::{ArenaRange, Pass};
use crate::plans::rolling_rows::RowTable;
use crate::plans::{enumerate, PlanTable};
use crate::schedule::interleave::interleave;
use crate::schedule::prefetch::prefetch;
use crate::search::cross_group_prefetch::CrossGroupPrefetch;
use crate::search::passes::unwind;
use crate::testing::networks::{
    chain as network_of, in_one_pool, mobilenet_v1, mobilenet_v2, realised, stacked, Network, INPUT,
};
use crate::testing::schedules::arbitrary_network;
use crate::testing::worked_example::{rows_at_a_time, worked_example};
use crate::util::pareto::{pareto_front, Epsilon};
use proptest::prelude::*;

/// The worked example for each goal: 1,472 bytes are the floor, and 16 bytes less are not enough.
#[test]
fn example() {
    let search = Search::new(Arc::new(worked_example()), Options::default());
    let floor = search.run(Goal::Floor).expect("every block fits");
    assert_eq!((floor.proposals[0].sram_bytes(), floor.uncascaded_bytes), (1472, 4096));
    assert_eq!(floor.proposals[0].plans, [rows_at_a_time(0, &[1, 1, 1])]);
    assert!(search.fits(1472).expect("a place") && !search.fits(1456).expect("a place"));
    let fastest = search.run(Goal::Fastest(Goal::ANY_BYTES)).expect("every block fits");
    assert_eq!(fastest.proposals.last().expect("one at least").sram_bytes(), 4096);
}

fn frontier(graph: &CascaderGraph) -> Frontier {
    search(graph, &Options::default()).expect("every block fits")
}

#[test]
fn mobilenets_fit_into_300_kib() {
    for graph in [mobilenet_v1(), mobilenet_v2()] {
        let frontier = frontier(&graph);
        assert!(frontier.proposals[0].sram_bytes() <= 300 * 1024);
    }
}

/// Options without the pass for the fewest bytes.
fn without_min_memory() -> Options {
    let mut options = Options::default();
    options.lean.resolution = 0;
    options
}

#[test]
fn cheap_searches_are_followed_by_finer_ones() {
    let mut net = Network::new([48, 48], 16);
    let mut t = INPUT;
    for (stride, depth) in [(1, 16), (2, 32), (1, 32), (2, 64), (1, 64)] {
        t = net.window(t, OperationKind::Convolution, 3, stride, depth);
        t = net.window(t, OperationKind::Convolution, 1, 1, depth);
    }
    let graph = net.finish(t);
    let run = |options: &Options| search(&graph, options).expect("every block fits");
    let once = Options { refined_up_to: 0, ..without_min_memory() };
    let coarse = run(&once);
    let both = run(&Options { refined_up_to: coarse.plans_considered, ..once.clone() });
    let resolution = once.resolution * once.refinement;
    let fine = run(&Options { resolution, max_points: once.points_for(resolution), ..once.clone() });
    assert_eq!(both.plans_considered, coarse.plans_considered + fine.plans_considered);
    assert_eq!(both.proposals_considered, coarse.proposals_considered + fine.proposals_considered);
    assert!(fine.plans_considered > coarse.plans_considered);
    assert_eq!(both.epsilon, fine.epsilon);
    assert!(both.proposals[0].sram_bytes() <= coarse.proposals[0].sram_bytes());
    assert_eq!(both.proposals, pareto_front(both.proposals.clone()));
    let dear = run(&Options { refined_up_to: coarse.plans_considered - 1, ..once });
    assert_eq!(dear.proposals, coarse.proposals);
}

#[test]
fn every_proposal_passes_the_checker() {
    for graph in [mobilenet_v1(), mobilenet_v2()] {
        for proposal in frontier(&graph).proposals {
            let (program, placement) = realised(&graph, &proposal);
            check(&graph, &program).expect("the program is right");
            assert_eq!(placement.bytes(), proposal.sram_bytes());
        }
    }
}

fn chain(layers: usize) -> CascaderGraph {
    let mut net = Network::new([16, 16], 16);
    let t = (0..layers).fold(INPUT, |t, _| net.window(t, OperationKind::Convolution, 3, 1, 16));
    net.finish(t)
}

/// Every Part on its own, made piece by piece where `striped` says so.
#[test]
fn a_search_says_how_coarsely_it_looked() {
    let graph = chain(3);
    let run = |max_points| {
        let options = Options { max_points, refined_up_to: 0, ..without_min_memory() };
        search(&graph, &options).expect("blocks fit")
    };
    let (all, few) = (run(usize::MAX), run(2));
    let asked = Epsilon::of_resolution(Options::default().resolution);
    assert_eq!((all.stopped, all.epsilon), (Stop::Complete, asked));
    assert_eq!(few.stopped, Stop::Width);
    assert!(few.epsilon.parts * asked.of > few.epsilon.of * asked.parts);
}

#[test]
fn a_search_that_places_no_more_says_so_and_knows_the_least() {
    let graph = mobilenet_v2();
    let run = |max_steps| {
        let options = Options { max_steps, refined_up_to: 0, ..without_min_memory() };
        search(&graph, &options).expect("blocks fit")
    };
    let (all, few, one) = (run(usize::MAX), run(4_000), run(1));
    assert_eq!(all.stopped, Stop::Width);
    assert_eq!((few.stopped, one.stopped), (Stop::Work, Stop::Work));
    assert!(1 < few.proposals.len() && few.proposals.len() < all.proposals.len());
    for found in [&few, &one] {
        assert_eq!(found.proposals[0].sram_bytes(), all.proposals[0].sram_bytes());
    }
}

#[test]
fn fewer_groups_are_kept_under_forks_of_more_parts() {
    // Each window is read by the next two sums, so that no fork is ever closed.
    let mut net = Network::new([16, 16], 16);
    let (mut a, mut b) = (INPUT, net.window(INPUT, OperationKind::Convolution, 3, 1, 16));
    for _ in 0..12 {
        let sum = net.add(a, b);
        (a, b) = (b, net.window(sum, OperationKind::MaxPool, 3, 1, 16));
    }
    let graph = net.finish(b);
    let run = |max_fork| {
        let options = Options { max_fork, refined_up_to: 0, ..without_min_memory() };
        search(&graph, &options).expect("blocks fit")
    };
    let (wide, narrow) = (run(usize::MAX), run(2));
    assert!(narrow.plans_considered < wide.plans_considered * 3 / 4);
    assert_eq!(narrow.stopped, Stop::Width);
    assert!(narrow.epsilon.parts * wide.epsilon.of > narrow.epsilon.of * wide.epsilon.parts);
}

#[test]
fn no_view_of_the_search_knows_better_than_the_frontier() {
    // Constants that take more than planes.
    let mut net = Network::new([8, 8], 16);
    let layers = [(3, 1, 64), (1, 1, 128), (3, 2, 128), (1, 1, 256)];
    let t = layers
        .into_iter()
        .fold(INPUT, |t, (size, stride, depth)| net.window(t, OperationKind::Convolution, size, stride, depth));
    let graph = net.finish(t);
    let options = Options { refined_up_to: 0, ..without_min_memory() };
    let mut costs = Costs::default();
    let frontier = search(&graph, &options).expect("blocks fit");
    let rows = &mut RowTable::default();
    let range = ArenaRange { most_bytes: frontier.uncascaded_bytes, ..ArenaRange::ALL };
    let tables: Vec<PlanTable> = [CopyCost::Serial, CopyCost::Overlapped]
        .map(|copies| Pass { range, ..Pass::new(&options, copies) })
        .iter()
        .map(|pass| enumerate(&graph, &options, pass, &mut costs, rows))
        .collect();
    let combined = CrossGroupPrefetch::new(&graph, &tables, 0, options.hidden_fineness * options.resolution);
    let mut known: Vec<(Vec<Plan>, u64)> = combined.proposals().collect();
    for table in &tables {
        for prefixes in [&table.with_overlap, &table.without_overlap] {
            known.extend(prefixes.whole().iter().map(|end| (unwind(table, prefixes, end), 0)));
        }
    }
    for (plans, limit) in known {
        let mut program = interleave(&graph, &plans, &mut costs).expect("blocks fit");
        prefetch(&graph, &mut program, limit);
        let placement = arena::placer(&graph)(&program, MOVES).expect("it has a place");
        let cycles = costs.program(&graph, &program, &placement);
        let covers = |found: &Proposal| found.sram_bytes() <= placement.bytes() && found.cycles <= cycles;
        let missing = (placement.bytes(), cycles, limit);
        assert!(frontier.proposals.iter().any(covers), "{missing:?}");
    }
}

fn asked(graph: &CascaderGraph) -> Search {
    Search::new(Arc::new(graph.clone()), Options::default())
}

fn run(search: &Search, goal: Goal) -> Vec<Proposal> {
    search.run(goal).expect("blocks fit").proposals
}

/// Cycles of the fastest of a frontier within `bytes`.
fn fewest(frontier: &[Proposal], bytes: u64) -> Option<u64> {
    frontier.iter().rfind(|proposal| proposal.sram_bytes() <= bytes).map(|proposal| proposal.cycles)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn all_goals_name_one_floor_and_answers_keep_their_promise(graph in arbitrary_network(), times in 1u64..6) {
        let search = asked(&graph);
        let frontier = search.run(Goal::Front).expect("blocks fit");
        let (baseline, floor) = (frontier.uncascaded_bytes, &frontier.proposals[0]);
        prop_assert_eq!(run(&search, Goal::Floor)[0].sram_bytes(), floor.sram_bytes());
        prop_assert!(floor.sram_bytes() <= run(&search, Goal::Fastest(Goal::ANY_BYTES))[0].sram_bytes());
        prop_assert!(floor.cycles <= run(&search, Goal::Floor).pop().expect("there is one").cycles);
        let floor = floor.sram_bytes();
        for bytes in [floor - 1, floor, floor + floor / 16, baseline * times, 3 * baseline, 3 * baseline - 1] {
            let found = run(&search, Goal::Within(bytes));
            prop_assert_eq!(search.fits(bytes).expect("blocks fit"), floor <= bytes);
            prop_assert_eq!(fewest(&found, bytes).is_some(), floor <= bytes);
            prop_assert!(bytes >= 3 * baseline || found[0].sram_bytes() == floor);
            let nearly = run(&search, Goal::NearlyFastest(bytes));
            let (cycles, nearly_cycles) = (fewest(&found, bytes), fewest(&nearly, bytes));
            // Further passes may find one that is faster.
            prop_assert!(cycles.is_some() == nearly_cycles.is_some() && nearly_cycles <= cycles);
            for proposal in found.into_iter().chain(nearly) {
                let (program, placement) = realised(&graph, &proposal);
                check(&graph, &program).expect("the program is right");
                prop_assert!(arena::is_right(&graph, &program, &placement));
                prop_assert_eq!(placement.bytes(), proposal.sram_bytes());
                prop_assert_eq!(Costs::default().program(&graph, &program, &placement), proposal.cycles);
            }
        }
    }
}

/// Of Proposals within `bytes`, the fewest bytes of one at most 1 % slower than the fastest.
fn smallest(found: &[Proposal], bytes: u64) -> u64 {
    let fewest = fewest(found, bytes).expect("it fits");
    let is_nearly = |proposal: &&Proposal| 100 * proposal.cycles <= 101 * fewest;
    found.iter().find(is_nearly).expect("the fastest is").sram_bytes()
}

#[test]
fn the_smallest_nearly_as_fast_takes_little_more_than_the_frontiers() {
    // Of one plane that is larger than all others together, only Plans for small arenas make a few rows at a time.
    let one_large = heavy(96, [256, 16, 16, 16, 16, 16, 16], 1);
    for graph in [mobilenet_v1(), mobilenet_v2(), worked_example(), one_large] {
        let search = asked(&graph);
        let frontier = run(&search, Goal::Front);
        let most = frontier.last().expect("there is one").sram_bytes();
        for bytes in [frontier[0].sram_bytes(), most / 4, most / 2, u64::MAX] {
            if bytes < frontier[0].sram_bytes() {
                continue;
            }
            let found = run(&search, Goal::NearlyFastest(bytes));
            let (found, wanted) = (smallest(&found, bytes), smallest(&frontier, bytes));
            assert!(20 * found <= 21 * wanted, "{found} and {wanted} within {bytes}");
        }
    }
}

#[test]
fn no_answer_depends_on_what_was_asked_before() {
    let graph = mobilenet_v1();
    let goals = [
        Goal::Within(1_000_000),
        Goal::Within(300_000),
        Goal::Floor,
        Goal::Within(u64::MAX),
        Goal::Fastest(Goal::ANY_BYTES),
        Goal::NearlyFastest(Goal::ANY_BYTES),
        Goal::Front,
        Goal::NearlyFastest(300_000),
        Goal::Within(240_000),
    ];
    let search = asked(&graph);
    let answers = goals.map(|goal| run(&search, goal));
    assert_eq!(answers, goals.map(|goal| run(&search, goal)));
    let other = asked(&graph);
    let coarse_front = other.coarse_front().expect("every block fits");
    assert_eq!(search.coarse_front().expect("every block fits"), coarse_front);
    let mut reversed = goals;
    reversed.reverse();
    let mut again = reversed.map(|goal| run(&other, goal));
    again.reverse();
    assert_eq!(answers, again);
    // Whoever is stopped begins again.
    let interrupt = crate::util::interrupt::Interrupt::default();
    interrupt.raise();
    assert!(interrupt.run(|| run(&search, Goal::Floor)).is_none());
    assert_eq!(run(&search, Goal::Within(300_000)), answers[1]);
}

#[test]
fn large_arenas_are_answered_from_few_plans() {
    for graph in [mobilenet_v1(), mobilenet_v2()] {
        let search = asked(&graph);
        let frontier = search.run(Goal::Front).expect("blocks fit");
        let bytes = LARGE * frontier.uncascaded_bytes;
        let best = fewest(&frontier.proposals, bytes).expect("it fits");
        for goal in [Goal::Within(bytes), Goal::Fastest(Goal::ANY_BYTES)] {
            let found = search.run(goal).expect("blocks fit");
            assert!(found.floor_is_bound, "passes that may find less SRAM were left out");
            assert!(4 * found.plans_considered < frontier.plans_considered);
            assert!(100 * found.proposals[found.proposals.len() - 1].cycles <= 101 * best);
        }
        let less = search.run(Goal::Within(bytes - 1)).expect("blocks fit");
        assert_eq!(less.plans_considered, frontier.plans_considered);
    }
}

#[test]
fn answers_take_no_more_arena_than_their_cycles_need() {
    let narrow = [16, 128, 16, 128, 16, 128, 16];
    for (size, depths, stride) in [(16, [64, 64, 128, 64, 128, 128, 64], 1), (24, narrow, 1), (24, narrow, 2)] {
        let search = asked(&heavy(size, depths, stride));
        let fastest = run(&search, Goal::Fastest(Goal::ANY_BYTES)).pop().expect("there is one");
        assert!(fastest.issue_order.is_some());
        let less = run(&search, Goal::Within(fastest.sram_bytes() * 15 / 16)).pop().expect("it fits");
        assert!(less.cycles > fastest.cycles, "{less:?}");
    }
}

/// Convolutions with more weights than activations, every other one of this stride.
fn heavy(size: i64, depths: [i64; 7], stride: i64) -> CascaderGraph {
    let mut net = Network::new([size, size], 16);
    let strides = [1, stride].into_iter().cycle();
    let convolution = |t, (depth, stride)| net.window(t, OperationKind::Convolution, 3, stride, depth);
    let last = depths.into_iter().zip(strides).fold(INPUT, convolution);
    net.finish(last)
}

#[test]
fn of_mobilenets_answers_are_as_fast_as_the_frontier() {
    for graph in [mobilenet_v1(), mobilenet_v2()] {
        let search = asked(&graph);
        let frontier = run(&search, Goal::Front);
        for bytes in [frontier[0].sram_bytes(), 250_000, 400_000, 1_000_000, u64::MAX] {
            let (found, best) = (fewest(&run(&search, Goal::Within(bytes)), bytes), fewest(&frontier, bytes));
            assert_eq!(found.is_none(), best.is_none());
            assert!(100 * found.unwrap_or(0) <= 101 * best.unwrap_or(0), "{bytes}: {found:?} {best:?}");
        }
    }
}

#[test]
fn a_repeated_question_places_less() {
    let graph = mobilenet_v2();
    let search = asked(&graph);
    let placements = |goal| search.run(goal).expect("blocks fit").placements;
    let (first, second) = (placements(Goal::Within(300_000)), placements(Goal::Within(300_000)));
    assert!(second < first, "{first} {second}");
    // What does not fit needs the floor, which is searched once.
    assert!(placements(Goal::Within(16)) > 0);
    assert_eq!((placements(Goal::Within(16)), placements(Goal::Within(32))), (0, 0));
}

#[test]
fn more_visits_make_no_answer_slower() {
    let graph = mobilenet_v1();
    let within = |visits, bytes| {
        let search = Search::new(Arc::new(graph.clone()), Options { visits, ..Options::default() });
        fewest(&run(&search, Goal::Within(bytes)), bytes).expect("it fits")
    };
    for bytes in [250_000, 300_000, 500_000] {
        let found = [1, 4, 64, usize::MAX].map(|visits| within(visits, bytes));
        assert!(found.is_sorted_by(|few, more| more <= few), "{bytes}: {found:?}");
    }
}

#[test]
fn the_leanest_is_placed_again_with_more_moves_where_it_may_take_less() {
    let graph = network_of(4);
    let options = Options::default();
    let floor = asked(&graph).run(Goal::Floor).expect("blocks fit").proposals.remove(0);
    let (program, _) = realised(&graph, &floor);
    let live_bytes = crate::schedule::prefetch::peak_bytes(&program);
    let slack = live_bytes / options.placing.fragmentation;
    for (more, again) in [(0, false), (slack / 16 * 16, false), (slack / 16 * 16 + 16, true), (live_bytes, true)] {
        let mut most_moves = 0;
        let mut placer = |program: &crate::model::program::Program, moves: u32| {
            most_moves = moves.max(most_moves);
            let more = if moves > MOVES { 0 } else { more };
            let bytes = crate::schedule::prefetch::peak_bytes(program);
            Ok::<_, arena::ArenaError>(in_one_pool(bytes + more, stacked(program).offsets))
        };
        let found = asked(&graph).run_placing(Goal::Floor, &mut placer).expect("blocks fit").proposals.remove(0);
        let moves = if again { options.placing.floor_moves } else { MOVES };
        assert_eq!(most_moves, moves, "{more} bytes more");
        assert_eq!(found.sram_bytes(), live_bytes + if again { 0 } else { more });
    }
}

#[test]
fn what_fills_gaps_is_right_and_faster() {
    // MobileNetV1 with fine passes, too.
    for (graph, refined_up_to, share) in [(mobilenet_v1(), u64::MAX, 2), (mobilenet_v2(), 0, 5)] {
        let mut options = Options { refined_up_to, ..Options::default() };
        let found = search(&graph, &options).expect("blocks fit").proposals;
        // Of the choices without filling none is lost, and one in `share` becomes faster within its bytes.
        options.filling.rounds = 0;
        let mut without = search(&graph, &options).expect("blocks fit").proposals;
        // The floor's answer is filled whatever the rounds.
        without.remove(0);
        let within = |bytes| fewest(&found, bytes).expect("the floor is the same");
        assert!(without.iter().all(|proposal| within(proposal.sram_bytes()) <= proposal.cycles));
        let faster = without.iter().filter(|proposal| within(proposal.sram_bytes()) < proposal.cycles).count();
        assert!(share * faster > without.len(), "{faster} of {}", without.len());
        let filled: Vec<&Proposal> = found.iter().filter(|proposal| !without.contains(proposal)).collect();
        assert!(share * filled.len() > found.len(), "{} of {}", filled.len(), found.len());
        for proposal in filled {
            let (program, placement) = realised(&graph, proposal);
            check(&graph, &program).expect("the program is right");
            assert!(arena::is_right(&graph, &program, &placement));
            let promised = (proposal.sram_bytes(), proposal.cycles);
            assert_eq!((placement.bytes(), Costs::default().program(&graph, &program, &placement)), promised);
            // The same Plans with late copies.
            let late = arrange(&graph, &proposal.plans, None, None).expect("legal Plans");
            assert!(late.placement.bytes() <= placement.bytes());
            assert!(proposal.cycles < Costs::default().program(&graph, &late.program, &late.placement));
        }
    }
}

#[test]
fn decisions_of_another_program_are_refused() {
    let graph = mobilenet_v1();
    let found = run(&asked(&graph), Goal::Front);
    let early = found.iter().find(|proposal| proposal.issue_order.is_some()).expect("copies have room");
    let order = early.issue_order.clone().expect("it has one");
    let arranged = |order: &IssueOrder, placement: &Placement| {
        arrange(&graph, &early.plans, Some(order), Some(placement)).map(|_| ())
    };
    assert_eq!(arranged(&order, &early.placement), Ok(()));
    let mut wrong =
        vec![IssueOrder { copies: order.copies[1..].to_vec(), ..order.clone() }, order.clone(), order.clone()];
    wrong[1].copies.last_mut().expect("a copy").slot = usize::MAX;
    wrong[2].copies[0].reserved = usize::MAX;
    for order in wrong {
        assert_eq!(arranged(&order, &early.placement), Err(SearchError::IssueOrder));
    }
    let mut wrong =
        vec![early.placement.clone(), early.placement.clone(), early.placement.clone(), Placement::default()];
    wrong[0].offsets.iter_mut().for_each(|offset| *offset = 0);
    wrong.push(early.placement.clone());
    wrong[4].offsets.iter_mut().for_each(|offset| *offset = u64::MAX);
    wrong[1].pools.iter_mut().for_each(|pool| pool.0 = 7);
    wrong[2].pool_bytes[Memories::SCARCE] -= 16;
    for placement in wrong {
        assert_eq!(arranged(&order, &placement), Err(SearchError::Placement));
    }
}

#[test]
fn a_network_without_parts_is_planned() {
    let graph = Network::new([4, 4], 16).finish(INPUT);
    for goal in [Goal::Front, Goal::Floor, Goal::Fastest(Goal::ANY_BYTES), Goal::Within(256)] {
        let found = run(&asked(&graph), goal);
        assert_eq!(
            found.iter().map(|proposal| (proposal.sram_bytes(), proposal.cycles)).collect::<Vec<_>>(),
            [(256, 0)]
        );
    }
}
