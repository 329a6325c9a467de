//! Cross-group prefetch: Pareto fronts with the first copy of each group beside the group before it.
//!
//! Plans are enumerated with copies exposed or free. Little SRAM allows something in between: while a group runs, the
//! first constants of the next group are fetched, and their bytes count as this group's.
//!
//! - State: `front(k, y)`, partial Proposals of the first `k` Parts, where `y` is what they fetch of Part `k`'s
//!   constants: nothing, all, or the first slice.
//! - Step: a Plan of `B` bytes whose kernels take `K` cycles, `M` of them with the memory of constants busy, whose
//!   first copy takes `c1` and whose other copies take `c2`, after a partial Proposal that fetched `x`:
//!   `B + bytes(y)` bytes and `max(K, M) + c2 + (c1 if x is nothing) + max(0, cycles(y) - (K - M))` cycles. Bytes
//!   combine by max, cycles by sum.
//! - Invariant: later groups see a partial Proposal through its point and `y` alone.
//! - Cost: nine joins of fronts for each group; no Plan is enumerated again.
//!
//! Owns this combination of Plans that others enumerated. `prefetch` estimates still earlier copies.

use crate::cost::{all_staging_cycles, staging_cycles};
use crate::model::graph::CascaderGraph;
use crate::model::ids::{Id, IdVec, PartId};
use crate::model::memory::aligned;
use crate::model::plan::{Plan, Staging};
use crate::plans::prefix_fronts::join;
use crate::plans::{Cycles, GroupPlan, PlanTable};
use crate::util::interrupt;
use crate::util::pareto::{keep_front, thin, Point};

/// What of the next Part's constants is fetched while a group runs: nothing, all, or the first slice.
const FETCHES: usize = 3;
const NOTHING: usize = 0;
const ALL: usize = 1;
const SLICE: usize = 2;

/// Partial Proposal: the first Parts of the network, and what is fetched of the next one's constants.
#[derive(Clone, Copy, Debug)]
struct PrefetchPartial {
    bytes: u64,
    cycles: u64,
    /// First Part of its last Plan, what is fetched of its constants before, and the rank of what runs before that
    /// Part; None where nothing does.
    before: Option<(PartId, usize, u32)>,
    /// Its last Plan: table, Parts less one, index among the Plans of that group.
    plan: (usize, u32, u32),
}

impl Point for PrefetchPartial {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// A Plan as the last one of a partial Proposal.
#[derive(Clone, Copy)]
struct Extension {
    bytes: u64,
    cycles: u64,
    /// Cycles in which its kernels do not use the memory of constants, so that a copy runs for free.
    spare: u64,
    plan: (usize, u32, u32),
}

impl Point for Extension {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// Fronts by the first Part that is not covered, and by what is fetched of its constants.
pub struct CrossGroupPrefetch<'a> {
    graph: &'a CascaderGraph,
    tables: &'a [PlanTable],
    fronts: IdVec<PartId, [Vec<PrefetchPartial>; FETCHES]>,
    /// Partial Proposals looked at.
    pub considered: u64,
}

impl<'a> CrossGroupPrefetch<'a> {
    /// Combine the Plans of all tables. Whatever takes fewer than `least_bytes` is worth no more than these; fronts are
    /// thinned by `resolution`.
    pub fn new(
        graph: &'a CascaderGraph,
        tables: &'a [PlanTable],
        least_bytes: u64,
        resolution: u64,
    ) -> CrossGroupPrefetch<'a> {
        let nothing = PrefetchPartial { bytes: least_bytes, cycles: 0, before: None, plan: (0, 0, 0) };
        let mut ahead =
            CrossGroupPrefetch { graph, tables, fronts: vec![[vec![nothing], vec![], vec![]]].into(), considered: 0 };
        for last in graph.parts.ids() {
            ahead.push(last, resolution);
        }
        ahead
    }

