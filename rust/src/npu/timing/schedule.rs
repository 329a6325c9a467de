//! The discrete-event model: front end, kernel queue and DMA queue in time, as the waits and BLOCKDEP allow.
//!
//! The front end takes commands in order and blocks where a wait or a full queue tells it to. Kernels run one after
//! the other, so do transfers; both are concurrent with each other and with the front end, and share the memories.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::super::accelerator::Accelerator;
use super::flows::{advance, Flow};
use super::kernel::KernelCost;
use super::rules::Rules;
use super::system::{ByPort, System};
use super::ticks::Ticks;
use super::walk::{Action, DmaCost, KernelShape, Step};
use crate::util::interrupt;

/// Bytes of a command word.
const WORD_BYTES: u64 = 4;
/// DMAs that may be outstanding on U55 and on U65, as both of Arm's compilers assume.
const DMA_QUEUE: [u32; 2] = [1, 2];

/// What an event was.
#[derive(Debug, Clone)]
pub enum What {
    /// A kernel.
    Kernel(Arc<(KernelShape, KernelCost)>),
    /// A transfer.
    Dma(Arc<DmaCost>),
    /// A wait for kernels, for transfers, or OP_STOP's for both.
    Wait(&'static str),
}

/// One operation in time.
#[derive(Debug, Clone)]
pub struct Event {
    /// Index of the command.
    pub command: usize,
    /// What it was.
    pub what: What,
    /// When the front end came to it.
    pub reached: Ticks,
    /// When it was in its queue (a wait: when it was over).
    pub issued: Ticks,
    /// When it began to run.
    pub start: Ticks,
    /// When it was done.
    pub end: Ticks,
    /// Of a kernel's time alone, what BLOCKDEP hid behind the kernel before.
    pub hidden: Ticks,
    /// Time lost to each memory that others used as well.
    pub lost: ByPort<Ticks>,
}

/// A played stream.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// In stream order.
    pub events: Vec<Event>,
    /// End of everything.
    pub end: Ticks,
    /// Time in which the front end was busy.
    pub front_busy: Ticks,
}

/// Kernels or transfers in order: the first of the queue is running.
struct Lane {
    queue: VecDeque<usize>,
    running: Option<Flow>,
}

impl Lane {
    fn new() -> Lane {
        Lane { queue: VecDeque::new(), running: None }
    }

    fn outstanding(&self) -> usize {
        self.queue.len()
    }
}

/// Where the front end is.
enum Front {
    /// About to take the step.
    Next(usize),
    /// Fetching and decoding the step's words.
    Fetching(usize, Flow),
    /// At the step's operation since then.
    At(usize, Ticks),
}

struct Player<'a> {
    steps: &'a [Step],
    system: &'a System,
    rules: &'a Rules,
    dma_queue: usize,
    now: Ticks,
    front: Front,
    kernels: Lane,
    transfers: Lane,
    /// Event of the kernel that ended last.
    previous: Option<usize>,
    line: Timeline,
}

/// Plays the steps.
pub fn play(steps: &[Step], accelerator: &Accelerator, system: &System, rules: &Rules) -> Timeline {
    let own_queue = DMA_QUEUE[usize::from(accelerator.is_u65)];
    let mut player = Player {
        steps,
        system,
        rules,
        dma_queue: (if rules.dma_queue == 0 { own_queue } else { rules.dma_queue }) as usize,
        now: Ticks::ZERO,
        front: Front::Next(0),
        kernels: Lane::new(),
        transfers: Lane::new(),
        previous: None,
        line: Timeline { events: Vec::with_capacity(steps.len()), end: Ticks::ZERO, front_busy: Ticks::ZERO },
    };
    loop {
        interrupt::ask();
        player.settle();
        if !player.step() {
            break;
        }
    }
    player.line.end = player.now;
    player.line
}

