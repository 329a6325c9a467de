//! What an operation costs at least, whatever stripes, blocks and weight orders it is run with.
//!
//! Owns bounds that no schedule goes below. Chooses nothing.

use super::blocks::{blocks, MAX_BLOCK};
use super::described::{block_of, described};
use super::weight_orders::{ordered, orders};
use crate::model::device::EthosU;
use crate::model::operation::{Home, LowerBound, Slab, StripeOperation, WeightOrder};
use crate::npu::operation;
use crate::npu::shram;
use crate::npu::timing::kernel::Costing;
use crate::npu::timing::least::EngineFloor;
use crate::npu::timing::Ticks;

/// What an operation costs at least, however it is cut and wherever its constants are; cycles rounded down.
///
/// The engines' cycles are bounds for every cutting, block and weight order. `in_one_piece` is for the operation as a
/// single kernel: its cycles less what overlap (BLOCKDEP) may hide, the least over blocks, weight orders and both
/// homes of its constants. None if no block fits SHRAM.
pub fn floor(npu: &EthosU, op: &StripeOperation) -> Option<LowerBound> {
    let least = |order: WeightOrder, constants: Home| {
        let kernel = ordered(op.kernel, order);
        let op = StripeOperation { kernel: &kernel, constants, ..*op };
        let mut kernel = described(&op, [1, 1, kernel.block_depth]);
        let blocks = blocks(npu, &op, &mut kernel);
        let costing = Costing::new(&kernel, npu.accelerator, false, &npu.system, &npu.rules);
        blocks.iter().filter_map(|&block| costing.cost(block).ok()).map(|cost| cost.least.floor()).min()
    };
    let homes = [Home::Constants, Home::Arena];
    let in_one_piece = orders(npu, op.kernel).flat_map(|order| homes.map(|home| least(order, home))).flatten().min()?;
    let engines = |&part_kernel: &bool| {
        let kernel = operation::Kernel { part_kernel, ..described(op, [1, 1, 1]) };
        Costing::new(&kernel, npu.accelerator, false, &npu.system, &npu.rules).engine_floor()
    };
    let engines = [false, true].each_ref().map(engines);
    let fewest = |of: fn(&EngineFloor) -> Ticks| engines.iter().map(of).min().unwrap_or_default().floor();
    Some(LowerBound {
        mac: fewest(|floor| floor.mac),
        dense: fewest(|floor| floor.dense),
        output: fewest(|floor| floor.output),
        in_one_piece,
        planes: if op.kernel.kind.has_weights() { planes(npu, op) } else { Vec::new() },
    })
}

/// For each depth of OFM blocks up to the output's, the most pixels of a block of any stripe that fits SHRAM.
fn planes(npu: &EthosU, op: &StripeOperation) -> Vec<(i64, i64)> {
    let micro = npu.accelerator.micro_block.map(i64::from);
    let ends = [0, 1, 2].map(|axis| MAX_BLOCK[axis] / micro[axis]);
    let [rows, columns] = op.output.plane;
    // The accumulators of a single row take less.
    let kernels = [rows, 1].map(|height| {
        let op = StripeOperation { output: Slab { plane: [height, columns], ..op.output }, ..*op };
        let of = |part_kernel| operation::Kernel { part_kernel, ..described(&op, [1, 1, 1]) };
        (height, [of(false), of(true)])
    });
    let most = |depth: i64| {
        let sides = (1..=ends[0]).flat_map(|high| (1..=ends[1]).map(move |wide| [high * micro[0], wide * micro[1]]));
        let pixels = |[height, width]: [i64; 2]| {
            let block = block_of([height, width, depth]);
            let fits = |kernel: &operation::Kernel| {
                shram::fits(&operation::Kernel { block, ..kernel.clone() }, npu.accelerator)
            };
            let fitting = kernels.iter().filter(|(_, orders)| orders.iter().any(fits));
            fitting.map(|(rows, _)| height.min(*rows) * width.min(columns)).max()
        };
        sides.filter_map(pixels).max()
    };
    let depths = (1..=ends[2]).map(|deep| deep * micro[2]);
    let depths = depths.take_while(|depth| depth - micro[2] < op.kernel.ofm_depth);
    depths.filter_map(|depth| Some((depth, most(depth)?))).collect()
}
