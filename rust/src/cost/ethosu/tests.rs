//! What stripes cost on an Ethos-U, its best blocks and its floors.

use proptest::prelude::*;

use super::blocks::{extents, MAX_BLOCK};
use super::described::described;
use super::floor;
use super::operation_cost::{beside_copies, best_block, planned};
use super::stream_tests::held;
use crate::cost::{commands, Costs};
use crate::model::device::{Device, EthosU, Unit};
use crate::model::graph::CascaderGraph;
use crate::model::ids::{PartId, TableId};
use crate::model::memory::{Memories, Pool};
use crate::model::operation::{
    Element, Function, Home, Layout, LookUpTable, NpuOperation, OperandPools, OperationKind, SecondOperand, Slab,
    Source, StripeOperation, Upscale,
};
use crate::npu::operation::Operand2;
use crate::npu::registers::Register;
use crate::npu::shram;
use crate::npu::timing::kernel::Costing;
use crate::npu::timing::{Port, System};
use crate::plans::options::MOVES;
use crate::schedule::interleave::interleave;
use crate::search::arena::placer;
use crate::search::uncascaded;
use crate::testing::networks::{device, fed_from_flash, plain, Network, INPUT};

fn npu() -> EthosU {
    match device().unit {
        Unit::EthosU(npu) => npu,
        Unit::Described(_) => unreachable!("the sample device is an Ethos-U"),
    }
}

fn kernel(kind: OperationKind, size: i64, [ifm_depth, ofm_depth]: [i64; 2]) -> NpuOperation {
    let weights = if kind == OperationKind::Convolution { ifm_depth * ofm_depth } else { ofm_depth };
    NpuOperation {
        kernel: [size; 2],
        clamped: true,
        block_depth: 16,
        constant_bytes: if kind.has_weights() { (weights * size * size + 10 * ofm_depth) as u64 } else { 0 },
        ..plain(kind, [ifm_depth, ofm_depth])
    }
}

fn op<'a>(kernel: &'a NpuOperation, plane: [i64; 2], layout: Layout, constants: Home) -> StripeOperation<'a> {
    let slab = |plane: [i64; 2], layout, (element, depth): (Element, i64)| Slab {
        plane,
        layout,
        pixel_bytes: (depth * element.bytes()) as u64,
    };
    let second = || {
        let plane = [0, 1].map(|axis| if kernel.is_repeated(1, axis) { 1 } else { plane[axis] });
        slab(plane, if kernel.is_repeated(1, 2) { Layout::Nhwc } else { layout }, kernel.operand(1))
    };
    StripeOperation {
        kernel,
        input: slab(plane.map(|extent| extent + kernel.kernel[0] - 1), layout, kernel.operand(0)),
        second: (kernel.inputs() > 1).then(second),
        output: slab(plane, layout, (kernel.ofm, kernel.ofm_depth)),
        padding: [0; 4],
        constants,
        pools: OperandPools::NEAR,
    }
}

#[test]
fn weights_read_in_place_cost_flash_time_for_each_spatial_block() {
    let kernel = NpuOperation { block_depth: 64, ..kernel(OperationKind::Convolution, 1, [512, 512]) };
    let in_place = planned(&npu(), &op(&kernel, [14, 14], Layout::Nhwc, Home::Constants), [8, 8, 64]);
    assert!(in_place.cost.alone.ceil() >= 4 * kernel.constant_bytes);
}

#[test]
fn bricks_spare_the_arena_short_runs() {
    let kernel = NpuOperation { block_depth: 32, ..kernel(OperationKind::Convolution, 1, [64, 64]) };
    let alone = |layout| planned(&npu(), &op(&kernel, [28, 28], layout, Home::Arena), [8, 14, 32]).cost.alone;
    assert!(alone(Layout::Nhcwb16) < alone(Layout::Nhwc));
}

#[test]
fn blocks_that_overflow_shram_are_refused() {
    let kernel = NpuOperation { block_depth: 128, ..kernel(OperationKind::Convolution, 7, [64, 128]) };
    let op = op(&kernel, [64, 64], Layout::Nhwc, Home::Constants);
    let [height, width, _] = best_block(&npu(), &op).expect("a small block fits").block;
    assert!(shram::fits(&described(&op, [height, width, 128]), npu().accelerator));
    assert!(!shram::fits(&described(&op, [32, 64, 128]), npu().accelerator));
}

