//! Groups grown backwards, one Part at a time, for a given last Part `l` and a given tiling.
//!
//! - State: open groups `f..=l` of Parts, each with `bytes = sum of B(p) + S(p)` (rolling buffers, staged constants)
//!   and `cycles = sum of c(p)`, in buckets. The key of a bucket is the stripes of Parts `f..=reach(f)`, where
//!   `reach(f)` is the last Part on whose stripes a buffer of Parts ahead of `f` depends. In a chain that is `f`
//!   alone; under an open fork it is the Part at which all that the fork feeds has come together. Where fronts are kept
//!   whole, it is also the last one that reads an input of the group that Parts ahead read, too.
//! - Step: a Part `f` with stripes `h` and a way `w` to read its constants turns `(bytes, cycles)` of a bucket into
//!   `(bytes + rows(f; h, key) * line bytes + S(w), cycles + c(f, h, w))`.
//! - Invariant: what Parts ahead add to a group depends on its bucket alone. So the front of (bytes, cycles) of each
//!   bucket is all that must be remembered.
//! - Cost: with `H` stripe extents, two ways and `P` groups kept for each extent, `2 * H^2 * P` groups are looked at
//!   for each Part that is added.
//!
//! These bytes only rank open groups. What a closed group has in use is counted by `live_bytes`.
//! Owns open groups and how they are closed. The last Parts, tilings and variants of a Part are given.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

use std::ops::Range;

use smallvec::SmallVec;

use super::part_variants::{Cycles, PartVariant, PartVariants, Stripes};
use super::table::{GroupPlan, Node, PlanTable};
use crate::model::graph::{CascaderGraph, Input};
use crate::model::ids::PartId;
use crate::model::memory::aligned;
use crate::model::plan::Staging;
use crate::plans::bands::Bands;
use crate::plans::live_bytes::{LiveBytes, Profile, Share};
use crate::plans::made_rows::StripeId;
use crate::plans::open_group_bound::{CloseCost, OpenGroupBound};
use crate::plans::options::Options;
use crate::plans::pass::Pass;
use crate::plans::prefix_fronts::{limit_bytes, DominanceBound, KnownFront};
use crate::plans::rolling_rows::{RowCache, RowTable};
use crate::stripe::{Span, Tiling};
use crate::util::interrupt;
use crate::util::pareto::{keep_front, keep_minimal, thin, thin_to, FrontBuilder, Point};

/// An open group: the sum of its rolling buffers and staged constants, and its cycles.
#[derive(Clone, Copy)]
struct Open {
    node: Node,
    index: u32,
    bytes: u64,
    cycles: u64,
    kernels: Cycles,
    /// The most bytes that one of its Parts stages and fills.
    most_bytes: u64,
}

/// Open groups with the same stripes of all Parts on which a buffer still to come depends.
struct Bucket {
    stripes: SmallVec<[i64; 4]>,
    front: Vec<Open>,
}

/// An open group extended by one Part. It is kept small because most of them are dropped at once.
#[derive(Clone, Copy)]
struct GrowthStep {
    bytes: u64,
    cycles: u64,
    /// Its number among all that were looked at: `Extending::grown` finds by it what was extended, and how.
    number: u32,
}

/// Extended groups with consecutive numbers from `first` on: all groups of one bucket, in its order, extended in one
/// way.
struct Run {
    first: u32,
    bucket: u32,
    way: u32,
}

/// The work of extending groups by one Part whose stripes have one extent.
struct Extending<'a> {
    stripe: i64,
    open: &'a [Bucket],
    /// PartVariants to run the Part.
    ways: &'a [PartVariant],
    /// Bytes of the buffer in front of each bucket.
    rolling: &'a [u64],
    runs: Vec<Run>,
    /// Groups looked at so far.
    count: u32,
}

impl Extending<'_> {
    /// The extended group in full. The last Part of a group extends nothing.
    fn grown(&self, step: &GrowthStep) -> Open {
        let run = &self.runs[self.runs.partition_point(|run| run.first <= step.number) - 1];
        let (bucket, way) = (run.bucket as usize, &self.ways[run.way as usize]);
        let before = self.open.get(bucket).map(|bucket| &bucket.front[(step.number - run.first) as usize]);
        let node = Node {
            stripe: self.stripe,
            staging: way.staging,
            rolling_bytes: self.rolling.get(bucket).copied().unwrap_or(0),
            next: before.map(|state| state.index),
        };
        let kernels = before.map_or(way.kernels, |state| state.kernels.and(way.kernels));
        let most_bytes = before.map_or(step.bytes, |state| state.most_bytes.max(way.staged_bytes + node.rolling_bytes));
        Open { node, index: 0, bytes: step.bytes, cycles: step.cycles, kernels, most_bytes }
    }
}

