//! What is in flight: kernels and transfers that may still run when the next command starts, and whether it may.
//!
//! Two queues run beside each other. The command processor starts commands in the order of the stream; a kernel that
//! would be one too many in its queue waits for the oldest one, and so does a transfer. OP_KERNEL_WAIT and OP_DMA_WAIT
//! hold the command processor until few enough are left. Whatever is in flight when a command starts may run at the
//! same time, so both must not touch the same byte unless both only read it. Kernels are ordered with each other by
//! BLOCKDEP alone: see `kernels`. [`ranges`] and [`access`] say which bytes, `jobs` which part of a kernel when,
//! `own_output` whether a kernel may lie over what it reads, and `inputs` watches the network's inputs.
//!
//! [`Rules`] holds every assumption about the hardware that is not certain.

pub mod access;
mod hazard;
mod inputs;
mod jobs;
mod kernels;
mod own_output;
pub mod ranges;
mod rules;

use std::collections::VecDeque;

use super::accelerator::Accelerator;
use super::dma::Dma;
use super::memory::Memory;
use super::operation::Kernel;
use access::Accesses;
use hazard::{hazard, place_name};
pub use hazard::{Hazard, HazardKind};
pub use inputs::Inputs;
use kernels::Pipeline;
pub use rules::Rules;

/// Most hazards that a run reports.
const MAX_HAZARDS: usize = 1000;

/// A command in flight.
#[derive(Debug, Clone)]
struct Flight {
    command: usize,
    accesses: Accesses,
}

/// The shadow of one run.
#[derive(Debug)]
pub struct Tracker {
    accelerator: &'static Accelerator,
    rules: Rules,
    kernels: VecDeque<Flight>,
    transfers: VecDeque<Flight>,
    pipeline: Pipeline,
    found: Vec<Hazard>,
}

impl Tracker {
    /// Nothing in flight.
    pub fn new(accelerator: &'static Accelerator, rules: Rules) -> Tracker {
        Tracker {
            accelerator,
            rules,
            kernels: VecDeque::new(),
            transfers: VecDeque::new(),
            pipeline: Pipeline::new(rules),
            found: Vec::new(),
        }
    }

    /// A kernel starts. Call it after the kernel was seen to touch nothing outside its regions.
    pub fn kernel(&mut self, command: usize, kernel: Kernel, memory: &Memory, inputs: &mut Inputs) {
        let accesses = access::of_kernel(&kernel, self.accelerator, memory);
        make_room(&mut self.kernels, self.rules.kernels_in_flight);
        let flight = Flight { command, accesses };
        let mut found = meetings(&self.transfers, &flight);
        found.extend(own_output::overwritten(command, &kernel, &flight.accesses, memory));
        found.extend(self.pipeline.start(command, kernel, &flight.accesses, memory));
        found.extend(inputs.command(command, &flight.accesses));
        self.add(found);
        self.kernels.push_back(flight);
    }

    /// A transfer starts. Call it after the transfer was seen to touch nothing outside its regions.
    pub fn transfer(&mut self, command: usize, dma: &Dma, memory: &Memory, inputs: &mut Inputs) {
        let limit = if self.accelerator.is_u65 {
            self.rules.transfers_in_flight_u65
        } else {
            self.rules.transfers_in_flight_u55
        };
        make_room(&mut self.transfers, limit);
        let flight = Flight { command, accesses: access::of_dma(dma, memory) };
        let mut found = meetings(&self.transfers, &flight);
        found.extend(meetings(&self.kernels, &flight));
        found.extend(inputs.command(command, &flight.accesses));
        self.add(found);
        self.transfers.push_back(flight);
    }

    /// OP_KERNEL_WAIT.
    pub fn wait_kernels(&mut self, left: usize) {
        let done = self.kernels.len().saturating_sub(left);
        self.kernels.drain(..done);
        self.pipeline.finish_all_but(left);
    }

    /// OP_DMA_WAIT.
    pub fn wait_transfers(&mut self, left: usize) {
        let done = self.transfers.len().saturating_sub(left);
        self.transfers.drain(..done);
    }

    /// Bytes `[start, end)` were read and never written.
    pub fn unwritten(&mut self, command: usize, what: &str, region: Option<usize>, start: usize, end: usize) {
        let place = place_name(region);
        let message = format!("command {command} ({what}) reads bytes [{start}, {end}) of {place}, which nobody wrote");
        let (start, end) = (start as i64, end as i64);
        let kind = HazardKind::ReadOfUnwritten;
        self.add(vec![Hazard { kind, first: None, second: command, region, start, end, message }]);
    }

    fn add(&mut self, found: Vec<Hazard>) {
        let room = MAX_HAZARDS.saturating_sub(self.found.len());
        self.found.extend(found.into_iter().take(room));
    }

    /// What was found, in the order of the later commands.
    pub fn into_hazards(self) -> Vec<Hazard> {
        self.found
    }
}

/// Waits for the oldest until one more fits.
fn make_room(queue: &mut VecDeque<Flight>, limit: usize) {
    while queue.len() >= limit.max(1) {
        queue.pop_front();
    }
}

/// Conflicts of a command that starts with those in flight.
fn meetings(others: &VecDeque<Flight>, flight: &Flight) -> Vec<Hazard> {
    let mut found = Vec::new();
    for other in others {
        let (early, late) = (&other.accesses, &flight.accesses);
        for (kind, first, second) in [
            (HazardKind::ReadAfterWrite, &early.writes, &late.reads),
            (HazardKind::WriteAfterRead, &early.reads, &late.writes),
            (HazardKind::WriteAfterWrite, &early.writes, &late.writes),
        ] {
            for (a, b) in first.iter().flat_map(|a| second.iter().map(move |b| (a, b))) {
                if a.may_meet(b) {
                    let common = a.ranges().intersection(&b.ranges());
                    found.extend(hazard(kind, (other.command, a.what), (flight.command, b), &common));
                }
            }
        }
    }
    found
}
