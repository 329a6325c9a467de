//! Copies on a described unit: beside operations where it has a DMA engine, of constants carried by them where not.

use super::traffic::{burst, Traffic};
use crate::model::device::DescribedUnit;
use crate::model::ids::PoolId;
use crate::model::memory::Memories;
use crate::model::operation::{Home, StripeOperation};

/// Cycles of a copy of `bytes` constants into the scarce pool, beside operations; none without a DMA engine.
pub fn copy_cycles(unit: &DescribedUnit, bytes: u64) -> u64 {
    match unit.dma {
        Some(_) => stage(unit, bytes, Memories::SCARCE).0,
        None => 0,
    }
}

/// Cycles of a copy of a tensor of `bytes` from one pool to another.
pub fn tensor_copy_cycles(unit: &DescribedUnit, bytes: u64, from: PoolId, to: PoolId) -> u64 {
    copy(unit, bytes, from, to).0
}

/// What an operation on a part of a plane of `whole` pixels carries of the copy of its constants where nothing copies
/// beside it: its share by area, rounded up.
pub fn carried_cycles(unit: &DescribedUnit, op: &StripeOperation, whole: [i64; 2]) -> u64 {
    if unit.dma.is_some() || op.constants == Home::Constants {
        return 0;
    }
    let area = |plane: [i64; 2]| plane.iter().product::<i64>() as u64;
    let (cycles, _) = stage(unit, op.kernel.constant_bytes, Memories::SCARCE);
    (cycles * area(op.output.plane)).div_ceil(area(whole))
}

/// Cycles of a copy of `bytes` constants from their home, and what it moves.
pub(super) fn stage(unit: &DescribedUnit, bytes: u64, to: PoolId) -> (u64, Traffic) {
    copy(unit, bytes, unit.memories.constants(), to)
}

/// Cycles of a copy of `bytes` between pools, and what it moves.
///
/// A DMA engine reads and writes at once; without one, the engine reads, then writes.
pub(super) fn copy(unit: &DescribedUnit, bytes: u64, from: PoolId, to: PoolId) -> (u64, Traffic) {
    let mut traffic = Traffic::default();
    traffic.read(from, bytes.next_multiple_of(burst(unit, from)));
    traffic.write(to, bytes.next_multiple_of(burst(unit, to)));
    let moves = traffic.cycles(unit);
    let cycles = match unit.dma {
        Some(dma) => dma.start_cycles + moves.into_iter().max().unwrap_or(0),
        None => moves.into_iter().sum(),
    };
    (cycles, traffic)
}
