//! All Plans worth keeping: what each costs, and the decisions behind it.
//!
//! Groups grow backwards, so that a Plan is the decisions for its first Part and the shorter Plan behind: a chain of
//! nodes that many share. Owns this store, and the fronts of the first Parts that its Plans make. Finds no Plans.

use super::ways::Cycles;
use crate::model::graph::CascaderGraph;
use crate::model::ids::{Id, IdVec, PartId};
use crate::model::plan::{Plan, Staging};
use crate::plans::prefix_fronts::PrefixFronts;
use crate::stripe::Tiling;
use crate::util::pareto::{Epsilon, Point};

/// A Plan of a group with what it costs.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub(super) tiling: Tiling,
    pub(super) node: u32,
    /// Most bytes in the arena while it runs, whatever else the network still wants included.
    pub bytes: u64,
    /// Modelled cycles.
    pub cycles: u64,
    /// Cycles of its kernels alone, whatever copies are taken to cost.
    pub kernels: Cycles,
}

impl Point for Candidate {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// All Plans worth keeping, by (first, last) Part.
#[derive(Debug, Default)]
pub struct PlanTable {
    /// Fronts by last Part, then by number of Parts minus one.
    pub by_last: IdVec<PartId, Vec<Vec<Candidate>>>,
    /// Open groups looked at.
    pub considered: u64,
    /// The coarsest thinning that `Options::max_points` made necessary; None if there was none.
    pub crowded: Option<Epsilon>,
    /// Fronts of the first Parts, of all Plans.
    pub growing: PrefixFronts,
    /// The same without Plans that cut a single Part so that its output grows into its input. A chain of such outputs
    /// has the fewest live bytes, but each lies a little beside the one before, which is hard to place.
    pub steady: PrefixFronts,
    nodes: Vec<Node>,
}

impl PlanTable {
    /// The Plan of a candidate for Parts `first..=last`.
    pub fn plan(&self, first: PartId, last: PartId, candidate: &Candidate) -> Plan {
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
    pub fn staging(&self, candidate: &Candidate) -> impl Iterator<Item = Staging> + '_ {
        self.chain(candidate.node).map(|node| node.staging)
    }

    /// Take the Plans of all groups that end with the next Part.
    pub(super) fn finish(&mut self, graph: &CascaderGraph, groups: Vec<Vec<Candidate>>, resolution: u64) {
        let last = PartId::at(self.by_last.len());
        let numbered = groups.iter().map(|group| (0u32..).zip(group).collect::<Vec<_>>());
        let mut numbered: Vec<Vec<(u32, &Candidate)>> = numbered.collect();
        self.growing.push(&numbered, 4 * resolution);
        numbered[0].retain(|(_, candidate)| !self.is_striped(graph, last, candidate));
        self.steady.push(&numbered, 4 * resolution);
        self.by_last.push(groups);
    }

    /// Whether a Plan for Part `part` on its own cuts it into stripes.
    pub(super) fn is_striped(&self, graph: &CascaderGraph, part: PartId, candidate: &Candidate) -> bool {
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