impl Point for Open {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

impl Point for GrowthStep {
    fn memory_bytes(&self) -> u64 {
        self.bytes
    }
    fn cycles(&self) -> u64 {
        self.cycles
    }
}

/// What it takes to grow the groups of one last Part and tiling.
pub struct OpenGroups<'a, 'g> {
    pub graph: &'g CascaderGraph,
    pub options: &'a Options,
    pub pass: &'a Pass,
    pub ways: &'a mut PartVariants<'g>,
    pub rows: &'a mut RowTable,
    pub table: &'a mut PlanTable,
    /// What is known of the Parts up to `last`, with and without single Parts in stripes.
    pub known: &'a mut [KnownFront; 2],
    /// What live bytes depend on besides decisions, by number of Parts minus one.
    pub groups: &'a [LiveBytes],
    /// By number of Parts minus one, the Part at which everything that the first one feeds has come together.
    pub sinks: &'a [PartId],
    pub last: PartId,
    /// How far back they may reach, and what is wanted of each Part.
    pub bands: &'a Bands<'g>,
    /// The stripe at which the last Plan that was walked took too much.
    pub first_failed: StripeId,
    /// Scratch memory for points whose front is wanted.
    pub scratch: &'a mut FrontBuilder,
}

impl OpenGroups<'_, '_> {
    /// Grow groups and add their Plans to `found`, by number of Parts minus one.
    pub fn run(&mut self, found: &mut Vec<Vec<GroupPlan>>) {
        let mut open: Vec<Bucket> = Vec::new();
        let bands = self.bands;
        let bound = self.bound_open_groups();
        for (size, first) in bands.firsts().enumerate() {
            let ends = bands.ends(first);
            open = self.extend(first, &open, bound.of(size), &ends);
            if open.is_empty() {
                break;
            }
            // Cutting a group of one saves bytes only where its output grows into its dying input, row by row.
            if size > 0 || self.bands.tiling == Tiling::WHOLE_ROWS {
                if found.len() <= size {
                    found.resize_with(size + 1, Vec::new);
                }
                self.close(size, &open, &ends[0], &mut found[size]);
            }
        }
    }

    /// Extend every open group by Part `first`, in every way, and keep the front per bucket.
    fn extend(&mut self, first: PartId, open: &[Bucket], bound: &[DominanceBound], ends: &[Vec<Span>]) -> Vec<Bucket> {
        let tensor = &self.graph.tensors[self.graph.output(first)];
        let line_bytes = self.bands.across(first) * tensor.pixel_bytes;
        let kept = self.reach(first).since(first);
        let stripes = self.ways.in_stripes(first, self.bands);
        let extents: Vec<i64> = stripes.iter().map(|stripes| stripes.extent).collect();
        // Bytes of the buffer in front of each bucket, by stripe extent.
        let mut buffers = vec![vec![0; open.len()]; stripes.len()];
        let interior = self.bands.is_interior(first);
        for ends in ends.iter().filter(|_| interior) {
            let mut row_cache = self.row_cache(first, ends, &extents);
            let mut bucket = 0;
            row_cache.alive(open.iter().map(|bucket| &bucket.stripes[..]), |rows| {
                for (buffers, &rows) in buffers.iter_mut().zip(rows) {
                    buffers[bucket] = aligned(rows as u64 * line_bytes).max(buffers[bucket]);
                }
                bucket += 1;
            });
            self.rows.keep(row_cache);
        }
        let mut result = Vec::new();
        for (&Stripes { extent: stripe, variants: ref ways }, rolling) in stripes.iter().zip(buffers) {
            let runs = Vec::with_capacity(open.len().max(1) * ways.len());
            let mut looked_at = Extending { stripe, open, ways, rolling: &rolling, runs, count: 0 };
            let mut fresh = Vec::with_capacity(open.len().max(1));
            if open.is_empty() {
                fresh.push((SmallVec::from_slice(&[stripe]), self.begin(&mut looked_at, bound)));
            }
            let mut bucket = 0;
            for alike in open.chunk_by(|a, b| a.stripes[..kept] == b.stripes[..kept]) {
                interrupt::ask();
                let buckets = bucket..bucket + alike.len();
                bucket = buckets.end;
                let mut steps = self.step(buckets, &mut looked_at);
                Self::drop_useless(&mut steps, &looked_at, bound);
                if self.by_profile() {
                    self.keep(first, kept, &ends[0], &looked_at, &mut steps);
                }
                thin(&mut steps, self.pass.resolution);
                let mut stripes = SmallVec::from_slice(&[stripe]);
                stripes.extend_from_slice(&alike[0].stripes[..kept]);
                fresh.push((stripes, steps));
            }
            self.truncate(kept, &mut fresh);
            for (stripes, steps) in fresh.into_iter().filter(|(_, steps)| !steps.is_empty()) {
                result.push(Bucket { stripes, front: steps.iter().map(|step| looked_at.grown(step)).collect() });
            }
        }
        for state in result.iter_mut().flat_map(|bucket: &mut Bucket| &mut bucket.front) {
            state.index = self.table.push(state.node);
        }
        result
    }

