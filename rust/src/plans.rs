//! Plans for every group of consecutive Parts: stripe extents, bands, rolling buffers, staged constants.
//!
//! For a fixed last Part and tiling, groups grow backwards one Part at a time. What a rolling buffer holds depends on the
//! stripes of its producer and its consumers only, so buffers and cycles of a group are sums over its Parts, and the front
//! of (buffers, cycles) is all that must be remembered of a group: one for each choice of stripes of those Parts that a
//! buffer further ahead depends on. In a chain that is the group's first Part alone; under an open fork it is every Part up
//! to the fork's last reader. What a closed group really has in use is `occupancy`'s to say.
//! Owns the enumeration. Does not decide which Plans make up the network, and does not place buffers.

use smallvec::SmallVec;

use crate::costs::{staging_cycles, Costs};
use crate::graph::{aligned, CascaderGraph, PartId};
use crate::occupancy::{Occupancy, Profile, Share};
use crate::options::{Copies, Options};
use crate::pareto::{keep_front, keep_minimal, merge_front, thin, thin_to, Epsilon, Point};
use crate::performance::{Cost, Source};
use crate::prefixes::{limit_bytes, Known, Prefixes};
use crate::program::{Plan, Staging};
use crate::rolling::{RowTable, Sheet};
use crate::stripe::{Axis, Span, Tiling};
use crate::walk::wanted_of;

/// Cycles of kernels, and those of them that keep the memory of constants busy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cycles {
    /// All.
    pub all: u64,
    /// Of these, those that keep the memory of constants busy.
    pub constants: u64,
}

impl Cycles {
    fn plus(self, cost: &Cost, times: u64) -> Cycles {
        Cycles { all: self.all + cost.cycles * times, constants: self.constants + cost.constants * times }
    }

    fn and(self, other: Cycles) -> Cycles {
        Cycles { all: self.all + other.all, constants: self.constants + other.constants }
    }
}

/// A Plan of a group with what it costs.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    tiling: Tiling,
    node: u32,
    /// Most bytes in the arena while it runs, whatever else the network still wants included.
    pub bytes: u64,
    /// Modelled cycles.
    pub cycles: u64,
    /// Cycles of its kernels alone, whatever copies are taken to cost.
    pub kernels: Cycles,
}

impl Candidate {
    /// Whether one for Part `part` on its own cuts it into stripes.
    fn is_striped(&self, graph: &CascaderGraph, part: PartId, nodes: &[Node]) -> bool {
        let extent = |part| graph.tensors[graph.output(part) as usize].plane[0];
        graph.kernel(part).is_some() && nodes[self.node as usize].stripe < extent(part)
    }
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
    pub by_last: Vec<Vec<Vec<Candidate>>>,
    /// Open groups looked at.
    pub considered: u64,
    /// The coarsest thinning by which `Options::max_points` cost open groups; None if it did not.
    pub crowded: Option<Epsilon>,
    /// What they make together.
    pub growing: Prefixes,
    /// The same without Plans that stripe a Part on its own to let its output grow into its input: rows of such outputs
    /// drift through the arena, which takes the fewest live bytes but is hard to place.
    pub steady: Prefixes,
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
        }
    }

    /// How a candidate's Parts read their constants, in their order.
    pub fn staging(&self, candidate: &Candidate) -> impl Iterator<Item = Staging> + '_ {
        self.chain(candidate.node).map(|node| node.staging)
    }

    /// Take the Plans of all groups that end with the next Part.
    fn finish(&mut self, graph: &CascaderGraph, groups: Vec<Vec<Candidate>>, resolution: u64) {
        let last = self.by_last.len() as PartId;
        let numbered = groups.iter().map(|group| (0u32..).zip(group).collect::<Vec<_>>());
        let mut numbered: Vec<Vec<(u32, &Candidate)>> = numbered.collect();
        self.growing.push(&numbered, 4 * resolution);
        let nodes = &self.nodes;
        numbered[0].retain(|(_, candidate)| !candidate.is_striped(graph, last, nodes));
        self.steady.push(&numbered, 4 * resolution);
        self.by_last.push(groups);
    }

    fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    fn chain(&self, node: u32) -> impl Iterator<Item = &Node> {
        std::iter::successors(Some(&self.nodes[node as usize]), |node| node.next.map(|i| &self.nodes[i as usize]))
    }
}