impl Player<'_> {
    /// Everything that happens now without taking time.
    fn settle(&mut self) {
        loop {
            self.retire();
            self.start_kernel();
            self.start_transfer();
            match self.front {
                Front::Next(index) if index < self.steps.len() => {
                    self.front = Front::Fetching(index, self.fetch(self.steps[index].words));
                }
                Front::Fetching(index, ref flow) if flow.done() => self.front = Front::At(index, self.now),
                Front::At(index, reached) => {
                    if !self.take(index, reached) {
                        return;
                    }
                    self.front = Front::Next(index + 1);
                }
                _ => return,
            }
        }
    }

    /// Lets time pass until something ends. False if nothing is left.
    fn step(&mut self) -> bool {
        let mut flows: SmallVec<[&mut Flow; 3]> = SmallVec::new();
        flows.extend(self.kernels.running.as_mut());
        flows.extend(self.transfers.running.as_mut());
        let fetching = if let Front::Fetching(_, flow) = &mut self.front {
            flows.push(flow);
            true
        } else {
            false
        };
        if flows.is_empty() {
            return false;
        }
        let time = advance(&mut flows, self.rules.contention);
        self.now += time;
        if fetching {
            self.line.front_busy += time;
        }
        true
    }

    /// The front end's work on a number of words: decoding, and fetching them at the stream's memory.
    fn fetch(&self, words: u64) -> Flow {
        let mut demands = self.system.by_port(Ticks::ZERO);
        if self.rules.fetch_commands {
            let index = self.system.commands();
            demands[index] = self.system.ports()[index].time(u128::from(words * WORD_BYTES));
        }
        let decoding = Ticks::cycles(u128::from(words) * u128::from(self.rules.cycles_per_word));
        let alone = demands.iter().copied().max().unwrap_or_default().max(decoding);
        Flow::new(alone, &demands)
    }

    /// Tries to execute the operation that the front end stands at.
    fn take(&mut self, index: usize, reached: Ticks) -> bool {
        let step = &self.steps[index];
        let at_most = |lane: &Lane, limit: u32| lane.outstanding() <= limit as usize;
        let (ready, what) = match &step.action {
            Action::Kernel(kernel) => {
                (at_most(&self.kernels, self.rules.kernel_queue - 1), What::Kernel(Arc::clone(kernel)))
            }
            Action::Dma(dma) => (self.transfers.outstanding() < self.dma_queue, What::Dma(Arc::clone(dma))),
            Action::KernelWait(limit) => (at_most(&self.kernels, *limit), What::Wait("kernels")),
            Action::DmaWait(limit) => (at_most(&self.transfers, *limit), What::Wait("transfers")),
            Action::Stop => (at_most(&self.kernels, 0) && at_most(&self.transfers, 0), What::Wait("everything")),
            Action::Nothing => return true,
        };
        if !ready {
            return false;
        }
        let event = self.line.events.len();
        match what {
            What::Kernel(_) => self.kernels.queue.push_back(event),
            What::Dma(_) => self.transfers.queue.push_back(event),
            What::Wait(_) => {}
        }
        let (now, command) = (self.now, step.command);
        let start = if matches!(what, What::Wait(_)) { reached } else { now };
        let lost = self.system.by_port(Ticks::ZERO);
        self.line.events.push(Event {
            command,
            what,
            reached,
            issued: now,
            start,
            end: now,
            hidden: Ticks::ZERO,
            lost,
        });
        true
    }

    fn start_kernel(&mut self) {
        if self.kernels.running.is_some() {
            return;
        }
        let Some(&index) = self.kernels.queue.front() else { return };
        let What::Kernel(kernel) = &self.line.events[index].what else { return };
        let (shape, cost) = (&kernel.0, &kernel.1);
        let hidden = self.hidden(index, shape, cost);
        let demands: ByPort<Ticks> =
            cost.loads.iter().zip(self.system.ports()).map(|(load, port)| load.time(port)).collect();
        self.kernels.running = Some(Flow::new(cost.alone.saturating_sub(hidden), &demands));
        let event = &mut self.line.events[index];
        (event.start, event.hidden) = (self.now, hidden);
    }

    /// What BLOCKDEP hides of a kernel's time: its filling and the previous kernel's draining, at most BLOCKDEP average
    /// jobs of the previous kernel, not before it was issued, and never what its engines and memories need anyway.
    fn hidden(&self, index: usize, shape: &KernelShape, cost: &KernelCost) -> Ticks {
        let Some(previous) = self.previous.map(|index| &self.line.events[index]) else { return Ticks::ZERO };
        let What::Kernel(before) = &previous.what else { return Ticks::ZERO };
        if !self.rules.hide_latency || shape.blockdep == 0 {
            return Ticks::ZERO;
        }
        let ran = previous.end.saturating_sub(previous.start);
        let jobs = ran.times(u64::from(shape.blockdep)).part(before.1.jobs);
        let issued = previous.end.saturating_sub(self.line.events[index].issued);
        (cost.fill + before.1.drain).min(jobs).min(issued).min(cost.alone.saturating_sub(cost.least))
    }

    fn start_transfer(&mut self) {
        if self.transfers.running.is_some() {
            return;
        }
        let Some(&index) = self.transfers.queue.front() else { return };
        let What::Dma(dma) = &self.line.events[index].what else { return };
        let demands: ByPort<Ticks> =
            dma.loads.iter().zip(self.system.ports()).map(|(load, port)| load.time(port)).collect();
        self.transfers.running = Some(Flow::new(dma.alone, &demands));
        self.line.events[index].start = self.now;
    }

    /// Takes what has ended out of its lane.
    fn retire(&mut self) {
        for is_kernel in [true, false] {
            let lane = if is_kernel { &mut self.kernels } else { &mut self.transfers };
            if !lane.running.as_ref().is_some_and(Flow::done) {
                continue;
            }
            let (Some(flow), Some(index)) = (lane.running.take(), lane.queue.pop_front()) else { continue };
            let event = &mut self.line.events[index];
            event.end = self.now;
            event.lost = flow.lost().into();
            if is_kernel {
                self.previous = Some(index);
            }
        }
    }
}