    /// Extend the open groups of buckets that become one bucket, in every way. Returns the front of the results, or
    /// all of them where profiles tell them apart.
    fn step(&mut self, buckets: Range<usize>, looked_at: &mut Extending) -> Vec<GrowthStep> {
        self.scratch.clear();
        let start = looked_at.count;
        let limit_bytes = if self.by_profile() { u64::MAX } else { self.pass.range.most_bytes };
        for bucket in buckets {
            for (way, &PartVariant { staged_bytes, cycles, .. }) in (0u32..).zip(looked_at.ways) {
                let bytes = staged_bytes + looked_at.rolling[bucket];
                let front = &looked_at.open[bucket].front;
                let fits = |state: &Open| state.bytes + bytes <= limit_bytes;
                let within = if front.last().is_none_or(fits) { front.len() } else { front.partition_point(fits) };
                looked_at.runs.push(Run { first: start + self.scratch.count() as u32, bucket: bucket as u32, way });
                self.scratch.add(&front[..within], bytes, cycles);
            }
        }
        looked_at.count += self.scratch.count() as u32;
        self.table.considered += self.scratch.count() as u64;
        let step = |(number, bytes, cycles)| GrowthStep { bytes, cycles, number: start + number as u32 };
        if self.by_profile() {
            self.scratch.all().map(step).collect()
        } else {
            self.scratch.front().map(step).collect()
        }
    }

    fn begin(&mut self, looked_at: &mut Extending, bound: &[DominanceBound]) -> Vec<GrowthStep> {
        let tensor = &self.graph.tensors[self.graph.output(self.last)];
        let rows = if self.bands.tiling == Tiling::WHOLE_ROWS { looked_at.stripe * tensor.plane[1] } else { 0 };
        let coming = rows as u64 * tensor.pixel_bytes;
        let mut front = Vec::new();
        for (way, &PartVariant { staged_bytes, cycles, .. }) in (0u32..).zip(looked_at.ways) {
            looked_at.runs.push(Run { first: way, bucket: 0, way });
            front.push(GrowthStep { bytes: staged_bytes + coming, cycles, number: way });
        }
        keep_front(&mut front);
        self.table.considered += front.len() as u64;
        Self::drop_useless(&mut front, looked_at, bound);
        thin(&mut front, self.pass.resolution);
        front
    }

    /// Drop the open groups from which no Plan of a front can grow.
    fn drop_useless(steps: &mut Vec<GrowthStep>, looked_at: &Extending, bound: &[DominanceBound]) {
        steps.retain(|step| {
            let limit = limit_bytes(bound, step.cycles);
            step.bytes < limit || limit > 0 && looked_at.grown(step).most_bytes < limit
        });
    }

    /// The bound of open groups, by the fronts so far. Exact fronts compare open groups by their profiles instead.
    fn bound_open_groups(&mut self) -> OpenGroupBound {
        if self.options.open_group_bound == 0 || self.by_profile() {
            return OpenGroupBound::unknown(self.groups.len());
        }
        let bands = self.bands;
        let groups = bands.firsts().zip(self.groups).map(|(first, group)| {
            let (beside_bytes, least_bytes) = (group.beside_bytes(bands.tiling.tiles), group.least_bytes());
            let closing = CloseCost { beside_bytes, least_bytes, thresholds: self.thresholds(first).concat() };
            (self.ways.fewest_cycles(first, bands), closing)
        });
        OpenGroupBound::new(&groups.collect::<Vec<_>>())
    }

    /// Whether open groups are compared by their profiles, which is exact, or by the sum of their buffers.
    fn by_profile(&self) -> bool {
        self.pass.resolution == 0 && self.bands.tiling.tiles == 1
    }

