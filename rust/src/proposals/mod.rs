//! Proposals: Plans that together run the whole network, on the front of (SRAM bytes, cycles).
//!
//! Plans are enumerated under each view of copies, and combined on the way: by `prefix_fronts`, and once more by
//! `first_copy_hidden`. Each combination is interleaved into a program, its copies are issued early, and those that
//! may be efficient are placed. What a Proposal promises is the size of the arena that the memory planner found for
//! exactly its buffers, and the cycles that the predicted stream takes.
//! Owns the search as a whole. Which Proposals are placed is for `placing` to say, and for `within` where a budget is given.

pub mod arena;
mod directions;
pub mod error;
pub mod filling;
mod first_copy_hidden;
pub mod placing;
mod restaging;
pub mod within;

use std::sync::Arc;

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::plan::{Plan, Proposal, Staging};
use crate::model::program::Arrangement;
#[cfg(test)]
use crate::plans::options::Copies;
use crate::plans::options::Options;
use crate::plans::prefix_fronts::{Partial, PrefixFronts};
use crate::plans::rolling_rows::RowTable;
use crate::plans::{enumerate, PlanTable};
use crate::proposals::arena::Placer;
use crate::proposals::error::SearchError;
use crate::proposals::filling::Found;
use crate::proposals::first_copy_hidden::FirstCopyHidden;
use crate::proposals::placing::{placed, Chosen};
use crate::schedule::interleave::interleave;
use crate::schedule::prefetch::peak_bytes;
use crate::stripe::Tiling;
use crate::util::hashing::Table;
use crate::util::interrupt;
#[cfg(test)]
use crate::util::pareto::Point;
use crate::util::pareto::{is_front, keep_front, Epsilon};

/// What a search found and how much it looked at.
#[derive(Clone, Debug)]
pub struct Frontier {
    /// Pareto-efficient Proposals, ascending in SRAM, so the first is the floor and the last the fastest.
    pub proposals: Vec<Proposal>,
    /// Of each of them the program that keeps its promise, and where everything lies.
    pub arrangements: Vec<Arc<Arrangement>>,
    /// Open and closed Plans considered.
    pub plans_considered: u64,
    /// Partial Proposals considered.
    pub proposals_considered: u64,
    /// Bytes of running every Part whole, in order, without cascades; between several pools, most in use at once.
    pub uncascaded_bytes: u64,
    /// Modelled cycles of that.
    pub uncascaded_cycles: u64,
    /// Programs that were placed.
    pub placements: u64,
    /// Why the search looked no further.
    pub stopped: Stop,
    /// The coarsest thinning of any front.
    pub epsilon: Epsilon,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Every front was kept, as finely as `Options::resolution` asks.
    Complete,
    /// Some fronts had more points than `Options::max_points` and `Options::max_fork` allow, and were thinned more.
    Width,
    /// More programs were worth placing, or filling, than `Options::max_steps` and `Options::max_fills` allow.
    Work,
}

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
    let (enumerated, placements) = interrupt::portion(0, 7, 10, || Enumerated::new(graph, options, costs, place))?;
    let frontier = interrupt::portion(7, 10, 10, || enumerated.frontier(graph, costs, place))?;
    interrupt::reach(1, 1);
    Ok(Frontier { placements: placements + frontier.placements, ..frontier })
}

/// All Plans worth keeping, combined: what is known before anything is placed, whatever is then asked.
#[derive(Debug)]
pub struct Enumerated {
    /// Bytes and cycles of running every Part whole, in order.
    whole: (u64, u64),
    /// What each search found, the coarse one first.
    searches: Vec<Choices>,
}

/// The Plans that one search combined.
#[derive(Debug)]
struct Choices {
    options: Options,
    chosen: Vec<Chosen>,
    plans_considered: u64,
    proposals_considered: u64,
    /// The coarsest thinning that was more than the options ask for.
    crowded: Option<Epsilon>,
}

