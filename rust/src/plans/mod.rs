//! Plans for every group of consecutive Parts: stripe extents, bands, rolling buffers, staged constants.
//!
//! `part_variants` tells how one Part can run, `open_groups` puts Parts together to groups, `table` keeps what is worth keeping.
//! Owns the enumeration. Does not decide which Plans make up the network, and does not place buffers.

mod bands;
mod link;
pub mod live_bytes;
pub mod made_rows;
mod open_group_bound;
mod open_groups;
pub mod options;
mod part_variants;
pub mod pass;
pub mod prefix_fronts;
pub mod rolling_rows;
mod table;
pub mod trivial_parts;

pub use part_variants::Cycles;
pub use table::{GroupPlan, PlanTable};

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::ids::PartId;
use crate::plans::live_bytes::LiveBytes;
use crate::plans::made_rows::StripeId;
use crate::plans::options::Options;
use crate::plans::pass::Pass;
use crate::plans::prefix_fronts::KnownFront;
use crate::plans::rolling_rows::RowTable;
use crate::stripe::{Axis, Tiling};
use crate::util::interrupt;
use crate::util::pareto::{keep_front, thin, FrontBuilder};
use bands::Bands;
use open_groups::OpenGroups;
use part_variants::{PartVariant, PartVariants};
use table::Node;
use trivial_parts::TrivialParts;

/// Enumerate the Plans of one pass for all groups.
pub fn enumerate(
    graph: &CascaderGraph,
    options: &Options,
    pass: &Pass,
    costs: &mut Costs,
    rows: &mut RowTable,
) -> PlanTable {
    let mut table = PlanTable::new(pass.range.least_bytes);
    let mut scratch = FrontBuilder::default();
    let mut ways = PartVariants::new(graph, options, pass.copies, costs);
    let trivial = TrivialParts::new(graph);
    for (number, last) in graph.parts.ids().enumerate() {
        interrupt::ask();
        interrupt::reach(number as u64, graph.parts.len() as u64);
        let mut found = vec![alone(graph, last, &trivial, &mut ways, &mut table)];
        let mut known = [KnownFront::default(), KnownFront::default()];
        let single: Vec<&GroupPlan> = found[0].iter().collect();
        for (known, prefixes) in known.iter_mut().zip([&table.with_overlap, &table.without_overlap]) {
            known.add(prefixes.before(last), &single);
        }
        let firsts = firsts(graph, last, &trivial, options);
        let sinks: Vec<PartId> = firsts.iter().map(|&first| sink(graph, first, last)).collect();
        for tilings in tilings(graph, last, &trivial, options).chunk_by(|a, b| a.roll == b.roll) {
            let groups: Vec<LiveBytes> =
                firsts.iter().map(|&first| LiveBytes::new(graph, first, last, tilings[0].roll)).collect();
            for &tiling in tilings {
                let bands = &Bands::new(graph, tiling, last, groups.len());
                let (ways, rows, table, known) = (&mut ways, &mut *rows, &mut table, &mut known);
                let (groups, sinks, scratch) = (&groups[..], &sinks[..], &mut scratch);
                OpenGroups {
                    graph,
                    options,
                    pass,
                    ways,
                    rows,
                    table,
                    known,
                    groups,
                    sinks,
                    last,
                    bands,
                    first_failed: StripeId::default(),
                    scratch,
                }
                .run(&mut found);
            }
        }
        for group in &mut found {
            thin(group, pass.resolution);
        }
        table.finish(graph, found, pass.resolution);
    }
    table
}

/// Plans of a group of one whose Part is not striped. The cycles of a trivial Part are in every Proposal, so they are left
/// out: fronts are thinned in proportion to cycles, and these constants would make them coarser.
fn alone(
    graph: &CascaderGraph,
    part: PartId,
    trivial: &TrivialParts,
    ways: &mut PartVariants,
    table: &mut PlanTable,
) -> Vec<GroupPlan> {
    // What an operator on the CPU takes is the same whatever is decided. If it counted, of all Plans that take less one would
    // be kept, by cycles that are counted coarsely here.
    let live_bytes = || LiveBytes::new(graph, part, part, Tiling::WHOLE_ROWS.roll).unstriped_bytes();
    let own_bytes = if graph.is_opaque(part) { 0 } else { live_bytes() };
    let stripe = graph.uncut_rows(part);
    let candidate = |PartVariant { staging, staged_bytes, cycles, kernels }| GroupPlan {
        tiling: Tiling::WHOLE_ROWS,
        node: table.push(Node { stripe, staging, rolling_bytes: 0, next: None }),
        bytes: own_bytes + staged_bytes,
        cycles: if trivial.holds(part) { 0 } else { cycles },
        kernels: if trivial.holds(part) { Cycles::default() } else { kernels },
    };
    let mut found: Vec<GroupPlan> = ways.unstriped(part).into_iter().map(candidate).collect();
    keep_front(&mut found);
    found
}

/// First Parts of the groups that end with Part `last`, the nearest first. An operator on the CPU is a group of its
/// own, and so is a trivial Part; no group ends with a feed but its own.
fn firsts(graph: &CascaderGraph, last: PartId, trivial: &TrivialParts, options: &Options) -> Vec<PartId> {
    let grows = |part| !graph.is_opaque(part) && !trivial.holds(part);
    let firsts = PartId(0).through(last).rev().take(options.max_group.max(1));
    let ends_group = (graph.kernel(last).is_some() || graph.is_take(last)) && grows(last);
    firsts.take_while(|&first| first == last || ends_group && grows(first)).collect()
}

/// Tilings to try for the output of Part `last`; none for what is a group of its own. A band has at
/// least two rows or columns.
fn tilings(graph: &CascaderGraph, last: PartId, trivial: &TrivialParts, options: &Options) -> Vec<Tiling> {
    if graph.is_take(last) {
        return vec![Tiling::WHOLE_ROWS];
    }
    if graph.kernel(last).is_none() || trivial.holds(last) {
        return Vec::new();
    }
    let plane = graph.tensors[graph.output(last)].plane;
    let mut found = Vec::new();
    for roll in [Axis::Height, Axis::Width] {
        // A buffer holds whole lines across the rolling axis: columns only pay where they are shorter than rows.
        if roll == Axis::Width && plane[1] <= plane[0] {
            continue;
        }
        for &tiles in &options.tiles {
            if tiles == 1 || i64::from(tiles) * 2 <= plane[roll.other() as usize] {
                found.push(Tiling { roll, tiles });
            }
        }
    }
    found
}

/// The Part at which all that Part `first` feeds has come together, in a group that ends with `last`: no Part behind
/// it reads what was made from `first` up to it. `first` itself where its output is wanted outside the group.
fn sink(graph: &CascaderGraph, first: PartId, last: PartId) -> PartId {
    let readers_end = |part: PartId| {
        let readers = &graph.consumers[graph.output(part)];
        readers.iter().copied().rfind(|&reader| reader <= last)
    };
    if graph.is_opaque(first) || graph.outlives(graph.output(first), last) {
        return first;
    }
    let Some(mut sink) = readers_end(first) else { return first };
    let mut part = first.after(1);
    while part < sink {
        sink = sink.max(readers_end(part).unwrap_or(part));
        part = part.after(1);
    }
    sink
}
