//! The machine: takes payloads, walks their commands, executes kernels and transfers in order.
//! Owns the state between payloads (memory, SHRAM, decoded weights) and the report of a run.

use super::accelerator::Accelerator;
use super::decode::{decode, Command, Opcode};
use super::dma::read_dma;
use super::error::{Fault, NpuError, Warning, WarningKind};
use super::kernel_reader::read_kernel;
use super::memory::{Memory, REGION_COUNT};
use super::operation::{Elementwise, Kernel, KernelKind};
use super::payload;
use super::registers::RegisterFile;
use super::weight_cache::WeightCache;
use super::{conv, elementwise, pool, shram};

/// Most multiply-accumulates of one kernel that are simulated.
const MAX_MULTIPLICATIONS: u64 = 1 << 37;
/// Most elements of one OFM, windows counted with their area, where there are no weights.
const MAX_ELEMENTS: u64 = 1 << 32;
/// Most elements of one row of an OFM.
const MAX_ROW: u64 = 1 << 26;
/// Most findings that a report keeps.
const MAX_WARNINGS: usize = 1000;

/// What a kernel works on.
pub(super) struct Context<'m> {
    pub memory: &'m mut Memory,
    pub weights: &'m mut WeightCache,
    pub accelerator: &'m Accelerator,
    pub findings: &'m mut Findings,
}

/// Findings of the command in progress and of those before.
#[derive(Debug, Default)]
pub(super) struct Findings {
    command: usize,
    warnings: Vec<Warning>,
}

impl Findings {
    fn add(&mut self, kind: WarningKind, message: String) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Warning { kind, command: self.command, message });
        }
    }

    /// A sum left the accumulator's range.
    pub fn accumulator_overflow(&mut self, bits: u32) {
        self.add(WarningKind::AccumulatorOverflow, format!("a sum does not fit the {bits}-bit accumulator"));
    }

    /// A value left the range of a 32-bit OFM.
    pub fn saturation(&mut self) {
        self.add(WarningKind::Saturation, "a value does not fit the 32-bit OFM and was saturated".to_string());
    }

    fn uninitialised(&mut self, what: &str, place: Option<(usize, usize)>) {
        if let Some((region, byte)) = place {
            let place = if region == REGION_COUNT { "SHRAM".to_string() } else { format!("region {region}") };
            self.add(
                WarningKind::UninitialisedRead,
                format!("{what} reads byte {byte} of {place}, which nobody wrote"),
            );
        }
    }
}

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
}

/// An NPU with its memories.
#[derive(Debug, Clone)]
pub struct Machine {
    accelerator: &'static Accelerator,
    /// The regions.
    pub memory: Memory,
    weights: WeightCache,
}

impl Machine {
    /// A machine without regions; add them to [`Machine::memory`]. `watch_uninitialised`: see [`Memory::new`].
    pub fn new(accelerator: &'static Accelerator, watch_uninitialised: bool) -> Machine {
        let memory = Memory::new(accelerator.shram_bytes(), watch_uninitialised);
        Machine { accelerator, memory, weights: WeightCache::default() }
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
        let (mut kernels, mut transfers) = (0, 0);
        let (read, written) = (self.memory.bytes_read, self.memory.bytes_written);
        for (index, command) in commands.iter().enumerate() {
            findings.command = index;
            let fault = |fault| NpuError::Command { command: index, operation: command.name(), fault };
            match *command {
                Command::Set { register, value } => registers.set(register, value),
                Command::Operation { opcode: Opcode::DmaStart, .. } => {
                    let dma = read_dma(&registers, self.accelerator).map_err(fault)?;
                    dma.execute(&mut self.memory).map_err(fault)?;
                    transfers += 1;
                }
                Command::Operation { opcode, parameter } => {
                    if let Some(kind) = kernel_kind(opcode, parameter).map_err(fault)? {
                        self.kernel(&registers, kind, &mut findings).map_err(fault)?;
                        kernels += 1;
                    }
                }
            }
            findings.uninitialised(command.name(), self.memory.take_uninitialised());
        }
        Ok(RunReport {
            commands: commands.len(),
            kernels,
            transfers,
            bytes_read: self.memory.bytes_read - read,
            bytes_written: self.memory.bytes_written - written,
            warnings: findings.warnings,
        })
    }

    fn kernel(&mut self, registers: &RegisterFile, kind: KernelKind, findings: &mut Findings) -> Result<(), Fault> {
        let kernel = read_kernel(registers, self.accelerator, kind)?;
        check_work(&kernel)?;
        shram::check(&kernel, self.accelerator)?;
        let mut context =
            Context { memory: &mut self.memory, weights: &mut self.weights, accelerator: self.accelerator, findings };
        match kind {
            KernelKind::Conv | KernelKind::Depthwise => conv::execute(&kernel, &mut context)?,
            KernelKind::Elementwise(function) => elementwise::execute(&kernel, function, &mut context)?,
            KernelKind::MaxPool | KernelKind::AveragePool | KernelKind::ReduceSum => {
                pool::execute(&kernel, &mut context)?;
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

/// Refuses kernels that would take minutes or gigabytes: only damaged streams contain them.
pub(super) fn check_work(kernel: &Kernel) -> Result<(), Fault> {
    let product = |sizes: &[u32]| sizes.iter().fold(1u64, |product, &n| product.saturating_mul(u64::from(n)));
    let (ofm, window) = (&kernel.ofm, &kernel.window);
    let inputs = if matches!(kernel.kind, KernelKind::Conv | KernelKind::ReduceSum) { kernel.ifm.depth } else { 1 };
    let row = product(&[ofm.width, ofm.depth]);
    let work = product(&[ofm.height, ofm.width, ofm.depth, window.height, window.width, inputs]);
    let weighted = matches!(kernel.kind, KernelKind::Conv | KernelKind::Depthwise);
    let (what, limit) =
        if weighted { ("multiply-accumulates", MAX_MULTIPLICATIONS) } else { ("elements", MAX_ELEMENTS) };
    if row > MAX_ROW {
        return Err(Fault::TooLarge { what: "elements in a row of the OFM", amount: row, limit: MAX_ROW });
    }
    if work > limit {
        return Err(Fault::TooLarge { what, amount: work, limit });
    }
    Ok(())
}