impl Enumerated {
    /// Search the whole graph, and once more finely if that was cheap. Also returns how many programs were placed.
    ///
    /// # Errors
    /// Where a Part fits no block unstriped, or a program has no place.
    pub fn new(
        graph: &CascaderGraph,
        options: &Options,
        costs: &mut Costs,
        place: &mut Placer,
    ) -> Result<(Enumerated, u64), SearchError> {
        let program = interleave(graph, &uncascaded(graph), costs)?;
        let placement = place(&program, options.placing.moves)?;
        let is_one = graph.device.memories().spacious().is_empty();
        // Between several pools: what one without a limit would take at least.
        let bytes = if is_one { placement.bytes() } else { peak_bytes(&program) };
        let whole = (bytes, costs.program(graph, &program, &placement));
        let rows = &mut RowTable::default();
        // The finer search, where there is one, takes longer.
        let coarse = interrupt::portion(0, 1, 3, || Choices::new(graph, options, bytes, costs, rows));
        let mut searches = vec![coarse];
        if let Some(finer) = options.refined(searches[0].plans_considered) {
            let finer = interrupt::portion(1, 3, 3, || Choices::new(graph, &finer, bytes, costs, rows));
            searches.push(finer);
        }
        Ok((Enumerated { whole, searches }, 1))
    }

    /// Open and closed Plans considered.
    pub fn plans_considered(&self) -> u64 {
        self.searches.iter().map(|search| search.plans_considered).sum()
    }

    /// What is told of a search beside its Proposals.
    fn told(&self) -> Frontier {
        let finest = self.searches.last();
        let asked = Epsilon::of_resolution(finest.map_or(0, |search| search.options.resolution));
        let crowded = finest.and_then(|search| search.crowded);
        Frontier {
            proposals: Vec::new(),
            arrangements: Vec::new(),
            plans_considered: self.plans_considered(),
            proposals_considered: self.searches.iter().map(|search| search.proposals_considered).sum(),
            uncascaded_bytes: self.whole.0,
            uncascaded_cycles: self.whole.1,
            placements: 0,
            stopped: if crowded.is_some() { Stop::Width } else { Stop::Complete },
            epsilon: crowded.map_or(asked, |taken| asked.max(taken)),
        }
    }

    /// All Pareto-efficient Proposals that come of it.
    ///
    /// # Errors
    /// Where a program has no place.
    pub fn frontier(
        &self,
        graph: &CascaderGraph,
        costs: &mut Costs,
        place: &mut Placer,
    ) -> Result<Frontier, SearchError> {
        let mut placements = 0;
        let place: &mut Placer = &mut |program, moves| {
            placements += 1;
            place(program, moves)
        };
        let (mut found, mut stopped): (Vec<Found>, Stop) = (Vec::new(), self.told().stopped);
        let count = self.searches.len() as u64;
        for (number, search) in (0..).zip(&self.searches) {
            let (more, is_cut) = interrupt::portion(number, number + 1, count, || {
                placed(graph, search.chosen.clone(), &search.options, costs, place)
            })?;
            // Of two that are alike the finer search's stays, and why it stopped is what counts.
            found.splice(0..0, more);
            stopped = if is_cut { Stop::Work } else { self.told().stopped };
        }
        Ok(Frontier { placements, stopped, ..self.frontier_of(found) })
    }

    /// The frontier of these.
    pub fn frontier_of(&self, mut found: Vec<Found>) -> Frontier {
        keep_front(&mut found);
        debug_assert!(is_front(&found), "Proposals that others beat");
        let (proposals, arrangements) = found.into_iter().map(|found| (found.proposal, found.arrangement)).unzip();
        Frontier { proposals, arrangements, ..self.told() }
    }
}

