//! From a payload to the steps that the schedule plays: each operation with the words before it and its cost alone.

use std::sync::Arc;

use super::super::accelerator::Accelerator;
use super::super::decode::{decode, Command, Opcode};
use super::super::dma::{read_dma, Dma};
use super::super::error::{Fault, NpuError};
use super::super::kernel_reader::read_kernel;
use super::super::operation::{Kernel, KernelKind};
use super::super::payload;
use super::super::registers::{Register, RegisterFile};
use super::super::run::{kernel_kind, kernel_work};
use super::kernel::{cost, KernelCost};
use super::rules::Rules;
use super::system::{ByPort, System, CONSTANTS_REGION};
use super::ticks::Ticks;
use super::traffic::{Load, TransferBytes};

/// What a kernel is, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelShape {
    /// What is computed.
    pub kind: KernelKind,
    /// OFM height, width, depth.
    pub ofm: [u32; 3],
    /// IFM height, width, depth.
    pub ifm: [u32; 3],
    /// OFM block height, width, depth.
    pub block: [u32; 3],
    /// BLOCKDEP.
    pub blockdep: u32,
}

impl KernelShape {
    /// The shape of a kernel.
    pub fn of(kernel: &Kernel) -> KernelShape {
        KernelShape {
            kind: kernel.kind,
            ofm: [kernel.ofm.height, kernel.ofm.width, kernel.ofm.depth],
            ifm: [kernel.ifm.height, kernel.ifm.width, kernel.ifm.depth],
            block: [kernel.block.height, kernel.block.width, kernel.block.depth],
            blockdep: kernel.blockdep,
        }
    }
}

/// The cost of a transfer alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DmaCost {
    /// Bytes copied.
    pub bytes: u64,
    /// What it does to each memory; nothing to SHRAM.
    pub loads: ByPort<Load>,
    /// Time alone: latencies of both ends, and the slower end's transfer.
    pub alone: Ticks,
}

impl DmaCost {
    /// The cost of `bytes` from one region to another; None is SHRAM.
    pub fn of(
        bytes: u64,
        source: Option<usize>,
        destination: Option<usize>,
        system: &System,
        rules: &Rules,
    ) -> DmaCost {
        let mut loads = system.by_port(Load::default());
        let moved = TransferBytes { bytes, cost: bytes };
        let mut latency = 0;
        if let Some(region) = source {
            loads[system.of_region(region)].add_read(moved);
            latency += u128::from(system.port(region).read_latency);
        }
        if let Some(region) = destination {
            loads[system.of_region(region)].add_write(moved);
            if rules.dma_write_latency {
                latency += u128::from(system.port(region).write_latency);
            }
        }
        let slower = loads.iter().zip(system.ports()).map(|(load, port)| load.time(port)).max();
        DmaCost { bytes, alone: slower.unwrap_or_default() + Ticks::cycles(latency), loads }
    }
}

/// What an operation does.
#[derive(Debug, Clone)]
pub enum Action {
    /// Starts a kernel.
    Kernel(Arc<(KernelShape, KernelCost)>),
    /// Starts a transfer.
    Dma(Arc<DmaCost>),
    /// Waits until at most this number of kernels is outstanding.
    KernelWait(u32),
    /// Waits until at most this number of transfers is outstanding.
    DmaWait(u32),
    /// Interrupts and counters: takes its word's time only.
    Nothing,
    /// Waits for everything.
    Stop,
}

/// One operation.
#[derive(Debug, Clone)]
pub struct Step {
    /// Index of the operation's command.
    pub command: usize,
    /// Words from the operation before to this one, its own included.
    pub words: u64,
    /// What it does.
    pub action: Action,
}

/// A payload's operations.
#[derive(Debug, Clone)]
pub struct Walk {
    /// In stream order.
    pub steps: Vec<Step>,
    /// Words of the stream.
    pub words: u64,
    /// Different bytes of the constants that weights, scales and transfers read: each must come once at least.
    pub constant_bytes: u64,
}