/// The decisions for the first Part of a group under construction, and the group that it extends.
#[derive(Clone, Copy, Debug)]
struct Node {
    stripe: i64,
    staging: Staging,
    rolling_bytes: u64,
    next: Option<u32>,
}

/// The tiling under which rows of whole tensors appear and die in order.
const WHOLE_ROWS: Tiling = Tiling { roll: Axis::Height, tiles: 1 };

/// A group under construction: bytes of its rolling buffers and staged constants, and its cycles.
#[derive(Clone, Copy)]
struct Open {
    node: Node,
    index: u32,
    bytes: u64,
    cycles: u64,
    kernels: Cycles,
}

/// Open groups that are alike to every buffer still to come: same stripes of the Parts that such a buffer depends on.
struct Bucket {
    stripes: SmallVec<[i64; 4]>,
    front: Vec<Open>,
}

/// An open group extended by one Part, in few words, as most of them are dropped at once.
#[derive(Clone, Copy)]
struct Step {
    bytes: u64,
    cycles: u64,
    /// The open group that it extends: its bucket and its rank there. Nothing is there to extend before a group's last Part.
    bucket: u32,
    rank: u32,
    /// Which of the ways to run the Part.
    choice: u32,
}

impl Step {
    /// The group itself, which extends one of `open`; its buffer in front of each bucket of those takes `rolling` bytes.
    fn grown(&self, stripe: i64, open: &[Bucket], rolling: &[u64], choices: &[Choice]) -> Open {
        let (bucket, choice) = (self.bucket as usize, &choices[self.choice as usize]);
        let before = open.get(bucket).map(|bucket| &bucket.front[self.rank as usize]);
        let node = Node {
            stripe,
            staging: choice.staging,
            rolling_bytes: rolling.get(bucket).copied().unwrap_or(0),
            next: before.map(|state| state.index),
        };
        let kernels = before.map_or(choice.kernels, |state| state.kernels.and(choice.kernels));
        Open { node, index: 0, bytes: self.bytes, cycles: self.cycles, kernels }
    }
}

impl Point for Step {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// Extents of bands in pixels, along and across the rolling axis, and how many bands in a row have them.
struct Shape {
    along: i64,
    across: i64,
    count: u64,
}

fn shapes(boxes: &[[Span; 2]]) -> Vec<Shape> {
    let extents = |wanted: &[Span; 2]| wanted.map(|span| span.len());
    let alike = boxes.chunk_by(|a, b| extents(a) == extents(b));
    alike
        .map(|alike| Shape { along: alike[0][0].len(), across: alike[0][1].len(), count: alike.len() as u64 })
        .collect()
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
        let firsts = (0..=last).rev().take(options.max_group.max(1));
        let firsts: Vec<PartId> = firsts
            .take_while(|&first| first == last || graph.kernel(first).is_some() && graph.kernel(last).is_some())
            .collect();
        let sinks: Vec<PartId> = firsts.iter().map(|&first| sink(graph, first, last)).collect();
        let mut found = vec![single(graph, last, copies, costs, &mut table)];
        let mut known = [Known::default(), Known::default()];
        let alone: Vec<&Candidate> = found[0].iter().collect();
        for (known, prefixes) in known.iter_mut().zip([&table.growing, &table.steady]) {
            known.add(prefixes.of(last as usize), &alone);
        }
        if graph.kernel(last).is_some() {
            let tilings = tilings(graph, last, options);
            for tilings in tilings.chunk_by(|a, b| a.roll == b.roll) {
                let groups: Vec<Occupancy> =
                    firsts.iter().map(|&first| Occupancy::new(graph, first, last, tilings[0].roll)).collect();
                for &tiling in tilings {
                    let (table, rows, known) = (&mut table, &mut rows, &mut known);
                    let (groups, sinks) = (&groups[..], &sinks[..]);
                    Grower {
                        graph,
                        options,
                        copies,
                        limit_bytes,
                        costs,
                        rows,
                        table,
                        known,
                        groups,
                        sinks,
                        last,
                        tiling,
                    }
                    .run(&mut found);
                }
            }
        }
        for group in &mut found {
            thin(group, options.resolution);
        }
        table.finish(graph, found, options.resolution);
    }
    table
}

