//! The machine: takes payloads, walks their commands, executes kernels and transfers in order.
//! Owns the state between payloads (memory, SHRAM, decoded weights) and the report of a run.

use super::accelerator::Accelerator;
use super::context::{Context, Findings};
use super::decode::{decode, Command, Opcode};
use super::dma::read_dma;
use super::error::{Fault, NpuError, Warning};
use super::hazards::{Hazard, Inputs, Rules, Tracker};
use super::kernel_reader::read_kernel;
use super::memory::{Memory, REGION_COUNT};
use super::operation::{Elementwise, Kernel, KernelKind};
use super::payload;
use super::registers::RegisterFile;
use super::weight_cache::WeightCache;
use super::{conv, elementwise, pool, shram};
use crate::util::interrupt;

/// Most multiply-accumulates (or elements) of one payload that are simulated: minutes.
const MAX_WORK: u64 = 1 << 37;
/// Multiply-accumulates that one element costs where there are no weights.
const ELEMENT_WORK: u64 = 1 << 5;
/// Most elements of one row of an OFM.
const MAX_ROW: u64 = 1 << 26;

/// What one payload did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    /// Commands in the stream.
    pub commands: usize,
    /// Kernels that ran.
    pub kernels: usize,
    /// DMA transfers that ran.
    pub transfers: usize,
    /// Bytes that kernels and transfers read from regions, each row of an operand counted once per kernel.
    pub bytes_read: u64,
    /// Bytes that kernels and transfers wrote to regions.
    pub bytes_written: u64,
    /// Findings that did not stop the run, in order; 1000 at most.
    pub warnings: Vec<Warning>,
    /// Accesses that the stream's waits do not order, reads of unwritten bytes, inputs overwritten; 1000 at most.
    pub hazards: Vec<Hazard>,
}

/// An NPU with its memories.
#[derive(Debug, Clone)]
pub struct Machine {
    accelerator: &'static Accelerator,
    /// The regions.
    pub memory: Memory,
    /// What the hazards' shadow assumes of the hardware.
    pub rules: Rules,
    /// Network inputs that are watched.
    pub inputs: Inputs,
    /// Most multiply-accumulates (or elements) of one payload that are simulated.
    pub work_limit: u64,
    weights: WeightCache,
}

impl Machine {
    /// A machine without regions; add them to [`Machine::memory`]. `watch_uninitialised`: see [`Memory::new`].
    pub fn new(accelerator: &'static Accelerator, watch_uninitialised: bool) -> Machine {
        let memory = Memory::new(accelerator.shram_bytes(), watch_uninitialised);
        Machine {
            accelerator,
            memory,
            rules: Rules::default(),
            inputs: Inputs::default(),
            work_limit: MAX_WORK,
            weights: WeightCache::default(),
        }
    }

