//! Worked examples of each rule, by hand.

use std::sync::Arc;

use smallvec::smallvec;

use super::super::accelerator::Accelerator;
use super::super::arithmetic::Rounding;
use super::super::feature_map::{ElementType, FeatureMap, Layout};
use super::super::memory::REGION_COUNT;
use super::super::operation::{
    Activation, Block, Elementwise, Function, Kernel, KernelKind, Operand2, OperandScaling, ShramLayout, Stream, Window,
};
use super::kernel::{cost, KernelCost};
use super::rules::Rules;
use super::schedule::{play, Timeline};
use super::system::{Port, System};
use super::ticks::Ticks;
use super::traffic::Load;
use super::walk::{Action, DmaCost, KernelShape, Step};

const SRAM: usize = 0;
const FLASH: usize = 1;
const INT8: ElementType = ElementType { bits: 8, signed: true };

/// SRAM 8 bytes per cycle, latency 32; flash 1 byte per cycle, latency 64: Arm's High_End_Embedded.
fn system() -> System {
    let port = |name: &str, bytes, read_latency, write_latency, burst_bytes| Port {
        name: name.into(),
        bytes_per_cycle: (bytes, 1),
        read_latency,
        write_latency,
        burst_bytes,
    };
    let mut regions = [SRAM; REGION_COUNT];
    regions[0] = FLASH;
    System::new(vec![port("Sram", 8, 32, 32, 32), port("Flash", 1, 64, 0, 128)], regions, FLASH).unwrap()
}

fn map(name: &'static str, [height, width, depth]: [u32; 3], layout: Layout) -> FeatureMap {
    let (stride_x, stride_c) = match layout {
        Layout::Nhwc => (i64::from(depth), 0),
        Layout::Nhcwb16 => (16, 16 * i64::from(width)),
    };
    FeatureMap {
        name,
        region: 1,
        height,
        width,
        depth,
        element: INT8,
        layout,
        zero_point: 0,
        bases: [0; 4],
        width0: width,
        height0: height,
        height1: height,
        stride_x,
        stride_y: i64::from(width) * i64::from(depth.next_multiple_of(16)),
        stride_c,
    }
}

fn kernel(kind: KernelKind, ifm: [u32; 3], ofm: [u32; 3], block: [u32; 3], window: Window) -> Kernel {
    let weighted = matches!(kind, KernelKind::Conv | KernelKind::Depthwise);
    let stream = |length| if weighted { vec![Stream { region: 0, base: 0, length }] } else { Vec::new() };
    Kernel {
        kind,
        ifm: map("IFM", ifm, Layout::Nhcwb16),
        ifm2: None,
        swap_operands: false,
        ofm: map("OFM", ofm, Layout::Nhcwb16),
        window,
        block: Block { height: block[0], width: block[1], depth: block[2] },
        part_kernel: false,
        small_sub_kernels: false,
        weights: stream(100),
        scales: stream(16),
        scale: None,
        rounding: Rounding::Double,
        operands: OperandScaling::None,
        activation: Activation { function: Function::Clamp, forced_range: None, min: -128, max: 127 },
        accumulator_bits: 32,
        shram: ShramLayout { ifm_end: 0, accumulator_start: 0, ifm2_start: None },
        blockdep: 0,
    }
}

fn window(size: u32, pad: u32) -> Window {
    let (pad_top, pad_left, pad_bottom, pad_right) = (pad, pad, pad, pad);
    Window { height: size, width: size, pad_top, pad_left, pad_bottom, pad_right, ..Window::UNIT }
}

fn costed(kernel: &Kernel) -> KernelCost {
    cost(kernel, Accelerator::by_name("ethos-u55-256").unwrap(), false, &system(), &Rules::default()).unwrap()
}

fn with(kernel: &Kernel, change: impl Fn(&mut Rules)) -> KernelCost {
    let mut rules = Rules::default();
    change(&mut rules);
    cost(kernel, Accelerator::by_name("ethos-u55-256").unwrap(), false, &system(), &rules).unwrap()
}

#[test]
fn one_block_of_a_pointwise_convolution() {
    // 2x2 micro-blocks in the plane, 2 in depth, one IFM depth block: max(32, 16) * 1 * 2 MAC cycles.
    // Output: 256 elements at 1/4. Scales: 10 * 16 * 64 / 256 = 40, less. Nothing overlaps in a single block.
    let c = costed(&kernel(KernelKind::Conv, [4, 4, 32], [4, 4, 16], [4, 4, 16], Window::UNIT));
    assert_eq!((c.mac.ceil(), c.output.ceil(), c.pipeline.ceil()), (64, 64, 128));
    // 32 + 512 / 8 and 32 + 256 / 8.
    assert_eq!((c.fill.ceil(), c.drain.ceil()), (96, 64));
    assert_eq!((c.alone.ceil(), c.macs, c.jobs), (288, 8192, 1));
    assert_eq!(c.loads[SRAM], Load { read: 512, written: 256, cost: 768 });
    assert_eq!(c.loads[FLASH], Load { read: 116, written: 0, cost: 116 });
    // What no overlap can hide is the pipeline, or here, were it longer, the flash: max(128, 116).
    assert_eq!(c.least.ceil(), 128);
}

