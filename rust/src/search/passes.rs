//! Passes: from a network to sets of Plans that cover it, before anything is placed.
//!
//! A coarse pass over all sizes of the arena comes first. Where it was cheap, a finer one follows. The last one looks for
//! the fewest bytes: a front that is thinned much more coarsely keeps groups that finer ones crowd out. Each pass but the
//! last enumerates Plans under both costs of copies. Plans are combined on the way, by `prefix_fronts`, and once more by
//! `cross_group_prefetch`.
//! Owns the choice of passes, and the combinations. Which of them are placed is for `front` and `within` to say.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

use crate::model::plan::Plan;
use crate::plans::enumerate;
use crate::plans::options::{CopyCost, Options};
use crate::plans::pass::{ArenaRange, Pass};
use crate::plans::prefix_fronts::{Partial, PrefixFronts};
use crate::plans::rolling_rows::RowTable;
use crate::plans::PlanTable;
use crate::search::context::Context;
use crate::search::cross_group_prefetch::CrossGroupPrefetch;
use crate::search::stage::Stage;
use crate::util::hashing::Table;
use crate::util::interrupt;
use crate::util::pareto::{Epsilon, Point};

/// Plans that cover the network in order.
#[derive(Clone, Debug)]
pub struct PlanSet {
    /// They cover the Parts in order.
    pub plans: Vec<Plan>,
    /// Limits in bytes for early copies that are worth trying beside the usual ones.
    pub limits: Vec<u64>,
}

/// Sets of Plans of several passes, each set once.
#[derive(Debug, Default)]
pub struct PlanSets {
    /// In the order in which they were found.
    pub all: Vec<PlanSet>,
    numbers: Table<Vec<Plan>, usize>,
    /// Open and closed Plans considered.
    pub plans_considered: u64,
    /// Partial Proposals considered.
    pub proposals_considered: u64,
    /// Resolution of the finest pass.
    pub resolution: u64,
    /// The coarsest thinning of the finest pass beyond its resolution.
    pub crowded: Option<Epsilon>,
    /// Whether the first passes were cheap, so that further ones followed.
    pub is_cheap: bool,
    /// The front of the last pass that was run, as (bytes, cycles) before anything is placed.
    pub front: Vec<(u64, u64)>,
}

impl PlanSets {
    /// Run every pass. The one for the fewest bytes may have been run before.
    pub fn complete(ctx: &mut Context, most_bytes: u64, known: Option<(PlanSets, RowTable)>) -> PlanSets {
        let range = ArenaRange { least_bytes: 0, most_bytes };
        let (fewest, mut rows) = known.map_or_else(Default::default, |(fewest, rows)| (Some(fewest), rows));
        let rows = &mut rows;
        let mut sets = PlanSets::default();
        Stage::EnumerateCoarsely.run(|| sets.run(ctx, &coarse(ctx.options, range), rows));
        if sets.plans_considered <= ctx.options.refined_up_to {
            if let Some(fine) = fine(ctx.options, range) {
                sets.is_cheap = true;
                Stage::EnumerateFinely.run(|| sets.run(ctx, &fine, rows));
            }
        }
        let fewest = fewest.unwrap_or_else(|| PlanSets::of_fewest_bytes(ctx, most_bytes, rows));
        sets.plans_considered += fewest.plans_considered;
        sets.proposals_considered += fewest.proposals_considered;
        for PlanSet { plans, limits } in fewest.all {
            sets.add(plans, limits);
        }
        PlanSets { front: fewest.front, ..sets }
    }

    /// Run the pass for the fewest bytes alone; none where the options want none, or all fronts are exact.
    pub fn of_fewest_bytes(ctx: &mut Context, most_bytes: u64, rows: &mut RowTable) -> PlanSets {
        let mut sets = PlanSets::default();
        let range = ArenaRange { least_bytes: 0, most_bytes };
        let (resolution, max_points) = (ctx.options.lean.resolution, ctx.options.lean.max_points);
        if resolution > 0 && ctx.options.resolution > 0 {
            let pass = Pass { resolution, max_points, copies: CopyCost::Serial, range };
            Stage::EnumerateForFewestBytes.run(|| sets.run(ctx, &[pass], rows));
        }
        sets
    }

