//! Plans for every group of consecutive Parts: stripe extents, bands, rolling buffers, staged constants.
//!
//! For a fixed last Part and tiling, groups grow backwards one Part at a time. What a rolling buffer holds depends on the
//! stripes of its producer and its consumers only, so memory and cycles of a group are sums over its Parts and the front
//! of (memory, cycles), kept per stripe extent of the group's first Part, is all that must be remembered. For chains this
//! is exact; where a tensor forks, its buffer is measured by walking the Parts between the fork and its last reader.
//! Owns the enumeration. Does not decide which Plans make up the network, and does not place buffers.

use std::collections::HashMap;

use crate::costs::{staging_cycles, Costs, Source};
use crate::edge::Edge;
use crate::graph::{aligned, CascaderGraph, PartId, TensorId};
use crate::pareto::{pareto_front, thin, Point};
use crate::program::{Plan, Staging};
use crate::stripe::{Axis, Span, Tiling};
use crate::walk::{is_interior, wanted, Walk};

/// Bounds of the search. All are counts of work, none is a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Parts in a group at most.
    pub max_group: usize,
    /// Stripe extents tried, besides the whole extent.
    pub stripes: Vec<i64>,
    /// Band counts tried.
    pub tiles: Vec<u32>,
    /// Two points of a front closer in cycles than one part in this are merged; the ends always stay.
    pub resolution: u64,
    /// Points kept per front of open groups.
    pub max_points: usize,
    /// What copies of constants are taken to cost; Plans are enumerated under each of these views.
    pub copies: Vec<Copies>,
}

/// How long a copy of constants counts, while Plans are enumerated, before there are kernels to issue it ahead of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// It starts with the group that uses it and hides behind nothing but kernels on earlier slices, as where SRAM is
    /// short.
    Exposed,
    /// It hides behind whatever runs before, as where there is SRAM to hold it.
    Hidden,
}

impl Copies {
    /// Cycles of kernels and of the copies that they use; `first` is the copy that the first kernel waits for.
    fn cycles(self, kernels: u64, first: u64, rest: u64) -> u64 {
        match self {
            Copies::Exposed => first + kernels.max(rest),
            Copies::Hidden => kernels,
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_group: 40,
            stripes: vec![1, 2, 4, 8],
            tiles: vec![1, 2, 3, 4, 6],
            resolution: 64,
            max_points: 12,
            copies: vec![Copies::Exposed, Copies::Hidden],
        }
    }
}

/// A Plan with what it costs: the arena bytes that are its own, and its cycles.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The decisions.
    pub plan: Plan,
    /// Rolling buffers, staged constants, and the tensors of the group's [`Edge`].
    pub own_bytes: u64,
    /// Modelled cycles.
    pub cycles: u64,
}

