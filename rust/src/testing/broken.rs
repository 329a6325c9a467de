//! Programs with one fault each: whatever is broken, the checker says so.

use crate::checker::{check, Complaint};
use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::ids::{BufferId, PartId, Piece};
use crate::model::operation::OperationKind;
use crate::model::plan::{Plan, Staging};
use crate::model::program::{CopySource, LiveWindow, Program, Step, Stripe, View};
use crate::schedule::interleave::interleave;
use crate::schedule::prefetch::prefetch;
use crate::search::uncascaded;
use crate::stripe::{Axis, Region, Span, Tiling};
use crate::testing::networks::{fed_in_rows, taken_in_rows, Network, INPUT};
use crate::testing::schedules::network;

/// A cascade of three layers with a residual, whose programs the tests below break.
fn cascaded() -> (CascaderGraph, Program) {
    let graph = network([12, 12], &[(false, 3, 1), (true, 3, 2)], true, usize::MAX);
    let last = graph.parts.ids().next_back().expect("Parts");
    let count = graph.parts.len();
    let tiling = Tiling { roll: Axis::Height, tiles: 1 };
    let plan = Plan {
        first: PartId(0),
        last,
        tiling,
        backwards: false,
        stripes: vec![2; count],
        staging: vec![Staging::Whole; count],
        copied: Vec::new(),
    };
    let program = interleave(&graph, &[plan], &mut Costs::default()).expect("legal plan");
    check(&graph, &program).expect("right before it is broken");
    (graph, program)
}

fn stripes(program: &mut Program) -> impl Iterator<Item = &mut Stripe> {
    program.steps.iter_mut().filter_map(|step| match step {
        Step::Stripe(stripe) => Some(stripe),
        _ => None,
    })
}

#[test]
fn a_smaller_rolling_buffer_is_noticed() {
    let (graph, mut program) = cascaded();
    let buffer = program.buffers.iter_mut().find(|b| b.capacity[0] > 1 && b.capacity[0] < 12).expect("rolling buffer");
    buffer.capacity[0] -= 1;
    assert!(matches!(check(&graph, &program), Err(Complaint::Missing { .. } | Complaint::Incomplete { .. })));
}

#[test]
fn a_missing_stripe_is_noticed() {
    let (graph, mut program) = cascaded();
    let at = program.steps.iter().rposition(|step| matches!(step, Step::Stripe(_))).expect("a stripe");
    program.steps.remove(at);
    assert!(matches!(check(&graph, &program), Err(Complaint::Incomplete { .. })));
}

#[test]
fn a_narrow_input_box_is_noticed() {
    let (graph, mut program) = cascaded();
    stripes(&mut program).next().expect("a stripe").inputs[0].region.spans[0].end -= 1;
    assert!(matches!(check(&graph, &program), Err(Complaint::Uncovered { .. })));
}

#[test]
fn wrong_padding_is_noticed() {
    let (graph, mut program) = cascaded();
    stripes(&mut program).next().expect("a stripe").padding[0] += 1;
    assert!(matches!(check(&graph, &program), Err(Complaint::Padding { .. })));
}

#[test]
fn swapped_stripes_are_noticed() {
    let (graph, mut program) = cascaded();
    let part_of = |step: &Step| if let Step::Stripe(stripe) = step { Some(stripe.part) } else { None };
    let pairs = program.steps.windows(2);
    let at = pairs.map(|w| (part_of(&w[0]), part_of(&w[1]))).position(|(a, b)| a.is_some() && b > a).expect("a pair");
    program.steps.swap(at, at + 1);
    assert!(check(&graph, &program).is_err());
}

#[test]
fn a_short_lifetime_is_noticed() {
    let (graph, mut program) = cascaded();
    program.buffers[BufferId(0)].last_step -= 1;
    assert!(matches!(check(&graph, &program), Err(Complaint::Lifetime { .. })));
}

#[test]
fn a_repeated_stripe_is_noticed() {
    let (graph, mut program) = cascaded();
    let last = program.steps.last().cloned().expect("a step");
    for buffer in &mut program.buffers {
        buffer.last_step += 1;
    }
    program.steps.push(last);
    assert!(matches!(check(&graph, &program), Err(Complaint::Repeated { .. })));
}