impl Choices {
    /// Combine the Plans of one search; cascades of more than `limit_bytes` bytes are of no use.
    fn new(
        graph: &CascaderGraph,
        options: &Options,
        limit_bytes: u64,
        costs: &mut Costs,
        rows: &mut RowTable,
    ) -> Choices {
        let mut found = Choices {
            options: options.clone(),
            chosen: Vec::new(),
            plans_considered: 0,
            proposals_considered: 0,
            crowded: None,
        };
        let mut seen: Table<Vec<Plan>, usize> = Table::default();
        let mut choose = |plans: Vec<Plan>, limit: Option<u64>| {
            let index = *seen.entry(plans.clone()).or_insert(found.chosen.len());
            if index == found.chosen.len() {
                found.chosen.push(Chosen { plans, limits: Vec::new() });
            }
            found.chosen[index].limits.extend(limit);
        };
        let mut tables = Vec::new();
        // Combining the views' Plans comes after them.
        let steps = options.copies.len() as u64 + 1;
        for (number, &copies) in (0..).zip(&options.copies) {
            let table = interrupt::portion(number, number + 1, steps, || {
                enumerate(graph, options, copies, limit_bytes, costs, rows)
            });
            found.plans_considered += table.considered;
            if let Some(taken) = table.crowded {
                found.crowded = Some(found.crowded.map_or(taken, |coarsest| coarsest.max(taken)));
            }
            for prefixes in [&table.growing, &table.steady] {
                found.proposals_considered += prefixes.considered;
                for end in prefixes.whole() {
                    choose(unwind(&table, prefixes, end), None);
                }
            }
            tables.push(table);
        }
        let ahead = FirstCopyHidden::new(graph, &tables, options.hidden_fineness * options.resolution);
        found.proposals_considered += ahead.considered;
        ahead.proposals().for_each(|(plans, bytes)| choose(plans, Some(bytes)));
        found
    }
}

/// Every Part whole, constants read in place.
pub fn uncascaded(graph: &CascaderGraph) -> Vec<Plan> {
    graph
        .parts
        .ids()
        .map(|part| {
            let stripe = match graph.kernel(part) {
                Some(_) => graph.tensors[graph.output(part)].plane[0],
                None => 1,
            };
            Plan {
                first: part,
                last: part,
                tiling: Tiling::WHOLE_ROWS,
                backwards: false,
                stripes: vec![stripe],
                staging: vec![Staging::InPlace],
                copied: Vec::new(),
            }
        })
        .collect()
}

/// The front of (bytes, cycles) that Plans and their combination promise before there is a program.
#[cfg(test)]
pub fn estimated(graph: &CascaderGraph, options: &Options, copies: Copies, costs: &mut Costs) -> Vec<(u64, u64)> {
    let table = enumerate(graph, options, copies, u64::MAX, costs, &mut RowTable::default());
    table.growing.whole().iter().map(|end| (end.memory_bytes(), end.cycles())).collect()
}

fn unwind(table: &PlanTable, prefixes: &PrefixFronts, end: &Partial) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut partial = *end;
    while let Some((first, rank)) = partial.before {
        let (last, size, index) = partial.plan;
        plans.push(table.plan(first, last, &table.by_last[last][size as usize][index as usize]));
        partial = prefixes.before(first)[rank as usize];
    }
    plans.reverse();
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::check;
    use crate::model::operation::OperationKind;
    use crate::plans::options::MOVES;
    use crate::schedule::prefetch::prefetch;
    use crate::testing::networks::{mobilenet_v1, mobilenet_v2, realised, Network, INPUT};
    use crate::util::pareto::pareto_front;

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
        let most = frontier.uncascaded_bytes;
        let rows = &mut RowTable::default();
        let tables = options.copies.iter().map(|&copies| enumerate(&graph, &options, copies, most, &mut costs, rows));
        let tables: Vec<PlanTable> = tables.collect();
        let mut known: Vec<(Vec<Plan>, u64)> =
            FirstCopyHidden::new(&graph, &tables, options.hidden_fineness * options.resolution).proposals().collect();
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
