//! Operations of an Ethos-U on one stripe: what they cost, which OFM block is best, how weights are to be encoded.
//!
//! Owns the description of a stripe as the registers will describe it, and the choice of blocks. The costs themselves are
//! the timing model's (`npu::timing`), the referee of the finished stream. Knows nothing of Plans and programs.

use smallvec::SmallVec;

use crate::npu::arithmetic::Rounding;
use crate::npu::feature_map::{self, ElementType, FeatureMap};
use crate::npu::operation::{
    self, Activation, Elementwise, Function, KernelKind, Operand2, OperandScaling, ShramLayout, Stream, Window,
};
use crate::npu::shram;
use crate::npu::timing::kernel::{self, Costing, KernelCost};
use crate::npu::timing::least::EngineFloor;
use crate::npu::timing::system::CONSTANTS_REGION;
use crate::npu::timing::walk::{DmaCost, KernelShape};
use crate::npu::timing::Ticks;
use crate::performance::{Block, Cost, EthosU, Floor, Home, Kernel, Layout, Operation, Order, Primitive, Slab};

/// Region of the arena, as the writer of command streams numbers them.
const ARENA_REGION: usize = 1;
/// Largest OFM block (ETHOS-U TRM): height, width, depth.
const MAX_BLOCK: Block = [32, 64, 128];
/// Depths that split an OFM are multiples of this.
const SPLIT_DEPTH: i64 = 16;
/// Bytes of a channel's scale record.
const SCALE_BYTES: u64 = 10;
/// Blocks within one part in this of the fastest are as good, as overlap hides that much of their filling and draining.
const ALIKE: u64 = 512;
/// Bytes by which the rates of memories are compared.
const COPIED_BYTES: u128 = 1 << 16;
const INT8: ElementType = ElementType { bits: 8, signed: true };

/// An operation with its block, as the referee will see it.
#[derive(Debug)]
pub struct Planned {
    /// Extents.
    pub shape: KernelShape,
    /// What it costs alone.
    pub cost: KernelCost,
    /// Banks of the shared buffer for the input, and for the accumulators or the second operand.
    pub banks: [u32; 2],
}

/// An operation with a given block.
///
/// # Panics
/// If the operation has more different blocks than the referee looks at, which no graph within SHRAM has.
pub fn planned(npu: &EthosU, op: &Operation, block: Block) -> Planned {
    let kernel = described(op, block);
    let cost = kernel::cost(&kernel, npu.accelerator, false, &npu.system, &npu.rules);
    Planned {
        shape: KernelShape::of(&kernel),
        cost: cost.expect("a planned stripe has few different blocks"),
        banks: shram::banks(&kernel, npu.accelerator),
    }
}

/// The cost of a copy of constants into the arena.
pub fn copy_cost(npu: &EthosU, bytes: u64) -> DmaCost {
    DmaCost::of(bytes, Some(CONSTANTS_REGION), Some(ARENA_REGION), &npu.system, &npu.rules)
}

/// The cheapest block of the kernel's own depth; None if no block fits SHRAM.
///
/// Among blocks that take alone hardly longer than the fastest, that is the one which a copy running beside it slows down
/// least; ties go to the faster, then the larger one. Blocks are tried in the order of what they cost at least, until that
/// is more than is acceptable.
pub fn best_block(npu: &EthosU, op: &Operation) -> Option<Cost> {
    let mut kernel = described(op, [1, 1, op.kernel.block_depth]);
    let blocks = blocks(npu, op, &mut kernel);
    let costing = Costing::new(&kernel, npu.accelerator, false, &npu.system, &npu.rules);
    let mut candidates: SmallVec<[(Ticks, operation::Block); 64]> =
        blocks.iter().map(|&block| (costing.least(block), block)).collect();
    candidates.sort_unstable_by_key(|&(least, block)| (least, -i64::from(block.height * block.width), block.height));
    let mut costed: SmallVec<[(u64, KernelCost, operation::Block); 16]> = SmallVec::new();
    let mut fastest = u64::MAX;
    for &(least, block) in &candidates {
        if least.ceil() > acceptable(fastest) {
            break;
        }
        let Ok(cost) = costing.cost(block) else { continue };
        let alone = cost.alone.ceil();
        fastest = fastest.min(alone);
        costed.push((alone, cost, block));
    }
    costed.retain(|(alone, ..)| *alone <= acceptable(fastest));
    let ranked = |(alone, cost, block): &(u64, KernelCost, operation::Block)| {
        ((*alone).max(beside_copies(npu, cost)), *alone, -i64::from(block.height * block.width))
    };
    let (cycles, cost, block) = costed.into_iter().min_by_key(ranked)?;
    let constants = match op.constants {
        Home::Constants => constants_time(npu, &cost).ceil(),
        Home::Arena => 0,
    };
    Some(Cost { cycles, constants, block: [block.height, block.width, block.depth].map(i64::from) })
}

