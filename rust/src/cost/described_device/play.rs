//! A placed program on a described unit: operations and copies in program order, as far beside each other as the DMA
//! engine and the bytes that they share allow.
//!
//! Owns what overlaps. Each engine, and the DMA engine, takes its work in program order; a step begins once the engine is
//! free, once those in flight that it conflicts with have ended, and once few enough are in flight.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::copies::{copy, stage};
use super::operation::perform;
use super::traffic::{Places, Traffic};
use crate::model::device::DescribedUnit;
use crate::model::graph::CascaderGraph;
use crate::model::ids::{BufferId, PoolId};
use crate::model::operation::Home;
use crate::model::program::{ByteRange, CopySource, Placement, Program, Step, Stripe, View};

/// Bytes of a pool.
type Bytes = (PoolId, ByteRange);

/// What a step does to the pools of tensors, and for how long on which engine; the DMA engine comes behind the others.
struct Job {
    engine: usize,
    cycles: u64,
    reads: SmallVec<[Bytes; 6]>,
    writes: SmallVec<[Bytes; 2]>,
    traffic: Traffic,
}

/// Cycles of a program in its place; calls take no time, but wait for all before them.
pub fn cycles(graph: &CascaderGraph, unit: &DescribedUnit, program: &Program, placement: &Placement) -> u64 {
    let reader = Reader { graph, unit, program, placement };
    program
        .steps
        .split(|step| matches!(step, Step::Feed { .. } | Step::Take { .. } | Step::Call { .. }))
        .map(|run| {
            let jobs = run.iter().filter_map(|step| reader.job(step));
            match unit.dma {
                Some(dma) => beside(unit, jobs, dma.in_flight as usize),
                None => jobs.map(|job| job.cycles).sum(),
            }
        })
        .sum()
}

/// When the last of the jobs has ended. No memory moves more than its bandwidth, shared or not.
fn beside(unit: &DescribedUnit, jobs: impl Iterator<Item = Job>, in_flight: usize) -> u64 {
    let mut free = vec![0u64; unit.engines.len() + 1];
    let mut flying: VecDeque<(u64, Job)> = VecDeque::new();
    let mut landed = 0;
    let mut moved = Traffic::default();
    for job in jobs {
        while flying.len() >= in_flight {
            landed = flying.pop_front().map_or(landed, |(end, _)| landed.max(end));
        }
        let conflicts = flying.iter().filter(|(_, earlier)| conflict(earlier, &job)).map(|&(end, _)| end);
        let start = conflicts.fold(landed.max(free[job.engine]), u64::max);
        let end = start + job.cycles;
        free[job.engine] = end;
        moved.add(&job.traffic);
        flying.push_back((end, job));
    }
    let last = flying.iter().map(|&(end, _)| end).fold(landed, u64::max);
    moved.busy(unit).into_iter().fold(last, u64::max)
}

fn conflict(a: &Job, b: &Job) -> bool {
    let overlap = |(p, r): &Bytes, (q, s): &Bytes| p == q && r.0 < s.1 && s.0 < r.1;
    let meet = |x: &[Bytes], y: &[Bytes]| x.iter().any(|r| y.iter().any(|s| overlap(r, s)));
    meet(&a.writes, &b.reads) || meet(&a.writes, &b.writes) || meet(&a.reads, &b.writes)
}

struct Reader<'a> {
    graph: &'a CascaderGraph,
    unit: &'a DescribedUnit,
    program: &'a Program,
    placement: &'a Placement,
}

impl Reader<'_> {
    fn job(&self, step: &Step) -> Option<Job> {
        match step {
            Step::Feed { .. } | Step::Take { .. } | Step::Call { .. } | Step::LoadTable { .. } => None,
            Step::Copy { moved, buffer, .. } => Some(self.copy(*moved, *buffer)),
            Step::Stripe(stripe) => self.stripe(stripe),
        }
    }

    fn copy(&self, moved: CopySource, buffer: BufferId) -> Job {
        let (to, range) = self.whole(buffer);
        let bytes = range.1 - range.0;
        let mut reads = SmallVec::new();
        let (cycles, traffic) = match moved {
            CopySource::Constants(..) => stage(self.unit, bytes, to),
            CopySource::Tensor { from, .. } => {
                reads.push(self.whole(from));
                copy(self.unit, bytes, self.placement.pools[from], to)
            }
        };
        Job { engine: self.unit.engines.len(), cycles, reads, writes: SmallVec::from_slice(&[(to, range)]), traffic }
    }

    fn stripe(&self, stripe: &Stripe) -> Option<Job> {
        let kernel = self.graph.kernel(stripe.part)?;
        let kernel = kernel.with(stripe.source(kernel))?;
        let op = stripe.operation(self.graph, &kernel);
        let mut places = Places::near(self.unit, Home::Constants);
        let mut reads = SmallVec::new();
        for (view, place) in stripe.inputs.iter().zip(&mut places.inputs) {
            *place = self.placement.pools[view.buffer];
            reads.extend(self.rows(view));
        }
        if let Some(buffer) = stripe.constants {
            places.constants = self.placement.pools[buffer];
            reads.push(self.whole(buffer));
        }
        let writes = self.rows(&stripe.output);
        places.output = self.placement.pools[stripe.output.buffer];
        let done = perform(self.unit, &op, stripe.cost.block, places)?;
        Some(Job { engine: done.engine, cycles: done.cycles, reads, writes, traffic: done.traffic })
    }

    fn whole(&self, buffer: BufferId) -> Bytes {
        let offset = self.placement.offsets[buffer];
        (self.placement.pools[buffer], (offset, offset + self.program.buffers[buffer].size_bytes))
    }

    /// The bytes of the rows of a view, all columns of them.
    fn rows(&self, view: &View) -> SmallVec<[Bytes; 2]> {
        let (pool, (start, end)) = self.whole(view.buffer);
        let capacity = view.capacity[0];
        let row_bytes = (end - start) / capacity as u64;
        let span = view.region.spans[0];
        let first = (span.start - view.origin[0]).rem_euclid(capacity);
        let last = first + span.len();
        let range = |low: i64, high: i64| (pool, (start + low as u64 * row_bytes, start + high as u64 * row_bytes));
        if span.len() >= capacity {
            SmallVec::from_slice(&[(pool, (start, end))])
        } else if last <= capacity {
            SmallVec::from_slice(&[range(first, last)])
        } else {
            SmallVec::from_slice(&[range(first, capacity), range(0, last - capacity)])
        }
    }
}