/// Two windows whose input arrives a row at a time, row by row.
fn fed(ahead: bool) -> (CascaderGraph, Program) {
    let mut net = Network::new([12, 8], 16);
    let t = net.window(INPUT, OperationKind::Depthwise, 3, 2, 16);
    let t = net.window(t, OperationKind::Depthwise, 3, 1, 16);
    let graph = fed_in_rows(&net.finish(t), 1, ahead);
    let (first, last) = (PartId(0), PartId(2));
    let (stripes, staging) = (vec![1; 3], vec![Staging::InPlace; 3]);
    let plan = Plan { first, last, tiling: Tiling::WHOLE_ROWS, backwards: false, stripes, staging, copied: Vec::new() };
    let program = interleave(&graph, &[plan], &mut Costs::default()).expect("a legal plan");
    assert_eq!(check(&graph, &program), Ok(()));
    (graph, program)
}

fn feeds(program: &Program) -> Vec<usize> {
    (0..program.steps.len()).filter(|&step| matches!(program.steps[step], Step::Feed { .. })).collect()
}

#[test]
fn rows_out_of_order_are_noticed() {
    for ahead in [false, true] {
        let (graph, mut program) = fed(ahead);
        let feeds = feeds(&program);
        assert_eq!(feeds.len(), 12 + usize::from(ahead));
        program.steps.swap(feeds[3], feeds[4]);
        assert!(matches!(check(&graph, &program), Err(Complaint::Unordered { next: 3, start: 4, .. })));
    }
}

#[test]
fn rows_that_are_still_on_their_way_are_noticed() {
    let (graph, mut program) = fed(true);
    // Without the feed behind them the last rows never arrive.
    let last = feeds(&program)[12];
    let stripe = program.steps[last + 1].clone();
    program.steps[last] = stripe;
    assert!(matches!(check(&graph, &program), Err(Complaint::Missing { .. })));
    // A buffer is another one's while rows arrive in it.
    let (graph, mut program) = fed(true);
    let at = feeds(&program)[2];
    let Step::Feed { output, .. } = program.steps[at].clone() else { unreachable!() };
    let buffer = &mut program.buffers[output.buffer];
    let (steps, high) = ([buffer.first_step, at as u32 + 1, at as u32 + 2, buffer.last_step], buffer.size_bytes);
    let window = |period: usize| LiveWindow {
        first_step: steps[period],
        last_step: steps[period + 1],
        low: 0,
        high: if period == 1 { 0 } else { high },
    };
    buffer.windows = (0..3).map(window).collect();
    assert!(matches!(check(&graph, &program), Err(Complaint::Dead { .. })));
}

#[test]
fn rows_that_are_taken_too_early_or_never_are_noticed() {
    let mut net = Network::new([12, 8], 16);
    let t = net.window(INPUT, OperationKind::Depthwise, 3, 1, 16);
    let graph = taken_in_rows(&net.finish(t), 2);
    let (stripes, staging) = (vec![1, 2], vec![Staging::InPlace; 2]);
    let (first, last, tiling) = (PartId(0), PartId(1), Tiling::WHOLE_ROWS);
    let plan = Plan { first, last, tiling, backwards: false, stripes, staging, copied: Vec::new() };
    let right = interleave(&graph, &[plan], &mut Costs::default()).expect("a legal plan");
    assert_eq!(check(&graph, &right), Ok(()));
    let is_take = |step: &Step| matches!(step, Step::Take { .. });
    let takes: Vec<usize> = (0..right.steps.len()).filter(|&step| is_take(&right.steps[step])).collect();
    assert_eq!(takes.len(), 6);
    let changed = |change: fn(&mut Vec<Step>, &[usize])| {
        let mut program = right.clone();
        change(&mut program.steps, &takes);
        check(&graph, &program)
    };
    let early = changed(|steps, takes| steps.swap(takes[2] - 1, takes[2]));
    assert!(matches!(early, Err(Complaint::Missing { y: 5, .. })));
    // Row 2 lies where row 4 does by then.
    let late = changed(|steps, takes| steps[takes[1]..takes[2]].rotate_left(1));
    assert!(matches!(late, Err(Complaint::Missing { y: 2, .. })));
    let swapped = changed(|steps, takes| steps.swap(takes[1], takes[2]));
    assert!(matches!(swapped, Err(Complaint::Unordered { next: 2, start: 4, .. })));
    let never = changed(|steps, takes| drop(steps.remove(takes[5])));
    assert!(matches!(never, Err(Complaint::Incomplete { y: 10, .. })));
}

