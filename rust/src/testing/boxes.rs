//! Outputs that several operations make, each a box of rows, columns and channels: programs, and what is noticed of wrong
//! ones.

use crate::checker::{check, Complaint};
use crate::cost::Costs;
use crate::model::graph::{CascaderGraph, GraphError, Part, Work};
use crate::model::ids::{PartId, Piece, TableId};
use crate::model::operation::{
    Element, Function, JoinedOperation, Layout, LookUpTable, NpuOperation, OperationKind, SecondOperand, Upscale,
};
use crate::model::plan::{Plan, Staging};
use crate::model::program::{CopySource, Program, Step, Stripe};
use crate::schedule::interleave::interleave;
use crate::stripe::{Axis, Region, Span, Tiling};
use crate::testing::networks::{Network, INPUT};

/// What two windows make of the input, joined along an axis and read again.
fn branches(axis: usize) -> CascaderGraph {
    let mut net = Network::new([9, 7], 8);
    let made = [1, 3].map(|kernel| net.window(INPUT, OperationKind::Depthwise, kernel, 1, 8));
    let joined = net.join_along(axis, &[made[1], made[0]]);
    let out = net.window(joined, OperationKind::Convolution, 3, 1, 8);
    net.finish(out)
}

/// All of it as one group.
fn cascaded(graph: &CascaderGraph, roll: Axis, stripe: i64) -> Program {
    in_bands(graph, Tiling { roll, tiles: 1 }, stripe)
}

fn in_bands(graph: &CascaderGraph, tiling: Tiling, stripe: i64) -> Program {
    let plan = Plan {
        first: PartId(0),
        last: PartId(3),
        tiling,
        backwards: false,
        stripes: vec![stripe; 4],
        staging: vec![Staging::InPlace; 4],
        copied: Vec::new(),
    };
    interleave(graph, &[plan], &mut Costs::default()).expect("a legal plan")
}

fn pieces(program: &mut Program) -> impl Iterator<Item = &mut Stripe> {
    program.steps.iter_mut().filter_map(|step| match step {
        Step::Stripe(stripe) if stripe.piece.is_some() => Some(stripe),
        _ => None,
    })
}

#[test]
fn a_stripe_runs_the_operations_whose_boxes_it_meets() {
    let graph = branches(0);
    let mut program = cascaded(&graph, Axis::Height, 2);
    assert_eq!(check(&graph, &program), Ok(()));
    let made: Vec<(u32, Span)> = pieces(&mut program)
        .map(|stripe| (stripe.piece.map_or(0, |piece| piece.0), stripe.output.region.span(Axis::Height)))
        .collect();
    let rows = |from, to| Span::new(from, to);
    // Nine rows of each: the fifth stripe has one row of either.
    let first = [(0, 2), (2, 4), (4, 6), (6, 8), (8, 9)].map(|(from, to)| (0, rows(from, to)));
    let second = [(9, 10), (10, 12), (12, 14), (14, 16), (16, 18)].map(|(from, to)| (1, rows(from, to)));
    assert_eq!(made, [first, second].concat());
}

#[test]
fn a_stripe_across_the_join_runs_all_operations() {
    let graph = branches(1);
    let mut program = cascaded(&graph, Axis::Height, 3);
    assert_eq!(check(&graph, &program), Ok(()));
    let columns: Vec<Span> = pieces(&mut program).map(|stripe| stripe.output.region.span(Axis::Width)).collect();
    assert_eq!(columns, [[Span::new(0, 7), Span::new(7, 14)]; 3].concat());
}

/// What comes first in the output may be made by the operation that runs last.
#[test]
fn a_band_may_be_made_by_some_of_the_operations() {
    for (axis, roll) in [(0, Axis::Width), (1, Axis::Height)] {
        let mut graph = branches(axis);
        let join = &mut graph.parts[PartId(2)];
        join.inputs.reverse();
        if let Work::Npu(kernel) = &mut join.work {
            kernel.joined.reverse();
        }
        for tiles in 2..6 {
            let program = in_bands(&graph, Tiling { roll, tiles }, 1);
            assert_eq!(check(&graph, &program), Ok(()), "{roll:?} in {tiles} bands");
        }
    }
}