    /// The variant that is simulated.
    pub fn accelerator(&self) -> &'static Accelerator {
        self.accelerator
    }

    /// Runs one payload to its end. Registers start unset; memory and SHRAM are as they were left.
    ///
    /// # Errors
    /// What is wrong with the payload, or the first command that is wrong; what ran before it stays done.
    pub fn run(&mut self, payload: &[u8]) -> Result<RunReport, NpuError> {
        let payload = payload::parse(payload)?;
        payload::check_device(&payload, self.accelerator)?;
        let commands = decode(&payload.stream)?;
        let mut registers = RegisterFile::default();
        let mut findings = Findings::default();
        let mut tracker = Tracker::new(self.accelerator, self.rules);
        self.inputs.end_payload();
        let mut work = 0;
        let (mut kernels, mut transfers) = (0, 0);
        let (read, written) = (self.memory.bytes_read, self.memory.bytes_written);
        for (index, command) in commands.iter().enumerate() {
            interrupt::ask();
            findings.command = index;
            findings.operation = kernels + transfers;
            let fault = |fault| NpuError::Command { command: index, operation: command.name(), fault };
            match *command {
                Command::Set { register, value } => registers.set(register, value),
                Command::Operation { opcode: Opcode::DmaStart, .. } => {
                    let dma = read_dma(&registers, self.accelerator).map_err(fault)?;
                    work = self.spend(work, dma.work()).map_err(fault)?;
                    dma.execute(&mut self.memory).map_err(fault)?;
                    tracker.transfer(index, &dma, &self.memory, &mut self.inputs);
                    transfers += 1;
                }
                Command::Operation { opcode, parameter } => {
                    if let Some(kind) = kernel_kind(opcode, parameter).map_err(fault)? {
                        let kernel = read_kernel(&registers, self.accelerator, kind).map_err(fault)?;
                        work = kernel_work(&kernel).and_then(|amount| self.spend(work, amount)).map_err(fault)?;
                        self.kernel(&kernel, &mut findings).map_err(fault)?;
                        tracker.kernel(index, kernel, &self.memory, &mut self.inputs);
                        kernels += 1;
                    }
                    match opcode {
                        Opcode::KernelWait => tracker.wait_kernels(usize::from(parameter)),
                        Opcode::DmaWait => tracker.wait_transfers(usize::from(parameter)),
                        _ => {}
                    }
                }
            }
            let hole = self.memory.take_uninitialised();
            findings.uninitialised(command.name(), hole);
            if let Some((region, start, end)) = hole {
                tracker.unwritten(index, command.name(), Some(region).filter(|&r| r < REGION_COUNT), start, end);
            }
        }
        Ok(RunReport {
            commands: commands.len(),
            kernels,
            transfers,
            bytes_read: self.memory.bytes_read - read,
            bytes_written: self.memory.bytes_written - written,
            warnings: findings.warnings,
            hazards: tracker.into_hazards(),
        })
    }

    /// Adds the work of a command; refuses what would take minutes, as only damaged streams do.
    fn spend(&self, before: u64, work: u64) -> Result<u64, Fault> {
        let amount = before.saturating_add(work);
        if amount > self.work_limit {
            let what = "multiply-accumulates or bytes of the stream up to here";
            return Err(Fault::TooLarge { what, amount, limit: self.work_limit });
        }
        Ok(amount)
    }

    fn kernel(&mut self, kernel: &Kernel, findings: &mut Findings) -> Result<(), Fault> {
        shram::check(kernel, self.accelerator)?;
        let mut context =
            Context { memory: &mut self.memory, weights: &mut self.weights, accelerator: self.accelerator, findings };
        match kernel.kind {
            KernelKind::Conv | KernelKind::Depthwise => conv::execute(kernel, &mut context)?,
            KernelKind::Elementwise(function) => elementwise::execute(kernel, function, &mut context)?,
            KernelKind::MaxPool | KernelKind::AveragePool | KernelKind::ReduceSum => {
                pool::execute(kernel, &mut context)?;
            }
        }
        if self.accelerator.reserved_banks == 0 && !kernel.uses_table() {
            // Nothing is kept for tables here: the kernel may have had its buffers there.
            self.memory.clobber_shram(self.accelerator.lut_base());
        }
        Ok(())
    }
}

/// The kernel that an operation starts, if it starts one.
pub(super) fn kernel_kind(opcode: Opcode, parameter: u16) -> Result<Option<KernelKind>, Fault> {
    let unknown = |allowed| Fault::Range { register: "operation parameter", value: i64::from(parameter), allowed };
    Ok(match opcode {
        Opcode::Conv => Some(KernelKind::Conv),
        Opcode::Depthwise => Some(KernelKind::Depthwise),
        Opcode::Pool => Some(match parameter {
            0 => KernelKind::MaxPool,
            1 => KernelKind::AveragePool,
            2 => KernelKind::ReduceSum,
            _ => return Err(unknown("0..=2")),
        }),
        Opcode::Elementwise => {
            let function = Elementwise::from_code(parameter).ok_or_else(|| unknown("0..=9"))?;
            Some(KernelKind::Elementwise(function))
        }
        Opcode::DmaWait if parameter > 15 => return Err(unknown("0..=15")),
        Opcode::KernelWait if parameter > 3 => return Err(unknown("0..=3")),
        Opcode::Stop | Opcode::Irq | Opcode::DmaStart | Opcode::DmaWait | Opcode::KernelWait | Opcode::PmuMask => None,
    })
}

/// What a kernel costs here, in multiply-accumulates.
///
/// # Errors
/// [`Fault::TooLarge`] for rows that would take gigabytes: only damaged streams contain them.
pub(super) fn kernel_work(kernel: &Kernel) -> Result<u64, Fault> {
    let product = |sizes: &[u32]| sizes.iter().fold(1u64, |product, &n| product.saturating_mul(u64::from(n)));
    let (ifm, ofm, window) = (&kernel.ifm, &kernel.ofm, &kernel.window);
    let row = product(&[ofm.width, ofm.depth]);
    if row > MAX_ROW {
        return Err(Fault::TooLarge { what: "elements in a row of the OFM", amount: row, limit: MAX_ROW });
    }
    let inputs = if matches!(kernel.kind, KernelKind::Conv | KernelKind::ReduceSum) { ifm.depth } else { 1 };
    let weighted = matches!(kernel.kind, KernelKind::Conv | KernelKind::Depthwise);
    let work = product(&[ofm.height, ofm.width, ofm.depth, window.height, window.width, inputs]);
    let work = if weighted { work } else { work.saturating_mul(ELEMENT_WORK) };
    let weights = kernel.weights.iter().fold(0, |sum: u64, stream| sum.saturating_add(stream.length as u64));
    Ok(work.saturating_add(product(&[ifm.height, ifm.width, ifm.depth])).saturating_add(weights))
}