/// Two branches that are joined and read again, row by row.
fn joined() -> (CascaderGraph, Program) {
    let mut net = Network::new([9, 7], 8);
    let branches = [1, 3].map(|kernel| net.window(INPUT, OperationKind::Depthwise, kernel, 1, 8));
    let joined = net.join(&[branches[1], branches[0]]);
    let out = net.window(joined, OperationKind::Convolution, 3, 1, 8);
    let graph = net.finish(out);
    let tiling = Tiling { roll: Axis::Height, tiles: 1 };
    let plan = Plan {
        first: PartId(0),
        last: PartId(3),
        tiling,
        backwards: false,
        stripes: vec![1; 4],
        staging: vec![Staging::InPlace; 4],
        copied: Vec::new(),
    };
    let program = interleave(&graph, &[plan], &mut Costs::default()).expect("a legal plan");
    (graph, program)
}

#[test]
fn an_input_that_is_not_joined_is_noticed() {
    let (graph, mut program) = joined();
    assert_eq!(check(&graph, &program), Ok(()));
    let of = |piece| move |step: &Step| matches!(step, Step::Stripe(stripe) if stripe.piece == Some(Piece(piece)));
    let (first, second) = (program.steps.iter().position(of(0)), program.steps.iter().position(of(1)));
    program.steps[second.expect("two inputs")] = program.steps[first.expect("two inputs")].clone();
    assert!(matches!(check(&graph, &program), Err(Complaint::Missing { .. })));
}

#[test]
fn an_input_joined_from_elsewhere_is_noticed() {
    let (graph, mut program) = joined();
    let mut reads: Vec<_> = stripes(&mut program).filter(|stripe| stripe.piece.is_some()).collect();
    let other = reads[1].inputs.clone();
    reads[0].inputs = other;
    assert!(matches!(check(&graph, &program), Err(Complaint::Missing { .. })));
}

/// Three kernels in one group, two stripes each; the second sees what the first makes in another shape.
fn reshaped() -> (CascaderGraph, Program) {
    let mut net = Network::new([12, 6], 16);
    let first = net.window(INPUT, OperationKind::Convolution, 1, 1, 16);
    let second = net.window_over((first, [9, 8]), OperationKind::Depthwise, 3, 1, 16);
    let last = net.window(second, OperationKind::Convolution, 1, 1, 16);
    let graph = net.finish(last);
    let tiling = Tiling { roll: Axis::Height, tiles: 1 };
    let stripes = vec![6, 5, 5];
    let plan = Plan {
        first: PartId(0),
        last: PartId(2),
        tiling,
        backwards: false,
        stripes,
        staging: vec![Staging::InPlace; 3],
        copied: Vec::new(),
    };
    let program = interleave(&graph, &[plan], &mut Costs::default()).expect("a legal plan");
    check(&graph, &program).expect("right before it is broken");
    (graph, program)
}

/// Two kernels in stripes of two rows; the second sees twice as many columns in the rows of the first.
fn in_rows() -> (CascaderGraph, Program) {
    let mut net = Network::new([12, 6], 16);
    let first = net.window(INPUT, OperationKind::Convolution, 1, 1, 16);
    let last = net.window_over((first, [12, 12]), OperationKind::Depthwise, 3, 1, 8);
    let graph = net.finish(last);
    let tiling = Tiling { roll: Axis::Height, tiles: 1 };
    let (stripes, staging) = (vec![2, 2], vec![Staging::InPlace; 2]);
    let (first, last) = (PartId(0), PartId(1));
    let plan = Plan { first, last, tiling, backwards: false, stripes, staging, copied: Vec::new() };
    let program = interleave(&graph, &[plan], &mut Costs::default()).expect("a legal plan");
    check(&graph, &program).expect("right before it is broken");
    (graph, program)
}

#[test]
fn rows_roll_under_a_view_with_other_columns() {
    let (_, mut program) = in_rows();
    let reads: Vec<View> =
        stripes(&mut program).filter(|stripe| stripe.part == PartId(1)).map(|stripe| stripe.inputs[0]).collect();
    let rows: Vec<Span> = reads.iter().map(|view| view.region.spans[0]).collect();
    assert_eq!(rows[..3], [Span::new(0, 3), Span::new(1, 5), Span::new(3, 7)]);
    assert!(reads.iter().all(|view| view.region.spans[1] == Span::new(0, 12) && view.capacity == [6, 12]));
    assert_eq!(program.buffers[reads[0].buffer].capacity, [6, 6]);
}