#[test]
fn an_operation_that_is_left_out_is_noticed() {
    for axis in 0..3 {
        let graph = branches(axis);
        let mut program = cascaded(&graph, Axis::Height, 2);
        let last = |step: &Step| matches!(step, Step::Stripe(stripe) if stripe.piece == Some(Piece(1)));
        let at = program.steps.iter().rposition(last).expect("two operations");
        // A table that nobody looks anything up in.
        let table = LookUpTable { id: TableId(0), bytes: 256 };
        program.steps[at] = Step::LoadTable { part: PartId(0), piece: None, table, slot: 0, ahead: 0, cycles: 0 };
        assert!(matches!(check(&graph, &program), Err(Complaint::Missing { .. })), "axis {axis}");
    }
}

#[test]
fn an_operation_beside_its_box_is_noticed() {
    let graph = branches(0);
    let mut program = cascaded(&graph, Axis::Height, 3);
    let stripe = pieces(&mut program).next().expect("a joined stripe");
    stripe.piece = Some(Piece(1));
    assert!(matches!(check(&graph, &program), Err(Complaint::Beside { .. })));
}

#[test]
fn an_operation_that_reads_other_rows_is_noticed() {
    let graph = branches(0);
    let mut program = cascaded(&graph, Axis::Height, 2);
    // Rows as if its box began where the output does.
    let stripe = pieces(&mut program).find(|stripe| stripe.piece == Some(Piece(1))).expect("two operations");
    stripe.inputs[0].region = stripe.output.region;
    assert!(matches!(check(&graph, &program), Err(Complaint::Uncovered { .. })));
}

/// `branches` with something changed about the joined operations.
fn changed(axis: usize, change: impl FnOnce(&mut Vec<JoinedOperation>)) -> Result<CascaderGraph, GraphError> {
    let graph = branches(axis);
    let mut parts: Vec<Part> = graph.parts.iter().cloned().collect();
    let Work::Npu(kernel) = &mut parts[2].work else { unreachable!() };
    change(&mut kernel.joined);
    CascaderGraph::new(graph.tensors.clone(), parts.into(), graph.device.clone())
}

#[test]
fn joined_operations_look_up_in_tables_of_their_own() {
    let table = |id| LookUpTable { id: TableId(id), bytes: 256 };
    for axis in 0..3 {
        let look_up = |joined: &mut Vec<JoinedOperation>| {
            (4..).zip(joined).for_each(|(id, joined)| joined.operation.function = Function::Table(table(id)));
        };
        let graph = changed(axis, look_up).expect("operations may look up");
        let kernel = graph.kernel(PartId(2)).expect("an NPU operation");
        assert_eq!(kernel.tables().collect::<Vec<_>>(), [table(4), table(5)]);
        let mut program = cascaded(&graph, Axis::Height, 2);
        assert_eq!(check(&graph, &program), Ok(()));
        let loaded = |step: &Step| match step {
            Step::LoadTable { part, piece, table, .. } => Some((*part, *piece, *table)),
            _ => None,
        };
        let loads: Vec<_> = program.steps.iter().filter_map(loaded).collect();
        assert_eq!(loads, [0, 1].map(|piece| (PartId(2), Some(Piece(piece)), table(4 + piece))));
        for step in &mut program.steps {
            if let Step::LoadTable { table, .. } = step {
                table.id.0 ^= 1;
            }
        }
        let complaint = check(&graph, &program);
        assert!(matches!(complaint, Err(Complaint::Unloaded { table: TableId(4), .. })), "{complaint:?}");
    }
}

