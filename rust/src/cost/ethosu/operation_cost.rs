//! What an operation on one stripe, or a copy, costs; its best block, and the best order of its weights.
//!
//! Owns the choice. The costs themselves are the timing model's (`npu::timing`), the referee of the finished stream.

use smallvec::SmallVec;

use super::blocks::blocks;
use super::described::described;
use super::weight_orders::{ordered, orders};
use crate::model::device::{timed_region, EthosU};
use crate::model::ids::PoolId;
use crate::model::memory::Memories;
use crate::model::operation::{Block, Cost, Home, NpuOperation, StripeOperation, WeightOrder};
use crate::npu::operation;
use crate::npu::shram;
use crate::npu::timing::kernel::{self, Costing, KernelCost};
use crate::npu::timing::system::CONSTANTS_REGION;
use crate::npu::timing::walk::{DmaCost, KernelShape};
use crate::npu::timing::Ticks;

/// The scarce pool's region in the timing model.
const SCARCE_REGION: usize = timed_region(Memories::SCARCE);
/// To choose a block, one kernel in this number plus one is assumed to have a copy beside it.
const ALONE: u64 = 4;
/// Bytes by which the rates of memories are compared.
const COPIED_BYTES: u128 = 1 << 16;

/// An operation with its block, as the referee will see it.
#[derive(Debug)]
pub struct PlannedKernel {
    /// Extents.
    pub shape: KernelShape,
    /// What it costs alone.
    pub cost: KernelCost,
    /// Where its buffers lie in the shared memory.
    pub shram: operation::ShramLayout,
}

/// An operation with a given block.
///
/// # Panics
/// If the operation has more different blocks than the referee looks at, which no graph within SHRAM has.
pub fn planned(npu: &EthosU, op: &StripeOperation, block: Block) -> PlannedKernel {
    let kernel = described(op, block);
    let cost = kernel::cost(&kernel, npu.accelerator, false, &npu.system, &npu.rules);
    PlannedKernel {
        shape: KernelShape::of(&kernel),
        cost: cost.expect("a planned stripe has few different blocks"),
        shram: shram::layout(&kernel, npu.accelerator),
    }
}

/// The cost of a copy of constants into a pool of tensors.
pub fn copy_cost(npu: &EthosU, bytes: u64, to: PoolId) -> DmaCost {
    DmaCost::of(bytes, Some(CONSTANTS_REGION), Some(timed_region(to)), &npu.system, &npu.rules)
}

/// The cost of a copy of a table from the constants into the shared buffer.
pub fn table_cost(npu: &EthosU, bytes: u64) -> DmaCost {
    DmaCost::of(bytes, Some(CONSTANTS_REGION), None, &npu.system, &npu.rules)
}

/// The cheapest block of the kernel's own depth; None if no block fits SHRAM.
///
/// That is the least of what `weighted` says, then the larger one. Blocks are tried in ascending order of a lower bound,
/// until the bound exceeds the least.
pub fn best_block(npu: &EthosU, op: &StripeOperation) -> Option<Cost> {
    let mut kernel = described(op, [1, 1, op.kernel.block_depth]);
    let blocks = blocks(npu, op, &mut kernel);
    let costing = Costing::new(&kernel, npu.accelerator, false, &npu.system, &npu.rules);
    let mut candidates: SmallVec<[(Ticks, operation::Block); 64]> =
        blocks.iter().map(|&block| (costing.least(block), block)).collect();
    candidates.sort_unstable_by_key(|&(least, block)| (least, -i64::from(block.height * block.width), block.height));
    let mut found: Option<(([u64; 2], i64), KernelCost, operation::Block)> = None;
    for &(least, block) in &candidates {
        if found.as_ref().is_some_and(|(([sum, _], _), ..)| least.ceil().saturating_mul(ALONE + 1) > *sum) {
            break;
        }
        let Ok(cost) = costing.cost(block) else { continue };
        let rank = (weighted(npu, &cost), -i64::from(block.height * block.width));
        if found.as_ref().is_none_or(|(best, ..)| rank < *best) {
            found = Some((rank, cost, block));
        }
    }
    let (([_, cycles], _), cost, block) = found?;
    let beside_copies = cycles.max(beside_copies(npu, &cost));
    let constants = match op.constants {
        Home::Constants => constants_time(npu, &cost).ceil(),
        Home::Arena => 0,
    };
    Some(Cost { cycles, constants, beside_copies, block: [block.height, block.width, block.depth].map(i64::from) })
}

/// By what blocks are compared: cycles of a kernel that runs `ALONE` times alone and once beside copies, and alone.
pub(super) fn weighted(npu: &EthosU, cost: &KernelCost) -> [u64; 2] {
    let alone = cost.alone.ceil();
    [alone.saturating_mul(ALONE).saturating_add(alone.max(beside_copies(npu, cost))), alone]
}

/// How long a kernel keeps the arena's memory busy while copies of constants take from it what their source delivers; 0
/// where the constants lie there as well.
pub(super) fn beside_copies(npu: &EthosU, cost: &KernelCost) -> u64 {
    let [constants, arena] = [CONSTANTS_REGION, SCARCE_REGION].map(|region| npu.system.of_region(region));
    if constants == arena {
        return 0;
    }
    let ports = npu.system.ports();
    let [written, read] = [arena, constants].map(|index| ports[index].time(COPIED_BYTES).ceil());
    let busy = cost.loads[arena].time(&ports[arena]).ceil();
    busy.saturating_mul(read).checked_div(read.saturating_sub(written)).unwrap_or(u64::MAX)
}

/// How long the memory of constants is busy; none where it is the arena's.
fn constants_time(npu: &EthosU, cost: &KernelCost) -> Ticks {
    let index = npu.system.of_region(CONSTANTS_REGION);
    if index == npu.system.of_region(SCARCE_REGION) {
        return Ticks::ZERO;
    }
    cost.loads[index].time(&npu.system.ports()[index])
}

/// Weight orders for a kernel: the best for constants that are read in place, and the best for constants in the arena, of
/// the unstriped operation; None if nothing fits SHRAM.
///
/// `known` has the bytes of constants by order, as far as they are encoded; all others are taken to have as many as the
/// kernel says. Where the constants' memory binds, many orders are equally good in place: then the one that is better in the
/// arena wins, as it does with less of its traffic.
pub fn choose_encoding(npu: &EthosU, op: &StripeOperation, known: &[(WeightOrder, u64)]) -> Option<[WeightOrder; 2]> {
    let candidates: SmallVec<[(WeightOrder, [u64; 2]); 24]> = orders(npu, op.kernel)
        .filter_map(|order| {
            let bytes = known.iter().find(|(known, _)| *known == order).map(|&(_, bytes)| bytes);
            let constant_bytes = bytes.unwrap_or(op.kernel.constant_bytes);
            let kernel = NpuOperation { constant_bytes, ..ordered(op.kernel, order) };
            let cycles = |constants| {
                best_block(npu, &StripeOperation { kernel: &kernel, constants, ..*op }).map(|cost| cost.cycles)
            };
            Some((order, [cycles(Home::Constants)?, cycles(Home::Arena)?]))
        })
        .collect();
    let in_place = candidates.iter().min_by_key(|(_, [in_place, staged])| (in_place, staged))?;
    let staged = candidates.iter().min_by_key(|(_, [in_place, staged])| (staged, in_place))?;
    Some([in_place.0, staged.0])
}