#[test]
fn a_row_that_is_seen_with_other_columns_and_not_there_is_noticed() {
    let (graph, mut program) = in_rows();
    let of = |part| move |step: &Step| matches!(step, Step::Stripe(stripe) if stripe.part == PartId(part));
    let reads = program.steps.iter().position(of(1)).expect("a reader");
    let late = program.steps[..reads].iter().rposition(of(0)).expect("a maker");
    program.steps.swap(reads, late);
    assert!(matches!(check(&graph, &program), Err(Complaint::Reshaped { .. })));
    for (capacity, origin) in [([6, 6], [0, 0]), ([12, 12], [0, 0]), ([6, 12], [0, 1]), ([6, 12], [1, 0])] {
        let (graph, mut program) = in_rows();
        for stripe in stripes(&mut program).filter(|stripe| stripe.part == PartId(1)) {
            (stripe.inputs[0].capacity, stripe.inputs[0].origin) = (capacity, origin);
        }
        let found = check(&graph, &program);
        assert!(matches!(found, Err(Complaint::Reshaped { .. })), "{capacity:?} {origin:?}: {found:?}");
    }
}

/// Two kernels in one group, two stripes each; the second sees columns of what the first makes as rows, as many of them.
fn turned() -> (CascaderGraph, Program) {
    let mut net = Network::new([8, 8], 16);
    let first = net.window(INPUT, OperationKind::Convolution, 1, 1, 16);
    let last = net.turned(first);
    let graph = net.finish(last);
    let plan = Plan {
        first: PartId(0),
        last: PartId(1),
        tiling: Tiling { roll: Axis::Height, tiles: 1 },
        backwards: false,
        stripes: vec![4, 4],
        staging: vec![Staging::InPlace; 2],
        copied: Vec::new(),
    };
    let program = interleave(&graph, &[plan], &mut Costs::default()).expect("a legal plan");
    check(&graph, &program).expect("right before it is broken");
    (graph, program)
}

#[test]
fn a_turned_tensor_that_is_not_all_there_is_noticed() {
    let (graph, mut program) = turned();
    let of = |part| move |step: &Step| matches!(step, Step::Stripe(stripe) if stripe.part == PartId(part));
    let reads = program.steps.iter().position(of(1)).expect("a reader");
    let late = program.steps.iter().rposition(of(0)).expect("a maker");
    assert!(late < reads);
    program.steps.swap(reads, late);
    assert!(matches!(check(&graph, &program), Err(Complaint::Reshaped { .. })));
}

#[test]
fn a_stripe_reads_its_own_part_of_a_reshaped_tensor() {
    let (_, mut program) = reshaped();
    let boxes: Vec<Region> =
        stripes(&mut program).filter(|stripe| stripe.part == PartId(1)).map(|stripe| stripe.inputs[0].region).collect();
    let of = |rows: (i64, i64)| Region { spans: [Span::new(rows.0, rows.1), Span::new(0, 8)] };
    assert_eq!(boxes, [of((0, 6)), of((4, 9))]);
}

#[test]
fn the_head_of_a_reshaped_tensor_read_for_every_stripe_is_noticed() {
    let (graph, mut program) = reshaped();
    for stripe in stripes(&mut program).filter(|stripe| stripe.part == PartId(1)) {
        stripe.inputs[0].region.spans[0] = Span::new(0, 9);
    }
    assert!(matches!(check(&graph, &program), Err(Complaint::Elsewhere { .. })));
}

#[test]
fn a_reshaped_tensor_that_is_not_all_there_is_noticed() {
    let (graph, mut program) = reshaped();
    let of = |part| move |step: &Step| matches!(step, Step::Stripe(stripe) if stripe.part == PartId(part));
    let reads = program.steps.iter().position(of(1)).expect("a reader");
    let late = program.steps.iter().rposition(of(0)).expect("a maker");
    program.steps.swap(reads, late);
    assert!(matches!(check(&graph, &program), Err(Complaint::Reshaped { .. })));
    for wrong in [[12, 6], [8, 9]] {
        let (graph, mut program) = reshaped();
        for stripe in stripes(&mut program).filter(|stripe| stripe.part == PartId(1)) {
            stripe.inputs[0].capacity = wrong;
        }
        assert!(matches!(check(&graph, &program), Err(Complaint::Reshaped { .. })), "{wrong:?}");
    }
}

#[test]
fn an_input_box_that_begins_too_early_is_noticed() {
    let (graph, mut program) = cascaded();
    let inner = |stripe: &&mut Stripe| stripe.inputs[0].region.spans[0].start > 0;
    stripes(&mut program).find(inner).expect("a stripe inside").inputs[0].region.spans[0].start -= 1;
    assert!(matches!(check(&graph, &program), Err(Complaint::Elsewhere { .. })));
}

