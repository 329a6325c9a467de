//! Proposals: Plans that together run the whole network, on the front of (SRAM bytes, cycles).
//!
//! Plans are enumerated under each view of copies, and combined on the way: by `prefix_fronts`, and once more by
//! `first_copy_hidden`. Each combination is interleaved into a program, its copies are issued early, and those that
//! may be efficient are placed. What a Proposal promises is the size of the arena that the memory planner found for
//! exactly its buffers, and the cycles that the predicted stream takes.
//! Owns the search as a whole. Which Proposals are placed is for `placing` to say, and for `within` where a budget is given.

pub mod arena;
pub mod budgets;
mod contenders;
mod directions;
mod enumerated;
pub mod error;
pub mod filling;
mod first_copy_hidden;
mod frontier;
mod leanest;
pub mod placing;
mod question;
mod restaging;
pub mod within;

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::plans::options::Options;
use crate::proposals::arena::Placer;
use crate::proposals::error::SearchError;
use crate::proposals::filling::Found;
use crate::proposals::leanest::leanest;
use crate::proposals::placing::placed;
use crate::util::interrupt;

#[cfg(test)]
pub use enumerated::estimated;
pub use enumerated::{uncascaded, Enumerated, Uncascaded};
pub use frontier::{Frontier, Stop};

/// Search the whole graph, and once more finely if that was cheap.
///
/// Never returns an empty frontier for a graph whose Parts all fit SHRAM unstriped.
///
/// # Errors
/// Where a Part fits no block unstriped, or a program has no place.
pub fn search(graph: &CascaderGraph, options: &Options) -> Result<Frontier, SearchError> {
    search_placing(graph, options, &mut arena::placer(graph))
}

/// [`search`] by what `place` says of programs.
///
/// # Errors
/// As [`search`].
pub fn search_placing(graph: &CascaderGraph, options: &Options, place: &mut Placer) -> Result<Frontier, SearchError> {
    let costs = &mut Costs::default();
    let uncascaded = Uncascaded::new(graph, options, costs, place)?;
    let enumerated = interrupt::portion(0, 7, 10, || Enumerated::new(graph, options, 0, uncascaded, costs));
    let frontier = interrupt::portion(7, 10, 10, || placed_frontier(&enumerated, graph, costs, place))?;
    interrupt::reach(1, 1);
    Ok(Frontier { placements: 1 + frontier.placements, ..frontier })
}

