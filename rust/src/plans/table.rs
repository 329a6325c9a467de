//! A table of all Plans worth keeping: their costs and decisions.
//!
//! Groups grow backwards, so that a Plan is the decisions for its first Part and the shorter Plan behind: a chain of
//! nodes that many share. Owns this store, and the fronts of the first Parts that its Plans make. Finds no Plans.

use super::part_variants::Cycles;
use crate::model::graph::CascaderGraph;
use crate::model::ids::{Id, IdVec, PartId};
use crate::model::plan::{Plan, Staging};
use crate::plans::prefix_fronts::PrefixFronts;
use crate::stripe::Tiling;
use crate::util::pareto::{Epsilon, Point};

/// A Plan of a group with what it costs.
#[derive(Clone, Copy, Debug)]
pub struct GroupPlan {
    pub(super) tiling: Tiling,
    pub(super) node: u32,
    /// Most bytes in the arena while it runs, whatever else the network still wants included.
    pub bytes: u64,
    /// Modelled cycles.
    pub cycles: u64,
    /// Cycles of its kernels alone, whatever copies are taken to cost.
    pub kernels: Cycles,
}

impl Point for GroupPlan {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// All Plans worth keeping, by (first, last) Part.
#[derive(Debug)]
pub struct PlanTable {
    /// Fronts by last Part, then by number of Parts minus one.
    pub by_last: IdVec<PartId, Vec<Vec<GroupPlan>>>,
    /// Open groups looked at.
    pub considered: u64,
    /// The coarsest thinning that `Options::max_points` made necessary; None if there was none.
    pub crowded: Option<Epsilon>,
    /// Fronts of the first Parts, of all Plans.
    pub with_overlap: PrefixFronts,
    /// The same without Plans that cut a single Part so that its output grows into its input. A chain of such outputs
    /// has the fewest live bytes, but each lies a little beside the one before, which is hard to place.
    pub without_overlap: PrefixFronts,
    nodes: Vec<Node>,
    /// How many nodes there are of groups that end before the next Part: those behind belong to groups that grow.
    settled: usize,
}

impl PlanTable {
    /// Without any Plans. Those of fewer than `least_bytes` will be worth no more than if they took these.
    pub fn new(least_bytes: u64) -> PlanTable {
        PlanTable {
            by_last: IdVec::default(),
            considered: 0,
            crowded: None,
            with_overlap: PrefixFronts::new(least_bytes),
            without_overlap: PrefixFronts::new(least_bytes),
            nodes: Vec::new(),
            settled: 0,
        }
    }

    /// The Plan of a candidate for Parts `first..=last`.
    pub fn plan(&self, first: PartId, last: PartId, candidate: &GroupPlan) -> Plan {
        let nodes: Vec<&Node> = self.chain(candidate.node).collect();
        Plan {
            first,
            last,
            tiling: candidate.tiling,
            backwards: false,
            stripes: nodes.iter().map(|node| node.stripe).collect(),
            staging: nodes.iter().map(|node| node.staging).collect(),
            copied: Vec::new(),
        }
    }

    /// How a candidate's Parts read their constants, in their order.
    pub fn staging(&self, candidate: &GroupPlan) -> impl Iterator<Item = Staging> + '_ {
        self.chain(candidate.node).map(|node| node.staging)
    }

    /// Take the Plans of all groups that end with the next Part.
    pub(super) fn finish(&mut self, graph: &CascaderGraph, mut groups: Vec<Vec<GroupPlan>>, resolution: u64) {
        let last = PartId::at(self.by_last.len());
        self.forget_others(&mut groups);
        let numbered = groups.iter().map(|group| (0u32..).zip(group).collect::<Vec<_>>());
        let mut numbered: Vec<Vec<(u32, &GroupPlan)>> = numbered.collect();
        self.with_overlap.push(&numbered, 4 * resolution);
        numbered[0].retain(|(_, candidate)| !self.is_striped(graph, last, candidate));
        self.without_overlap.push(&numbered, 4 * resolution);
        self.by_last.push(groups);
    }

    /// Forget the nodes of this Part's groups without a Plan: open groups outnumber Plans by far.
    fn forget_others(&mut self, groups: &mut [Vec<GroupPlan>]) {
        let start = self.settled;
        let mut is_kept = vec![false; self.nodes.len() - start];
        for candidate in groups.iter().flatten() {
            let mut next = Some(candidate.node);
            while let Some(node) = next.filter(|&node| !is_kept[node as usize - start]) {
                is_kept[node as usize - start] = true;
                next = self.nodes[node as usize].next;
            }
        }
        // By node its number from now on. What a node leads to stands before it, as groups grow from their last Part.
        let mut numbers = vec![0; is_kept.len()];
        let mut end = start;
        for node in (start..self.nodes.len()).filter(|&node| is_kept[node - start]) {
            let next = self.nodes[node].next.map(|next| numbers[next as usize - start]);
            self.nodes[end] = Node { next, ..self.nodes[node] };
            numbers[node - start] = end as u32;
            end += 1;
        }
        self.nodes.truncate(end);
        self.settled = end;
        for candidate in groups.iter_mut().flatten() {
            candidate.node = numbers[candidate.node as usize - start];
        }
    }

    /// Whether a Plan for Part `part` on its own cuts it into stripes.
    pub(super) fn is_striped(&self, graph: &CascaderGraph, part: PartId, candidate: &GroupPlan) -> bool {
        let extent = |part| graph.tensors[graph.output(part)].plane[0];
        graph.kernel(part).is_some() && self.nodes[candidate.node as usize].stripe < extent(part)
    }

    /// Keep decisions; returns their number.
    pub(super) fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// Decisions for a Part and for those behind it, in their order.
    pub(super) fn chain(&self, node: u32) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(&self.nodes[node as usize]), |node| node.next.map(|i| &self.nodes[i as usize]))
    }
}

/// What is decided for one Part, and the group behind it that it extends.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub stripe: i64,
    pub staging: Staging,
    /// Bytes of the rolling buffer that the Part fills; 0 where it fills none.
    pub rolling_bytes: u64,
    /// What was decided for the Part behind it; None at the group's last.
    pub next: Option<u32>,
}

#[cfg(test)]
mod tests {
    use crate::cost::Costs;
    use crate::plans::enumerate;
    use crate::plans::options::{CopyCost, Options};
    use crate::plans::pass::Pass;
    use crate::plans::rolling_rows::RowTable;
    use crate::testing::networks::mobilenet_v1;

    #[test]
    fn a_table_keeps_the_nodes_of_its_plans_alone() {
        let graph = mobilenet_v1();
        let (options, costs, rows) = (Options::default(), &mut Costs::default(), &mut RowTable::default());
        let table = enumerate(&graph, &options, &Pass::new(&options, CopyCost::Serial), costs, rows);
        let mut used = vec![false; table.nodes.len()];
        for candidate in table.by_last.iter().flatten().flatten() {
            let mut next = Some(candidate.node);
            while let Some(node) = next {
                used[node as usize] = true;
                next = table.nodes[node as usize].next;
            }
        }
        assert!(used.len() > graph.parts.len() && used.iter().all(|&used| used));
    }
}