    /// Keep the open groups `first..=last` that no other one is as good as: in its whole profile and in cycles. All
    /// have the same stripes of Parts `first..=first + reach`.
    fn keep(&self, first: PartId, reach: usize, ends: &[Span], looked_at: &Extending, steps: &mut Vec<GrowthStep>) {
        let group = &self.groups[self.last.since(first)];
        let profile = |step: GrowthStep| {
            interrupt::ask();
            let (stripes, shares) = self.decisions(first, &looked_at.grown(&step).node);
            (step, group.profile(&stripes, ends, &shares, reach))
        };
        let mut profiled: Vec<(GrowthStep, Profile)> = steps.drain(..).map(profile).collect();
        keep_minimal(&mut profiled, |a, b| a.0.cycles <= b.0.cycles && a.1.is_within(&b.1));
        steps.extend(profiled.into_iter().map(|(step, _)| step));
    }

    /// Stripes and shares of Parts `first..` of the group that a node begins.
    fn decisions(&self, first: PartId, node: &Node) -> (SmallVec<[i64; 16]>, SmallVec<[Share; 16]>) {
        let (mut stripes, mut shares) = (SmallVec::new(), SmallVec::new());
        let rest = node.next.into_iter().flat_map(|next| self.table.chain(next));
        for (part, node) in first.through(self.last).zip(std::iter::once(node).chain(rest)) {
            let constant_bytes = self.graph.kernel(part).map_or(0, |kernel| kernel.staged_bytes());
            let staged = if node.staging == Staging::Whole { aligned(constant_bytes) } else { 0 };
            stripes.push(node.stripe);
            shares.push(Share { rolling: node.rolling_bytes, staged });
        }
        (stripes, shares)
    }

    /// Last Part whose stripes a buffer ahead of Part `first` depends on; at least `first`. Where profiles are compared,
    /// the rows in use of a shared input count as one.
    fn reach(&self, first: PartId) -> PartId {
        let ahead = &self.sinks[(self.last.since(first) + 1).min(self.sinks.len())..];
        let input = self.by_profile().then(|| self.shared_input(first)).flatten();
        ahead.iter().copied().chain(input).max().unwrap_or(first).max(first)
    }

    /// Last Part of the group that reads what dies in it and what Parts ahead of `first` read as well: which rows of that
    /// are in use depends on all of these.
    fn shared_input(&self, first: PartId) -> Option<PartId> {
        let is_shared = |input: &Input| {
            let is_made_before = self.graph.producer[input.tensor].is_none_or(|producer| producer < first);
            let is_read_before = || self.graph.consumers[input.tensor].iter().any(|&reader| reader < first);
            is_made_before && is_read_before() && !self.graph.outlives(input.tensor, self.last)
        };
        first.through(self.last).rev().find(|&part| self.graph.parts[part].inputs.iter().any(is_shared))
    }

    /// Bound the open groups of one stripe extent over all buckets: `max_points`, and fewer where more than
    /// `max_fork` Parts tell buckets apart, because measuring a buffer ahead then walks all of these Parts.
    fn truncate(&mut self, kept: usize, fresh: &mut [(SmallVec<[i64; 4]>, Vec<GrowthStep>)]) {
        let (max_points, max_fork) = (self.pass.max_points, self.options.max_fork);
        let limit = if kept > max_fork { (max_points.saturating_mul(max_fork) / kept).max(1) } else { max_points };
        if fresh.iter().map(|(_, steps)| steps.len()).sum::<usize>() <= limit {
            return;
        }
        self.scratch.clear();
        let mut all = Vec::new();
        for (owner, (_, steps)) in (0u32..).zip(&mut *fresh) {
            self.scratch.add(steps, 0, 0);
            all.extend(steps.drain(..).map(|step| BucketEntry { owner, step }));
        }
        let mut front: Vec<BucketEntry> = self.scratch.front().map(|(number, ..)| all[number]).collect();
        let taken = thin_to(&mut front, self.pass.resolution, limit);
        self.table.crowded = Some(self.table.crowded.map_or(taken, |coarsest| coarsest.max(taken)));
        for BucketEntry { owner, step } in front {
            fresh[owner as usize].1.push(step);
        }
    }

    /// How many lines of Part `first`'s output a rolling buffer must hold, by the extents of its stripes.
    fn row_cache(&mut self, first: PartId, ends: &[Span], extents: &[i64]) -> RowCache {
        let reach = self.sinks[self.last.since(first)].since(first);
        self.rows.row_cache(self.graph, first, self.bands.tiling.roll, &ends[..=reach], extents)
    }