impl Point for Candidate {
    fn memory_bytes(&self) -> u64 {
        self.own_bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// All Plans worth keeping, by (first, last) Part.
#[derive(Debug, Default)]
pub struct PlanTable {
    /// Fronts by last Part, then by number of Parts minus one.
    pub by_last: Vec<Vec<Vec<Candidate>>>,
    /// Open groups looked at.
    pub considered: u64,
}

/// A group under construction: the decisions for its first Part, and the group it extends.
struct Node {
    stripe: i64,
    staging: Staging,
    next: Option<u32>,
}

/// The tiling under which rows of whole tensors appear and die in order.
const WHOLE_ROWS: Tiling = Tiling { roll: Axis::Height, tiles: 1 };

#[derive(Clone, Copy)]
struct Open {
    node: u32,
    inner_bytes: u64,
    cycles: u64,
}

impl Point for Open {
    fn memory_bytes(&self) -> u64 {
        self.inner_bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// Enumerate Plans for all groups under one view of copies; `limit_bytes` is a memory beyond which a cascade is of no use.
pub fn enumerate(
    graph: &CascaderGraph,
    options: &Options,
    copies: Copies,
    limit_bytes: u64,
    costs: &mut Costs,
) -> PlanTable {
    let mut table = PlanTable::default();
    let mut rows = RowTable::default();
    for last in 0..graph.parts.len() as PartId {
        let mut groups: Vec<Vec<Candidate>> = vec![single(graph, last, copies, costs)];
        if graph.kernel(last).is_some() {
            for tiling in tilings(graph, last, options) {
                let (rows, nodes) = (&mut rows, Vec::new());
                let mut grower = Grower { graph, options, copies, limit_bytes, costs, rows, last, tiling, nodes };
                grower.run(&mut groups);
                table.considered += grower.nodes.len() as u64;
            }
        }
        for group in &mut groups {
            *group = thin(pareto_front(std::mem::take(group)), options.resolution);
        }
        table.by_last.push(groups);
    }
    table
}

/// Plans of a group of one: unstriped, constants in place, staged whole, or staged in slices.
fn single(graph: &CascaderGraph, part: PartId, copies: Copies, costs: &mut Costs) -> Vec<Candidate> {
    let edge_bytes = Edge::new(graph, part, part).whole_bytes(graph);
    let candidate = |staging: Staging, stripe: i64, bytes: u64, cycles: u64| Candidate {
        plan: Plan { first: part, last: part, tiling: WHOLE_ROWS, stripes: vec![stripe], staging: vec![staging] },
        own_bytes: edge_bytes + bytes,
        cycles,
    };
    let Some(kernel) = graph.kernel(part) else { return vec![candidate(Staging::InPlace, 1, 0, 0)] };
    let plane = graph.tensors[graph.output(part) as usize].plane;
    let mut found = Vec::new();
    if let Some(cost) = costs.stripe(graph, part, plane, Source::InPlace) {
        found.push(candidate(Staging::InPlace, plane[0], 0, cost.cycles));
    }
    if let Some(cost) = costs.stripe(graph, part, plane, Source::Staged).filter(|_| kernel.constant_bytes > 0) {
        let copy = staging_cycles(&graph.device, kernel.constant_bytes);
        found.push(candidate(
            Staging::Whole,
            plane[0],
            aligned(kernel.constant_bytes),
            copies.cycles(cost.cycles, copy, 0),
        ));
    }
    if let Some(sliced) = &kernel.sliced {
        let slices = 0..sliced.bytes.len() as u32;
        let kernels: Option<u64> =
            slices.map(|i| costs.stripe(graph, part, plane, Source::Slice(i)).map(|cost| cost.cycles)).sum();
        let mut slices = sliced.bytes.iter().map(|&bytes| staging_cycles(&graph.device, bytes));
        let (first, rest) = (slices.next().unwrap_or(0), slices.sum());
        let pairs = sliced.bytes.windows(2).map(|pair| aligned(pair[0]) + aligned(pair[1]));
        if let (Some(kernels), Some(bytes)) = (kernels, pairs.max()) {
            found.push(candidate(Staging::Sliced, plane[0], bytes, copies.cycles(kernels, first, rest)));
        }
    }
    found
}

/// Ways to cut the output of Part `last`: bands only where each has at least two rows or columns.
fn tilings(graph: &CascaderGraph, last: PartId, options: &Options) -> Vec<Tiling> {
    let plane = graph.tensors[graph.output(last) as usize].plane;
    let mut found = Vec::new();
    for roll in [Axis::Height, Axis::Width] {
        // Rolling along the shorter axis keeps longer lines; it only pays for planes wider than high.
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

struct Grower<'a> {
    graph: &'a CascaderGraph,
    options: &'a Options,
    copies: Copies,
    limit_bytes: u64,
    costs: &'a mut Costs,
    rows: &'a mut RowTable,
    last: PartId,
    tiling: Tiling,
    nodes: Vec<Node>,
}

impl Grower<'_> {
    fn run(&mut self, groups: &mut Vec<Vec<Candidate>>) {
        let mut open: Vec<Open> = Vec::new();
        for first in (0..=self.last).rev() {
            let size = (self.last - first) as usize;
            if size >= self.options.max_group || self.graph.kernel(first).is_none() {
                break;
            }
            let shape = self.plan(first, vec![1; size + 1], vec![Staging::InPlace; size + 1]);
            let interior = size > 0 && is_interior(self.graph, &shape, 0);
            if size > 0 && !interior && self.tiling.tiles > 1 {
                break;
            }
            let bands: Vec<Vec<[Span; 2]>> =
                (0..self.tiling.tiles).map(|tile| wanted(self.graph, &shape, tile)).collect();
            open = self.extend(first, &open, interior, &bands);
            if open.is_empty() {
                break;
            }
            let edge = Edge::new(self.graph, first, self.last);
            // A group of one is worth striping only to let its output grow into its input.
            if size > 0 || (edge.dying.is_some() && self.tiling == WHOLE_ROWS) {
                if groups.len() <= size {
                    groups.resize_with(size + 1, Vec::new);
                }
                let closed = pareto_front(open.clone());
                let found: Vec<Candidate> = closed.iter().map(|state| self.candidate(first, state, edge)).collect();
                groups[size].extend(found);
            }
        }
    }

    fn plan(&self, first: PartId, stripes: Vec<i64>, staging: Vec<Staging>) -> Plan {
        Plan { first, last: self.last, tiling: self.tiling, stripes, staging }
    }

    /// Extend every open group by Part `first`, in every way, and keep the front per stripe extent.
    fn extend(&mut self, first: PartId, open: &[Open], interior: bool, bands: &[Vec<[Span; 2]>]) -> Vec<Open> {
        let graph = self.graph;
        let tensor = graph.output(first);
        let across = bands.iter().map(|band| band[0][1].len()).max().unwrap_or(0) as u64;
        let line_bytes = across * graph.tensors[tensor as usize].pixel_bytes;
        let extent = graph.tensors[tensor as usize].plane[self.tiling.roll as usize];
        let mut result = Vec::new();
        for stripe in self.stripes(extent) {
            let mut front = Vec::new();
            for staging in [Staging::InPlace, Staging::Whole] {
                let Some((staged_bytes, own_cycles)) = self.own_cost(first, stripe, staging, bands) else { continue };
                if open.is_empty() {
                    front.push(self.open(stripe, staging, staged_bytes, own_cycles, None));
                }
                for state in open {
                    let rows = if interior { self.rows_alive(first, stripe, state.node) } else { 0 };
                    let bytes = state.inner_bytes + staged_bytes + aligned(rows as u64 * line_bytes);
                    if bytes <= self.limit_bytes {
                        front.push(self.open(stripe, staging, bytes, state.cycles + own_cycles, Some(state.node)));
                    }
                }
            }
            let mut kept = thin(pareto_front(front), self.options.resolution);
            crowd(&mut kept, self.options.max_points);
            result.extend(kept);
        }
        result
    }

    fn open(&mut self, stripe: i64, staging: Staging, inner_bytes: u64, cycles: u64, next: Option<u32>) -> Open {
        self.nodes.push(Node { stripe, staging, next });
        Open { node: (self.nodes.len() - 1) as u32, inner_bytes, cycles }
    }

    fn stripes(&self, extent: i64) -> Vec<i64> {
        let mut found: Vec<i64> = self.options.stripes.iter().copied().filter(|&s| s < extent).collect();
        found.push(extent);
        found
    }

    /// Staged bytes and cycles of one Part over all bands.
    fn own_cost(
        &mut self,
        part: PartId,
        stripe: i64,
        staging: Staging,
        bands: &[Vec<[Span; 2]>],
    ) -> Option<(u64, u64)> {
        let constant_bytes = self.graph.kernel(part)?.constant_bytes;
        let (source, bytes, copy) = match staging {
            Staging::InPlace => (Source::InPlace, 0, 0),
            _ if constant_bytes == 0 => return None,
            _ => (Source::Staged, aligned(constant_bytes), staging_cycles(&self.graph.device, constant_bytes)),
        };
        let mut cycles = 0;
        for band in bands {
            let [along, across] = band[0];
            for (extent, many) in [(stripe.min(along.len()), along.len() / stripe), (along.len() % stripe, 1)] {
                if extent > 0 && many > 0 {
                    let mut plane = [extent; 2];
                    plane[self.tiling.roll.other() as usize] = across.len();
                    cycles += self.costs.stripe(self.graph, part, plane, source)?.cycles * many as u64;
                }
            }
        }
        Some((bytes, self.copies.cycles(cycles, copy, 0)))
    }

    /// Lines of Part `first`'s output that a rolling buffer must hold, given the group that it is put in front of.
    fn rows_alive(&mut self, first: PartId, stripe: i64, next: u32) -> i64 {
        let tensor = self.graph.output(first);
        let reach = *self.graph.consumers[tensor as usize].last().unwrap_or(&first);
        let mut stripes = vec![stripe];
        let mut node = Some(next);
        for _ in first..reach {
            let Some(index) = node else { break };
            stripes.push(self.nodes[index as usize].stripe);
            node = self.nodes[index as usize].next;
        }
        self.rows.alive(self.graph, tensor, first, reach, self.tiling.roll, stripes)
    }

    fn candidate(&self, first: PartId, state: &Open, edge: Edge) -> Candidate {
        let (mut stripes, mut staging) = (Vec::new(), Vec::new());
        let mut node = Some(state.node);
        while let Some(index) = node {
            let decision = &self.nodes[index as usize];
            stripes.push(decision.stripe);
            staging.push(decision.staging);
            node = decision.next;
        }
        let plan = self.plan(first, stripes, staging);
        let own_bytes = state.inner_bytes + edge.peak_bytes(self.graph, &plan);
        Candidate { plan, own_bytes, cycles: state.cycles }
    }
}

/// Keep at most `limit` points of a front, its ends among them, evenly by rank.
fn crowd<T: Copy>(front: &mut Vec<T>, limit: usize) {
    if front.len() > limit && limit > 1 {
        let last = front.len() - 1;
        *front = (0..limit).map(|i| front[i * last / (limit - 1)]).collect();
    }
}

/// Key of a walk: producer, rolling axis, and the stripe extents of the Parts it passes.
type RowKey = (TensorId, Axis, Vec<i64>);

/// Rows alive of a tensor, by its producer's and readers' stripes.
#[derive(Default)]
struct RowTable {
    known: HashMap<RowKey, i64>,
}

impl RowTable {
    /// Rows that a rolling buffer of the output of Part `first` needs when Parts `first..=reach` run with `stripes`.
    fn alive(
        &mut self,
        graph: &CascaderGraph,
        tensor: TensorId,
        first: PartId,
        reach: PartId,
        roll: Axis,
        stripes: Vec<i64>,
    ) -> i64 {
        let key = (tensor, roll, stripes);
        if let Some(&rows) = self.known.get(&key) {
            return rows;
        }
        let stripes = key.2.clone();
        let stripe = stripes[0];
        let staging = vec![Staging::InPlace; stripes.len()];
        let plan = Plan { first, last: reach, tiling: Tiling { roll, tiles: 1 }, stripes, staging };
        let boxes = wanted(graph, &plan, 0);
        let all = boxes[0][0].len();
        let mut walk = Walk::new(graph, &plan, boxes.iter().map(|b| b[0]).collect());
        walk.run(&mut |_, _| {});
        let rows = ((walk.alive[0] + stripe - 1) / stripe * stripe).min(all);
        self.known.insert(key, rows);
        rows
    }
}
