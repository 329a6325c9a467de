//! What the memories of a described unit move, and how long that takes.
//!
//! Owns traffic between pools, in bursts, and rates. What is moved, and beside what, is others' business.

use smallvec::SmallVec;

use crate::model::device::DescribedUnit;
use crate::model::ids::{Id, PoolId};
use crate::model::memory::{Memories, Pool, MAX_POOLS};
use crate::model::operation::Home;

/// The largest number of cycles: larger ones are cut to it, and sums do not overflow.
pub const FOREVER: u64 = 1 << 48;

/// Cycles of each pool.
pub type ByPool = SmallVec<[u64; 4]>;

/// Where the operands of an operation are.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub inputs: [PoolId; 2],
    pub output: PoolId,
    pub constants: PoolId,
}

impl Places {
    /// Everything in the scarce pool, but for constants at their home.
    pub fn near(unit: &DescribedUnit, home: Home) -> Places {
        let constants = match home {
            Home::Constants => unit.memories.constants(),
            Home::Arena => Memories::SCARCE,
        };
        Places { inputs: [Memories::SCARCE; 2], output: Memories::SCARCE, constants }
    }
}

/// Bytes that are read and written, bursts rounded up, by pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    read: [u64; MAX_POOLS],
    written: [u64; MAX_POOLS],
}

impl Traffic {
    pub fn read(&mut self, pool: PoolId, bytes: u64) {
        self.read[pool.index()] += bytes;
    }

    pub fn write(&mut self, pool: PoolId, bytes: u64) {
        self.written[pool.index()] += bytes;
    }

    pub fn add(&mut self, other: &Traffic) {
        for index in 0..MAX_POOLS {
            self.read[index] += other.read[index];
            self.written[index] += other.written[index];
        }
    }

    /// Cycles of each memory at full bandwidth. Pools behind equal ports share it: the first answers for all.
    pub fn busy(&self, unit: &DescribedUnit) -> ByPool {
        self.by_pool(unit, |_, _, busy| busy)
    }

    /// Cycles of each memory, with the wait for the first byte read and for the last one written.
    pub fn cycles(&self, unit: &DescribedUnit) -> ByPool {
        self.by_pool(unit, |read_latency, write_latency, busy| read_latency + busy + write_latency)
    }

    /// By pool: the latencies of what is read and written, if anything is, and the time at full bandwidth.
    fn by_pool(&self, unit: &DescribedUnit, sum: impl Fn(u64, u64, u64) -> u64) -> ByPool {
        let mut ours = Traffic::default();
        for pool in unit.memories.pools().ids() {
            let first = unit.memories.memory(pool);
            ours.read(first, self.read[pool.index()]);
            ours.write(first, self.written[pool.index()]);
        }
        let of = |(id, pool): (PoolId, &Pool)| {
            let (read, written) = (ours.read[id.index()], ours.written[id.index()]);
            let waits = |bytes: u64, latency: u32| if bytes > 0 { u64::from(latency) } else { 0 };
            let busy = at_rate((read + written).into(), pool.port.bytes_per_cycle);
            sum(waits(read, pool.port.read_latency), waits(written, pool.port.write_latency), busy)
        };
        unit.memories.pools().iter_ids().map(of).collect()
    }
}

/// Bytes of a burst of a pool.
pub fn burst(unit: &DescribedUnit, pool: PoolId) -> u64 {
    unit.memories.pool(pool).port.burst_bytes.into()
}

/// Cycles of `amount` at `rate` per cycle, rounded up; `FOREVER` at most.
pub fn at_rate(amount: u128, (numerator, denominator): (u32, u32)) -> u64 {
    let cycles = amount.saturating_mul(u128::from(denominator)).div_ceil(u128::from(numerator));
    u64::try_from(cycles).map_or(FOREVER, |cycles| cycles.min(FOREVER))
}
