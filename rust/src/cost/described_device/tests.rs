//! Costs of single operations by hand, what overlaps in a program, and whole searches for described devices.

use super::copies::stage;
use super::{best_block, copy_cycles, cycles, verify};
use crate::checker::check;
use crate::cost::Costs;
use crate::model::device::{DescribedUnit, Device, Dma, Engine, Unit};
use crate::model::graph::CascaderGraph;
use crate::model::ids::{PartId, PoolId};
use crate::model::memory::{Memories, Pool};
use crate::model::operation::{Cost, Home, Layout, NpuOperation, OperandPools, OperationKind, Slab, StripeOperation};
use crate::model::plan::{Plan, Staging};
use crate::model::program::{Placement, Program, Step};
use crate::npu::timing::Port;
use crate::plans::options::Options;
use crate::plans::options::MOVES;
use crate::schedule::interleave::interleave;
use crate::schedule::prefetch::prefetch;
use crate::search::arena::{is_right, placer};
use crate::search::{search, uncascaded};
use crate::testing::networks::{mobilenet_v1, mobilenet_v2, plain, realised, stacked, Network, INPUT};

fn memory(name: &str, rate: (u32, u32)) -> Port {
    Port { name: name.into(), bytes_per_cycle: rate, read_latency: 0, write_latency: 0, burst_bytes: 1 }
}

/// An engine that knows convolutions alone.
fn convolver(rate: (u32, u32)) -> Engine {
    engine(OperationKind::ALL.map(|kind| (kind == OperationKind::Convolution).then_some(rate)))
}

fn engine(rates: [Option<(u32, u32)>; OperationKind::COUNT]) -> Engine {
    Engine { name: "engine".into(), rates, granule: [1; 4], operation_cycles: 0, instruction_cycles: 0 }
}

/// Pools of tensors, each with the size at which the next one begins, and one of constants.
fn memories<const N: usize>(tensors: [(Port, Option<u64>); N], constants: Port) -> Memories {
    let pool = |(port, limit_bytes)| Pool { port, limit_bytes };
    Memories::new(tensors.map(pool).into(), pool((constants, None))).expect("they make sense")
}

/// The memories of [`unit`] with something changed.
fn changed(sram: impl Fn(&mut Port), flash: impl Fn(&mut Port)) -> Memories {
    let (mut tensors, mut constants) = (memory("sram", (65535, 1)), memory("flash", (65536, 1)));
    sram(&mut tensors);
    flash(&mut constants);
    memories([(tensors, None)], constants)
}

/// One engine of one operation per cycle, between memories that cost nearly nothing, with a DMA engine.
fn unit() -> DescribedUnit {
    DescribedUnit {
        engines: vec![engine([Some((1, 1)); OperationKind::COUNT])],
        memories: changed(|_| {}, |_| {}),
        buffer_bytes: None,
        dma: Some(Dma { start_cycles: 0, in_flight: 4 }),
    }
}

/// A kernel on a whole NHWC plane, padded "SAME" where its window is 3x3.
struct Case {
    kernel: NpuOperation,
    plane: [i64; 2],
    layout: Layout,
}

impl Case {
    fn new(kind: OperationKind, side: i64, plane: [i64; 2], depths: [i64; 2]) -> Case {
        let taps = if kind == OperationKind::Convolution { depths[0] } else { 1 };
        let weights = if kind.has_weights() { (side * side * taps * depths[1]) as u64 } else { 0 };
        let kernel = NpuOperation { kernel: [side; 2], block_depth: 0, constant_bytes: weights, ..plain(kind, depths) };
        Case { kernel, plane, layout: Layout::Nhwc }
    }

    fn cost(&self, unit: &DescribedUnit) -> Option<Cost> {
        let slab = |depth: i64| Slab { plane: self.plane, layout: self.layout, pixel_bytes: depth as u64 };
        let input = slab(self.kernel.ifm_depth);
        best_block(
            unit,
            &StripeOperation {
                kernel: &self.kernel,
                input,
                second: self.kernel.kind.is_binary().then_some(input),
                output: slab(self.kernel.ofm_depth),
                padding: [self.kernel.kernel[0] / 2; 4],
                constants: Home::Constants,
                pools: OperandPools::NEAR,
            },
        )
    }