/// A copy writes the arena with what flash delivers, an eighth of the arena's rate: a kernel that keeps the arena busy
/// all the time has seven eighths of it left; one that its multipliers bind does not notice.
#[test]
fn copies_slow_down_kernels_that_keep_the_arena_busy() {
    let cost = |npu: &EthosU, size: i64, depths: [i64; 2], plane: [i64; 2]| {
        let kernel = NpuOperation { block_depth: 64, ..kernel(OperationKind::Convolution, size, depths) };
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

#[test]
fn what_reads_flash_costs_what_flash_delivers() {
    let mut net = Network::new([32, 32], 16);
    let copied = net.pointwise(OperationKind::Abs, INPUT, None, 8);
    let graph = net.finish(copied);
    let cycles = |graph: &CascaderGraph| {
        Costs::default().stripe(graph, PartId(0), [32, 32], Source::InPlace).expect("a block fits").cycles
    };
    // A byte each cycle instead of eight.
    assert!(cycles(&fed_from_flash(&graph)) >= 32 * 32 * 16 && cycles(&graph) < 32 * 32 * 16 / 2);
}

/// A kind of operation with bits of its input and output, whether it looks its results up, and how its second operand is
/// repeated, or that it is a scalar.
fn figures() -> impl Strategy<Value = (OperationKind, [u32; 2], bool, Option<[bool; 3]>)> {
    let kinds: Vec<OperationKind> =
        OperationKind::ALL.into_iter().filter(|&kind| kind != OperationKind::SumOverDepth).collect();
    let widths = (prop::sample::select(vec![8u32, 16, 32]), prop::sample::select(vec![8u32, 16, 32]));
    let broadcast = prop::option::of(any::<[bool; 3]>());
    (prop::sample::select(kinds), widths, any::<bool>(), broadcast).prop_map(
        |(kind, (ifm, ofm), looks_up, broadcast)| {
            (kind, [if kind.is_elementwise() { ifm } else { ifm.min(16) }, ofm], looks_up, broadcast)
        },
    )
}

fn with(whole: NpuOperation, [ifm, ofm]: [u32; 2], looks_up: bool, broadcast: Option<[bool; 3]>) -> NpuOperation {
    let element = |bits| Element { bits, signed: true };
    let second = match (whole.kind.is_binary(), broadcast) {
        (false, _) => SecondOperand::None,
        (true, None) => SecondOperand::Scalar(element(ifm)),
        (true, Some(broadcast)) => SecondOperand::Map { element: element(ifm), broadcast },
    };
    let table = LookUpTable { id: TableId(0), bytes: 256 };
    NpuOperation {
        ifm: element(ifm),
        ofm: element(ofm),
        second,
        function: if looks_up { Function::Table(table) } else { Function::Clamp },
        accumulator_bits: if ifm == 16 && whole.kind.has_weights() { 40 } else { 32 },
        ..whole
    }
}

#[test]
fn every_figure_of_an_operation_is_told_to_the_referee() {
    let of = |op: &NpuOperation| described(&self::op(op, [8, 8], Layout::Nhwc, Home::Arena), [8, 8, 16]);
    let kinds: Vec<_> = OperationKind::ALL.map(|kind| of(&plain(kind, [16, 16])).kind).into();
    assert!((0..kinds.len()).all(|at| !kinds[..at].contains(&kinds[at])), "two kinds are one: {kinds:?}");
    let banks = |op: &NpuOperation| shram::banks(&of(op), npu().accelerator);
    let add = plain(OperationKind::Add, [16, 16]);
    let wide = with(add.clone(), [32, 32], false, Some([false; 3]));
    assert!(banks(&wide)[0] > banks(&add)[0] && banks(&add)[1] > 0);
    assert_eq!(banks(&with(add.clone(), [8, 8], false, None))[1], 0);
    let repeated = of(&with(add.clone(), [16, 32], true, Some([true, false, true])));
    let Some(Operand2::Map(second)) = &repeated.ifm2 else { panic!("a second map") };
    assert_eq!((second.height, second.width, second.depth, second.element.bits), (1, 8, 1, 16));
    assert!(repeated.uses_table() && repeated.ofm.element.bits == 32);
    let doubled = NpuOperation { upscale: Upscale::Zeros, ..plain(OperationKind::Convolution, [16, 16]) };
    assert_eq!(of(&doubled).window.upscale, crate::npu::operation::Upscale::Zeros);
    let deep = with(plain(OperationKind::Convolution, [16, 16]), [16, 16], false, None);
    assert_eq!((of(&deep).accumulator_bits, of(&deep).ifm.element.bits), (40, 16));
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
        (what, bits, looks_up, broadcast) in figures(),
        (size, depths, plane) in (1i64..5, (1i64..6, 1i64..6), (1i64..30, 1i64..30)),
        cuts in prop::collection::vec(0i64..1000, 3 * 2),
        block in (1i64..=8, 1i64..=8, 1i64..=4), (bricks, staged, part_kernel) in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let depths = [16 * depths.0, if what == OperationKind::Convolution { 16 * depths.1 } else { 16 * depths.0 }];
        let size = if what.is_elementwise() { 1 } else { size };
        let whole = with(kernel(what, size, depths), bits, looks_up, broadcast);
        let layout = if bricks { Layout::Nhcwb16 } else { Layout::Nhwc };
        let home = if staged { Home::Arena } else { Home::Constants };
        let npu = npu();
        let floor = floor(&npu, &op(&whole, [plane.0, plane.1], layout, home)).expect("a block fits");
        let slices = if what == OperationKind::Convolution { pieces(depths[1] / 16, &cuts[4..]) } else { vec![depths[1] / 16] };
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

    /// Leaving blocks out by their lower bound loses nothing, and the bound is one; a block may be slower alone if copies
    /// slow it down by four times less, and of those that are as good the faster one and then the larger one is best.
    #[test]
    fn the_best_block_is_the_best_of_all(
        (what, bits, looks_up, broadcast) in figures(),
        size in 1i64..6, depths in (1i64..6, 1i64..6), plane in (1i64..40, 1i64..40), bricks: bool, staged: bool,
    ) {
        let depths = [16 * depths.0, if what == OperationKind::Convolution { 16 * depths.1 } else { 16 * depths.0 }];
        let size = if what.is_elementwise() { 1 } else { size };
        let kernel = with(kernel(what, size, depths), bits, looks_up, broadcast);
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
                    all.push((4 * alone + alone.max(beside_copies(&npu, &cost)), alone, -height * width));
                }
            }
        }
        let best = best_block(&npu, &op).map(|cost| (cost.cycles, -cost.block[0] * cost.block[1]));
        prop_assert_eq!(best, all.into_iter().min().map(|(_, alone, area)| (alone, area)));
    }
}

