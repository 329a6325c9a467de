//! A played stream in numbers: what bound each operation, totals, and the bounds that no schedule can beat.

use super::super::accelerator::Accelerator;
use super::schedule::{Event, Timeline, What};
use super::system::System;
use super::ticks::Ticks;
use super::traffic::Load;
use super::walk::Walk;

/// What decided how long something took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The MAC engine.
    Compute,
    /// The output stage.
    Output,
    /// A memory, by index.
    Memory(usize),
    /// Latencies: filling, draining, issuing.
    Latency,
    /// Waiting for others.
    Waiting,
}

/// Bytes and time of one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortTotal {
    /// Bytes that kernels read.
    pub kernel_read: u64,
    /// Bytes that kernels wrote.
    pub kernel_written: u64,
    /// Bytes that transfers read.
    pub dma_read: u64,
    /// Bytes that transfers wrote.
    pub dma_written: u64,
    /// Bytes of command words.
    pub commands: u64,
    /// Time that all of it takes at full bandwidth, wasted parts of bursts included.
    pub busy: Ticks,
}

/// Totals of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// From the first command to the end.
    pub cycles: Ticks,
    /// Time in which a kernel ran.
    pub kernel_busy: Ticks,
    /// Time in which a transfer ran.
    pub dma_busy: Ticks,
    /// Time in which the front end fetched and decoded.
    pub front_busy: Ticks,
    /// Multiply-accumulates.
    pub macs: u64,
    /// The MAC engine's time over all kernels.
    pub mac_busy: Ticks,
    /// Multiply-accumulates at the accelerator's rate: no block shape beats it.
    pub mac_ideal: Ticks,
    /// The output stage's time over all kernels.
    pub output_busy: Ticks,
    /// By memory.
    pub ports: Vec<PortTotal>,
    /// Different bytes of the constants that are read.
    pub constant_bytes: u64,
    /// What no schedule of these very kernels and transfers beats: the busiest of MAC engine, output stage, memories.
    pub lower_bound: Ticks,
}

/// Adds a timeline up.
pub fn totals(walk: &Walk, line: &Timeline, accelerator: &Accelerator, system: &System, fetch: bool) -> Totals {
    let mut totals = Totals {
        cycles: line.end,
        kernel_busy: Ticks::ZERO,
        dma_busy: Ticks::ZERO,
        front_busy: line.front_busy,
        macs: 0,
        mac_busy: Ticks::ZERO,
        mac_ideal: Ticks::ZERO,
        output_busy: Ticks::ZERO,
        ports: vec![PortTotal::default(); system.ports().len()],
        constant_bytes: walk.constant_bytes,
        lower_bound: Ticks::ZERO,
    };
    for event in &line.events {
        // Whole cycles, so that reported events add up to reported totals.
        let ran = Ticks::cycles(u128::from(event.end.ceil() - event.start.ceil()));
        match &event.what {
            What::Kernel(kernel) => {
                let cost = &kernel.1;
                totals.kernel_busy += ran;
                totals.macs = totals.macs.saturating_add(cost.macs);
                totals.mac_busy += cost.mac;
                totals.output_busy += cost.output;
                add(&mut totals.ports, &cost.loads, system, true);
            }
            What::Dma(dma) => {
                totals.dma_busy += ran;
                add(&mut totals.ports, &dma.loads, system, false);
            }
            What::Wait(_) => {}
        }
    }
    if fetch {
        let (index, bytes) = (system.commands(), walk.words * 4);
        totals.ports[index].commands = bytes;
        totals.ports[index].busy += system.ports()[index].time(u128::from(bytes));
    }
    totals.mac_ideal = Ticks::ratio(u128::from(totals.macs), 1, u128::from(accelerator.macs));
    let memories = totals.ports.iter().map(|port| port.busy).max().unwrap_or_default();
    totals.lower_bound = totals.mac_busy.max(totals.output_busy).max(memories);
    totals
}

fn add(ports: &mut [PortTotal], loads: &[Load], system: &System, kernel: bool) {
    for ((total, load), port) in ports.iter_mut().zip(loads).zip(system.ports()) {
        let (read, written) = if kernel {
            (&mut total.kernel_read, &mut total.kernel_written)
        } else {
            (&mut total.dma_read, &mut total.dma_written)
        };
        *read = read.saturating_add(load.read);
        *written = written.saturating_add(load.written);
        total.busy += load.time(port);
    }
}

/// What bound an event: the resource that it used longest, contention counted to the memory. If none was in use for
/// half of the time, it was latency.
pub fn bound(event: &Event, system: &System) -> Bound {
    let (loads, engines) = match &event.what {
        What::Kernel(kernel) => {
            (&kernel.1.loads, vec![(kernel.1.mac, Bound::Compute), (kernel.1.output, Bound::Output)])
        }
        What::Dma(dma) => (&dma.loads, Vec::new()),
        What::Wait(_) => return Bound::Waiting,
    };
    let memories = loads.iter().zip(system.ports()).zip(&event.lost).enumerate();
    let memories = memories.map(|(index, ((load, port), &lost))| (load.time(port) + lost, Bound::Memory(index)));
    let mut most = (Ticks::ZERO, Bound::Latency);
    for candidate in engines.into_iter().chain(memories) {
        if candidate.0 > most.0 {
            most = candidate;
        }
    }
    let ran = event.end.saturating_sub(event.start);
    if most.0.times(2) < ran {
        Bound::Latency
    } else {
        most.1
    }
}