/// Plans of a group of one: unstriped, constants in place, staged whole, or staged in slices.
fn single(
    graph: &CascaderGraph,
    part: PartId,
    copies: Copies,
    costs: &mut Costs,
    table: &mut PlanTable,
) -> Vec<Candidate> {
    let whole_bytes = Occupancy::new(graph, part, part, WHOLE_ROWS.roll).whole_bytes();
    let mut candidate = |staging: Staging, stripe: i64, staged: u64, cycles: u64, kernels: Cycles| Candidate {
        tiling: WHOLE_ROWS,
        node: table.push(Node { stripe, staging, rolling_bytes: 0, next: None }),
        bytes: whole_bytes + staged,
        cycles,
        kernels,
    };
    let Some(kernel) = graph.kernel(part) else {
        return vec![candidate(Staging::InPlace, 1, 0, 0, Cycles::default())];
    };
    let plane = graph.tensors[graph.output(part) as usize].plane;
    let mut found = Vec::new();
    let copy = staging_cycles(&graph.device, kernel.staged_bytes());
    if let Some(cost) = costs.stripe(graph, part, plane, Source::InPlace) {
        let cycles = copies.in_place(cost.cycles, cost.constants, copy);
        found.push(candidate(Staging::InPlace, plane[0], 0, cycles, Cycles::default().plus(&cost, 1)));
    }
    if let Some(cost) = costs.stripe(graph, part, plane, Source::Staged).filter(|_| kernel.staged_bytes() > 0) {
        let cycles = copies.cycles(cost.cycles, copy, 0);
        let kernels = Cycles::default().plus(&cost, 1);
        found.push(candidate(Staging::Whole, plane[0], aligned(kernel.staged_bytes()), cycles, kernels));
    }
    if let Some(sliced) = &kernel.sliced {
        let slices = 0..sliced.bytes.len() as u32;
        let kernels: Option<u64> =
            slices.map(|i| costs.stripe(graph, part, plane, Source::Slice(i)).map(|cost| cost.cycles)).sum();
        let mut slices = sliced.bytes.iter().map(|&bytes| staging_cycles(&graph.device, bytes));
        let (first, rest) = (slices.next().unwrap_or(0), slices.sum());
        let pairs = sliced.bytes.windows(2).map(|pair| aligned(pair[0]) + aligned(pair[1]));
        if let (Some(kernels), Some(bytes)) = (kernels, pairs.max()) {
            let cycles = copies.cycles(kernels, first, rest);
            found.push(candidate(Staging::Sliced, plane[0], bytes, cycles, Cycles { all: kernels, constants: rest }));
        }
    }
    keep_front(&mut found);
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

/// First Part at or after the last reader of Part `first`'s output in a group that ends with `last` such that nothing made
/// in between is read after it; `first` where the output is not the group's alone.
fn sink(graph: &CascaderGraph, first: PartId, last: PartId) -> PartId {
    let readers_end = |part: PartId| {
        let readers = &graph.consumers[graph.output(part) as usize];
        readers.iter().copied().rfind(|&reader| reader <= last)
    };
    if graph.kernel(first).is_none() || graph.outlives(graph.output(first), last) {
        return first;
    }
    let Some(mut sink) = readers_end(first) else { return first };
    let mut part = first + 1;
    while part < sink {
        sink = sink.max(readers_end(part).unwrap_or(part));
        part += 1;
    }
    sink
}

/// One way to run the Part that a group is extended by.
struct Choice {
    staging: Staging,
    staged_bytes: u64,
    cycles: u64,
    kernels: Cycles,
}

struct Grower<'a> {
    graph: &'a CascaderGraph,
    options: &'a Options,
    copies: Copies,
    limit_bytes: u64,
    costs: &'a mut Costs,
    rows: &'a mut RowTable,
    table: &'a mut PlanTable,
    /// What is known of the Parts up to `last`, with and without single Parts in stripes.
    known: &'a mut [Known; 2],
    /// Occupancies by number of Parts minus one.
    groups: &'a [Occupancy],
    /// By number of Parts minus one, the Part at which everything that the first one feeds has come together.
    sinks: &'a [PartId],
    last: PartId,
    tiling: Tiling,
}

