//! What is in flight: kernels and transfers that may still run when the next command starts, and whether it may.
//!
//! Two queues run beside each other. The command processor starts commands in the order of the stream; a kernel that
//! would be one too many in its queue waits for the oldest one, and so does a transfer. OP_KERNEL_WAIT and OP_DMA_WAIT
//! hold the command processor until few enough are left. Whatever is in flight when a command starts may run at the
//! same time, so both must not touch the same byte unless both only read it. Kernels are ordered with each other by
//! BLOCKDEP alone: see [`kernels`]. [`ranges`] and [`access`] say which bytes, [`jobs`] which part of a kernel when,
//! and [`inputs`] watches the network's inputs.
//!
//! [`Rules`] holds every assumption about the hardware that is not certain.

mod access;
mod inputs;
mod jobs;
mod kernels;
pub mod ranges;

use std::collections::VecDeque;

use super::accelerator::Accelerator;
use super::dma::Dma;
use super::memory::Memory;
use super::operation::Kernel;
use access::{Access, Accesses};
pub use inputs::Inputs;
use kernels::Pipeline;
use ranges::Ranges;

/// Most hazards that a run reports.
const MAX_HAZARDS: usize = 1000;

/// Assumptions about what may run at the same time. The defaults are the most cautious under which Vela's streams are
/// right; [`Rules::blockdep_spans_kernels`] goes beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Kernels that are in flight at most; starting one more waits for the oldest.
    pub kernels_in_flight: usize,
    /// Transfers that are in flight at most on U55.
    pub transfers_in_flight_u55: usize,
    /// Transfers that are in flight at most on U65.
    pub transfers_in_flight_u65: usize,
    /// Whether BLOCKDEP counts jobs of all kernels before, instead of only those of the kernel immediately before, and
    /// does so beyond [`Rules::kernels_in_flight`].
    pub blockdep_spans_kernels: bool,
    /// Whether each 8x8 part of a larger kernel is a job. If it is not, the first jobs of a kernel read more. Vela's
    /// softmax of many classes, a pool over all of a row, is right only if it is.
    pub sub_kernels_are_jobs: bool,
    /// Whether the kernels' pipeline keeps reads and writes in order, so that only reads after writes can go wrong
    /// between kernels. Vela relies on it.
    pub kernels_write_in_order: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            kernels_in_flight: 2,
            transfers_in_flight_u55: 1,
            transfers_in_flight_u65: 2,
            blockdep_spans_kernels: false,
            sub_kernels_are_jobs: true,
            kernels_write_in_order: true,
        }
    }
}

/// What goes wrong. "After" is the order of the stream, which the hardware need not keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HazardKind {
    /// The second command reads what the first one may not have written yet.
    ReadAfterWrite,
    /// The second command may overwrite what the first one still reads.
    WriteAfterRead,
    /// Both write, in any order.
    WriteAfterWrite,
    /// Bytes are read that nobody wrote.
    ReadOfUnwritten,
    /// A byte of a network input is read after a command wrote something else there.
    InputOverwritten,
}

impl HazardKind {
    /// Stable name for reports.
    pub fn name(self) -> &'static str {
        match self {
            HazardKind::ReadAfterWrite => "read_after_write",
            HazardKind::WriteAfterRead => "write_after_read",
            HazardKind::WriteAfterWrite => "write_after_write",
            HazardKind::ReadOfUnwritten => "read_of_unwritten",
            HazardKind::InputOverwritten => "input_overwritten",
        }
    }
}

/// One hazard: two commands and the first range of bytes over which they disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hazard {
    /// What goes wrong.
    pub kind: HazardKind,
    /// The earlier command; `None` if it is the host, or nobody.
    pub first: Option<usize>,
    /// The later command.
    pub second: usize,
    /// Region as the later command names it; `None` is SHRAM.
    pub region: Option<usize>,
    /// First byte in the region.
    pub start: i64,
    /// One past the last byte of the first range.
    pub end: i64,
    /// One sentence about it.
    pub message: String,
}

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

    /// Bytes `[start, end)` were read that nobody wrote.
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

fn place_name(region: Option<usize>) -> String {
    region.map_or_else(|| "SHRAM".to_string(), |region| format!("region {region}"))
}

/// The hazard over `common`, bytes in the buffer of the second access; none if there are none.
fn hazard(kind: HazardKind, first: (usize, &str), second: (usize, &Access), common: &Ranges) -> Option<Hazard> {
    let (low, high) = common.iter().next()?;
    let (start, end) = (low - second.1.offset, high - second.1.offset);
    let verb = match kind {
        HazardKind::ReadAfterWrite => "reads before they are written by",
        HazardKind::WriteAfterRead => "may overwrite before they are read by",
        HazardKind::WriteAfterWrite => "may write before",
        HazardKind::ReadOfUnwritten | HazardKind::InputOverwritten => "meets",
    };
    let more = common.bytes() - (high - low);
    let rest = if more > 0 { format!(" and {more} bytes behind them") } else { String::new() };
    let message = format!(
        "command {} ({}) touches bytes [{start}, {end}) of {}{rest}, which it {verb} command {} ({})",
        second.0,
        second.1.what,
        place_name(second.1.region),
        first.0,
        first.1,
    );
    Some(Hazard { kind, first: Some(first.0), second: second.0, region: second.1.region, start, end, message })
}