#[test]
fn flash_binds_when_weights_are_many() {
    let mut k = kernel(KernelKind::Conv, [4, 4, 32], [4, 4, 16], [4, 4, 16], Window::UNIT);
    k.weights[0].length = 1000;
    // 1016 bytes at 1 byte per cycle and the latency of 64.
    assert_eq!((costed(&k).alone.ceil(), costed(&k).least.ceil()), (1080, 1016));
}

#[test]
fn traversals() {
    let shape = ([8, 8, 20], [8, 8, 16], [8, 8, 16]);
    let mac = |k: &Kernel| costed(k).mac.ceil();
    let mut k = kernel(KernelKind::Conv, shape.0, shape.1, shape.2, window(3, 1));
    // 16 micro-blocks: 64 cycles for each of 9 elements, 2 in depth, 1 block of 32 channels.
    assert_eq!(mac(&k), 64 * 9 * 2);
    k.part_kernel = true;
    // ceil(9 / 4) steps, 3 groups of 8 channels; as full depth blocks (16 + 16) there would be 4.
    assert_eq!(mac(&k), 64 * 3 * 2 * 3);
    assert_eq!(with(&k, |rules| rules.partial_ifm_depth = false).mac.ceil(), 64 * 3 * 2 * 4);
    let depthwise = kernel(KernelKind::Depthwise, [8, 8, 16], shape.1, shape.2, window(3, 1));
    assert_eq!(mac(&depthwise), 64 * 3 * 2);
    let pool = |size| kernel(KernelKind::MaxPool, [8, 8, 16], shape.1, shape.2, window(size, 0));
    assert_eq!((mac(&pool(3)), mac(&pool(1))), (9 * 16 * 2, 4 * 16 * 2));
    // Maximum pooling leaves at 1/8 cycle per element.
    assert_eq!(costed(&pool(1)).output.ceil(), 128);
}

#[test]
fn a_row_fills_transposed_micro_blocks() {
    let row = |kernel_height| {
        let w = Window { height: kernel_height, ..Window::UNIT };
        kernel(KernelKind::Conv, [kernel_height, 32, 32], [1, 32, 16], [2, 32, 16], w)
    };
    // 8 micro-blocks of 1x4; with a taller kernel 16 half-empty ones of 2x2.
    assert_eq!(costed(&row(1)).mac.ceil(), 32 * 2);
    assert_eq!(costed(&row(2)).mac.ceil(), 64 * 2 * 2);
}

#[test]
fn single_micro_blocks_start_up_at_every_step() {
    let k = |depth, size| kernel(KernelKind::Conv, [size, size, 32], [1, 1, depth], [2, 2, depth], window(size, 0));
    // One micro-block: 32 cycles and 2 to start, per element; deeper ones hide the first of the steps.
    assert_eq!(costed(&k(8, 1)).mac.ceil(), 34);
    assert_eq!(costed(&k(8, 3)).mac.ceil(), 34 * 9);
    assert_eq!(costed(&k(16, 3)).mac.ceil(), (32 * 9 + 2 * 8) * 2);
}

#[test]
fn output_rates() {
    let mut k = kernel(KernelKind::Elementwise(Elementwise::Add), [4, 4, 12], [4, 4, 12], [4, 4, 16], Window::UNIT);
    k.ifm2 = Some(Operand2::Map(map("IFM2", [4, 4, 12], Layout::Nhcwb16)));
    // 12 channels count as 16 elements at 3/4 cycle.
    assert_eq!(costed(&k).output.ceil(), 192);
    assert_eq!(with(&k, |rules| rules.elementwise_depth = 1).output.ceil(), 144);
    assert_eq!(costed(&k).mac, Ticks::ZERO);
    let mut conv = kernel(KernelKind::Conv, [8, 8, 32], [8, 8, 16], [8, 8, 16], Window::UNIT);
    conv.activation.function = Function::Table(0);
    assert_eq!(costed(&conv).output.ceil(), 1024);
    // Few elements: the scales of 16 channels at a latency of 64 take 10 * 16 * 64 / 256.
    let small = kernel(KernelKind::Conv, [1, 1, 32], [1, 1, 16], [2, 2, 16], Window::UNIT);
    assert_eq!(costed(&small).output.ceil(), 40);
}