/// Cycles alone that are as good as the fewest.
fn acceptable(fastest: u64) -> u64 {
    fastest.saturating_add(fastest / ALIKE)
}

/// How long a kernel keeps the arena's memory busy while copies of constants take from it what their source delivers; 0
/// where the constants lie there as well.
fn beside_copies(npu: &EthosU, cost: &KernelCost) -> u64 {
    let [constants, arena] = [CONSTANTS_REGION, ARENA_REGION].map(|region| npu.system.of_region(region));
    if constants == arena {
        return 0;
    }
    let ports = npu.system.ports();
    let [written, read] = [arena, constants].map(|index| ports[index].time(COPIED_BYTES).ceil());
    let busy = cost.loads[arena].time(&ports[arena]).ceil();
    busy.saturating_mul(read).checked_div(read.saturating_sub(written)).unwrap_or(u64::MAX)
}

/// Blocks of the kernel's own depth that fit SHRAM.
fn blocks(npu: &EthosU, op: &Operation, kernel: &mut operation::Kernel) -> SmallVec<[operation::Block; 64]> {
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

/// What an operation costs at least, however it is cut and wherever its constants are; cycles rounded down.
///
/// The engines' parts hold for all pieces, blocks and weight orders together. `in_one_piece` is what no BLOCKDEP hides of
/// the operation made by one kernel: the least over blocks, weight orders and both homes of its constants. None if no block
/// fits SHRAM.
pub fn floor(npu: &EthosU, op: &Operation) -> Option<Floor> {
    let least = |(block_depth, part_kernel): Order, constants: Home| {
        let (staged, sliced, joined) = (None, None, Vec::new());
        let kernel = Kernel { block_depth, part_kernel, staged, sliced, joined, ..*op.kernel };
        let op = Operation { kernel: &kernel, constants, ..*op };
        let mut kernel = described(&op, [1, 1, block_depth]);
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
    Some(Floor {
        mac: fewest(|floor| floor.mac),
        dense: fewest(|floor| floor.dense),
        output: fewest(|floor| floor.output),
        in_one_piece,
        planes: if op.kernel.primitive.has_weights() { planes(npu, op) } else { Vec::new() },
    })
}

/// For each depth of OFM blocks up to the output's, the most pixels of a block of any stripe that fits SHRAM.
fn planes(npu: &EthosU, op: &Operation) -> Vec<(i64, i64)> {
    let micro = npu.accelerator.micro_block.map(i64::from);
    let ends = [0, 1, 2].map(|axis| MAX_BLOCK[axis] / micro[axis]);
    let [rows, columns] = op.output.plane;
    // The accumulators of a single row take less.
    let kernels = [rows, 1].map(|height| {
        let op = Operation { output: Slab { plane: [height, columns], ..op.output }, ..*op };
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

/// How long the memory of constants is busy; none where it is the arena's.
fn constants_time(npu: &EthosU, cost: &KernelCost) -> Ticks {
    let index = npu.system.of_region(CONSTANTS_REGION);
    if index == npu.system.of_region(ARENA_REGION) {
        return Ticks::ZERO;
    }
    cost.loads[index].time(&npu.system.ports()[index])
}

/// Block extents worth trying along an axis, ascending: the whole, even divisions, powers of two of the micro-block.
fn extents(plane: i64, micro: i64, limit: i64) -> SmallVec<[i64; 12]> {
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

/// Weight orders for a kernel whose constants are not encoded yet: the best for constants that are read in place, and
/// the best for constants in the arena, of the unstriped operation; None if nothing fits SHRAM.
///
/// `constant_bytes` of the kernel is an estimate (the raw weights). Where the constants' memory binds, many orders are
/// equally good in place: then the one that is better in the arena wins, as it does with less of its traffic.
pub fn choose_encoding(npu: &EthosU, op: &Operation) -> Option<[Order; 2]> {
    let candidates: SmallVec<[(Order, [u64; 2]); 24]> = orders(npu, op.kernel)
        .filter_map(|order| {
            let (block_depth, part_kernel) = order;
            let (staged, sliced, joined) = (None, None, Vec::new());
            let kernel = Kernel { block_depth, part_kernel, staged, sliced, joined, ..*op.kernel };
            let cycles =
                |constants| best_block(npu, &Operation { kernel: &kernel, constants, ..*op }).map(|cost| cost.cycles);
            Some((order, [cycles(Home::Constants)?, cycles(Home::Arena)?]))
        })
        .collect();
    let in_place = candidates.iter().min_by_key(|(_, [in_place, staged])| (in_place, staged))?;
    let staged = candidates.iter().min_by_key(|(_, [in_place, staged])| (staged, in_place))?;
    Some([in_place.0, staged.0])
}

/// Weight orders worth trying.
fn orders(npu: &EthosU, kernel: &Kernel) -> impl Iterator<Item = Order> {
    let micro = i64::from(npu.accelerator.micro_block[2]);
    let whole = round_up(kernel.ofm_depth, micro);
    let fits = move |&depth: &i64| {
        depth <= whole.min(MAX_BLOCK[2]) && depth % micro == 0 && (depth == whole || depth % SPLIT_DEPTH == 0)
    };
    let mut depths: SmallVec<[i64; 12]> = [8, 16, 32, 48, 64, 96, 128, whole].into_iter().filter(fits).collect();
    depths.dedup();
    let part_kernel_first: &[bool] = if kernel.primitive == Primitive::Convolution { &[false, true] } else { &[false] };
    part_kernel_first.iter().flat_map(move |&first| depths.clone().into_iter().map(move |depth| (depth, first)))
}

/// An operation in the simulator's terms. Addresses, zero points and scales have no part in its cost.
fn described(op: &Operation, block: Block) -> operation::Kernel {
    let kernel = op.kernel;
    let kind = match kernel.primitive {
        Primitive::Convolution => KernelKind::Conv,
        Primitive::Depthwise => KernelKind::Depthwise,
        Primitive::AveragePool => KernelKind::AveragePool,
        Primitive::MaxPool => KernelKind::MaxPool,
        Primitive::Add => KernelKind::Elementwise(Elementwise::Add),
    };
    let stream = |length: u64| Stream { region: home_region(op.constants), base: 0, length: length as usize };
    let scale_bytes = (SCALE_BYTES * kernel.ofm_depth as u64).min(kernel.constant_bytes);
    let weighted = kernel.primitive.has_weights();
    operation::Kernel {
        kind,
        ifm: map("IFM", &op.input, kernel.ifm_depth),
        ifm2: op.second.as_ref().map(|slab| Operand2::Map(map("IFM2", slab, kernel.ifm_depth))),
        swap_operands: false,
        ofm: map("OFM", &op.output, kernel.ofm_depth),
        window: window(op),
        block: block_of(block),
        part_kernel: kernel.part_kernel,
        small_sub_kernels: false,
        weights: if weighted { vec![stream(kernel.constant_bytes - scale_bytes)] } else { Vec::new() },
        scales: if weighted { vec![stream(scale_bytes)] } else { Vec::new() },
        scale: None,
        rounding: Rounding::Double,
        operands: OperandScaling::None,
        activation: Activation {
            function: Function::Clamp,
            forced_range: None,
            min: INT8.min() + i64::from(kernel.clamped),
            max: INT8.max(),
        },
        accumulator_bits: 32,
        shram: ShramLayout { ifm_end: 0, accumulator_start: 0, ifm2_start: None },
        blockdep: 0,
    }
}

fn home_region(home: Home) -> usize {
    match home {
        Home::Constants => CONSTANTS_REGION,
        Home::Arena => ARENA_REGION,
    }
}

fn map(name: &'static str, slab: &Slab, depth: i64) -> FeatureMap {
    let [height, width] = slab.plane.map(|extent| extent as u32);
    let (layout, stride_x) = match slab.layout {
        Layout::Nhwc => (feature_map::Layout::Nhwc, slab.pixel_bytes as i64),
        Layout::Nhcwb16 => (feature_map::Layout::Nhcwb16, 16),
    };
    FeatureMap {
        name,
        region: ARENA_REGION,
        height,
        width,
        depth: depth as u32,
        element: INT8,
        layout,
        zero_point: 0,
        bases: [0; 4],
        width0: width,
        height0: height,
        height1: height,
        stride_x,
        stride_y: 0,
        stride_c: 0,
    }
}

fn window(op: &Operation) -> Window {
    let kernel = op.kernel;
    if kernel.primitive == Primitive::Add {
        return Window::UNIT;
    }
    let [height, width] = kernel.kernel.map(|extent| extent as u32);
    let [stride_y, stride_x] = kernel.stride.map(|stride| stride as u32);
    let [dilation_y, dilation_x] = kernel.dilation.map(|dilation| dilation as u32);
    let [pad_top, pad_left, pad_bottom, pad_right] = op.padding.map(|rows| rows as u32);
    Window {
        height,
        width,
        stride_y,
        stride_x,
        dilation_y,
        dilation_x,
        pad_top,
        pad_left,
        pad_bottom,
        pad_right,
        ..Window::UNIT
    }
}

fn block_of(block: Block) -> operation::Block {
    let [height, width, depth] = block.map(|extent| extent as u32);
    operation::Block { height, width, depth }
}

fn div_ceil(value: i64, by: i64) -> i64 {
    (value + by - 1) / by
}

fn round_up(value: i64, to: i64) -> i64 {
    div_ceil(value, to) * to
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::performance::Unit;
    use crate::samples::device;

    fn npu() -> EthosU {
        match device().unit {
            Unit::EthosU(npu) => npu,
            Unit::Rated(_) => unreachable!("the sample device is an Ethos-U"),
        }
    }

    fn kernel(primitive: Primitive, size: i64, [ifm_depth, ofm_depth]: [i64; 2]) -> Kernel {
        let weights = if primitive == Primitive::Convolution { ifm_depth * ofm_depth } else { ofm_depth };
        Kernel {
            primitive,
            kernel: [size; 2],
            stride: [1; 2],
            dilation: [1; 2],
            ifm_depth,
            ofm_depth,
            clamped: true,
            offsets: [0; 5],
            part_kernel: false,
            block_depth: 16,
            constant_bytes: if primitive.has_weights() { (weights * size * size + 10 * ofm_depth) as u64 } else { 0 },
            staged: None,
            sliced: None,
            joined: Vec::new(),
        }
    }

    fn op<'a>(kernel: &'a Kernel, plane: [i64; 2], layout: Layout, constants: Home) -> Operation<'a> {
        let slab = |plane: [i64; 2], depth: i64| Slab { plane, layout, pixel_bytes: depth as u64 };
        let read = slab(plane.map(|extent| extent + kernel.kernel[0] - 1), kernel.ifm_depth);
        Operation {
            kernel,
            input: read,
            second: kernel.primitive.is_binary().then_some(read),
            output: slab(plane, kernel.ofm_depth),
            padding: [0; 4],
            constants,
        }
    }

    #[test]
    fn weights_read_in_place_cost_flash_time_for_each_spatial_block() {
        let kernel = Kernel { block_depth: 64, ..kernel(Primitive::Convolution, 1, [512, 512]) };
        let in_place = planned(&npu(), &op(&kernel, [14, 14], Layout::Nhwc, Home::Constants), [8, 8, 64]);
        assert!(in_place.cost.alone.ceil() >= 4 * kernel.constant_bytes);
    }

    #[test]
    fn bricks_spare_the_arena_short_runs() {
        let kernel = Kernel { block_depth: 32, ..kernel(Primitive::Convolution, 1, [64, 64]) };
        let alone = |layout| planned(&npu(), &op(&kernel, [28, 28], layout, Home::Arena), [8, 14, 32]).cost.alone;
        assert!(alone(Layout::Nhcwb16) < alone(Layout::Nhwc));
    }

    #[test]
    fn blocks_that_overflow_shram_are_refused() {
        let kernel = Kernel { block_depth: 128, ..kernel(Primitive::Convolution, 7, [64, 128]) };
        let op = op(&kernel, [64, 64], Layout::Nhwc, Home::Constants);
        let [height, width, _] = best_block(&npu(), &op).expect("a small block fits").block;
        assert!(shram::fits(&described(&op, [height, width, 128]), npu().accelerator));
        assert!(!shram::fits(&described(&op, [32, 64, 128]), npu().accelerator));
    }

    /// Cut an extent where `cuts` say, as far as they lie inside.
    fn pieces(extent: i64, cuts: &[i64]) -> Vec<i64> {
        let mut ends: Vec<i64> = cuts.iter().map(|cut| cut % extent).chain([0, extent]).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    proptest! {
        /// Stripes, bands and slices, each with any order and block, take together what no cutting goes below.
        #[test]
        fn however_an_operation_is_cut_it_takes_its_floor(
            what in prop::sample::select(vec![
                Primitive::Convolution, Primitive::Depthwise, Primitive::AveragePool, Primitive::MaxPool, Primitive::Add,
            ]),
            (size, depths, plane) in (1i64..5, (1i64..6, 1i64..6), (1i64..30, 1i64..30)),
            cuts in prop::collection::vec(0i64..1000, 3 * 2),
            block in (1i64..=8, 1i64..=8, 1i64..=4), (bricks, staged, part_kernel) in (any::<bool>(), any::<bool>(), any::<bool>()),
        ) {
            let depths = [16 * depths.0, if what == Primitive::Convolution { 16 * depths.1 } else { 16 * depths.0 }];
            let whole = kernel(what, if what == Primitive::Add { 1 } else { size }, depths);
            let layout = if bricks { Layout::Nhcwb16 } else { Layout::Nhwc };
            let home = if staged { Home::Arena } else { Home::Constants };
            let npu = npu();
            let floor = floor(&npu, &op(&whole, [plane.0, plane.1], layout, home)).expect("a block fits");
            let slices = if what == Primitive::Convolution { pieces(depths[1] / 16, &cuts[4..]) } else { vec![depths[1] / 16] };
            let mut sum = 0;
            for &height in &pieces(plane.0, &cuts[..2]) {
                for &width in &pieces(plane.1, &cuts[2..4]) {
                    for &slice in &slices {
                        let kernel = Kernel { ofm_depth: 16 * slice, part_kernel, ..whole.clone() };
                        let op = op(&kernel, [height, width], layout, home);
                        let block = [2 * block.0, 2 * block.1, 16 * block.2];
                        if !shram::fits(&described(&op, block), npu.accelerator) {
                            return Ok(());
                        }
                        let most = floor.planes.iter().find(|(depth, _)| *depth == block[2].min(whole.ofm_depth));
                        prop_assert!(most.is_none_or(|(_, most)| *most >= block[0].min(height) * block[1].min(width)));
                        sum += planned(&npu, &op, block).cost.least.ceil();
                    }
                }
            }
            prop_assert!(floor.mac.max(floor.output).max(floor.dense) <= sum);
            prop_assert!(floor.dense <= floor.mac);
        }

        /// Leaving blocks out by their lower bound loses nothing, and the bound is one; of blocks that take hardly longer than
        /// the fastest, none leaves more room to copies, and of those that leave as much none is faster, or as fast and larger.
        #[test]
        fn the_best_block_is_the_best_of_all(
            what in prop::sample::select(vec![
                Primitive::Convolution, Primitive::Depthwise, Primitive::AveragePool, Primitive::MaxPool, Primitive::Add,
            ]),
            size in 1i64..6, depths in (1i64..6, 1i64..6), plane in (1i64..40, 1i64..40), bricks: bool, staged: bool,
        ) {
            let depths = [16 * depths.0, if what == Primitive::Convolution { 16 * depths.1 } else { 16 * depths.0 }];
            let kernel = kernel(what, if what == Primitive::Add { 1 } else { size }, depths);
            let layout = if bricks { Layout::Nhcwb16 } else { Layout::Nhwc };
            let op = op(&kernel, [plane.0, plane.1], layout, if staged { Home::Arena } else { Home::Constants });
            let npu = npu();
            let mut all = Vec::new();
            for &height in &extents(plane.0, 2, MAX_BLOCK[0]) {
                for &width in &extents(plane.1, 2, MAX_BLOCK[1]) {
                    let described = described(&op, [height, width, kernel.block_depth]);
                    if shram::fits(&described, npu.accelerator) {
                        let costing = Costing::new(&described, npu.accelerator, false, &npu.system, &npu.rules);
                        let cost = costing.cost(described.block).expect("few blocks");
                        prop_assert!(costing.least(described.block) <= cost.alone);
                        let alone = cost.alone.ceil();
                        all.push((alone.max(beside_copies(&npu, &cost)), alone, -height * width));
                    }
                }
            }
            let fastest = all.iter().map(|(_, alone, _)| *alone).min();
            let alike = all.into_iter().filter(|(_, alone, _)| *alone <= acceptable(fastest.expect("a block fits")));
            let best = best_block(&npu, &op).map(|cost| (cost.cycles, -cost.block[0] * cost.block[1]));
            prop_assert_eq!(best, alike.min().map(|(_, alone, area)| (alone, area)));
        }
    }
}