/// Reads a payload for a device.
///
/// # Errors
/// What is wrong with the payload, or the first command that is wrong.
pub fn walk(bytes: &[u8], accelerator: &Accelerator, system: &System, rules: &Rules) -> Result<Walk, NpuError> {
    let payload = payload::parse(bytes)?;
    payload::check_device(&payload, accelerator)?;
    let mut reader =
        Reader { registers: RegisterFile::default(), accelerator, system, rules, last: None, constants: Vec::new() };
    let (mut steps, mut words) = (Vec::new(), 0);
    for (command, decoded) in decode(&payload.stream)?.iter().enumerate() {
        match *decoded {
            Command::Set { register, value } => {
                reader.registers.set(register, value);
                reader.last = None;
                words += if register.is_wide() { 2 } else { 1 };
            }
            Command::Operation { opcode, parameter } => {
                let fault = |fault| NpuError::Command { command, operation: decoded.name(), fault };
                let action = reader.action(opcode, parameter).map_err(fault)?;
                steps.push(Step { command, words: words + 1, action });
                words = 0;
            }
        }
    }
    Ok(Walk { steps, words: payload.stream.len() as u64, constant_bytes: union_bytes(reader.constants) })
}

struct Reader<'a> {
    registers: RegisterFile,
    accelerator: &'a Accelerator,
    system: &'a System,
    rules: &'a Rules,
    /// The last action, while no register has changed since: with its opcode and parameter.
    last: Option<(Opcode, u16, Action)>,
    /// Ranges of the constants' region that are read.
    constants: Vec<(i64, i64)>,
}

impl Reader<'_> {
    fn action(&mut self, opcode: Opcode, parameter: u16) -> Result<Action, Fault> {
        if let Some((same_opcode, same_parameter, action)) = &self.last {
            if (*same_opcode, *same_parameter) == (opcode, parameter) {
                return Ok(action.clone());
            }
        }
        let action = match (kernel_kind(opcode, parameter)?, opcode) {
            (Some(kind), _) => {
                let kernel = read_kernel(&self.registers, self.accelerator, kind)?;
                Action::Kernel(Arc::new(self.kernel(&kernel)?))
            }
            (None, Opcode::DmaStart) => {
                let dma = read_dma(&self.registers, self.accelerator)?;
                Action::Dma(Arc::new(self.dma(&dma)))
            }
            (None, Opcode::KernelWait) => Action::KernelWait(u32::from(parameter)),
            (None, Opcode::DmaWait) => Action::DmaWait(u32::from(parameter)),
            (None, Opcode::Stop) => Action::Stop,
            _ => Action::Nothing,
        };
        self.last = Some((opcode, parameter, action.clone()));
        Ok(action)
    }

    fn kernel(&mut self, kernel: &Kernel) -> Result<(KernelShape, KernelCost), Fault> {
        kernel_work(kernel)?;
        for stream in kernel.weights.iter().chain(&kernel.scales) {
            self.constant(Some(stream.region), stream.base, stream.length as u64);
        }
        let shape = KernelShape::of(kernel);
        // Kernels without weights carry no trace of the register in `Kernel`.
        let parallel = self.accelerator.cores > 1 && self.registers.get(Register::PARALLEL_MODE)? == 1;
        Ok((shape, cost(kernel, self.accelerator, parallel, self.system, self.rules)?))
    }

    fn dma(&mut self, dma: &Dma) -> DmaCost {
        let bytes = (dma.length as u64).saturating_mul(u64::from(dma.rows)).saturating_mul(u64::from(dma.planes));
        if dma.source.strided == 0 {
            self.constant(dma.source.region, dma.source.address, bytes);
        }
        DmaCost::of(bytes, dma.source.region, dma.destination.region, self.system, self.rules)
    }

    fn constant(&mut self, region: Option<usize>, start: i64, bytes: u64) {
        if region == Some(CONSTANTS_REGION) {
            self.constants.push((start, start.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX))));
        }
    }
}

/// Bytes in the union of ranges.
fn union_bytes(mut ranges: Vec<(i64, i64)>) -> u64 {
    ranges.sort_unstable();
    let (mut bytes, mut reached) = (0u64, i64::MIN);
    for (start, end) in ranges {
        let start = start.max(reached);
        if end > start {
            bytes = bytes.saturating_add(end.abs_diff(start));
            reached = end;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_count_once() {
        assert_eq!(union_bytes(vec![(10, 20), (0, 5), (15, 30), (16, 18)]), 25);
        assert_eq!(union_bytes(vec![]), 0);
    }
}