/// Three convolutions on an Ethos-U65 with SRAM beside its DRAM: regions of inputs and of outputs, cycles.
fn between_two_pools(sram_bytes: u64) -> ([Vec<u64>; 2], u64) {
    let port = |name: &str, bytes| Port {
        name: name.into(),
        bytes_per_cycle: (bytes, 1),
        read_latency: 32,
        write_latency: 32,
        burst_bytes: 64,
    };
    let sram = Pool { port: port("sram", 16), limit_bytes: Some(sram_bytes) };
    let dram = Pool { port: port("dram", 2), limit_bytes: None };
    let memories = Memories::new(vec![sram, dram.clone()], dram).expect("they make sense");
    let device = Device::ethos_u("ethos-u65-256", memories).expect("there is such a device");
    let mut net = Network::new([24, 24], 16);
    let t = (0..3).fold(INPUT, |t, _| net.window(t, OperationKind::Convolution, 3, 1, 16));
    let graph = net.finish_on(t, device);
    let costs = &mut Costs::default();
    let program = interleave(&graph, &uncascaded(&graph), costs).expect("blocks fit");
    let placement = placer(&graph)(&program, MOVES).expect("the DRAM takes all");
    let stream = commands(&graph, &program, &placement).pop().expect("one run");
    (
        [Register::IFM_REGION, Register::OFM_REGION].map(|register| held(&stream, register)),
        costs.program(&graph, &program, &placement),
    )
}

#[test]
fn what_others_touch_lies_in_the_arena_and_all_else_in_the_fast_memory() {
    let (fast, cycles) = between_two_pools(1 << 20);
    assert_eq!(fast, [[1, 2, 2], [2, 2, 1]]);
    let (none, slower) = between_two_pools(0);
    assert_eq!(none, [[1, 1, 1], [1, 1, 1]]);
    assert!(slower > cycles, "{slower} cycles without, {cycles} with");
    // One of the two tensors between them fits: what is placed where costs what it costs there.
    let (one, between) = between_two_pools(24 * 24 * 16);
    assert!(one[1].iter().filter(|&&region| region == 2).count() == 1 && (cycles..slower).contains(&between));
}
