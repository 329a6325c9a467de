//! Plans of a whole network, combined: what is known before anything is placed, whatever is then asked.
//!
//! Plans are enumerated under each view of copies, and combined on the way: by `prefix_fronts`, and once more by
//! `first_copy_hidden`. Owns these combinations. Which of them are placed is for `placing` and `within` to say.

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::plan::{Plan, Staging};
use crate::plans::bracket::Bracket;
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
use crate::proposals::frontier::{Frontier, Stop};
use crate::proposals::placing::Chosen;
use crate::schedule::interleave::interleave;
use crate::schedule::prefetch::peak_bytes;
use crate::stripe::Tiling;
use crate::util::hashing::Table;
use crate::util::interrupt;
#[cfg(test)]
use crate::util::pareto::Point;
use crate::util::pareto::{is_front, keep_front, Epsilon};

/// What running every Part whole, in order, takes.
#[derive(Clone, Copy, Debug)]
pub struct Uncascaded {
    /// Its arena; between several pools most bytes in use at once: what one without a limit would take at least.
    pub bytes: u64,
    /// Modelled cycles.
    pub cycles: u64,
}

impl Uncascaded {
    /// Of a graph.
    ///
    /// # Errors
    /// Where a Part fits no block, or the program has no place.
    pub fn new(
        graph: &CascaderGraph,
        options: &Options,
        costs: &mut Costs,
        place: &mut Placer,
    ) -> Result<Uncascaded, SearchError> {
        let program = interleave(graph, &uncascaded(graph), costs)?;
        let placement = place(&program, options.placing.moves)?;
        let is_one = graph.device.memories().spacious().is_empty();
        let bytes = if is_one { placement.bytes() } else { peak_bytes(&program) };
        Ok(Uncascaded { bytes, cycles: costs.program(graph, &program, &placement) })
    }
}

/// All Plans worth keeping, combined: what is known before anything is placed, whatever is then asked.
#[derive(Debug)]
pub struct Enumerated {
    pub(super) uncascaded: Uncascaded,
    /// What each search found, the coarse one first.
    pub(super) searches: Vec<Choices>,
}

/// The Plans that one search combined.
#[derive(Debug)]
pub(super) struct Choices {
    pub options: Options,
    pub chosen: Vec<Chosen>,
    plans_considered: u64,
    proposals_considered: u64,
    /// The coarsest thinning that was more than the options ask for.
    crowded: Option<Epsilon>,
}

impl Enumerated {
    /// Search the whole graph, and once more finely if that was cheap. Whatever takes fewer than `least_bytes` is worth no
    /// more than if it took these.
    pub fn new(
        graph: &CascaderGraph,
        options: &Options,
        least_bytes: u64,
        uncascaded: Uncascaded,
        costs: &mut Costs,
    ) -> Enumerated {
        let rows = &mut RowTable::default();
        let bracket = Bracket { least_bytes, most_bytes: uncascaded.bytes };
        // The finer search, where there is one, takes longer.
        let coarse = interrupt::portion(0, 1, 3, || Choices::new(graph, options, bracket, costs, rows));
        let mut searches = vec![coarse];
        if let Some(finer) = options.refined(searches[0].plans_considered) {
            searches.push(interrupt::portion(1, 3, 3, || Choices::new(graph, &finer, bracket, costs, rows)));
        }
        Enumerated { uncascaded, searches }
    }

    /// Open and closed Plans considered.
    pub fn plans_considered(&self) -> u64 {
        self.searches.iter().map(|search| search.plans_considered).sum()
    }

    /// What is told of a search beside its Proposals.
    pub(super) fn told(&self) -> Frontier {
        let finest = self.searches.last();
        let asked = Epsilon::of_resolution(finest.map_or(0, |search| search.options.resolution));
        let crowded = finest.and_then(|search| search.crowded);
        Frontier {
            proposals: Vec::new(),
            arrangements: Vec::new(),
            plans_considered: self.plans_considered(),
            proposals_considered: self.searches.iter().map(|search| search.proposals_considered).sum(),
            uncascaded_bytes: self.uncascaded.bytes,
            uncascaded_cycles: self.uncascaded.cycles,
            placements: 0,
            stopped: if crowded.is_some() { Stop::Width } else { Stop::Complete },
            epsilon: crowded.map_or(asked, |taken| asked.max(taken)),
        }
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
    /// Combine the Plans of one search for Proposals of a bracket.
    fn new(
        graph: &CascaderGraph,
        options: &Options,
        bracket: Bracket,
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
                enumerate(graph, options, copies, bracket, costs, rows)
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
        let ahead =
            FirstCopyHidden::new(graph, &tables, bracket.least_bytes, options.hidden_fineness * options.resolution);
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
    let table = enumerate(graph, options, copies, Bracket::ALL, costs, &mut RowTable::default());
    table.growing.whole().iter().map(|end| (end.memory_bytes(), end.cycles())).collect()
}

/// Plans that a partial Proposal ends.
pub(super) fn unwind(table: &PlanTable, prefixes: &PrefixFronts, end: &Partial) -> Vec<Plan> {
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