    /// Plans that run the network, each with the most bytes in the arena that this view expects of them.
    pub fn proposals(&self) -> impl Iterator<Item = (Vec<Plan>, u64)> + '_ {
        let whole = self.fronts.last().map_or(&[][..], |fronts| &fronts[NOTHING]);
        whole.iter().map(|end| (self.unwind(*end), end.bytes))
    }

    fn unwind(&self, mut partial: PrefetchPartial) -> Vec<Plan> {
        let mut plans = Vec::new();
        while let Some((first, fetched, rank)) = partial.before {
            let (table, size, index) = partial.plan;
            let (table, last) = (&self.tables[table], first.after(size as usize));
            plans.push(table.plan(first, last, &table.by_last[last][size as usize][index as usize]));
            partial = self.fronts[first][fetched][rank as usize];
        }
        plans.reverse();
        plans
    }

    /// Cover Part `last` with every Plan that ends there.
    fn push(&mut self, last: PartId, resolution: u64) {
        let mut points: [Vec<PrefetchPartial>; FETCHES] = Default::default();
        let sizes = self.tables.iter().map(|table| table.by_last[last].len()).max().unwrap_or(0);
        for size in 0..sizes as u32 {
            interrupt::ask();
            let first = last.before(size as usize);
            for (fetched, extensions) in self.extensions(last, size).into_iter().enumerate() {
                let before = &self.fronts[first][fetched];
                if before.is_empty() {
                    continue;
                }
                for (fetching, points) in points.iter_mut().enumerate() {
                    let Some(copy) = self.fetch(last, fetching) else { continue };
                    let mut group: Vec<Extension> = extensions.iter().map(|extension| extension.beside(copy)).collect();
                    keep_front(&mut group);
                    join(
                        before,
                        &group,
                        |extension| extension,
                        |bytes, cycles, rank, extension| {
                            let before = Some((first, fetched, rank));
                            points.push(PrefetchPartial { bytes, cycles, before, plan: extension.plan });
                        },
                    );
                }
            }
        }
        for front in &mut points {
            self.considered += front.len() as u64;
            keep_front(front);
            thin(front, resolution);
        }
        self.fronts.push(points);
    }

    /// Bytes and cycles of a copy of what is fetched of the constants behind Part `last`; None where there are none.
    fn fetch(&self, last: PartId, fetching: usize) -> Option<(u64, u64)> {
        if fetching == NOTHING {
            return Some((0, 0));
        }
        let next = Some(last.after(1)).filter(|next| next.index() < self.graph.parts.len())?;
        self.graph.kernel(last)?;
        let kernel = self.graph.kernel(next)?;
        let device = &self.graph.device;
        let (bytes, cycles) = match fetching {
            ALL => (kernel.staged_bytes(), all_staging_cycles(device, kernel)),
            _ => {
                let first = *kernel.sliced.as_ref()?.bytes.first()?;
                (first, staging_cycles(device, first))
            }
        };
        (bytes > 0).then(|| (aligned(bytes), cycles))
    }

    /// Plans of the `size` + 1 Parts up to `last`, by what the group before must have fetched.
    fn extensions(&self, last: PartId, size: u32) -> [Vec<Extension>; FETCHES] {
        let mut found: [Vec<Extension>; FETCHES] = Default::default();
        for (number, table) in self.tables.iter().enumerate() {
            let group = table.by_last[last].get(size as usize).map_or(&[][..], Vec::as_slice);
            for (index, candidate) in (0..).zip(group) {
                let (first_copy, cycles) = self.cycles(table, last.before(size as usize), candidate);
                let spare = candidate.kernels.all.saturating_sub(candidate.kernels.constants);
                let extension = Extension { bytes: candidate.bytes, cycles, spare, plan: (number, size, index) };
                found[NOTHING].push(Extension { cycles: cycles + first_copy, ..extension });
                match table.staging(candidate).next() {
                    Some(Staging::Whole) => found[ALL].push(extension),
                    Some(Staging::Sliced) => found[SLICE].push(extension),
                    _ => {}
                }
            }
        }
        found
    }

    /// Cycles of a Plan for Parts `first..` in two parts: the copy that it begins with, and everything else.
    fn cycles(&self, table: &PlanTable, first: PartId, candidate: &GroupPlan) -> (u64, u64) {
        let Cycles { all, constants } = candidate.kernels;
        let device = &self.graph.device;
        let mut copies = first.onward().zip(table.staging(candidate)).map(|(part, staging)| match staging {
            Staging::InPlace => 0,
            Staging::Whole => self.graph.kernel(part).map_or(0, |kernel| all_staging_cycles(device, kernel)),
            Staging::Sliced => self
                .graph
                .kernel(part)
                .and_then(|kernel| kernel.sliced.as_ref())
                .map_or(0, |sliced| staging_cycles(device, sliced.bytes[0])),
        });
        let first_copy = copies.next().unwrap_or(0);
        (first_copy, all.max(constants) + copies.sum::<u64>())
    }
}