#[test]
fn joined_operations_have_their_own_constants_copied() {
    let constants = |joined: &mut Vec<JoinedOperation>| {
        (1..).zip(joined).for_each(|(number, joined)| joined.operation.constant_bytes = 100 * number);
    };
    let graph = changed(2, constants).expect("as before");
    let plan = Plan {
        first: PartId(0),
        last: PartId(3),
        tiling: Tiling { roll: Axis::Height, tiles: 1 },
        backwards: false,
        stripes: vec![2; 4],
        staging: vec![Staging::InPlace, Staging::InPlace, Staging::Whole, Staging::InPlace],
        copied: Vec::new(),
    };
    let mut program = interleave(&graph, &[plan], &mut Costs::default()).expect("a legal plan");
    assert_eq!(check(&graph, &program), Ok(()));
    let copies = program.steps.iter().filter_map(|step| match step {
        Step::Copy { moved: CopySource::Constants(part, piece), buffer, .. } => Some((*part, *piece, *buffer)),
        _ => None,
    });
    let copies: Vec<_> = copies.collect();
    let sizes: Vec<_> = copies.iter().map(|&(part, piece, b)| (part, piece, program.buffers[b].size_bytes)).collect();
    assert_eq!(sizes, [(PartId(2), Some(Piece(0)), 100), (PartId(2), Some(Piece(1)), 200)]);
    let kernel = graph.kernel(PartId(2)).expect("it joins");
    assert_eq!((kernel.copies().collect::<Vec<_>>(), kernel.staged_bytes()), (vec![100, 200], 112 + 208));
    for stripe in pieces(&mut program) {
        let own = copies.iter().find(|(_, piece, _)| *piece == stripe.piece).expect("a copy of each");
        assert_eq!((stripe.constants, stripe.source(kernel)), (Some(own.2), kernel.copied(stripe.piece)));
    }
    let stripe = pieces(&mut program).find(|stripe| stripe.piece == Some(Piece(1))).expect("two operations");
    stripe.constants = Some(copies[0].2);
    assert!(matches!(check(&graph, &program), Err(Complaint::Unstaged { .. } | Complaint::Lifetime { .. })));
}

/// What is said of the joined operations after a change.
fn fault(axis: usize, change: impl FnOnce(&mut Vec<JoinedOperation>)) -> String {
    match changed(axis, change) {
        Err(GraphError::Operation { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn boxes_lie_in_the_output_apart_and_cover_it() {
    let moved = |rows: [i64; 2]| move |joined: &mut Vec<JoinedOperation>| joined[1].region = Region::at(rows, [9, 7]);
    assert!(fault(0, moved([10, 0])).contains("beyond 't3'"));
    assert!(fault(0, moved([8, 0])).contains("twice"));
    let doubled = |joined: &mut Vec<JoinedOperation>| joined[1].operation.upscale = Upscale::Nearest;
    assert!(fault(0, doubled).contains("begins inside a doubled pixel"));
    let shorter = |joined: &mut Vec<JoinedOperation>| joined[1].region = Region::at([9, 0], [8, 7]);
    assert!(fault(0, shorter).contains("write 952 bytes of 't3'"));
    assert!(fault(2, |joined| joined[1].first_channel = 7).contains("twice"));
    assert!(fault(2, |joined| joined[1].first_channel = 9).contains("beyond 't3'"));
    let constant = |joined: &mut Vec<JoinedOperation>| {
        let (element, layout) = (Element::INT8, Layout::Nhwc);
        joined[1].operation.second = SecondOperand::Constant { element, broadcast: [true; 3], layout };
    };
    assert!(fault(0, constant).contains("a constant operand"));
    let nested = |joined: &mut Vec<JoinedOperation>| {
        let inner = joined[0].clone();
        joined[1].operation = NpuOperation { joined: vec![inner], ..joined[1].operation.clone() };
    };
    assert!(fault(0, nested).contains("is itself joined"));
}