#[test]
fn a_small_buffer_is_noticed() {
    let (graph, mut program) = cascaded();
    program.buffers[BufferId(1)].size_bytes -= 1;
    assert!(matches!(check(&graph, &program), Err(Complaint::Size { .. })));
}

#[test]
fn constants_that_were_not_copied_are_noticed() {
    let (graph, mut program) = cascaded();
    program.steps.retain(|step| !matches!(step, Step::Copy { .. }));
    for buffer in &mut program.buffers {
        buffer.first_step = 0;
        buffer.last_step = u32::MAX;
    }
    assert!(matches!(check(&graph, &program), Err(Complaint::Unstaged { .. })));
}

/// A convolution staged in slices that are copied early, whose programs the tests below break.
fn sliced() -> (CascaderGraph, Program) {
    let mut net = Network::new([8, 8], 16);
    let first = net.window(INPUT, OperationKind::Convolution, 3, 1, 16);
    let last = net.window(first, OperationKind::Convolution, 1, 1, 64);
    let graph = net.finish(last);
    let mut plans = uncascaded(&graph);
    plans[1].staging = vec![Staging::Sliced];
    let mut program = interleave(&graph, &plans, &mut Costs::default()).expect("legal plans");
    prefetch(&graph, &mut program, u64::MAX);
    check(&graph, &program).expect("right before it is broken");
    (graph, program)
}

/// Steps that copy, in order.
fn copies(program: &Program) -> Vec<usize> {
    let steps = program.steps.iter().enumerate();
    steps.filter(|(_, step)| matches!(step, Step::Copy { .. })).map(|(index, _)| index).collect()
}

#[test]
fn slices_copied_in_exchange_are_noticed() {
    let (graph, mut program) = sliced();
    let at = copies(&program);
    for index in [at[0], at[1]] {
        let Step::Copy { moved: CopySource::Constants(_, piece), .. } = &mut program.steps[index] else {
            unreachable!()
        };
        *piece = piece.map(|piece| Piece(1 - piece.0));
    }
    assert!(matches!(check(&graph, &program), Err(Complaint::Unstaged { .. })));
}

#[test]
fn a_slice_copied_over_one_that_is_still_wanted_is_noticed() {
    let (graph, mut program) = sliced();
    let at = copies(&program);
    let Step::Copy { buffer: wanted, .. } = program.steps[at[0]] else { unreachable!() };
    let mut other = program.steps[at[1]].clone();
    let Step::Copy { buffer, .. } = &mut other else { unreachable!() };
    *buffer = wanted;
    program.steps.insert(at[0] + 1, other);
    for buffer in &mut program.buffers {
        buffer.last_step += 1;
    }
    assert!(matches!(check(&graph, &program), Err(Complaint::Unstaged { .. })));
}

#[test]
fn a_copy_after_its_kernel_is_noticed() {
    let (graph, mut program) = sliced();
    let copy = program.steps.remove(copies(&program)[0]);
    program.steps.push(copy);
    for buffer in &mut program.buffers {
        buffer.last_step += 1;
    }
    assert!(matches!(check(&graph, &program), Err(Complaint::Unstaged { .. })));
}

#[test]
fn a_copy_before_its_buffer_lives_is_noticed() {
    let (graph, mut program) = sliced();
    let at = *copies(&program).last().expect("a copy");
    let Step::Copy { buffer, .. } = program.steps[at] else { unreachable!() };
    program.buffers[buffer].first_step = at as u32 + 1;
    assert!(matches!(check(&graph, &program), Err(Complaint::Lifetime { .. })));
}

#[test]
fn a_buffer_too_small_for_its_slice_is_noticed() {
    let (graph, mut program) = sliced();
    let Step::Copy { buffer, .. } = program.steps[copies(&program)[0]] else { unreachable!() };
    program.buffers[buffer].size_bytes -= 1;
    assert!(matches!(check(&graph, &program), Err(Complaint::Size { .. })));
}

#[test]
fn plans_that_leave_parts_out_are_refused() {
    let graph = network([8, 8], &[(false, 3, 1), (false, 3, 1)], false, usize::MAX);
    let mut plans = uncascaded(&graph);
    plans.pop();
    assert!(interleave(&graph, &plans, &mut Costs::default()).is_err());
}