    /// Run the coarse passes alone, for arenas of at least `range`. Where these are cheap, all sizes follow: the fastest
    /// Proposal of a small network may take less.
    pub fn of_large_arenas(ctx: &mut Context, range: ArenaRange) -> PlanSets {
        let mut sets = PlanSets::default();
        let rows = &mut RowTable::default();
        Stage::EnumerateCoarsely.run(|| sets.run(ctx, &coarse(ctx.options, range), rows));
        let refinement = ctx.options.refinement.max(1);
        if sets.plans_considered <= ctx.options.refined_up_to / (refinement * refinement) {
            sets.is_cheap = true;
            let range = ArenaRange { least_bytes: 0, ..range };
            Stage::EnumerateFinely.run(|| sets.run(ctx, &coarse(ctx.options, range), rows));
        }
        sets
    }

    /// Run passes of one resolution, which differ in the cost of copies, and combine their Plans.
    fn run(&mut self, ctx: &mut Context, passes: &[Pass], rows: &mut RowTable) {
        let count = passes.len() as u64;
        let enumerated = (0..count).zip(passes).map(|(number, pass)| {
            let enumerate = || enumerate(ctx.graph, ctx.options, pass, ctx.costs, rows);
            interrupt::portion(number, number + 1, count, enumerate)
        });
        let tables: Vec<PlanTable> = enumerated.collect();
        self.crowded = None;
        for table in &tables {
            self.plans_considered += table.considered;
            self.crowded = [self.crowded, table.crowded].into_iter().flatten().reduce(Epsilon::max);
            for prefixes in [&table.with_overlap, &table.without_overlap] {
                self.proposals_considered += prefixes.considered;
                for end in prefixes.whole() {
                    self.add(unwind(table, prefixes, end), Vec::new());
                }
            }
        }
        let Some(&Pass { resolution, range, .. }) = passes.first() else { return };
        self.resolution = resolution;
        self.front = tables[0].with_overlap.whole().iter().map(|end| (end.memory_bytes(), end.cycles())).collect();
        let fineness = ctx.options.hidden_fineness * resolution;
        let combined = CrossGroupPrefetch::new(ctx.graph, &tables, range.least_bytes, fineness);
        self.proposals_considered += combined.considered;
        combined.proposals().for_each(|(plans, bytes)| self.add(plans, vec![bytes]));
    }

    fn add(&mut self, plans: Vec<Plan>, limits: Vec<u64>) {
        let number = *self.numbers.entry(plans).or_insert_with_key(|plans| {
            self.all.push(PlanSet { plans: plans.clone(), limits: Vec::new() });
            self.all.len() - 1
        });
        self.all[number].limits.extend(limits);
    }
}

fn coarse(options: &Options, range: ArenaRange) -> [Pass; 2] {
    [CopyCost::Serial, CopyCost::Overlapped].map(|copies| Pass { range, ..Pass::new(options, copies) })
}

/// The passes that follow cheap coarse ones; None where they would be no finer.
fn fine(options: &Options, range: ArenaRange) -> Option<[Pass; 2]> {
    let resolution = options.resolution * options.refinement;
    let max_points = options.max_points.max(options.points_for(resolution));
    let finer = |pass| Pass { resolution, max_points, ..pass };
    (resolution > options.resolution).then(|| coarse(options, range).map(finer))
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

/// The front of (bytes, cycles) that Plans and their combination promise before there is a program.
#[cfg(test)]
pub fn estimated(
    graph: &crate::model::graph::CascaderGraph,
    options: &Options,
    copies: CopyCost,
    costs: &mut crate::cost::Costs,
) -> Vec<(u64, u64)> {
    let table = enumerate(graph, options, &Pass::new(options, copies), costs, &mut RowTable::default());
    table.with_overlap.whole().iter().map(|end| (end.memory_bytes(), end.cycles())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::worked_example::{in_context, rows_at_a_time};

    /// The passes find one group of all three Parts, and `expand` alone before the two others.
    #[test]
    fn example() {
        let sets = in_context(|ctx| PlanSets::complete(ctx, 4096, None));
        let found = |plans: &[Plan]| sets.all.iter().any(|set| set.plans == plans);
        assert!(found(&[rows_at_a_time(0, &[1, 1, 1])]));
        assert!(found(&[rows_at_a_time(0, &[8]), rows_at_a_time(1, &[2, 2])]));
        assert!(!found(&[rows_at_a_time(0, &[1, 2, 1])]), "dominated by rows (2, 1, 2)");
    }
}