    fn cycles(&self, unit: &DescribedUnit) -> u64 {
        self.cost(unit).expect("an engine and a block").cycles
    }
}

#[test]
fn what_takes_too_long_has_no_cost() {
    let mut unit = unit();
    let pooling = Case::new(OperationKind::MaxPool, 1, [16, 16], [16, 16]);
    unit.engines[0].rates = [Some((1, 1 << 16)); OperationKind::COUNT];
    unit.engines[0].granule = [1, 1, 1, 1 << 8];
    assert_eq!(pooling.cycles(&unit), 16 * 16 * (1 << 8) * (1 << 16));
    unit.engines[0].granule = [1 << 10, 1 << 10, 1, 1];
    assert!(pooling.cost(&unit).is_none());
    unit.engines[0].granule = [1 << 16; 4];
    let convolution = Case::new(OperationKind::Convolution, 3, [16, 16], [16, 16]);
    assert!([pooling, convolution].iter().all(|case| case.cost(&unit).is_none()));
}

#[test]
fn work_is_rounded_up_to_granules_and_to_whole_cycles() {
    let mut unit = unit();
    let convolution = Case::new(OperationKind::Convolution, 3, [5, 6], [3, 5]);
    assert_eq!(convolution.cycles(&unit), 5 * 6 * 3 * 5 * 9);
    unit.engines[0].granule = [4, 2, 4, 8];
    assert_eq!(convolution.cycles(&unit), 8 * 6 * 4 * 8 * 9);
    unit.engines[0].rates = [Some((7, 2)); OperationKind::COUNT];
    assert_eq!(convolution.cycles(&unit), (8 * 6 * 4 * 8 * 9 * 2u64).div_ceil(7));
    // Without weights across channels, input channels and their granule have no part in the work.
    for (kind, side) in [(OperationKind::Depthwise, 3), (OperationKind::MaxPool, 3), (OperationKind::Add, 1)] {
        let work = 8 * 6 * 8 * (side * side) as u64;
        assert_eq!(Case::new(kind, side, [5, 6], [5, 5]).cycles(&unit), (work * 2).div_ceil(7));
    }
}

#[test]
fn an_operation_is_bound_by_work_or_by_a_memory_where_a_dma_engine_moves_its_data() {
    let case = Case::new(OperationKind::Convolution, 1, [4, 4], [8, 2]);
    let (work, moved) = (4 * 4 * 8 * 2, 4 * 4 * 8 + 4 * 4 * 2);
    let mut unit = unit();
    let sram = |rate, read, write| {
        changed(|p| (p.bytes_per_cycle, p.read_latency, p.write_latency) = (rate, read, write), |_| {})
    };
    unit.memories = sram((1, 1), 0, 0);
    assert_eq!(case.cycles(&unit), work);
    unit.memories = sram((1, 2), 0, 0);
    assert_eq!(case.cycles(&unit), 2 * moved);
    unit.memories = sram((1, 2), 10, 3);
    assert_eq!(case.cycles(&unit), 2 * moved + 13);
    unit.dma = None;
    let constants = 1;
    assert_eq!(case.cycles(&unit), work + 2 * moved + 13 + constants);
}

#[test]
fn equal_memories_are_one() {
    let case = Case::new(OperationKind::Convolution, 1, [4, 4], [8, 8]);
    let mut unit = unit();
    let sram = memory("sram", (1, 8));
    unit.memories = memories([(sram.clone(), None)], Port { name: "another".into(), ..sram.clone() });
    assert_eq!(case.cycles(&unit), 8 * (2 * 4 * 4 * 8));
    unit.memories = memories([(sram.clone(), None)], sram);
    assert_eq!(case.cycles(&unit), 8 * (2 * 4 * 4 * 8 + 8 * 8));
}

