//! A placed program on a described unit: operations and copies in program order, as far beside each other as the DMA
//! engine and the bytes that they share allow.
//!
//! Owns what overlaps. Each engine, and the DMA engine, takes its work in program order; a step begins once the engine is
//! free, once those in flight that it conflicts with have ended, and once few enough are in flight.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::copies::copy;
use super::operation::perform;
use super::traffic::{Place, Places, Traffic};
use crate::model::device::DescribedUnit;
use crate::model::graph::CascaderGraph;
use crate::model::ids::{BufferId, IdVec};
use crate::model::operation::Home;
use crate::model::program::{ByteRange, Program, Step, Stripe, View};

/// What a step does to the arena, and for how long on which engine; the DMA engine comes behind the others.
struct Job {
    engine: usize,
    cycles: u64,
    reads: SmallVec<[ByteRange; 6]>,
    writes: SmallVec<[ByteRange; 2]>,
    traffic: Traffic,
}

/// Cycles of a program whose buffers lie at `offsets`; calls take no time, but wait for all before them.
pub fn cycles(graph: &CascaderGraph, unit: &DescribedUnit, program: &Program, offsets: &IdVec<BufferId, u64>) -> u64 {
    let reader = Reader { graph, unit, program, offsets };
    program
        .steps
        .split(|step| matches!(step, Step::Call { .. }))
        .map(|run| {
            let jobs = run.iter().filter_map(|step| reader.job(step));
            match unit.dma {
                Some(dma) => beside(unit, jobs, dma.in_flight as usize),
                None => jobs.map(|job| job.cycles).sum(),
            }
        })
        .sum()
}

/// When the last of the jobs has ended. No memory moves more than its bandwidth, whoever shares it.
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
    let meet = |x: &[ByteRange], y: &[ByteRange]| x.iter().any(|r| y.iter().any(|s| r.0 < s.1 && s.0 < r.1));
    meet(&a.writes, &b.reads) || meet(&a.writes, &b.writes) || meet(&a.reads, &b.writes)
}

struct Reader<'a> {
    graph: &'a CascaderGraph,
    unit: &'a DescribedUnit,
    program: &'a Program,
    offsets: &'a IdVec<BufferId, u64>,
}

impl Reader<'_> {
    fn job(&self, step: &Step) -> Option<Job> {
        match step {
            Step::Call { .. } => None,
            Step::Copy { buffer, .. } => Some(self.copy(*buffer)),
            Step::Stripe(stripe) => self.stripe(stripe),
        }
    }

    fn copy(&self, buffer: BufferId) -> Job {
        let range = self.whole(buffer);
        let (cycles, traffic) = copy(self.unit, range.1 - range.0, self.place(&[range]));
        let engine = self.unit.engines.len();
        Job { engine, cycles, reads: SmallVec::new(), writes: SmallVec::from_slice(&[range]), traffic }
    }

    fn stripe(&self, stripe: &Stripe) -> Option<Job> {
        let kernel = self.graph.kernel(stripe.part)?;
        let kernel = kernel.with(stripe.source())?;
        let op = stripe.operation(self.graph, &kernel);
        let mut places = Places::near(Home::Constants);
        let mut reads = SmallVec::new();
        for (view, place) in stripe.inputs.iter().zip(&mut places.inputs) {
            let ranges = self.rows(view);
            *place = self.place(&ranges);
            reads.extend(ranges);
        }
        if let Some(buffer) = stripe.constants {
            let range = self.whole(buffer);
            places.constants = self.place(&[range]);
            reads.push(range);
        }
        let writes = self.rows(&stripe.output);
        places.output = self.place(&writes);
        let done = perform(self.unit, &op, stripe.cost.block, places)?;
        Some(Job { engine: done.engine, cycles: done.cycles, reads, writes, traffic: done.traffic })
    }

    fn whole(&self, buffer: BufferId) -> ByteRange {
        let offset = self.offsets[buffer];
        (offset, offset + self.program.buffers[buffer].size_bytes)
    }

    /// The bytes of the rows of a view, all columns of them.
    fn rows(&self, view: &View) -> SmallVec<[ByteRange; 2]> {
        let (start, end) = self.whole(view.buffer);
        let capacity = view.capacity[0];
        let row_bytes = (end - start) / capacity as u64;
        let span = view.region.spans[0];
        let first = (span.start - view.origin[0]).rem_euclid(capacity);
        let last = first + span.len();
        let range = |low: i64, high: i64| (start + low as u64 * row_bytes, start + high as u64 * row_bytes);
        if span.len() >= capacity {
            SmallVec::from_slice(&[(start, end)])
        } else if last <= capacity {
            SmallVec::from_slice(&[range(first, last)])
        } else {
            SmallVec::from_slice(&[range(first, capacity), range(0, last - capacity)])
        }
    }

    /// The arena's own memory if all of the bytes are in it.
    fn place(&self, ranges: &[ByteRange]) -> Place {
        let end = ranges.iter().map(|range| range.1).max().unwrap_or(0);
        match &self.unit.spill {
            Some(spill) if end > spill.from_bytes => Place::Spill,
            _ => Place::Arena,
        }
    }
}
