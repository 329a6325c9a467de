//! Orders in which weights may be encoded. Owns the candidates; which is best for an operation is `operation_cost`'s.

use std::sync::Arc;

use smallvec::SmallVec;

use super::blocks::{round_up, MAX_BLOCK};
use crate::model::device::EthosU;
use crate::model::operation::{NpuOperation, OperationKind, WeightOrder};

/// Depths that split an OFM are multiples of this.
const SPLIT_DEPTH: i64 = 16;

/// A kernel whose constants are all in one order.
pub fn ordered(kernel: &NpuOperation, (block_depth, part_kernel): WeightOrder) -> NpuOperation {
    let (staged, sliced, joined, emitted) = (None, None, Vec::new(), Arc::default());
    NpuOperation { block_depth, part_kernel, staged, sliced, joined, emitted, ..*kernel }
}

/// Weight orders worth trying.
pub fn orders(npu: &EthosU, kernel: &NpuOperation) -> impl Iterator<Item = WeightOrder> {
    let micro = i64::from(npu.accelerator.micro_block[2]);
    let whole = round_up(kernel.ofm_depth, micro);
    let fits = move |&depth: &i64| {
        depth <= whole.min(MAX_BLOCK[2]) && depth % micro == 0 && (depth == whole || depth % SPLIT_DEPTH == 0)
    };
    let mut depths: SmallVec<[i64; 12]> = [8, 16, 32, 48, 64, 96, 128, whole].into_iter().filter(fits).collect();
    depths.dedup();
    let part_kernel_first: &[bool] = if kernel.kind == OperationKind::Convolution { &[false, true] } else { &[false] };
    part_kernel_first.iter().flat_map(move |&first| depths.clone().into_iter().map(move |depth| (depth, first)))
}