#[test]
fn a_kind_runs_on_the_engine_that_is_quickest_at_it() {
    let mut unit = unit();
    let convolution = Case::new(OperationKind::Convolution, 1, [4, 4], [4, 4]);
    unit.engines.push(convolver((4, 1)));
    assert_eq!(convolution.cycles(&unit), 4 * 4 * 4 * 4 / 4);
    unit.engines[1].operation_cycles = 1000;
    assert_eq!(convolution.cycles(&unit), 4 * 4 * 4 * 4);
    unit.engines.remove(0);
    assert_eq!(convolution.cycles(&unit), 1000 + 4 * 4 * 4 * 4 / 4);
    assert_eq!(Case::new(OperationKind::Add, 1, [4, 4], [4, 4]).cost(&unit), None);
}

#[test]
fn tiles_fit_the_buffer_and_each_block_costs_an_instruction() {
    let mut unit = unit();
    unit.engines[0].instruction_cycles = 100;
    unit.engines[0].operation_cycles = 7;
    let case = Case::new(OperationKind::Convolution, 1, [8, 8], [16, 16]);
    let whole = 2 * 8 * 8 * 16 + 16 * 16;
    unit.buffer_bytes = Some(whole);
    let work = 8 * 8 * 16 * 16;
    let cost = case.cost(&unit).expect("a block fits");
    assert_eq!((cost.cycles, cost.block), (7 + 100 + work, [8, 8, 16]));
    unit.buffer_bytes = Some(whole - 1);
    let two = case.cost(&unit).expect("a block fits");
    assert_eq!(two.cycles, 7 + 2 * 100 + work);
    assert_eq!(two.block.iter().product::<i64>(), 8 * 8 * 16 / 2);
    // One pixel of one output channel: 16 bytes read, 16 of weights, one written.
    unit.buffer_bytes = Some(33);
    assert_eq!(case.cost(&unit).map(|cost| cost.block), Some([1, 1, 1]));
    unit.buffer_bytes = Some(32);
    assert_eq!(case.cost(&unit), None);
}

#[test]
fn blocks_read_their_windows_and_what_does_not_stay_in_the_buffer_again() {
    let mut unit = unit();
    let slow = |port: &mut Port| port.bytes_per_cycle = (1, 1024);
    unit.memories = changed(slow, |_| {});
    let case = Case::new(OperationKind::Depthwise, 3, [8, 1], [16, 16]);
    // A column of eight rows in two blocks: five rows each, of which one is the neighbour's and one padding.
    unit.engines[0].granule[3] = 16;
    unit.buffer_bytes = Some((5 + 4) * 16 + 9 * 16);
    let cost = case.cost(&unit).expect("a block fits");
    assert_eq!((cost.cycles, cost.block), (1024 * (5 + 5 + 8) * 16, [4, 1, 16]));
    unit.engines[0].granule[3] = 1;
    // Neither the plane nor the weights fit: the input comes for each of them, or they do for each half of the plane.
    let convolution = Case::new(OperationKind::Convolution, 1, [8, 1], [16, 16]);
    unit.buffer_bytes = Some(4 * 16 + 4 * 4 + 16 * 4);
    let once = 1024 * 2 * 8 * 16;
    assert_eq!(convolution.cycles(&unit), once);
    unit.memories = changed(slow, slow);
    assert_eq!(convolution.cycles(&unit), 1024 * 2 * 16 * 16);
}

#[test]
fn runs_are_rounded_up_to_bursts() {
    let mut unit = unit();
    let rate = (1, 64);
    unit.memories = changed(|sram| (sram.bytes_per_cycle, sram.burst_bytes) = (rate, 64), |_| {});
    let mut case = Case::new(OperationKind::MaxPool, 1, [3, 5], [32, 32]);
    assert_eq!(case.cycles(&unit), 64 * 2 * 3 * 192); // a row is 160 bytes
    case.layout = Layout::Nhcwb16;
    assert_eq!(case.cycles(&unit), 64 * 2 * 3 * 2 * 128); // a row of a brick is 80
}

