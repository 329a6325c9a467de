//! Tests of the registers and waits of streams.

use std::sync::Arc;

use super::stream::{commands, Sent};
use crate::cost::Costs;
use crate::model::device::Unit;
use crate::model::graph::{CascaderGraph, Work};
use crate::model::ids::{PartId, TableId};
use crate::model::operation::{LookUpTable, OperationKind, StreamTemplate};
use crate::model::plan::Staging;
use crate::npu::registers::Register;
use crate::npu::timing::system::CONSTANTS_REGION;
use crate::npu::timing::walk::Action;
use crate::plans::options::MOVES;
use crate::schedule::interleave::interleave;
use crate::search::arena::placer;
use crate::search::uncascaded;
use crate::testing::networks::{Network, INPUT};

/// The one stream of a chain of convolutions, each in one piece with its constants in place; `contents` number these.
fn chain(plane: [i64; 2], contents: &[[u32; 2]]) -> Vec<Sent> {
    let mut net = Network::new(plane, 16);
    let t = contents.iter().fold(INPUT, |t, _| net.window(t, OperationKind::Convolution, 1, 1, 16));
    let mut graph = net.finish(t);
    for (part, &content) in graph.parts.iter_mut().zip(contents) {
        let Work::Npu(kernel) = &mut part.work else { unreachable!("a convolution runs on the NPU") };
        kernel.emitted = Arc::new(StreamTemplate { contents: vec![content, content], ..StreamTemplate::default() });
    }
    stream(&graph)
}

/// The one stream of a network without cascades, its constants in place.
fn stream(graph: &CascaderGraph) -> Vec<Sent> {
    let program = interleave(graph, &uncascaded(graph), &mut Costs::default()).expect("blocks fit");
    let Unit::EthosU(npu) = &graph.device.unit else { unreachable!("the sample device is an Ethos-U") };
    let placement = placer(graph)(&program, MOVES).expect("it fits");
    commands(graph, npu, &program, &placement).pop().expect("one run")
}

/// What a register holds at each kernel.
pub fn held(stream: &[Sent], register: Register) -> Vec<u64> {
    let mut value = 0;
    let mut found = Vec::new();
    for Sent { command, registers } in stream {
        value = registers.iter().find(|(set, _)| *set == register).map_or(value, |&(_, value)| value);
        if matches!(command.action, Action::Kernel(_)) {
            found.push(value);
        }
    }
    found
}

#[test]
fn a_kernel_of_one_block_waits_for_the_one_block_before() {
    assert_eq!(held(&chain([2, 2], &[[0, 3], [1, 4], [2, 5]]), Register::BLOCKDEP), [0, 0, 0]);
}

#[test]
fn first_blocks_may_run_beside_last_ones() {
    assert_eq!(held(&chain([160, 64], &[[0, 2], [1, 3]]), Register::BLOCKDEP), [0, 3]);
}

#[test]
fn equal_weights_and_equal_scales_lie_in_one_place() {
    let stream = chain([2, 2], &[[0, 1], [2, 3], [0, 1], [4, 3], [2, 1], [5, 6]]);
    let [weights, scales] = [Register::WEIGHT_LENGTH, Register::SCALE_LENGTH].map(|r| held(&stream, r)[0]);
    let one = weights + scales;
    assert_eq!(held(&stream, Register::WEIGHT_BASE), [0, one, 0, 2 * one, one, 2 * one + weights]);
    let last = 2 * (one + weights);
    assert_eq!(held(&stream, Register::SCALE_BASE), [weights, one + weights, weights, one + weights, weights, last]);
}

/// The stream of a sum with a constant of one column, in stripes of `rows` rows, its constants copied or not.
fn constant_operand(rows: i64, staging: Staging) -> Vec<Sent> {
    let mut net = Network::new([8, 6], 16);
    let t = net.with_constant(OperationKind::Add, INPUT, [false, true, false], 8);
    let mut graph = net.finish(t);
    let Work::Npu(kernel) = &mut graph.parts[PartId(0)].work else { unreachable!("a sum runs on the NPU") };
    kernel.emitted = Arc::new(StreamTemplate { contents: vec![[0, 1]; 2], ..StreamTemplate::default() });
    let mut plans = uncascaded(&graph);
    plans[0].stripes = vec![rows];
    plans[0].staging = vec![staging];
    let program = interleave(&graph, &plans, &mut Costs::default()).expect("blocks fit");
    let Unit::EthosU(npu) = &graph.device.unit else { unreachable!("the sample device is an Ethos-U") };
    let placement = placer(&graph)(&program, MOVES).expect("it fits");
    commands(&graph, npu, &program, &placement).pop().expect("one run")
}

#[test]
fn a_constant_operand_is_read_where_it_lies_and_as_far_as_a_stripe_needs() {
    let stream = constant_operand(3, Staging::InPlace);
    assert_eq!(held(&stream, Register::IFM2_REGION), [CONSTANTS_REGION as u64; 3]);
    assert_eq!(held(&stream, Register::IFM2_BASE0), [0, 3 * 16, 6 * 16]);
    assert_eq!(held(&stream, Register::IFM2_HEIGHT0_M1), [2, 2, 1]);
    assert_eq!(held(&stream, Register::IFM2_WIDTH0_M1), [0; 3]);
    let stream = constant_operand(4, Staging::Whole);
    assert_eq!(held(&stream, Register::IFM2_REGION), [1; 2]);
    let [first, second] = held(&stream, Register::IFM2_BASE0)[..] else { panic!("two stripes") };
    assert_eq!(second, first + 4 * 16);
    // The copy is waited for, by the first stripe alone.
    let waits = stream.iter().filter(|sent| matches!(sent.command.action, Action::DmaWait(_))).count();
    assert_eq!(waits, 1);
}

/// Waits for kernels and for transfers in a chain of look-ups in 12 tables of the same size.
fn waits_of_look_ups(bytes: u64) -> [Vec<u32>; 2] {
    let mut net = Network::new([8, 8], 16);
    let t = (0..12).map(TableId).fold(INPUT, |t, id| net.look_up(t, LookUpTable { id, bytes }));
    let stream = stream(&net.finish(t));
    let actions = || stream.iter().map(|sent| &sent.command.action);
    let kernels = |action: &Action| if let Action::KernelWait(left) = action { Some(*left) } else { None };
    let transfers = |action: &Action| if let Action::DmaWait(left) = action { Some(*left) } else { None };
    [actions().filter_map(kernels).collect(), actions().filter_map(transfers).collect()]
}

#[test]
fn a_table_is_loaded_beside_kernels_that_look_up_in_others() {
    assert_eq!(waits_of_look_ups(256), [vec![], vec![0; 12]]);
    // Of two places every other one is that of a kernel in flight, and the kernel behind it may still run.
    assert_eq!(waits_of_look_ups(1024), [vec![1; 10], vec![0; 12]]);
    assert_eq!(waits_of_look_ups(2048), [vec![0; 11], vec![0; 12]]);
}

#[test]
fn a_command_has_a_word_for_itself_and_for_what_is_sent_before_it() {
    for Sent { command, registers } in chain([2, 2], &[[0, 2], [1, 3]]) {
        let words: usize = registers.iter().map(|(register, _)| 1 + usize::from(register.is_wide())).sum();
        assert_eq!(command.words, words as u64 + 1);
    }
}