    /// Add the candidates of the group of `size` + 1 Parts that its open ones make to those `found`.
    fn close(&mut self, size: usize, open: &[Bucket], ends: &[Span], found: &mut Vec<GroupPlan>) {
        let occupancy = &self.groups[size];
        let mut states: Vec<&Open> = open.iter().flat_map(|bucket| &bucket.front).collect();
        states.sort_by_key(|state| (state.cycles, state.bytes));
        let first = self.last.before(size);
        let thresholds = self.thresholds(first);
        let mut fresh = Vec::new();
        let mut leanest = u64::MAX;
        for state in states {
            interrupt::ask();
            // To be of use a Plan must take fewer bytes than every Plan known to be at least as fast.
            let known = found.partition_point(|known| known.cycles > state.cycles);
            leanest = found.get(known).map_or(leanest, |known| leanest.min(known.bytes));
            leanest = thresholds
                .iter()
                .map(|thresholds| limit_bytes(thresholds, state.cycles))
                .max()
                .map_or(0, |of_use| leanest.min(of_use));
            if leanest == 0 {
                break;
            }
            let bytes = if self.bands.tiling.tiles == 1 {
                self.peak_bytes(size, state, ends, leanest)
            } else {
                Some(occupancy.whole_bytes() + state.bytes).filter(|&bytes| bytes < leanest)
            };
            if let Some(bytes) = bytes {
                leanest = bytes;
                let (tiling, Open { index: node, cycles, kernels, .. }) = (self.bands.tiling, *state);
                fresh.push(GroupPlan { tiling, node, bytes, cycles, kernels });
            }
        }
        if fresh.is_empty() {
            return;
        }
        let steady = |candidate: &&GroupPlan| size > 0 || !self.table.is_striped(self.graph, self.last, candidate);
        let prefixes = [&self.table.with_overlap, &self.table.without_overlap].map(|prefixes| prefixes.before(first));
        let [with_overlap, without_overlap] = self.known;
        with_overlap.add(prefixes[0], &fresh.iter().rev().collect::<Vec<_>>());
        without_overlap.add(prefixes[1], &fresh.iter().rev().filter(steady).collect::<Vec<_>>());
        found.extend(fresh);
        keep_front(found);
    }

    /// What a Plan of Parts `first..=last` must stay below to improve the front, with and without single Parts in stripes.
    fn thresholds(&self, first: PartId) -> [Vec<DominanceBound>; 2] {
        let prefixes = [&self.table.with_overlap, &self.table.without_overlap];
        [0, 1].map(|view| self.known[view].thresholds(prefixes[view].before(first)))
    }

    fn peak_bytes(&mut self, size: usize, state: &Open, ends: &[Span], limit_bytes: u64) -> Option<u64> {
        let first = self.last.before(size);
        let (stripes, shares) = self.decisions(first, &state.node);
        self.groups[size].peak_bytes(&stripes, ends, &shares, limit_bytes, &mut self.first_failed)
    }
}

/// An extended group and the number of its bucket.
#[derive(Clone, Copy)]
struct BucketEntry {
    owner: u32,
    step: GrowthStep,
}

impl Point for BucketEntry {
    fn memory_bytes(&self) -> u64 {
        self.step.bytes
    }
    fn cycles(&self) -> u64 {
        self.step.cycles
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::plans::enumerate;
    use crate::plans::options::CopyCost;
    use crate::testing::worked_example::worked_example;

    /// Plans for all three Parts have the page's bytes and sums of stripes.
    #[test]
    fn example() {
        let (graph, options) = (worked_example(), Options { resolution: 0, ..Options::default() });
        let pass = Pass::new(&options, CopyCost::Serial);
        let table = enumerate(&graph, &options, &pass, &mut Costs::default(), &mut RowTable::default());
        let plans = table.by_last[PartId(2)][2]
            .iter()
            .map(|plan| (plan.memory_bytes(), plan.cycles(), table.plan(PartId(0), PartId(2), plan).stripes));
        let plans: Vec<(u64, u64, Vec<i64>)> = plans.collect();
        for (bytes, cycles, rows) in [(1472, 14_720, [1, 1, 1]), (1728, 11_904, [2, 1, 1]), (1920, 10_240, [2, 1, 2])] {
            assert!(plans.contains(&(bytes, cycles, rows.to_vec())), "{plans:?}");
        }
    }
}