#[test]
fn a_copy_takes_the_slower_memory_or_both() {
    let mut unit = unit();
    let flash = |port: &mut Port| (port.bytes_per_cycle, port.read_latency) = ((1, 2), 5);
    unit.memories = changed(|sram| sram.bytes_per_cycle = (1, 1), flash);
    unit.dma = Some(Dma { start_cycles: 20, in_flight: 2 });
    assert_eq!(copy_cycles(&unit, 100), 20 + 5 + 200);
    unit.dma = None;
    assert_eq!(stage(&unit, 100, Memories::SCARCE).0, 5 + 200 + 100);
    assert_eq!(copy_cycles(&unit, 100), 0);
}

/// A convolution and a depthwise convolution on 16x16x16.
fn pair(unit: DescribedUnit) -> CascaderGraph {
    let mut net = Network::new([16, 16], 16);
    let middle = net.window(INPUT, OperationKind::Convolution, 3, 1, 16);
    let last = net.window(middle, OperationKind::Depthwise, 3, 1, 16);
    CascaderGraph { device: Device { unit: Unit::Described(unit) }, ..net.finish(last) }
}

fn described(graph: &CascaderGraph) -> &DescribedUnit {
    match &graph.device.unit {
        Unit::Described(unit) => unit,
        Unit::EthosU(_) => unreachable!("these graphs are for described devices"),
    }
}

fn program(graph: &CascaderGraph, plans: &[Plan]) -> Program {
    interleave(graph, plans, &mut Costs::default()).expect("a legal plan")
}

fn timed(graph: &CascaderGraph, program: &Program) -> u64 {
    cycles(graph, described(graph), program, &stacked(program))
}

fn staged(graph: &CascaderGraph) -> Program {
    let mut plans = uncascaded(graph);
    plans[1].staging = vec![Staging::Whole];
    let mut ahead = program(graph, &plans);
    prefetch(graph, &mut ahead, u64::MAX);
    ahead
}

fn step_cycles(step: &Step) -> u64 {
    match step {
        Step::Copy { cycles, .. } | Step::LoadTable { cycles, .. } => *cycles,
        Step::Stripe(stripe) => stripe.cost.cycles,
        Step::Feed { .. } | Step::Take { .. } | Step::Call { .. } => 0,
    }
}

#[test]
fn copies_run_beside_operations_only_with_a_dma_engine() {
    let flash = |rate| DescribedUnit { memories: changed(|_| {}, |port| port.bytes_per_cycle = rate), ..unit() };
    let slow = flash((1, 64));
    let graph = pair(slow.clone());
    let copy = copy_cycles(&slow, graph.kernel(PartId(1)).expect("a kernel").constant_bytes);
    let [first, second] = [16 * 16 * 16 * 16 * 9, 16 * 16 * 16 * 9];
    let weights = 64 * graph.kernel(PartId(0)).expect("a kernel").constant_bytes;
    assert!(copy < first && weights < first);
    assert_eq!(timed(&graph, &staged(&graph)), first + second);
    // Weights that are read in place while others are copied share the memory's bandwidth.
    let slower = flash((1, 240));
    let graph = pair(slower.clone());
    let bytes: u64 = [0, 1].map(|part| graph.kernel(PartId(part)).expect("a kernel").constant_bytes).iter().sum();
    assert!(240 * bytes > first + second);
    assert_eq!(timed(&graph, &staged(&graph)), 240 * bytes);
    let serial = pair(DescribedUnit { dma: Some(Dma { start_cycles: 0, in_flight: 1 }), ..slow.clone() });
    assert_eq!(timed(&serial, &staged(&serial)), first + copy + second);
    let alone = pair(DescribedUnit { dma: None, ..slow });
    let program = staged(&alone);
    assert!(timed(&alone, &program) > first + copy + second);
    assert_eq!(timed(&alone, &program), program.steps.iter().map(step_cycles).sum::<u64>());
}

