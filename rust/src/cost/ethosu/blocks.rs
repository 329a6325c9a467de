//! Blocks worth trying for an operation. Owns the candidates; what they cost, and which is best, is `operation_cost`'s.

use smallvec::SmallVec;

use super::described::block_of;
use crate::model::device::EthosU;
use crate::model::operation::{Block, StripeOperation};
use crate::npu::operation;
use crate::npu::shram;

/// Largest OFM block (ETHOS-U TRM): height, width, depth.
pub const MAX_BLOCK: Block = [32, 64, 128];

/// Blocks of the kernel's own depth that fit SHRAM.
pub fn blocks(npu: &EthosU, op: &StripeOperation, kernel: &mut operation::Kernel) -> SmallVec<[operation::Block; 64]> {
    let micro = npu.accelerator.micro_block.map(i64::from);
    let plane = op.output.plane;
    let widths = extents(plane[1], micro[1], MAX_BLOCK[1]);
    let mut found = SmallVec::new();
    for height in extents(plane[0], micro[0], MAX_BLOCK[0]) {
        for &width in &widths {
            kernel.block = block_of([height, width, op.kernel.block_depth]);
            if !shram::fits(kernel, npu.accelerator) {
                break;
            }
            found.push(kernel.block);
        }
    }
    found
}

/// Block extents worth trying along an axis, ascending: the whole, even divisions, powers of two of the micro-block.
pub fn extents(plane: i64, micro: i64, limit: i64) -> SmallVec<[i64; 12]> {
    let whole = round_up(plane, micro);
    let mut found: SmallVec<[i64; 12]> = (1..=4).map(|n| round_up(div_ceil(plane, n), micro)).collect();
    let mut power = micro;
    while power < whole {
        found.push(power);
        power *= 2;
    }
    found.retain(|extent| *extent <= limit);
    found.sort_unstable();
    found.dedup();
    found
}

fn div_ceil(value: i64, by: i64) -> i64 {
    (value + by - 1) / by
}

/// A value up to the next multiple.
pub fn round_up(value: i64, to: i64) -> i64 {
    div_ceil(value, to) * to
}
