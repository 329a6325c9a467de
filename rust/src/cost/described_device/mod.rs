//! Devices that are described by data alone: what operations, copies and whole programs cost on them.
//!
//! Owns the meaning of a [`DescribedUnit`] description, and whether it makes sense. An operation is cut into blocks; each is one
//! instruction of an engine, its tiles of input, constants and output share the buffer. Work is rounded up to the
//! engine's granules, traffic to the bursts of each memory, all in exact integers. Knows nothing of Plans; docs/devices.md
//! is the same in words.

mod operation;
mod play;
#[cfg(test)]
mod tests;

pub use operation::best_block;
pub use play::cycles;

use crate::model::device::DescribedUnit;
use crate::model::operation::{Home, StripeOperation};
use crate::npu::timing::Port;
use operation::{Place, Traffic};

/// Largest number in a rate, so that no product of them overflows.
const MAX_RATE: u32 = 1 << 16;
/// Largest overhead or latency, cycles.
const MAX_CYCLES: u64 = 1 << 24;
/// Largest granule.
const MAX_GRANULE: i64 = 1 << 16;
/// Most cycles of one operation, so that no sum of a program's overflows: more than a minute of any such device.
const MAX_OPERATION_CYCLES: u64 = 1 << 36;
/// What stands for any longer time, as out of reach, yet so that sums of many do not overflow.
const FOREVER: u64 = 1 << 48;

/// Whether a description makes sense.
///
/// # Errors
/// The sentence that names the field, its value and what it may be.
pub fn verify(unit: &DescribedUnit) -> Result<(), String> {
    if unit.engines.is_empty() {
        return Err("engines is empty; at least one engine must compute".into());
    }
    verify_memory("constants", &unit.constants)?;
    verify_memory("arena", &unit.arena)?;
    if let Some(spill) = &unit.spill {
        verify_memory("spill", &spill.memory)?;
    }
    if unit.buffer_bytes == Some(0) {
        return Err("buffer_bytes is 0; tiles need room, None stands for operations that are not tiled".into());
    }
    for (index, engine) in unit.engines.iter().enumerate() {
        let at = |field: &str| format!("engines[{index}].{field} of '{}'", engine.name);
        if engine.rates.iter().all(Option::is_none) {
            return Err(format!("{} is empty; an engine runs at least one primitive", at("rates")));
        }
        for &rate in engine.rates.iter().flatten() {
            verify_rate(&at("rates"), rate)?;
        }
        if let Some(granule) = engine.granule.iter().find(|granule| !(1..=MAX_GRANULE).contains(*granule)) {
            return Err(format!("{} has {granule}; granules are 1 to {MAX_GRANULE}", at("granule")));
        }
        verify_cycles(&at("operation_cycles"), engine.operation_cycles)?;
        verify_cycles(&at("instruction_cycles"), engine.instruction_cycles)?;
    }
    let Some(dma) = unit.dma else { return Ok(()) };
    verify_cycles("dma.start_cycles", dma.start_cycles)?;
    if dma.in_flight == 0 {
        return Err("dma.in_flight is 0; at least one operation or copy is under way".into());
    }
    Ok(())
}

fn verify_memory(field: &str, port: &Port) -> Result<(), String> {
    let at = |name: &str| format!("{field}.{name} of '{}'", port.name);
    verify_rate(&at("bytes_per_cycle"), port.bytes_per_cycle)?;
    verify_cycles(&at("read_latency"), port.read_latency.into())?;
    verify_cycles(&at("write_latency"), port.write_latency.into())?;
    if !(1..=MAX_RATE).contains(&port.burst_bytes) {
        return Err(format!("{} is {}; it may be 1 to {MAX_RATE}", at("burst_bytes"), port.burst_bytes));
    }
    Ok(())
}

fn verify_rate(field: &str, (numerator, denominator): (u32, u32)) -> Result<(), String> {
    if [numerator, denominator].iter().all(|number| (1..=MAX_RATE).contains(number)) {
        return Ok(());
    }
    Err(format!("{field} is {numerator}/{denominator}; both numbers of a rate are 1 to {MAX_RATE}"))
}

fn verify_cycles(field: &str, cycles: u64) -> Result<(), String> {
    if cycles <= MAX_CYCLES {
        return Ok(());
    }
    Err(format!("{field} is {cycles}; it may be 0 to {MAX_CYCLES} cycles"))
}

/// Cycles of a copy of `bytes` constants into the arena, beside operations; none without a DMA engine.
pub fn copy_cycles(unit: &DescribedUnit, bytes: u64) -> u64 {
    match unit.dma {
        Some(_) => copy(unit, bytes, Place::Arena).0,
        None => 0,
    }
}

/// What an operation on a part of a plane of `whole` pixels carries of the copy of its constants where nothing copies
/// beside it: its share by area, rounded up.
pub fn carried_cycles(unit: &DescribedUnit, op: &StripeOperation, whole: [i64; 2]) -> u64 {
    if unit.dma.is_some() || op.constants == Home::Constants {
        return 0;
    }
    let area = |plane: [i64; 2]| plane.iter().product::<i64>() as u64;
    let (cycles, _) = copy(unit, op.kernel.constant_bytes, Place::Arena);
    (cycles * area(op.output.plane)).div_ceil(area(whole))
}

/// Cycles of a copy of `bytes` constants, and what it moves.
///
/// A DMA engine reads and writes at once; without one, whoever computes reads, then writes.
fn copy(unit: &DescribedUnit, bytes: u64, to: Place) -> (u64, Traffic) {
    let mut traffic = Traffic::default();
    traffic.read(Place::Constants, bytes.next_multiple_of(burst(unit, Place::Constants)));
    traffic.write(to, bytes.next_multiple_of(burst(unit, to)));
    let moves = traffic.cycles(unit);
    let cycles = match unit.dma {
        Some(dma) => dma.start_cycles + moves.into_iter().max().unwrap_or(0),
        None => moves.into_iter().sum(),
    };
    (cycles, traffic)
}

/// The memory of a place; of what spills over, the arena's own if there is no other.
fn port(unit: &DescribedUnit, place: Place) -> &Port {
    match (place, &unit.spill) {
        (Place::Constants, _) => &unit.constants,
        (Place::Spill, Some(spill)) => &spill.memory,
        (Place::Spill, None) | (Place::Arena, _) => &unit.arena,
    }
}

fn burst(unit: &DescribedUnit, place: Place) -> u64 {
    port(unit, place).burst_bytes.into()
}

/// Cycles of `amount` at `rate` per cycle, rounded up; `FOREVER` at most.
fn at_rate(amount: u128, (numerator, denominator): (u32, u32)) -> u64 {
    let cycles = amount.saturating_mul(u128::from(denominator)).div_ceil(u128::from(numerator));
    u64::try_from(cycles).map_or(FOREVER, |cycles| cycles.min(FOREVER))
}
