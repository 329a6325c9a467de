//! Kernels among each other: what BLOCKDEP lets run together. Owns the rule and its cautious reading.
//!
//! With BLOCKDEP b, job i of a kernel may run while the last b - i jobs before it are unfinished. Jobs start in order,
//! so that a job may count on everything that the jobs before it could count on. Reads and writes keep their order in
//! the pipeline ([`Rules::kernels_write_in_order`]), so that what remains to be judged is a job that reads what an
//! unfinished one writes. The table area of SHRAM is the exception: kernels without a table may have their buffers
//! there from their first job on.

use std::collections::VecDeque;

use super::access::{Access, Accesses, Place};
use super::hazard::{hazard, Hazard, HazardKind};
use super::jobs::Jobs;
use super::ranges::Region3;
use super::rules::Rules;
use crate::npu::memory::Memory;
use crate::npu::operation::{Kernel, Operand2};

/// Greatest value of BLOCKDEP, and so the number of jobs that anything looks back or forward.
const MAX_BLOCKDEP: u64 = 3;

/// A kernel of which jobs may be unfinished.
#[derive(Debug, Clone)]
struct Recent {
    command: usize,
    kernel: Kernel,
    /// Number of its first job, counted over the whole stream.
    first: u64,
    jobs: u64,
    table_reads: Vec<Access>,
}

/// The last kernels, and which of their jobs are known to be done.
#[derive(Debug)]
pub struct Pipeline {
    rules: Rules,
    recent: VecDeque<Recent>,
    /// Number of the next job.
    next: u64,
    /// Jobs below this number are done when the next job starts.
    done: u64,
}

impl Pipeline {
    /// No kernels yet.
    pub fn new(rules: Rules) -> Pipeline {
        Pipeline { rules, recent: VecDeque::new(), next: 0, done: 0 }
    }

    /// All kernels but the last `left` are done.
    pub fn finish_all_but(&mut self, left: usize) {
        let first = match left {
            0 => Some(self.next),
            n => self.recent.len().checked_sub(n).and_then(|i| self.recent.get(i)).map(|r| r.first),
        };
        self.done = self.done.max(first.unwrap_or(0));
    }

    /// A kernel starts; returns the conflicts of its first jobs with jobs that may be unfinished.
    pub fn start(&mut self, command: usize, kernel: Kernel, accesses: &Accesses, memory: &Memory) -> Vec<Hazard> {
        let jobs = Jobs::new(&kernel, self.rules.sub_kernels_are_jobs);
        let count = jobs.count();
        let mut found = Vec::new();
        if !self.rules.blockdep_spans_kernels {
            self.done = self.done.max(self.recent.back().map_or(self.next, |previous| previous.first));
        }
        for job in 0..count.min(MAX_BLOCKDEP + 1) {
            let ahead = u64::from(kernel.blockdep).saturating_sub(job);
            self.done = self.done.max(self.next.saturating_sub(ahead));
            if self.done >= self.next {
                break;
            }
            if job == 0 {
                found.extend(self.tables(command, accesses));
            }
            found.extend(self.judge(command, &kernel, &jobs, job, memory));
        }
        let table_reads = accesses.reads.iter().filter(|a| a.place == Place::Shram).cloned().collect();
        // In order and with BLOCKDEP 3 at most, the fourth job has nothing unfinished before its kernel.
        if count > MAX_BLOCKDEP {
            self.done = self.done.max(self.next);
        }
        self.recent.push_back(Recent { command, kernel, first: self.next, jobs: count, table_reads });
        self.next += count;
        let horizon = self.next.saturating_sub(MAX_BLOCKDEP).max(self.done);
        while self.recent.len() > 1 && self.recent.front().is_some_and(|r| r.first + r.jobs <= horizon) {
            self.recent.pop_front();
        }
        found
    }

    /// Buffers over a table that an unfinished kernel looks up.
    fn tables(&self, command: usize, accesses: &Accesses) -> Vec<Hazard> {
        let mut found = Vec::new();
        for recent in self.recent.iter().filter(|r| r.first + r.jobs > self.done) {
            for read in &recent.table_reads {
                for write in accesses.writes.iter().filter(|write| write.may_meet(read)) {
                    let common = read.ranges().intersection(&write.ranges());
                    let first = (recent.command, read.what);
                    found.extend(hazard(HazardKind::WriteAfterRead, first, (command, write), &common));
                }
            }
        }
        found
    }

    /// Conflicts of one job with the unfinished ones before its kernel.
    fn judge(&self, command: usize, kernel: &Kernel, jobs: &Jobs, job: u64, memory: &Memory) -> Vec<Hazard> {
        let mut found = Vec::new();
        let reads = reads(kernel, jobs, job, memory);
        let write = Access::part(&kernel.ofm, jobs.written(job), memory);
        for recent in &self.recent {
            let unfinished = self.done.max(recent.first)..recent.first + recent.jobs;
            let before = Jobs::new(&recent.kernel, self.rules.sub_kernels_are_jobs);
            let mut last: Option<Region3> = None;
            for index in unfinished {
                let block = before.written(index - recent.first);
                if last != Some(block) {
                    last = Some(block);
                    let written = Access::part(&recent.kernel.ofm, block, memory);
                    conflicts(HazardKind::ReadAfterWrite, recent.command, &written, command, &reads, &mut found);
                    if !self.rules.kernels_write_in_order {
                        conflicts(HazardKind::WriteAfterWrite, recent.command, &written, command, &write, &mut found);
                    }
                }
                if !self.rules.kernels_write_in_order {
                    let read = self::reads(&recent.kernel, &before, index - recent.first, memory);
                    conflicts(HazardKind::WriteAfterRead, recent.command, &read, command, &write, &mut found);
                }
            }
        }
        found
    }
}

fn reads(kernel: &Kernel, jobs: &Jobs, job: u64, memory: &Memory) -> Vec<Access> {
    let (first, second) = jobs.read(job);
    let mut reads: Vec<Access> = Access::part(&kernel.ifm, first, memory).into_iter().collect();
    if let (Some(Operand2::Map(map)), Some(part)) = (&kernel.ifm2, second) {
        reads.extend(Access::part(map, part, memory));
    }
    reads
}

fn conflicts<'a>(
    kind: HazardKind,
    first: usize,
    early: impl IntoIterator<Item = &'a Access>,
    second: usize,
    late: impl IntoIterator<Item = &'a Access> + Clone,
    found: &mut Vec<Hazard>,
) {
    for a in early {
        for b in late.clone() {
            if a.may_meet(b) {
                let common = a.ranges().intersection(&b.ranges());
                found.extend(hazard(kind, (first, a.what), (second, b), &common));
            }
        }
    }
}