impl Grower<'_> {
    fn run(&mut self, found: &mut Vec<Vec<Candidate>>) {
        let (graph, last, tiles) = (self.graph, self.last, self.tiling.tiles);
        let mut open: Vec<Bucket> = Vec::new();
        // Boxes wanted of each Part, from the last one back, per band.
        let mut bands: Vec<Vec<[Span; 2]>> = vec![Vec::new(); tiles as usize];
        for size in 0..self.groups.len() {
            let first = last - size as PartId;
            let interior = size > 0 && !graph.outlives(graph.output(first), last);
            if size > 0 && !interior && tiles > 1 {
                break;
            }
            for (tile, boxes) in (0..tiles).zip(&mut bands) {
                let wanted = wanted_of(graph, self.tiling, last, first, tile, |part| boxes[(last - part) as usize]);
                boxes.push(wanted);
            }
            let boxes: Vec<[Span; 2]> = bands.iter().map(|boxes| boxes[size]).collect();
            let ends: Vec<Span> = bands[0].iter().rev().map(|wanted| wanted[0]).collect();
            open = self.extend(first, &open, interior, &boxes, &ends);
            if open.is_empty() {
                break;
            }
            // A group of one is worth striping only to let its output grow into its input.
            if size > 0 || self.tiling == WHOLE_ROWS {
                if found.len() <= size {
                    found.resize_with(size + 1, Vec::new);
                }
                self.close(size, &open, &ends, &mut found[size]);
            }
        }
    }

    /// Extend every open group by Part `first`, in every way, and keep the front per bucket.
    fn extend(
        &mut self,
        first: PartId,
        open: &[Bucket],
        interior: bool,
        boxes: &[[Span; 2]],
        ends: &[Span],
    ) -> Vec<Bucket> {
        let graph = self.graph;
        let tensor = graph.output(first);
        let across = boxes.iter().map(|wanted| wanted[1].len()).max().unwrap_or(0) as u64;
        let line_bytes = across * graph.tensors[tensor as usize].pixel_bytes;
        let extent = graph.tensors[tensor as usize].plane[self.tiling.roll as usize];
        let kept = (self.reach(first) - first) as usize;
        let shapes = shapes(boxes);
        let mut sheet = self.sheet(first, interior, ends);
        let (mut result, mut rolling) = (Vec::new(), Vec::new());
        let (mut steps, mut spare) = (Vec::new(), Vec::new());
        for stripe in self.stripes(extent) {
            let choices = self.choices(first, stripe, &shapes);
            rolling.clear();
            match &mut sheet {
                Some(sheet) => {
                    let next = open.iter().map(|bucket| &bucket.stripes[..]);
                    sheet.alive(stripe, next, |rows| rolling.push(aligned(rows as u64 * line_bytes)));
                }
                None => rolling.resize(open.len(), 0),
            }
            let mut fresh = Vec::new();
            if open.is_empty() {
                fresh.push((SmallVec::from_slice(&[stripe]), self.begin(stripe, &choices)));
            }
            let mut bucket = 0;
            for alike in open.chunk_by(|a, b| a.stripes[..kept] == b.stripes[..kept]) {
                self.step(alike, bucket, &rolling, &choices, &mut steps, &mut spare);
                bucket += alike.len();
                if self.by_profile() {
                    let grown = |step: &Step| step.grown(stripe, open, &rolling, &choices);
                    self.keep(first, kept, ends, grown, &mut steps);
                }
                let mut stripes = SmallVec::from_slice(&[stripe]);
                stripes.extend_from_slice(&alike[0].stripes[..kept]);
                thin(&mut steps, self.options.resolution);
                fresh.push((stripes, steps.clone()));
                steps.clear();
            }
            self.bound(&mut fresh);
            for (stripes, steps) in fresh.into_iter().filter(|(_, steps)| !steps.is_empty()) {
                let front = steps.iter().map(|step| step.grown(stripe, open, &rolling, &choices)).collect();
                result.push(Bucket { stripes, front });
            }
        }
        for state in result.iter_mut().flat_map(|bucket: &mut Bucket| &mut bucket.front) {
            state.index = self.table.push(state.node);
        }
        if let Some(sheet) = sheet {
            self.rows.keep(sheet);
        }
        result
    }

    /// Every way to extend open groups that are `alike`, the first of which is number `bucket`; their front, unless they
    /// are told apart by their profiles.
    fn step(
        &mut self,
        alike: &[Bucket],
        bucket: usize,
        rolling: &[u64],
        choices: &[Choice],
        steps: &mut Vec<Step>,
        spare: &mut Vec<Step>,
    ) {
        for (number, bucket) in (bucket as u32..).zip(alike) {
            for (choice, way) in (0u32..).zip(choices) {
                let bytes = way.staged_bytes + rolling[number as usize];
                let more = (0u32..).zip(&bucket.front).map(|(rank, state)| Step {
                    bytes: state.bytes + bytes,
                    cycles: state.cycles + way.cycles,
                    bucket: number,
                    rank,
                    choice,
                });
                if self.by_profile() {
                    self.table.considered += bucket.front.len() as u64;
                    steps.extend(more);
                } else {
                    let within = more.take_while(|step| step.bytes <= self.limit_bytes);
                    let counted = within.inspect(|_| self.table.considered += 1);
                    merge_front(steps, counted, spare);
                }
            }
        }
    }

    fn begin(&mut self, stripe: i64, choices: &[Choice]) -> Vec<Step> {
        let tensor = &self.graph.tensors[self.graph.output(self.last) as usize];
        let coming = if self.tiling == WHOLE_ROWS { stripe * tensor.plane[1] } else { 0 } as u64 * tensor.pixel_bytes;
        let step = |(choice, way): (u32, &Choice)| {
            let bytes = way.staged_bytes + coming;
            Step { bytes, cycles: way.cycles, bucket: 0, rank: 0, choice }
        };
        let mut front: Vec<Step> = (0u32..).zip(choices).map(step).collect();
        keep_front(&mut front);
        self.table.considered += front.len() as u64;
        thin(&mut front, self.options.resolution);
        front
    }

    /// Whether open groups are told apart by their profiles, which is exact, or by the sum of their buffers.
    fn by_profile(&self) -> bool {
        self.options.resolution == 0 && self.tiling.tiles == 1
    }

    /// Keep those open groups from Part `first` on whose profiles none of the others makes useless, all of them alike in the
    /// stripes of Parts `first..=first + reach`.
    fn keep(&self, first: PartId, reach: usize, ends: &[Span], grown: impl Fn(&Step) -> Open, steps: &mut Vec<Step>) {
        let group = &self.groups[(self.last - first) as usize];
        let profile = |step: Step| {
            let (stripes, shares) = self.decisions(first, &grown(&step).node);
            (step, group.profile(&stripes, ends, &shares, reach))
        };
        let mut profiled: Vec<(Step, Profile)> = steps.drain(..).map(profile).collect();
        keep_minimal(&mut profiled, |a, b| a.0.cycles <= b.0.cycles && a.1.is_within(&b.1));
        steps.extend(profiled.into_iter().map(|(step, _)| step));
    }

    /// Stripes and shares of Parts `first..` of the group that a node begins.
    fn decisions(&self, first: PartId, node: &Node) -> (SmallVec<[i64; 16]>, SmallVec<[Share; 16]>) {
        let (mut stripes, mut shares) = (SmallVec::new(), SmallVec::new());
        let rest = node.next.into_iter().flat_map(|next| self.table.chain(next));
        for (part, node) in (first..).zip(std::iter::once(node).chain(rest)) {
            let constant_bytes = self.graph.kernel(part).map_or(0, |kernel| kernel.constant_bytes);
            let staged = if node.staging == Staging::Whole { aligned(constant_bytes) } else { 0 };
            stripes.push(node.stripe);
            shares.push(Share { rolling: node.rolling_bytes, staged });
        }
        (stripes, shares)
    }

    /// Last Part whose stripes a buffer ahead of Part `first` depends on; at least `first`.
    fn reach(&self, first: PartId) -> PartId {
        let ahead = &self.sinks[((self.last - first) as usize + 1).min(self.sinks.len())..];
        ahead.iter().copied().max().unwrap_or(first).max(first)
    }

    /// Thin the buckets of one stripe extent, which are thin each, to their number of points.
    fn bound(&mut self, fresh: &mut [(SmallVec<[i64; 4]>, Vec<Step>)]) {
        let limit = self.options.max_points;
        if fresh.iter().map(|(_, steps)| steps.len()).sum::<usize>() <= limit {
            return;
        }
        let (mut front, mut spare) = (Vec::new(), Vec::new());
        for (owner, (_, steps)) in (0u32..).zip(&*fresh) {
            merge_front(&mut front, steps.iter().map(|step| Owned { owner, step: *step }), &mut spare);
        }
        let taken = thin_to(&mut front, self.options.resolution, limit);
        self.table.crowded = Some(self.table.crowded.map_or(taken, |coarsest| coarsest.max(taken)));
        for (_, steps) in fresh.iter_mut() {
            steps.clear();
        }
        for Owned { owner, step } in front {
            fresh[owner as usize].1.push(step);
        }
    }

    fn stripes(&self, extent: i64) -> Vec<i64> {
        let micro = self.graph.device.granule(self.tiling.roll);
        let even = self.options.divisions.iter().map(|n| ((extent + n - 1) / n + micro - 1) / micro * micro);
        let mut found: Vec<i64> = self.options.stripes.iter().copied().chain(even).filter(|&s| s < extent).collect();
        found.push(extent);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Ways to run Part `part` in stripes of `stripe` over all bands.
    fn choices(&mut self, part: PartId, stripe: i64, shapes: &[Shape]) -> Vec<Choice> {
        let constant_bytes = self.graph.kernel(part).map_or(0, |kernel| kernel.staged_bytes());
        let copy = staging_cycles(&self.graph.device, constant_bytes);
        let mut found = Vec::new();
        if let Some(cycles) = self.cycles(part, stripe, Source::InPlace, shapes) {
            let (kernels, cycles) = (cycles, self.copies.in_place(cycles.all, cycles.constants, copy));
            found.push(Choice { staging: Staging::InPlace, staged_bytes: 0, cycles, kernels });
        }
        if constant_bytes > 0 {
            if let Some(cycles) = self.cycles(part, stripe, Source::Staged, shapes) {
                let (kernels, cycles) = (cycles, self.copies.cycles(cycles.all, copy, 0));
                found.push(Choice { staging: Staging::Whole, staged_bytes: aligned(constant_bytes), cycles, kernels });
            }
        }
        found
    }

    fn cycles(&mut self, part: PartId, stripe: i64, source: Source, shapes: &[Shape]) -> Option<Cycles> {
        let mut cycles = Cycles::default();
        for &Shape { along, across, count } in shapes {
            for (extent, many) in [(stripe.min(along), along / stripe), (along % stripe, 1)] {
                if extent > 0 && many > 0 {
                    let mut plane = [extent; 2];
                    plane[self.tiling.roll.other() as usize] = across;
                    cycles = cycles.plus(&self.costs.stripe(self.graph, part, plane, source)?, many as u64 * count);
                }
            }
        }
        Some(cycles)
    }

    /// How many lines of Part `first`'s output a rolling buffer must hold; None where the output is not the group's alone.
    fn sheet(&mut self, first: PartId, interior: bool, ends: &[Span]) -> Option<Sheet> {
        let reach = (self.sinks[(self.last - first) as usize] - first) as usize;
        interior.then(|| self.rows.sheet(self.graph, first, self.tiling.roll, &ends[..=reach]))
    }

    /// Add the candidates of the group of `size` + 1 Parts that its open ones make to those `found`.
    fn close(&mut self, size: usize, open: &[Bucket], ends: &[Span], found: &mut Vec<Candidate>) {
        let occupancy = &self.groups[size];
        let mut states: Vec<&Open> = open.iter().flat_map(|bucket| &bucket.front).collect();
        states.sort_by_key(|state| (state.cycles, state.bytes));
        let covered = (self.last as usize) - size;
        let prefixes = [&self.table.growing, &self.table.steady].map(|prefixes| prefixes.of(covered));
        let bars = [0, 1].map(|view| self.known[view].bars(prefixes[view]));
        let mut fresh = Vec::new();
        let mut leanest = u64::MAX;
        for state in states {
            // What is no leaner than something at least as fast is of no use.
            let known = found.partition_point(|known| known.cycles > state.cycles);
            leanest = found.get(known).map_or(leanest, |known| leanest.min(known.bytes));
            leanest =
                bars.iter().map(|bars| limit_bytes(bars, state.cycles)).max().map_or(0, |of_use| leanest.min(of_use));
            if leanest == 0 {
                break;
            }
            let bytes = if self.tiling.tiles == 1 {
                self.peak_bytes(size, state, ends, leanest)
            } else {
                Some(occupancy.whole_bytes() + state.bytes).filter(|&bytes| bytes < leanest)
            };
            if let Some(bytes) = bytes {
                leanest = bytes;
                let (tiling, Open { index: node, cycles, kernels, .. }) = (self.tiling, *state);
                fresh.push(Candidate { tiling, node, bytes, cycles, kernels });
            }
        }
        if fresh.is_empty() {
            return;
        }
        let steady =
            |candidate: &&Candidate| size > 0 || !candidate.is_striped(self.graph, self.last, &self.table.nodes);
        let [growing, settled] = self.known;
        growing.add(prefixes[0], &fresh.iter().rev().collect::<Vec<_>>());
        settled.add(prefixes[1], &fresh.iter().rev().filter(steady).collect::<Vec<_>>());
        found.extend(fresh);
        keep_front(found);
    }

    fn peak_bytes(&self, size: usize, state: &Open, ends: &[Span], limit_bytes: u64) -> Option<u64> {
        let first = self.last - size as PartId;
        let (stripes, shares) = self.decisions(first, &state.node);
        self.groups[size].peak_bytes(&stripes, ends, &shares, limit_bytes)
    }
}

/// An extended group and the number of its bucket.
#[derive(Clone, Copy)]
struct Owned {
    owner: u32,
    step: Step,
}

impl Point for Owned {
    fn memory_bytes(&self) -> u64 {
        self.step.bytes
    }
    fn cycles(&self) -> u64 {
        self.step.cycles
    }
}
