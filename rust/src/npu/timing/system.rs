//! The memories around the NPU, as it sees them, and which region lies in which.

use smallvec::{smallvec, SmallVec};

use super::super::memory::REGION_COUNT;
use super::ticks::Ticks;

/// A value for each memory: nearly always two.
pub type ByPort<T> = SmallVec<[T; 2]>;

/// Runs shorter than this are not punished further, in bytes (no source; nothing shorter was observed).
const LEAST_RUN_BYTES: u64 = 16;
/// Region of the read-only constants.
pub const CONSTANTS_REGION: usize = 0;

/// One memory behind a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name for reports, for example `Sram`.
    pub name: String,
    /// Bandwidth in bytes per NPU cycle as an exact fraction: numerator, denominator. Reads and writes share it.
    pub bytes_per_cycle: (u32, u32),
    /// NPU cycles until the first byte of a read arrives.
    pub read_latency: u32,
    /// NPU cycles until a write is acknowledged.
    pub write_latency: u32,
    /// Bytes of the bursts in which this memory is efficient.
    pub burst_bytes: u32,
}

impl Port {
    /// Time to move `bytes` at full bandwidth.
    pub fn time(&self, bytes: u128) -> Ticks {
        let (numerator, denominator) = self.bytes_per_cycle;
        Ticks::ratio(bytes, u128::from(denominator), u128::from(numerator))
    }

    /// What `bytes` cost on this port, in bytes, if they come in contiguous runs of `run` bytes:
    /// `bytes * burst / min(burst, run)`, rounded up.
    pub fn burst_cost(&self, bytes: u64, run: u64) -> u64 {
        let burst = u64::from(self.burst_bytes);
        let useful = run.max(LEAST_RUN_BYTES).min(burst).max(1);
        if useful >= burst {
            return bytes;
        }
        u64::try_from((u128::from(bytes) * u128::from(burst)).div_ceil(u128::from(useful))).unwrap_or(u64::MAX)
    }
}

/// The memories and the way from regions to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    ports: Vec<Port>,
    regions: [usize; REGION_COUNT],
    commands: usize,
}

impl System {
    /// Memories, the memory (index) of each region, and the memory that holds the command stream.
    ///
    /// # Errors
    /// The sentence that says which index or bandwidth makes no sense.
    pub fn new(ports: Vec<Port>, regions: [usize; REGION_COUNT], commands: usize) -> Result<System, String> {
        for port in &ports {
            let (numerator, denominator) = port.bytes_per_cycle;
            if numerator == 0 || denominator == 0 {
                return Err(format!("the memory '{}' has the bandwidth {numerator}/{denominator}", port.name));
            }
        }
        if let Some(index) = regions.iter().chain([&commands]).find(|&&index| index >= ports.len()) {
            return Err(format!("a region lies in memory {index}, but there are {} memories", ports.len()));
        }
        Ok(System { ports, regions, commands })
    }

    /// The usual system: region 0 and the command stream lie with the constants, all other regions in the arena. Equal
    /// ports are one memory.
    ///
    /// # Errors
    /// The sentence that says which bandwidth makes no sense.
    pub fn of_two(constants: Port, arena: Port) -> Result<System, String> {
        if constants == arena {
            return System::new(vec![arena], [0; REGION_COUNT], 0);
        }
        let mut regions = [0; REGION_COUNT];
        regions[CONSTANTS_REGION] = 1;
        System::new(vec![arena, constants], regions, 1)
    }

    /// The memories.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The same value for each memory.
    pub fn by_port<T: Clone>(&self, value: T) -> ByPort<T> {
        smallvec![value; self.ports.len()]
    }

    /// Index of the memory that a region lies in.
    pub fn of_region(&self, region: usize) -> usize {
        self.regions[region % REGION_COUNT]
    }

    /// Index of the memory that the command stream lies in.
    pub fn commands(&self) -> usize {
        self.commands
    }

    /// The memory that a region lies in.
    pub fn port(&self, region: usize) -> &Port {
        &self.ports[self.of_region(region)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(rate: (u32, u32)) -> Port {
        Port { name: "p".into(), bytes_per_cycle: rate, read_latency: 1, write_latency: 1, burst_bytes: 32 }
    }

    #[test]
    fn time_and_bursts() {
        assert_eq!(port((15, 2)).time(30).ceil(), 4);
        let p = port((8, 1));
        assert_eq!(
            (p.burst_cost(64, 64), p.burst_cost(64, 16), p.burst_cost(64, 3), p.burst_cost(3, 24)),
            (64, 128, 128, 4)
        );
    }

    #[test]
    fn senseless_systems_are_refused() {
        assert!(System::new(vec![port((0, 1))], [0; REGION_COUNT], 0).is_err());
        assert!(System::new(vec![port((1, 1))], [1; REGION_COUNT], 0).is_err());
        assert!(System::new(vec![port((1, 1))], [0; REGION_COUNT], 0).is_ok());
    }
}