#[test]
fn partial_blocks_cost_their_extent() {
    let k = kernel(KernelKind::Conv, [10, 8, 32], [10, 8, 16], [8, 8, 16], Window::UNIT);
    // 16 and 4 micro-blocks: 64 and 32 (the weights' arrival) times 2.
    assert_eq!(costed(&k).mac.ceil(), 128 + 64);
    assert_eq!(with(&k, |rules| rules.partial_blocks = false).mac.ceil(), 256);
}

#[test]
fn bytes_of_blocks_with_halo() {
    // 3x3 over 16x16, blocks of 8x8: 9 of 16 rows and columns each, twice for two OFM depth blocks, 2 bricks.
    let k = kernel(KernelKind::Conv, [16, 16, 20], [16, 16, 32], [8, 8, 16], window(3, 1));
    let c = costed(&k);
    assert_eq!(c.loads[SRAM].read, 18 * 18 * 32 * 2);
    assert_eq!(c.loads[SRAM].written, 16 * 16 * 32);
    assert_eq!(c.loads[FLASH].read, 116 * 4);
    assert_eq!(with(&k, |rules| rules.exact_halo = false).loads[SRAM].read, 20 * 20 * 32 * 2);
    assert_eq!(with(&k, |rules| rules.ifm_per_depth_block = false).loads[SRAM].read, 18 * 18 * 32);
    assert_eq!(with(&k, |rules| rules.weights_per_spatial_block = false).loads[FLASH].read, 116);
    assert_eq!((c.blocks, c.jobs), (8, 8));
}

#[test]
fn nhwc_runs_fill_beats() {
    let mut k = kernel(KernelKind::Conv, [6, 10, 1], [6, 10, 12], [6, 10, 16], Window::UNIT);
    k.ifm = map("IFM", [6, 10, 1], Layout::Nhwc);
    k.ofm = map("OFM", [6, 10, 12], Layout::Nhwc);
    // Rows of 10 bytes take 2 beats; up to 16 packed channels leave as rows of 120 bytes.
    let c = costed(&k);
    assert_eq!((c.loads[SRAM].read, c.loads[SRAM].written), (6 * 16, 6 * 120));
    // A run of 10 bytes counts as 16 of the burst's 32, a row of 120 as a burst.
    assert_eq!(c.loads[SRAM].cost, 6 * 16 * 2 + 6 * 120);
    k.ofm = map("OFM", [6, 10, 20], Layout::Nhwc);
    k.block.depth = 24;
    // 20 channels leave as 16 and 4, the latter in a beat of 8.
    assert_eq!(costed(&k).loads[SRAM].written, 60 * (16 + 8));
    assert_eq!(with(&k, |rules| rules.whole_beats = false).loads[SRAM].read, 60);
}

#[test]
fn broadcast_operands_move_once_per_block() {
    let mut k = kernel(KernelKind::Elementwise(Elementwise::Mul), [8, 8, 16], [8, 8, 16], [4, 8, 16], Window::UNIT);
    k.ifm2 = Some(Operand2::Map(map("IFM2", [1, 1, 16], Layout::Nhcwb16)));
    assert_eq!(costed(&k).loads[SRAM].read, 1024 + 2 * 16);
    k.ifm2 = Some(Operand2::Scalar(3));
    assert_eq!(costed(&k).loads[SRAM].read, 1024);
}

#[test]
fn two_cores_halve() {
    let k = kernel(KernelKind::Conv, [8, 8, 32], [8, 8, 16], [8, 8, 16], Window::UNIT);
    let chip = Accelerator::by_name("ethos-u65-512").unwrap();
    let cycles = |parallel| {
        let c = cost(&k, chip, parallel, &system(), &Rules::default()).unwrap();
        (c.mac.ceil(), c.output.ceil())
    };
    assert_eq!((cycles(false), cycles(true)), ((128, 256), (64, 128)));
}

// The schedule, on kernels and transfers of given costs.

/// A kernel of 10 jobs that takes `alone`, 20 of which fill and 30 drain, and reads `flash` bytes of flash.
fn task(alone: u128, flash: u64, blockdep: u32) -> Action {
    let least = alone.saturating_sub(50).max(u128::from(flash));
    let cost = KernelCost {
        macs: 0,
        blocks: 10,
        jobs: 10,
        mac: Ticks::ZERO,
        output: Ticks::ZERO,
        pipeline: Ticks::ZERO,
        fill: Ticks::cycles(20),
        drain: Ticks::cycles(30),
        loads: smallvec![Load::default(), Load { read: flash, written: 0, cost: flash }],
        alone: Ticks::cycles(alone),
        least: Ticks::cycles(least),
    };
    let (ofm, ifm, block) = ([1; 3], [1; 3], [1; 3]);
    Action::Kernel(Arc::new((KernelShape { kind: KernelKind::Conv, ofm, ifm, block, blockdep }, cost)))
}

