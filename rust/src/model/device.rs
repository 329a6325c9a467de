//! Devices that a network is planned for: what computes, between which memories.
//!
//! Owns the descriptions. What something costs on a device is asked of `cost`.

use super::ids::{Id, PoolId};
use super::memory::Memories;
use super::operation::OperationKind;
use crate::npu::memory::REGION_COUNT;
use crate::npu::timing::system::{Port, CONSTANTS_REGION};
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
    /// Its memories.
    pub memories: Memories,
    /// The same as the timing model sees them: region 0 holds the constants, and the region behind a pool's number that
    /// pool of tensors.
    pub system: System,
    /// The rules, as the referee has them.
    pub rules: Rules,
}

/// A unit described by data alone: engines with their rates, between memories with theirs. See `cost::described_device`
/// for what it means.
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

/// By pool of tensors the region of it that commands name, where there are two pools: drivers take region 1 for the arena
/// and region 2 for the fast memory beside it.
const COMMAND_REGIONS: [usize; 2] = [2, 1];
/// The region of the arena, where it is the only pool.
const ARENA_REGION: usize = 1;
/// The region of the first external input, behind those of the arena and the fast memory.
const INPUT_REGION: usize = 3;

impl EthosU {
    /// The region, in commands, of a pool of tensors or of an external input.
    pub fn command_region(&self, pool: PoolId) -> usize {
        match self.memories.inputs().iter().position(|&external| external == pool) {
            Some(number) => INPUT_REGION + number,
            None if self.memories.spacious().is_empty() => ARENA_REGION,
            None => COMMAND_REGIONS[pool.index()],
        }
    }
}

/// The memories as the timing model sees them.
fn system(memories: &Memories) -> Result<System, String> {
    let of = |pool: PoolId| memories.pool(pool).port.clone();
    let mut ports: Vec<Port> = Vec::new();
    let mut number = |pool: PoolId| {
        let port = of(pool);
        let known = ports.iter().position(|other| *other == port);
        known.unwrap_or_else(|| {
            ports.push(port);
            ports.len() - 1
        })
    };
    let mut regions = [number(Memories::SCARCE); REGION_COUNT];
    for pool in memories.spacious() {
        regions[timed_region(pool)] = number(pool);
    }
    let constants = number(memories.constants());
    regions[CONSTANTS_REGION] = constants;
    for &pool in memories.inputs() {
        regions[timed_region(pool)] = number(pool);
    }
    System::new(ports, regions, constants)
}

/// The region, in `EthosU::system`, of a pool of tensors or of an external input.
pub const fn timed_region(pool: PoolId) -> usize {
    1 + pool.0 as usize
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
    /// The memory of tables; None where they need no loading.
    pub fn look_up_area(&self) -> Option<LookUpArea> {
        match &self.unit {
            Unit::EthosU(npu) => Some(LookUpArea { is_apart: npu.accelerator.reserved_banks > 0 }),
            Unit::Described(_) => None,
        }
    }

    /// An Ethos-U between its memories. Commands are emitted for one or two pools of tensors.
    ///
    /// # Errors
    /// The sentence that says what makes no sense.
    pub fn ethos_u(name: &str, memories: Memories) -> Result<Device, String> {
        let accelerator = Accelerator::by_name(name).ok_or_else(|| format!("there is no accelerator '{name}'"))?;
        let count = memories.tensors().len();
        if count > COMMAND_REGIONS.len() {
            return Err(format!(
                "tensors may lie in {count} memories; commands for '{name}' are emitted for at most two"
            ));
        }
        if !memories.inputs().is_empty() && count > 1 {
            return Err("inputs are external, and tensors may lie in two memories; commands are emitted for one".into());
        }
        let system = system(&memories)?;
        Ok(Device { unit: Unit::EthosU(EthosU { accelerator, memories, system, rules: Rules::default() }) })
    }

    /// Whether tensors that the CPU, the caller, or more than one run of the NPU touches lie behind the scarce pool: runtimes
    /// know the arena alone, and the scarce pool of an Ethos-U that has two is its own during a run.
    pub fn keeps_interface_behind(&self) -> bool {
        matches!(self.unit, Unit::EthosU(_)) && !self.memories().spacious().is_empty()
    }

    /// Whether results of an element-wise operation may lie where their elements lay.
    ///
    /// An Ethos-U reads each block before it writes it. A description of a device does not say.
    pub fn writes_over_operands(&self) -> bool {
        matches!(self.unit, Unit::EthosU(_))
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

#[cfg(test)]
mod tests {
    use super::super::memory::Pool;
    use super::*;

    fn pool(name: &str, bytes_per_cycle: u32, limit_bytes: Option<u64>) -> Pool {
        let port = Port {
            name: name.into(),
            bytes_per_cycle: (bytes_per_cycle, 1),
            read_latency: 0,
            write_latency: 0,
            burst_bytes: 1,
        };
        Pool { port, limit_bytes }
    }

    fn npu(tensors: Vec<Pool>, constants: Pool) -> EthosU {
        let memories = Memories::new(tensors, constants).expect("they make sense");
        let device = Device::ethos_u("ethos-u65-256", memories).expect("there is such a device");
        assert_eq!(device.keeps_interface_behind(), device.memories().spacious().len() == 1);
        match device.unit {
            Unit::EthosU(npu) => npu,
            Unit::Described(_) => unreachable!("it was made as an Ethos-U"),
        }
    }

    #[test]
    fn regions_of_two_pools_are_those_of_drivers() {
        let (sram, dram) = (pool("sram", 16, Some(4096)), pool("dram", 4, None));
        let one = npu(vec![sram.clone()], dram.clone());
        assert_eq!(one.command_region(Memories::SCARCE), 1);
        let two = npu(vec![sram.clone(), dram.clone()], dram.clone());
        assert_eq!([0, 1].map(|pool| two.command_region(PoolId(pool))), [2, 1]);
        // Constants in DRAM share its port with the tensors there.
        let ports = |pool| two.system.of_region(timed_region(PoolId(pool)));
        assert_eq!((two.system.ports().len(), ports(0), ports(1)), (2, 0, 1));
        assert_eq!(two.system.of_region(CONSTANTS_REGION), ports(1));
        let three = npu(vec![sram, dram], pool("flash", 1, None));
        assert_eq!((three.system.ports().len(), three.system.of_region(CONSTANTS_REGION)), (3, 2));
    }

    #[test]
    fn commands_know_two_pools_at_most() {
        let tensors = ["a", "b", "c"].map(|name| pool(name, 8, Some(64))).to_vec();
        let memories = Memories::new(tensors, pool("flash", 1, None)).expect("they make sense");
        assert!(Device::ethos_u("ethos-u65-256", memories).is_err_and(|why| why.contains("in 3 memories")));
    }
}
