//! Whether the description of a unit makes sense. Owns the limits of its numbers.

use crate::model::device::DescribedUnit;
use crate::npu::timing::Port;

/// Largest number in a rate, so that no product of them overflows.
const MAX_RATE: u32 = 1 << 16;
/// Largest overhead or latency, cycles.
const MAX_CYCLES: u64 = 1 << 24;
/// Largest granule.
const MAX_GRANULE: i64 = 1 << 16;

/// Whether a description makes sense.
///
/// # Errors
/// The sentence that names the field, its value and what it may be.
pub fn verify(unit: &DescribedUnit) -> Result<(), String> {
    if unit.engines.is_empty() {
        return Err("engines is empty; at least one engine must compute".into());
    }
    for pool in unit.memories.pools() {
        verify_memory(&pool.port)?;
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

fn verify_memory(port: &Port) -> Result<(), String> {
    let at = |name: &str| format!("{name} of the memory '{}'", port.name);
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
