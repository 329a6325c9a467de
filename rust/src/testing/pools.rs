//! Programs between several pools: copies of tensors by hand, what the checker says of damaged ones, and their time.

use crate::checker::{check, check_placement, Complaint};
use crate::cost::{described_device, Costs};
use crate::model::device::{DescribedUnit, Device, Dma, Engine, Unit};
use crate::model::graph::CascaderGraph;
use crate::model::ids::{BufferId, PartId, PoolId, TensorId};
use crate::model::memory::{Memories, Pool};
use crate::model::operation::OperationKind;
use crate::model::plan::{CopiedTensor, Plan};
use crate::model::program::{Content, CopySource, Placement, Program, Step};
use crate::npu::timing::Port;
use crate::plans::options::MOVES;
use crate::schedule::interleave::interleave;
use crate::schedule::legal_plans::PlanError;
use crate::search::arena::{is_right, placer};
use crate::search::uncascaded;
use crate::testing::networks::{Network, INPUT};

/// Bytes of each tensor of [`graph`].
const MAP: u64 = 16 * 16 * 16;

fn pool(name: &str, rate: (u32, u32), limit_bytes: Option<u64>) -> Pool {
    let port = Port { name: name.into(), bytes_per_cycle: rate, read_latency: 0, write_latency: 0, burst_bytes: 1 };
    Pool { port, limit_bytes }
}

/// Two convolutions, each of which reads all of what it reads once, and the sum of what they make.
fn graph(tensors: Vec<Pool>) -> CascaderGraph {
    let mut net = Network::new([16, 16], 16);
    let first = net.window(INPUT, OperationKind::Convolution, 1, 1, 16);
    let second = net.window(first, OperationKind::Convolution, 1, 1, 16);
    let sum = net.add(first, second);
    let engine = Engine {
        name: "engine".into(),
        rates: [Some((65536, 1)); OperationKind::COUNT],
        granule: [1; 4],
        operation_cycles: 0,
        instruction_cycles: 0,
    };
    let memories = Memories::new(tensors, pool("flash", (65536, 1), None)).expect("they make sense");
    let dma = Some(Dma { start_cycles: 10, in_flight: 1 });
    let unit = DescribedUnit { engines: vec![engine], memories, buffer_bytes: None, dma };
    CascaderGraph { device: Device { unit: Unit::Described(unit) }, ..net.finish(sum) }
}

fn two_pools() -> CascaderGraph {
    graph(vec![pool("tcm", (1, 1), Some(3 * MAP)), pool("dram", (1, 100), None)])
}

/// Every Part on its own; the first one's output goes to the other pool, and comes back for the last one.
fn plans(graph: &CascaderGraph) -> Vec<Plan> {
    let mut plans = uncascaded(graph);
    plans[0].copied = vec![CopiedTensor::Write(PartId(0))];
    plans[1].copied = vec![CopiedTensor::Read(PartId(1), 0)];
    plans[2].copied = vec![CopiedTensor::Read(PartId(2), 0)];
    plans
}

fn program(graph: &CascaderGraph, plans: &[Plan]) -> Program {
    interleave(graph, plans, &mut Costs::default()).expect("legal plans")
}

fn placed(graph: &CascaderGraph, program: &Program) -> Placement {
    placer(graph)(program, MOVES).expect("it has a place")
}

fn cycles(graph: &CascaderGraph, program: &Program, placement: &Placement) -> u64 {
    let Unit::Described(unit) = &graph.device.unit else { unreachable!("a described device") };
    described_device::cycles(graph, unit, program, placement)
}

/// Copies of tensors: step, source, destination.
fn moves(program: &Program) -> Vec<(usize, BufferId, BufferId)> {
    let of = |(index, step): (usize, &Step)| match *step {
        Step::Copy { moved: CopySource::Tensor { from, .. }, buffer, .. } => Some((index, from, buffer)),
        _ => None,
    };
    program.steps.iter().enumerate().filter_map(of).collect()
}

#[test]
fn a_tensor_goes_to_another_pool_and_comes_back() {
    let graph = two_pools();
    let program = program(&graph, &plans(&graph));
    check(&graph, &program).expect("the program is right");
    let placement = placed(&graph, &program);
    assert!(is_right(&graph, &program, &placement));
    check_placement(graph.device.memories(), &program, &placement).expect("all lies where it may");
    let home = program.tensor_buffers[TensorId(1)].expect("a home");
    let [write, first, last] = moves(&program).try_into().expect("three copies");
    assert_eq!((write.2, first.1, last.1), (home, home, home));
    let pools = [write.1, home, first.2, last.2].map(|buffer| placement.pools[buffer]);
    assert_eq!(pools, [PoolId(0), PoolId(1), PoolId(0), PoolId(0)]);
    // A copy takes what the slower pool takes, and all else goes on at a byte per cycle: two or three maps an operation.
    let copies = 3 * (10 + 100 * MAP);
    assert_eq!(cycles(&graph, &program, &placement), copies + (2 + 2 + 3) * MAP);
    let modelled = |step: &Step| if let Step::Copy { cycles, .. } = step { *cycles } else { 0 };
    assert_eq!(program.steps.iter().map(modelled).sum::<u64>(), copies);
}

