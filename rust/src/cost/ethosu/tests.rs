//! What stripes cost on an Ethos-U, its best blocks and its floors.

use proptest::prelude::*;

use super::blocks::{extents, MAX_BLOCK};
use super::described::described;
use super::floor;
use super::operation_cost::{acceptable, beside_copies, best_block, planned};
use crate::model::device::{EthosU, Unit};
use crate::model::operation::{Home, Layout, NpuOperation, Primitive, Slab, StripeOperation};
use crate::npu::shram;
use crate::npu::timing::kernel::Costing;
use crate::npu::timing::System;
use crate::testing::networks::device;

fn npu() -> EthosU {
    match device().unit {
        Unit::EthosU(npu) => npu,
        Unit::Described(_) => unreachable!("the sample device is an Ethos-U"),
    }
}

fn kernel(primitive: Primitive, size: i64, [ifm_depth, ofm_depth]: [i64; 2]) -> NpuOperation {
    let weights = if primitive == Primitive::Convolution { ifm_depth * ofm_depth } else { ofm_depth };
    NpuOperation {
        primitive,
        kernel: [size; 2],
        stride: [1; 2],
        dilation: [1; 2],
        ifm_depth,
        ofm_depth,
        clamped: true,
        part_kernel: false,
        block_depth: 16,
        constant_bytes: if primitive.has_weights() { (weights * size * size + 10 * ofm_depth) as u64 } else { 0 },
        staged: None,
        sliced: None,
        joined: Vec::new(),
        emitted: Default::default(),
    }
}

fn op<'a>(kernel: &'a NpuOperation, plane: [i64; 2], layout: Layout, constants: Home) -> StripeOperation<'a> {
    let slab = |plane: [i64; 2], depth: i64| Slab { plane, layout, pixel_bytes: depth as u64 };
    let read = slab(plane.map(|extent| extent + kernel.kernel[0] - 1), kernel.ifm_depth);
    StripeOperation {
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
    let kernel = NpuOperation { block_depth: 64, ..kernel(Primitive::Convolution, 1, [512, 512]) };
    let in_place = planned(&npu(), &op(&kernel, [14, 14], Layout::Nhwc, Home::Constants), [8, 8, 64]);
    assert!(in_place.cost.alone.ceil() >= 4 * kernel.constant_bytes);
}

#[test]
fn bricks_spare_the_arena_short_runs() {
    let kernel = NpuOperation { block_depth: 32, ..kernel(Primitive::Convolution, 1, [64, 64]) };
    let alone = |layout| planned(&npu(), &op(&kernel, [28, 28], layout, Home::Arena), [8, 14, 32]).cost.alone;
    assert!(alone(Layout::Nhcwb16) < alone(Layout::Nhwc));
}

#[test]
fn blocks_that_overflow_shram_are_refused() {
    let kernel = NpuOperation { block_depth: 128, ..kernel(Primitive::Convolution, 7, [64, 128]) };
    let op = op(&kernel, [64, 64], Layout::Nhwc, Home::Constants);
    let [height, width, _] = best_block(&npu(), &op).expect("a small block fits").block;
    assert!(shram::fits(&described(&op, [height, width, 128]), npu().accelerator));
    assert!(!shram::fits(&described(&op, [32, 64, 128]), npu().accelerator));
}

/// A copy writes the arena with what flash delivers, an eighth of the arena's rate: a kernel that keeps the arena busy all the
/// time has seven eighths of it left; one that its multipliers bind does not notice.
#[test]
fn copies_slow_down_kernels_that_keep_the_arena_busy() {
    let cost = |npu: &EthosU, size: i64, depths: [i64; 2], plane: [i64; 2]| {
        let kernel = NpuOperation { block_depth: 64, ..kernel(Primitive::Convolution, size, depths) };
        best_block(npu, &op(&kernel, plane, Layout::Nhcwb16, Home::Arena)).expect("a block fits")
    };
    let busy = cost(&npu(), 1, [512, 512], [14, 14]);
    assert!(busy.beside_copies * 7 <= busy.cycles * 8 && busy.beside_copies * 10 > busy.cycles * 11, "{busy:?}");
    let computing = cost(&npu(), 5, [64, 64], [16, 16]);
    assert_eq!(computing.beside_copies, computing.cycles);
    // Where constants lie in the arena nothing is copied.
    let mut one = npu();
    one.system = System::of_two(one.system.ports()[0].clone(), one.system.ports()[0].clone()).expect("one memory");
    let alone = cost(&one, 1, [512, 512], [14, 14]);
    assert_eq!(alone.beside_copies, alone.cycles);
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
                    let kernel = NpuOperation { ofm_depth: 16 * slice, part_kernel, ..whole.clone() };
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