#[test]
fn engines_run_beside_each_other_where_the_bytes_allow_it() {
    let two = |in_flight| DescribedUnit {
        engines: vec![
            convolver((16, 1)),
            engine(OperationKind::ALL.map(|kind| (kind != OperationKind::Convolution).then_some((1, 1)))),
        ],
        dma: Some(Dma { start_cycles: 0, in_flight }),
        ..unit()
    };
    let fork = |unit| {
        let mut net = Network::new([16, 16], 16);
        let left = net.window(INPUT, OperationKind::Convolution, 1, 1, 16);
        let right = net.window(INPUT, OperationKind::Depthwise, 3, 1, 16);
        let sum = net.add(left, right);
        CascaderGraph { device: Device { unit: Unit::Described(unit) }, ..net.finish(sum) }
    };
    let [left, right, sum] = [16 * 16 * 16, 16 * 16 * 16 * 9, 16 * 16 * 16];
    for (in_flight, cycles) in [(1, left + right + sum), (2, right + sum), (3, right + sum)] {
        let graph = fork(two(in_flight));
        assert_eq!(timed(&graph, &program(&graph, &uncascaded(&graph))), cycles);
    }
    // One after the other where one reads what the other writes.
    let graph = pair(two(4));
    assert_eq!(timed(&graph, &program(&graph, &uncascaded(&graph))), 2 * right);
}

/// Three pools, the middle one between the others in size and speed.
fn three_pools() -> Memories {
    let [sram, dram] = [memory("sram", (64, 1)), memory("dram", (1, 1000))];
    memories([(memory("tcm", (65535, 1)), Some(4096)), (sram, Some(8192)), (dram, None)], memory("flash", (65536, 1)))
}

#[test]
fn what_lies_in_another_pool_costs_what_that_costs() {
    let graph = pair(DescribedUnit { memories: three_pools(), ..unit() });
    let [first, second] = [16 * 16 * 16 * 16 * 9, 16 * 16 * 16 * 9];
    let map = 16 * 16 * 16;
    let whole = program(&graph, &uncascaded(&graph));
    let by_pools = |pools: [u32; 3]| {
        let pools: Vec<PoolId> = pools.map(PoolId).into();
        let placement = Placement { pools: pools.into(), ..stacked(&whole) };
        cycles(&graph, described(&graph), &whole, &placement)
    };
    assert_eq!(by_pools([0, 0, 0]), first + second);
    // In order of appearance: what the first makes and the second reads, the network's input, its output.
    assert_eq!(by_pools([0, 0, 2]), first + 1000 * map);
    assert_eq!(by_pools([0, 2, 0]), 1000 * map + second);
    assert_eq!(by_pools([2, 0, 0]), 2 * 1000 * map);
    assert_eq!(by_pools([0, 0, 1]), first + second);
}

#[test]
fn tensors_lie_where_they_fit_and_no_pool_is_beyond_its_limit() {
    let graph = pair(DescribedUnit { memories: three_pools(), ..unit() });
    let whole = program(&graph, &uncascaded(&graph));
    let placement = placer(&graph)(&whole, MOVES).expect("the last pool takes all");
    assert!(is_right(&graph, &whole, &placement));
    assert!(whole.buffers.iter().all(|buffer| buffer.pools == *graph.device.memories().tensors()));
    // Input and middle are alive at once, then middle and output: two of three maps have room near by.
    assert_eq!(placement.pool_bytes.to_vec(), [4096, 4096, 0]);
    // Whatever may lie in the first pool alone does not fit there.
    let mut forced = whole.clone();
    forced.buffers.iter_mut().for_each(|buffer| buffer.pools.truncate(1));
    let error = placer(&graph)(&forced, MOVES).expect_err("three maps in one");
    assert_eq!(error.pool.as_deref(), Some("tcm"));
    assert!(error.to_string().contains("pool 'tcm' holds 4096 bytes"), "{error}");
}

