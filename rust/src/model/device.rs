//! Devices that a network is planned for: what computes, between which memories.
//!
//! Owns the descriptions. What something costs on a device is asked of `cost`.

use super::memory::Memories;
use super::operation::OperationKind;
use crate::npu::timing::{Rules, System};
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
    /// Its memories: one pool of tensors.
    pub memories: Memories,
    /// The same as the timing model sees them: region 0 holds the constants, all others lie in the pool of tensors.
    pub system: System,
    /// The rules, as the referee has them.
    pub rules: Rules,
}

/// A unit described by data alone: engines with their rates, between memories with theirs. See `cost::described_device` for what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedUnit {
    /// What computes; a kind of operation runs on the engine that is fastest at it.
    pub engines: Vec<Engine>,
    /// Where constants live, and where tensors and staged constants may.
    pub memories: Memories,
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

/// A DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// Cycles to start a copy.
    pub start_cycles: u64,
    /// Operations and copies under way at once, at least 1.
    pub in_flight: u32,
}

/// A device: what computes, between its memories.
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

    /// An Ethos-U between its memories. Commands are emitted for a single pool of tensors.
    ///
    /// # Errors
    /// The sentence that says what makes no sense.
    pub fn ethos_u(name: &str, memories: Memories) -> Result<Device, String> {
        let accelerator = Accelerator::by_name(name).ok_or_else(|| format!("there is no accelerator '{name}'"))?;
        if let Some(&second) = memories.spacious().first() {
            let [first, second] = [Memories::SCARCE, second].map(|pool| memories.name(pool));
            return Err(format!(
                "tensors may lie in '{first}' and in '{second}'; commands for '{name}' are emitted for one memory of tensors"
            ));
        }
        let [constants, arena] = [memories.constants(), Memories::SCARCE].map(|pool| memories.pool(pool).port.clone());
        let system = System::of_two(constants, arena)?;
        Ok(Device { unit: Unit::EthosU(EthosU { accelerator, memories, system, rules: Rules::default() }) })
    }

    /// Its memories.
    pub fn memories(&self) -> &Memories {
        match &self.unit {
            Unit::EthosU(npu) => &npu.memories,
            Unit::Described(unit) => &unit.memories,
        }
    }

    /// Rows or columns to which the work on a stripe is rounded up.
    pub fn granule(&self, axis: Axis) -> i64 {
        match &self.unit {
            Unit::EthosU(npu) => i64::from(npu.accelerator.micro_block[axis as usize]),
            Unit::Described(unit) => unit.engines.iter().map(|engine| engine.granule[axis as usize]).max().unwrap_or(1),
        }
    }
}