#[test]
fn what_is_away_makes_room() {
    let graph = graph(vec![pool("tcm", (1, 1), Some(4 * MAP)), pool("dram", (1, 100), None)]);
    let (near, away) = (program(&graph, &uncascaded(&graph)), program(&graph, &plans(&graph)));
    let peaks = [&near, &away].map(|program| placed(&graph, program).pool_bytes.to_vec());
    // The sum needs both operands: only the convolutions have fewer maps beside them.
    assert_eq!(peaks, [[3 * MAP, 0], [3 * MAP, MAP]]);
    // Read from where it lives it takes no room at all.
    let mut far = uncascaded(&graph);
    far[0].copied = vec![CopiedTensor::Write(PartId(0))];
    assert_eq!(placed(&graph, &program(&graph, &far)).pool_bytes.to_vec(), [2 * MAP, MAP]);
}

#[test]
fn the_copy_of_an_input_or_output_is_not_the_callers() {
    let graph = two_pools();
    let mut plans = uncascaded(&graph);
    plans[0].copied = vec![CopiedTensor::Read(PartId(0), 0)];
    plans[2].copied = vec![CopiedTensor::Write(PartId(2))];
    let program = program(&graph, &plans);
    check(&graph, &program).expect("the program is right");
    let last = program.steps.len() as u32;
    for (id, buffer) in program.buffers.iter_ids() {
        let Content::Tensor(tensor) = buffer.content else { continue };
        let is_home = program.tensor_buffers[tensor] == Some(id);
        let described = &graph.tensors[tensor];
        if described.is_input && !is_home {
            assert_eq!((buffer.first_step, buffer.last_step), (0, 2), "from its copy to its reader");
        }
        if described.is_output {
            assert_eq!((buffer.first_step, buffer.last_step), (last - if is_home { 1 } else { 2 }, last));
        }
    }
}

#[test]
fn a_tensor_that_is_not_there_to_copy_is_noticed() {
    let graph = two_pools();
    let mut early = program(&graph, &plans(&graph));
    early.buffers.iter_mut().for_each(|buffer| (buffer.first_step, buffer.last_step) = (0, u32::MAX));
    early.buffers.iter_mut().for_each(|buffer| buffer.windows.clear());
    let write = moves(&early)[0].0;
    let other = early.clone();
    early.steps.swap(write, write - 1);
    assert!(matches!(check(&graph, &early), Err(Complaint::NotThere { .. })));
    // Another tensor than the one that is there.
    let mut wrong = other.clone();
    let Step::Copy { moved: CopySource::Tensor { tensor, .. }, .. } = &mut wrong.steps[write] else { unreachable!() };
    *tensor = INPUT;
    assert!(matches!(check(&graph, &wrong), Err(Complaint::NotThere { tensor, .. }) if tensor == "input"));
    // Into what is too small, and without the copy that a reader waits for.
    let mut small = other.clone();
    let home = small.tensor_buffers[TensorId(1)].expect("a home");
    small.buffers[home].size_bytes = MAP - 1;
    assert!(matches!(check(&graph, &small), Err(Complaint::Size { .. })));
    let mut none = other;
    none.steps.remove(moves(&none)[1].0);
    assert!(matches!(check(&graph, &none), Err(Complaint::Missing { .. })));
}

#[test]
fn a_buffer_in_the_wrong_pool_or_beyond_its_limit_is_noticed() {
    let graph = two_pools();
    let memories = graph.device.memories();
    let program = program(&graph, &plans(&graph));
    let right = placed(&graph, &program);
    let home = program.tensor_buffers[TensorId(1)].expect("a home");
    let mut near = right.clone();
    near.pools[home] = Memories::SCARCE;
    let complaint = check_placement(memories, &program, &near).expect_err("it lives elsewhere");
    assert_eq!(complaint, Complaint::Misplaced { buffer: home, pool: "tcm".into() });
    let mut high = right.clone();
    let copy = moves(&program)[0].1;
    high.offsets[copy] = 2 * MAP + 16;
    let complaint = check_placement(memories, &program, &high).expect_err("it ends beyond the pool");
    let (needed_bytes, limit_bytes) = (3 * MAP + 16, 3 * MAP);
    assert_eq!(complaint, Complaint::Beyond { buffer: copy, pool: "tcm".into(), needed_bytes, limit_bytes });
    assert!(complaint.to_string().contains("pool 'tcm', which holds 12288"));
}

#[test]
fn copies_that_make_no_sense_are_refused() {
    let graph = two_pools();
    let refused = |graph: &CascaderGraph, group: usize, copied| {
        let mut plans = uncascaded(graph);
        plans[group].copied = vec![copied];
        match interleave(graph, &plans, &mut Costs::default()) {
            Err(PlanError::Decision { plan, fault }) if plan == group => fault,
            other => unreachable!("{other:?}"),
        }
    };
    let one = self::graph(vec![pool("tcm", (1, 1), None)]);
    assert!(refused(&one, 0, CopiedTensor::Write(PartId(0))).contains("one pool"));
    assert!(refused(&graph, 0, CopiedTensor::Write(PartId(1))).contains("parts of the group"));
    assert!(refused(&graph, 2, CopiedTensor::Read(PartId(2), 2)).contains("no such operand"));
    let mut cascade = uncascaded(&graph);
    let plan =
        Plan { last: PartId(1), stripes: vec![4; 2], staging: cascade[0].staging.repeat(2), ..cascade[0].clone() };
    cascade.splice(..2, [Plan { copied: vec![CopiedTensor::Read(PartId(1), 0)], ..plan }]);
    let made_here = interleave(&graph, &cascade, &mut Costs::default());
    assert!(matches!(made_here, Err(PlanError::Decision { fault, .. }) if fault.contains("before the group")));
}