fn transfer(alone: u128, flash: u64) -> Action {
    let loads = smallvec![Load::default(), Load { read: flash, written: 0, cost: flash }];
    Action::Dma(Arc::new(DmaCost { bytes: flash, loads, alone: Ticks::cycles(alone) }))
}

/// Plays actions of no words; a rule changes them.
fn played(actions: Vec<Action>, change: impl Fn(&mut Rules)) -> Timeline {
    let mut rules = Rules { fetch_commands: false, cycles_per_word: 0, ..Rules::default() };
    change(&mut rules);
    let steps: Vec<Step> =
        actions.into_iter().enumerate().map(|(command, action)| Step { command, words: 10, action }).collect();
    play(&steps, Accelerator::by_name("ethos-u55-256").unwrap(), &system(), &rules)
}

fn spans(line: &Timeline) -> Vec<(u64, u64)> {
    line.events.iter().map(|event| (event.start.ceil(), event.end.ceil())).collect()
}

#[test]
fn kernels_follow_each_other() {
    let line = played(vec![task(100, 0, 0), task(60, 0, 0), Action::Stop], |_| ());
    assert_eq!(spans(&line), [(0, 100), (100, 160), (0, 160)]);
}

#[test]
fn blockdep_hides_filling_and_draining() {
    // One tenth of 100 cycles per job: 10, 20, 30 of the 50 cycles of filling and draining.
    for blockdep in 1..=3u32 {
        let line = played(vec![task(100, 0, 0), task(100, 0, blockdep), Action::Stop], |_| ());
        assert_eq!(line.end.ceil(), 200 - 10 * u64::from(blockdep));
    }
    let long = || vec![task(1000, 0, 0), task(100, 0, 3), Action::Stop];
    assert_eq!(played(long(), |_| ()).end.ceil(), 1050);
    assert_eq!(played(long(), |rules| rules.hide_latency = false).end.ceil(), 1100);
    // A kernel bound by the flash has nothing to hide.
    let line = played(vec![task(1000, 0, 0), task(100, 100, 3), Action::Stop], |_| ());
    assert_eq!(line.end.ceil(), 1100);
    // Issued only after the wait: too late to be hidden.
    let line = played(vec![task(1000, 0, 0), Action::KernelWait(0), task(100, 0, 3), Action::Stop], |_| ());
    assert_eq!(line.end.ceil(), 1100);
}

#[test]
fn a_third_kernel_waits_for_the_queue() {
    let line = played(vec![task(100, 0, 0), task(100, 0, 0), task(100, 0, 0), transfer(10, 0), Action::Stop], |_| ());
    // The DMA behind the third kernel is not reached before the first kernel has ended.
    assert_eq!(line.events[3].start.ceil(), 100);
    assert_eq!(line.end.ceil(), 300);
}

#[test]
fn transfers_overlap_unless_waited_for() {
    let stream = |wait: Vec<Action>| {
        let mut actions = vec![transfer(80, 0)];
        actions.extend(wait);
        actions.extend([task(100, 0, 0), Action::Stop]);
        played(actions, |_| ()).end.ceil()
    };
    assert_eq!(stream(vec![]), 100);
    assert_eq!(stream(vec![Action::DmaWait(1)]), 100);
    assert_eq!(stream(vec![Action::DmaWait(0)]), 180);
}

#[test]
fn one_transfer_is_outstanding_on_u55() {
    let actions = || vec![transfer(80, 0), transfer(80, 0), task(100, 0, 0), Action::Stop];
    assert_eq!(played(actions(), |_| ()).end.ceil(), 180);
    assert_eq!(played(actions(), |rules| rules.dma_queue = 2).end.ceil(), 160);
}

#[test]
fn flash_is_shared() {
    let actions = || vec![transfer(100, 100), task(100, 100, 0), Action::Stop];
    assert_eq!(played(actions(), |_| ()).end.ceil(), 200);
    assert_eq!(played(actions(), |rules| rules.contention = false).end.ceil(), 100);
}

#[test]
fn command_words_are_fetched() {
    // 10 words: 10 cycles to decode, 40 to fetch; the second kernel's words pass behind the first kernel.
    let actions = || vec![task(100, 0, 0), task(100, 0, 0), Action::Stop];
    let line = played(actions(), |rules| (rules.cycles_per_word, rules.fetch_commands) = (1, true));
    assert_eq!(spans(&line)[..2], [(40, 140), (140, 240)]);
    let line = played(actions(), |rules| rules.cycles_per_word = 1);
    assert_eq!(line.events[0].start.ceil(), 10);
    // Nothing is fetched across a wait.
    let waits = vec![task(100, 0, 0), Action::KernelWait(0), task(100, 0, 0), Action::Stop];
    let line = played(waits, |rules| rules.cycles_per_word = 1);
    assert_eq!(line.events[2].start.ceil(), 10 + 100 + 10);
}