#[test]
fn frontiers_count_the_scarce_pool_and_keep_to_its_limit() {
    let limit = 96 << 10;
    let slow = [(memory("sram", (64, 1)), Some(limit)), (memory("dram", (1, 1)), None)];
    let unit = DescribedUnit { memories: memories(slow, memory("dram", (1, 1))), ..unit() };
    let graph = CascaderGraph { device: Device { unit: Unit::Described(unit) }, ..mobilenet_v1() };
    let found = search(&graph, &Options::default()).expect("every Part fits");
    assert!(found.proposals.iter().all(|proposal| proposal.sram_bytes() <= limit));
    for proposal in &found.proposals {
        let (program, placement) = realised(&graph, proposal);
        assert!(is_right(&graph, &program, &placement));
        assert_eq!(
            (placement.bytes(), cycles(&graph, described(&graph), &program, &placement)),
            (proposal.sram_bytes(), proposal.cycles)
        );
    }
}

#[test]
fn descriptions_without_sense_are_named() {
    type Damage = (&'static str, fn(&mut DescribedUnit));
    let damages: [Damage; 11] = [
        ("engines is empty", |u| u.engines.clear()),
        ("bytes_per_cycle of the memory 'flash' is 0/1", |u| {
            u.memories = changed(|_| {}, |flash| flash.bytes_per_cycle.0 = 0)
        }),
        ("bytes_per_cycle of the memory 'sram' is 65535/0", |u| {
            u.memories = changed(|sram| sram.bytes_per_cycle.1 = 0, |_| {})
        }),
        ("burst_bytes of the memory 'sram' is 0", |u| u.memories = changed(|sram| sram.burst_bytes = 0, |_| {})),
        ("read_latency of the memory 'sram' is 4294967295", |u| {
            u.memories = changed(|sram| sram.read_latency = u32::MAX, |_| {})
        }),
        ("bytes_per_cycle of the memory 'dram' is 0/1", |u| {
            let tensors = [(memory("sram", (1, 1)), Some(1)), (memory("dram", (0, 1)), None)];
            u.memories = memories(tensors, memory("flash", (1, 1)));
        }),
        ("buffer_bytes is 0", |u| u.buffer_bytes = Some(0)),
        ("engines[0].rates of 'engine' is empty", |u| u.engines[0].rates = [None; OperationKind::COUNT]),
        ("engines[0].rates of 'engine' is 1/0", |u| u.engines[0].rates[2] = Some((1, 0))),
        ("engines[0].granule of 'engine' has 0", |u| u.engines[0].granule[3] = 0),
        ("dma.in_flight is 0", |u| u.dma = Some(Dma { start_cycles: 0, in_flight: 0 })),
    ];
    assert_eq!(verify(&unit()), Ok(()));
    for (expected, damage) in damages {
        let mut damaged = unit();
        damage(&mut damaged);
        let complaint = verify(&damaged).expect_err(expected);
        assert!(complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn whole_networks_are_planned_and_proved() {
    let tiled = DescribedUnit {
        memories: memories(
            [(memory("sram", (32, 1)), Some(256 << 10)), (memory("dram", (4, 1)), None)],
            memory("dram", (4, 1)),
        ),
        buffer_bytes: Some(64 << 10),
        engines: vec![
            Engine { granule: [1, 16, 16, 16], instruction_cycles: 50, ..convolver((1024, 1)) },
            engine([Some((32, 1)); OperationKind::COUNT]),
        ],
        ..unit()
    };
    let plain =
        DescribedUnit { dma: None, memories: changed(|_| {}, |flash| flash.bytes_per_cycle = (1, 1)), ..unit() };
    for graph in [mobilenet_v1(), mobilenet_v2()] {
        for unit in [tiled.clone(), plain.clone()] {
            let graph = CascaderGraph { device: Device { unit: Unit::Described(unit) }, ..graph.clone() };
            let found = search(&graph, &Options::default()).expect("every Part fits");
            assert!(found.proposals[0].sram_bytes() * 2 < found.uncascaded_bytes);
            for proposal in &found.proposals {
                let (program, placement) = realised(&graph, proposal);
                check(&graph, &program).expect("the program is right");
                assert_eq!(cycles(&graph, described(&graph), &program, &placement), proposal.cycles);
            }
        }
    }
}