/// All Pareto-efficient Proposals that come of what was enumerated.
///
/// # Errors
/// Where a program has no place.
pub fn placed_frontier(
    enumerated: &Enumerated,
    graph: &CascaderGraph,
    costs: &mut Costs,
    place: &mut Placer,
) -> Result<Frontier, SearchError> {
    let mut placements = 0;
    let place: &mut Placer = &mut |program, moves| {
        placements += 1;
        place(program, moves)
    };
    let (mut found, mut stopped): (Vec<Found>, Stop) = (Vec::new(), enumerated.told().stopped);
    let count = enumerated.searches.len() as u64;
    for (number, search) in (0..).zip(&enumerated.searches) {
        let (more, is_cut) = interrupt::portion(number, number + 1, count + 1, || {
            placed(graph, search.chosen.clone(), &search.options, costs, place)
        })?;
        // Of two that are alike the finer search's stays, and why it stopped is what counts.
        found.splice(0..0, more);
        stopped = if is_cut { Stop::Work } else { enumerated.told().stopped };
    }
    let options = &enumerated.searches[0].options;
    let lean = interrupt::portion(count, count + 1, count + 1, || {
        leanest(graph, options, enumerated.uncascaded, costs, place)
    })?;
    found.extend(lean);
    Ok(Frontier { placements, stopped, ..enumerated.frontier_of(found) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::check;
    use crate::model::operation::OperationKind;
    use crate::model::plan::{Plan, Proposal};
    use crate::plans::bracket::Bracket;
    use crate::plans::options::MOVES;
    use crate::plans::rolling_rows::RowTable;
    use crate::plans::{enumerate, PlanTable};
    use crate::proposals::enumerated::unwind;
    use crate::proposals::first_copy_hidden::FirstCopyHidden;
    use crate::schedule::interleave::interleave;
    use crate::schedule::prefetch::prefetch;
    use crate::testing::networks::{mobilenet_v1, mobilenet_v2, realised, Network, INPUT};
    use crate::util::pareto::pareto_front;
    use crate::util::pareto::Epsilon;

    fn frontier(graph: &CascaderGraph) -> Frontier {
        search(graph, &Options::default()).expect("every block fits")
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
        let mut t = INPUT;
        for (stride, depth) in [(1, 16), (2, 32), (1, 32), (2, 64), (1, 64)] {
            t = net.window(t, OperationKind::Convolution, 3, stride, depth);
            t = net.window(t, OperationKind::Convolution, 1, 1, depth);
        }
        let graph = net.finish(t);
        let run = |options: &Options| search(&graph, options).expect("every block fits");
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
                let (program, placement) = realised(&graph, &proposal);
                check(&graph, &program).expect("the program is right");
                assert_eq!(placement.bytes(), proposal.sram_bytes);
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
            let options = Options { max_points, refined_up_to: 0, ..Options::default() };
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
            let options = Options { max_steps, refined_up_to: 0, ..Options::default() };
            search(&graph, &options).expect("blocks fit")
        };
        let (all, few, one) = (run(usize::MAX), run(4_000), run(1));
        assert_eq!(all.stopped, Stop::Width);
        assert_eq!((few.stopped, one.stopped), (Stop::Work, Stop::Work));
        assert!(1 < few.proposals.len() && few.proposals.len() < all.proposals.len());
        for found in [&few, &one] {
            assert_eq!(found.proposals[0].sram_bytes, all.proposals[0].sram_bytes);
        }
    }

    #[test]
    fn fewer_groups_are_kept_under_forks_of_more_parts() {
        // Each tensor is read by the next two Parts, so that no fork is ever closed.
        let mut net = Network::new([16, 16], 16);
        let (mut a, mut b) = (INPUT, net.window(INPUT, OperationKind::Convolution, 3, 1, 16));
        for _ in 0..10 {
            (a, b) = (b, net.add(a, b));
        }
        let graph = net.finish(b);
        let run = |max_fork| {
            let options = Options { max_fork, refined_up_to: 0, ..Options::default() };
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
        let options = Options { refined_up_to: 0, ..Options::default() };
        let mut costs = Costs::default();
        let frontier = search(&graph, &options).expect("blocks fit");
        let bracket = Bracket { most_bytes: frontier.uncascaded_bytes, ..Bracket::ALL };
        let rows = &mut RowTable::default();
        let tables =
            options.copies.iter().map(|&copies| enumerate(&graph, &options, copies, bracket, &mut costs, rows));
        let tables: Vec<PlanTable> = tables.collect();
        let mut known: Vec<(Vec<Plan>, u64)> =
            FirstCopyHidden::new(&graph, &tables, 0, options.hidden_fineness * options.resolution)
                .proposals()
                .collect();
        for table in &tables {
            for prefixes in [&table.growing, &table.steady] {
                known.extend(prefixes.whole().iter().map(|end| (unwind(table, prefixes, end), 0)));
            }
        }
        for (plans, limit) in known {
            let mut program = interleave(&graph, &plans, &mut costs).expect("blocks fit");
            prefetch(&graph, &mut program, limit);
            let placement = arena::placer(&graph)(&program, MOVES).expect("it has a place");
            let cycles = costs.program(&graph, &program, &placement);
            let covers = |found: &Proposal| found.sram_bytes <= placement.bytes() && found.cycles <= cycles;
            let missing = (placement.bytes(), cycles, limit);
            assert!(frontier.proposals.iter().any(covers), "{missing:?}");
        }
    }
}
