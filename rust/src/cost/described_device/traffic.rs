//! What the memories of a described unit move, and how long that takes.
//!
//! Owns places, their traffic in bursts, and rates. What is moved, and beside what, is others' business.

use crate::model::device::DescribedUnit;
use crate::model::operation::Home;
use crate::npu::timing::Port;

/// What stands for any longer time, as out of reach, yet so that sums of many do not overflow.
pub const FOREVER: u64 = 1 << 48;

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Constants,
    Arena,
    Spill,
}

const PLACES: [Place; 3] = [Place::Constants, Place::Arena, Place::Spill];

/// Where the operands of an operation are.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub inputs: [Place; 2],
    pub output: Place,
    pub constants: Place,
}

impl Places {
    /// Everything in the arena's own memory, but for constants at their home.
    pub fn near(home: Home) -> Places {
        let constants = match home {
            Home::Constants => Place::Constants,
            Home::Arena => Place::Arena,
        };
        Places { inputs: [Place::Arena; 2], output: Place::Arena, constants }
    }
}

/// Bytes that are read and written, bursts rounded up, by place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    read: [u64; 3],
    written: [u64; 3],
}

impl Traffic {
    pub fn read(&mut self, place: Place, bytes: u64) {
        self.read[place as usize] += bytes;
    }

    pub fn write(&mut self, place: Place, bytes: u64) {
        self.written[place as usize] += bytes;
    }

    pub fn add(&mut self, other: &Traffic) {
        for place in PLACES {
            self.read(place, other.read[place as usize]);
            self.write(place, other.written[place as usize]);
        }
    }

    /// Cycles of each memory at full bandwidth. Places in equal memories share it: the first answers for all.
    pub fn busy(&self, unit: &DescribedUnit) -> [u64; 3] {
        let ours = self.by_memory(unit);
        PLACES.map(|place| {
            let i = place as usize;
            at_rate((ours.read[i] + ours.written[i]).into(), port(unit, place).bytes_per_cycle)
        })
    }

    /// Cycles of each memory, with the wait for the first byte read and for the last one written.
    pub fn cycles(&self, unit: &DescribedUnit) -> [u64; 3] {
        let (ours, busy) = (self.by_memory(unit), self.busy(unit));
        PLACES.map(|place| {
            let (i, port) = (place as usize, port(unit, place));
            let first = if ours.read[i] > 0 { u64::from(port.read_latency) } else { 0 };
            let last = if ours.written[i] > 0 { u64::from(port.write_latency) } else { 0 };
            first + busy[i] + last
        })
    }

    fn by_memory(&self, unit: &DescribedUnit) -> Traffic {
        let mut ours = Traffic::default();
        for place in PLACES {
            let same = |other: &Place| port(unit, *other) == port(unit, place);
            let first = PLACES.into_iter().find(same).unwrap_or(place);
            ours.read(first, self.read[place as usize]);
            ours.write(first, self.written[place as usize]);
        }
        ours
    }
}

/// The memory of a place; of what spills over, the arena's own if there is no other.
fn port(unit: &DescribedUnit, place: Place) -> &Port {
    match (place, &unit.spill) {
        (Place::Constants, _) => &unit.constants,
        (Place::Spill, Some(spill)) => &spill.memory,
        (Place::Spill, None) | (Place::Arena, _) => &unit.arena,
    }
}

/// Bytes of a burst of a place's memory.
pub fn burst(unit: &DescribedUnit, place: Place) -> u64 {
    port(unit, place).burst_bytes.into()
}

/// Cycles of `amount` at `rate` per cycle, rounded up; `FOREVER` at most.
pub fn at_rate(amount: u128, (numerator, denominator): (u32, u32)) -> u64 {
    let cycles = amount.saturating_mul(u128::from(denominator)).div_ceil(u128::from(numerator));
    u64::try_from(cycles).map_or(FOREVER, |cycles| cycles.min(FOREVER))
}
