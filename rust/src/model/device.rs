//! Devices that a network is planned for: what computes, between which memories.
//!
//! Owns the descriptions. What something costs on a device is asked of `cost`.

use super::operation::OperationKind;
use crate::npu::timing::{Port, Rules, System};
use crate::npu::Accelerator;
use crate::stripe::Axis;

/// Kernels that may be issued and unfinished, as on an Ethos-U; transfers may have to wait for these.
pub const KERNELS_IN_FLIGHT: usize = 2;

/// A compute unit, by what costs it.
#[derive(Clone, Debug)]
pub enum Unit {
    /// An Ethos-U by the rules of the timing model.
    EthosU(EthosU),
    /// Anything that its rates describe well enough: a CPU with a library of kernels, an NPU of coarse instructions.
    Described(DescribedUnit),
}

/// An Ethos-U and its memories as its timing model sees them.
#[derive(Clone, Debug)]
pub struct EthosU {
    /// The variant.
    pub accelerator: &'static Accelerator,
    /// Its memories: region 0 holds the constants, all others lie in the arena.
    pub system: System,
    /// The rules, as the referee has them.
    pub rules: Rules,
}

/// A unit described by data alone: engines with their rates, between memories with theirs. See `cost::described_device` for what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedUnit {
    /// What computes; a kind of operation runs on the engine that is fastest at it.
    pub engines: Vec<Engine>,
    /// Where constants live.
    pub constants: Port,
    /// Where tensors and staged constants live.
    pub arena: Port,
    /// What of the arena does not fit that memory.
    pub spill: Option<Spill>,
    /// Bytes that the tiles of one instruction (inputs, constants, output) share; None if operations are not tiled.
    pub buffer_bytes: Option<u64>,
    /// What moves data beside the engines; None if they move it themselves, and nothing overlaps.
    pub dma: Option<Dma>,
}

/// An engine of a [`DescribedUnit`] unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Name for messages.
    pub name: String,
    /// By [`OperationKind`]: multiply-accumulates, or elements taken in, per cycle as an exact fraction; None: cannot do it.
    pub rates: [Option<(u32, u32)>; OperationKind::COUNT],
    /// Height, width, input channels and output channels up to multiples of which an instruction's work is rounded.
    pub granule: [i64; 4],
    /// Cycles that an operation costs besides its work.
    pub operation_cycles: u64,
    /// Cycles that each of its instructions costs besides its work.
    pub instruction_cycles: u64,
}

/// The memory of what lies in the arena beyond its first `from_bytes` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spill {
    /// Bytes of the arena's own memory.
    pub from_bytes: u64,
    /// The memory behind it.
    pub memory: Port,
}

/// A DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// Cycles to start a copy.
    pub start_cycles: u64,
    /// Operations and copies under way at once, at least 1.
    pub in_flight: u32,
}

/// A device: what computes, over a memory of constants and one for everything else.
#[derive(Clone, Debug)]
pub struct Device {
    /// What computes.
    pub unit: Unit,
}

/// Where an Ethos-U keeps the tables that results are looked up in: slots at the end of its shared buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookUpArea {
    /// Whether kernels that look nothing up leave it alone. Where it is not apart, their buffers may lie in it.
    pub is_apart: bool,
}

impl LookUpArea {
    /// Slots.
    pub const SLOTS: usize = 8;
    /// Bytes of a slot.
    pub const SLOT_BYTES: u64 = 256;

    /// Slots that a table takes; the first is a multiple of their number.
    pub fn slots_of(bytes: u64) -> usize {
        (bytes.div_ceil(LookUpArea::SLOT_BYTES) as usize).next_power_of_two().min(LookUpArea::SLOTS)
    }
}

impl Device {
    /// Where tables lie; None where nobody has to load them.
    pub fn look_up_area(&self) -> Option<LookUpArea> {
        match &self.unit {
            Unit::EthosU(npu) => Some(LookUpArea { is_apart: npu.accelerator.reserved_banks > 0 }),
            Unit::Described(_) => None,
        }
    }

    /// An Ethos-U between its memories; equal ones are one memory.
    ///
    /// # Errors
    /// The sentence that says what makes no sense.
    pub fn ethos_u(name: &str, constants: Port, arena: Port) -> Result<Device, String> {
        let accelerator = Accelerator::by_name(name).ok_or_else(|| format!("there is no accelerator '{name}'"))?;
        let system = System::of_two(constants, arena)?;
        Ok(Device { unit: Unit::EthosU(EthosU { accelerator, system, rules: Rules::default() }) })
    }

    /// Rows or columns to which the work on a stripe is rounded up.
    pub fn granule(&self, axis: Axis) -> i64 {
        match &self.unit {
            Unit::EthosU(npu) => i64::from(npu.accelerator.micro_block[axis as usize]),
            Unit::Described(unit) => unit.engines.iter().map(|engine| engine.granule[axis as usize]).max().unwrap_or(1),
        }
    }
}