impl Extension {
    /// The Plan with a copy beside it; cycles of the copy beyond the spare ones are added.
    fn beside(self, (bytes, cycles): (u64, u64)) -> Extension {
        Extension { bytes: self.bytes + bytes, cycles: self.cycles + cycles.saturating_sub(self.spare), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::model::graph::Work;
    use crate::model::operation::OperationKind;
    use crate::plans::enumerate;
    use crate::plans::options::{CopyCost, Options};
    use crate::plans::pass::Pass;
    use crate::plans::rolling_rows::RowTable;
    use crate::testing::networks::{Network, INPUT};
    use crate::util::pareto::pareto_front;

    /// Plans for Parts up to the last one: the most bytes, the cycles but for the copy that they begin with, and that
    /// copy.
    #[derive(Clone)]
    struct Tail {
        bytes: u64,
        cycles: u64,
        copy: (u64, u64),
        plans: Vec<Plan>,
    }

    /// Bytes and cycles of the copies that a Plan begins with, by Part.
    fn copies(graph: &CascaderGraph, plan: &Plan) -> Vec<(u64, u64)> {
        let copy = |(part, staging): (PartId, &Staging)| {
            let bytes = graph.kernel(part).map_or(0, |kernel| match staging {
                Staging::InPlace => 0,
                Staging::Whole => kernel.staged_bytes(),
                Staging::Sliced => kernel.sliced.as_ref().map_or(0, |sliced| sliced.bytes[0]),
            });
            (aligned(bytes), if bytes > 0 { staging_cycles(&graph.device, bytes) } else { 0 })
        };
        plan.parts().zip(&plan.staging).map(copy).collect()
    }

    /// Every way to run Parts `first..`, each first copy behind nothing and, where there is a kernel, behind the
    /// group before.
    fn tails(graph: &CascaderGraph, tables: &[PlanTable], first: PartId) -> Vec<Tail> {
        let Some(end) = graph.parts.ids().next_back().filter(|&end| first <= end) else {
            return vec![Tail { bytes: 0, cycles: 0, copy: (0, 0), plans: Vec::new() }];
        };
        let mut found = Vec::new();
        for last in first.through(end) {
            let rest = tails(graph, tables, last.after(1));
            let of_table = |table: &'_ PlanTable| {
                let group = table.by_last[last].get(last.since(first)).cloned().unwrap_or_default();
                group.into_iter().map(|one| (one, table.plan(first, last, &one))).collect::<Vec<_>>()
            };
            for (candidate, plan) in tables.iter().flat_map(of_table) {
                let copies = copies(graph, &plan);
                let Cycles { all, constants } = candidate.kernels;
                let alone = all.max(constants) + copies[1..].iter().map(|copy| copy.1).sum::<u64>();
                for tail in &rest {
                    let (bytes, cycles) = tail.copy;
                    let plans = [std::slice::from_ref(&plan), &tail.plans[..]].concat();
                    let mut push = |held, took| {
                        let bytes = tail.bytes.max(candidate.bytes + held);
                        let cycles = alone + took + tail.cycles;
                        found.push(Tail { bytes, cycles, copy: copies[0], plans: plans.clone() });
                    };
                    push(0, cycles);
                    if bytes > 0 && graph.kernel(last).is_some() {
                        push(bytes, cycles.saturating_sub(all.saturating_sub(constants)));
                    }
                }
            }
        }
        found
    }

    /// Three convolutions with slices, on a plane so large that kernels hide copies and on one where they do not.
    fn networks() -> Vec<CascaderGraph> {
        let network = |side: i64, depths: [i64; 3]| {
            let mut net = Network::new([side, side], 16);
            let kernels = depths.into_iter().zip([3, 1, 1]);
            let t = kernels.fold(INPUT, |t, (depth, size)| net.window(t, OperationKind::Convolution, size, 1, depth));
            net.finish(t)
        };
        let mut found = vec![network(24, [32, 64, 32]), network(4, [32, 64, 128]), network(16, [128, 256, 256])];
        found.push(network(14, [256, 512, 256]));
        found.push(network(28, [32, 128, 256]));
        // With an operator elsewhere first, and one in the middle.
        for part in [0, 1].map(PartId) {
            let mut graph = network(8, [64, 32, 64]);
            graph.parts[part].work = Work::Opaque { workspace_bytes: 0, overlay: None };
            found.push(graph);
        }
        found
    }

    fn options() -> Options {
        Options { max_group: 2, stripes: vec![4], divisions: vec![], tiles: vec![1], ..Options::default() }
    }

    #[test]
    fn fronts_are_those_of_every_choice_of_plans_and_of_what_is_fetched() {
        let (mut hidden, mut sliced, mut mixed) = (0, 0, 0);
        for graph in networks() {
            let view = |copies| {
                let (costs, rows) = (&mut Costs::default(), &mut RowTable::default());
                enumerate(&graph, &options(), &Pass::new(&options(), copies), costs, rows)
            };
            let tables = [CopyCost::Serial, CopyCost::Overlapped].map(view);
            let ahead = CrossGroupPrefetch::new(&graph, &tables, 0, 0);
            let all = tails(&graph, &tables, PartId(0));
            let whole = |tail: &Tail| (tail.bytes, tail.cycles + tail.copy.1);
            let front = pareto_front(all.iter().map(whole).collect());
            let found: Vec<(u64, u64)> = ahead.fronts[PartId::at(graph.parts.len())][NOTHING]
                .iter()
                .map(|end| (end.bytes, end.cycles))
                .collect();
            assert_eq!(found, front);
            for ((plans, bytes), &(_, cycles)) in ahead.proposals().zip(&found) {
                assert!(all.iter().any(|tail| tail.plans == plans && whole(tail) == (bytes, cycles)));
            }
            // What is tested is of use here: whole copies and slices behind the first group, and both views.
            let exposed = |tail: &&Tail| {
                let copies = tail.plans.iter().map(|plan| copies(&graph, plan)[0].1);
                tail.plans.len() > 1 && copies.skip(1).any(|cycles| cycles > 0)
            };
            hidden += all.iter().filter(exposed).filter(|tail| front.contains(&whole(tail))).count();
            let slices = |tail: &&Tail| tail.plans.iter().skip(1).any(|plan| plan.staging[0] == Staging::Sliced);
            sliced += all.iter().filter(slices).filter(|tail| front.contains(&whole(tail))).count();
            mixed += usize::from([0, 1].iter().all(|&view| {
                let one = CrossGroupPrefetch::new(&graph, &tables[view..=view], 0, 0);
                let ends = one.fronts[PartId::at(graph.parts.len())][NOTHING].iter().map(|end| (end.bytes, end.cycles));
                ends.collect::<Vec<_>>() != front
            }));
        }
        assert!(hidden > 0 && sliced > 0 && mixed > 0, "{hidden} {sliced} {mixed}");
    }
}
