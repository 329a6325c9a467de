//! Where the memory planner puts a program's buffers.
//!
//! Owns which tensors must be made over others there, which buffers are placed after all others, and the check of any
//! placement. `items` says how the memory planner takes them.

use thiserror::Error;

use crate::model::graph::{CascaderGraph, Tensor};
use crate::model::ids::{BufferId, Id, IdVec, PoolId, TensorId};
use crate::model::memory::{aligned, Memories, ALIGNMENT};
use crate::model::program::{Buffer, Content, Placement, Program};
use crate::plans::trivial_parts::TrivialParts;
use crate::schedule::prefetch::live_bytes;
use crate::schedule::shared_bytes::SharedBytes;
use crate::search::items::ArenaItems;
use crate::usmp;

/// A program whose buffers have no place.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the program's {buffers} buffers, {bytes} bytes in all, cannot be placed: {told}; the largest is buffer {largest} \
     with {largest_bytes} bytes", told = told(pool, reason)
)]
pub struct ArenaError {
    /// How many there are.
    pub buffers: usize,
    /// Their sizes together.
    pub bytes: u128,
    /// The largest, the first of them where several are.
    pub largest: BufferId,
    /// Its size.
    pub largest_bytes: u64,
    /// The pool that they do not fit, by name; None where no pool is at fault.
    pub pool: Option<String>,
    /// What the memory planner says.
    pub reason: Box<usmp::UsmpError>,
}

/// The reason, with the pool's name instead of its number.
fn told(pool: &Option<String>, reason: &usmp::UsmpError) -> String {
    match (pool, reason) {
        (Some(name), usmp::UsmpError::PoolOverflow { needed_bytes, available_bytes, .. }) => {
            format!("pool '{name}' holds {available_bytes} bytes, and what may lie nowhere else needs {needed_bytes}")
        }
        _ => reason.to_string(),
    }
}

/// What places a program with at most a number of moves: `place`, or what tests put in its stead.
pub type Placer<'a> = dyn FnMut(&Program, u32) -> Result<Placement, ArenaError> + 'a;

/// What places programs of a graph: `place`, between the memories of its device.
pub fn placer(graph: &CascaderGraph) -> impl FnMut(&Program, u32) -> Result<Placement, ArenaError> + '_ {
    let memories = graph.device.memories();
    let within_runs = tensors_within_runs(graph);
    move |program, moves| {
        let aside = |content: &Content| matches!(content, Content::Tensor(tensor) if within_runs[*tensor]);
        let aside: Vec<bool> = program.buffers.iter().map(|buffer| aside(&buffer.content)).collect();
        let live = live_bytes(program);
        let peak = live.iter().max().copied().unwrap_or(0);
        // A tensor is made over another one that is still in use only where both together would be more than is live
        // elsewhere: a buffer that stays in its place for long leaves gaps.
        let items = ArenaItems::new(graph, program, |SharedBytes { step, buffer, with, .. }| {
            let is_free = program.buffers[*with].last_step <= *step;
            is_free || live[*step as usize] + aligned(program.buffers[*buffer].size_bytes) > peak
        });
        match place_around(&items, &aside, moves) {
            Some(placement) => Ok(placement),
            None => place(memories, program, &items, moves),
        }
    }
}

/// Tensors that trivial Parts alone make and read.
fn tensors_within_runs(graph: &CascaderGraph) -> IdVec<TensorId, bool> {
    let trivial = TrivialParts::new(graph);
    let within = |(id, tensor): (TensorId, &Tensor)| {
        let made = graph.producer[id].is_some_and(|part| trivial.holds(part));
        made && !tensor.is_output && graph.consumers[id].iter().all(|&part| trivial.holds(part))
    };
    graph.tensors.iter_ids().map(within).collect::<Vec<_>>().into()
}

/// Where a program's buffers lie if those set `aside` are placed after all others, by first fit; None if there are none of
/// them, or they do not fit beside the others without more bytes.
///
/// Small buffers by the dozen would else take the moves that are tried, and chance to place the others better or worse.
fn place_around(items: &ArenaItems, aside: &[bool], moves: u32) -> Option<Placement> {
    if !aside.contains(&true) {
        return None;
    }
    let mut all = items.problem.clone();
    let mut core: Vec<usize> =
        (0..aside.len()).filter(|&buffer| !aside[buffer]).filter_map(|buffer| items.of[buffer]).collect();
    core.sort_unstable();
    core.dedup();
    let mut buffers: Vec<usmp::Buffer> = core.iter().map(|&buffer| all.buffers[buffer].clone()).collect();
    for buffer in &mut buffers {
        buffer.shares.retain(|share| core.binary_search(&(share.with as usize)).is_ok());
        for share in &mut buffer.shares {
            share.with = core.partition_point(|&buffer| buffer < share.with as usize) as u32;
        }
    }
    let params = usmp::Params { iterations: moves, ..usmp::Params::default() };
    let found = usmp::plan(&usmp::Problem { buffers, pools: all.pools.clone() }, &params).ok()?.placement;
    for (&buffer, slot) in core.iter().zip(&found.slots) {
        let buffer = &mut all.buffers[buffer];
        (buffer.pools, buffer.pinned_offset) = ([slot.pool].into_iter().collect(), Some(slot.offset));
    }
    let params = usmp::Params { algorithm: usmp::Algorithm::GreedyBySize, ..params };
    let around = usmp::plan(&all, &params).ok()?.placement;
    (around.peaks == found.peaks).then(|| items.placement(&around))
}

/// Put a program's buffers into pools that may hold them, the preferred ones where they fit, with at most `moves` moves.
///
/// A pool has its limit where another one comes after it. The last one takes what is left over; Python says whether that fits.
///
/// # Errors
/// Where they have no place: what may lie nowhere else is more than a pool holds, or sizes are beyond what addresses tell.
fn place(memories: &Memories, program: &Program, items: &ArenaItems, moves: u32) -> Result<Placement, ArenaError> {
    let params = usmp::Params { iterations: moves, ..usmp::Params::default() };
    match usmp::plan(&items.problem, &params) {
        Ok(solution) => Ok(items.placement(&solution.placement)),
        Err(reason) => Err(refused(memories, program, reason)),
    }
}

fn refused(memories: &Memories, program: &Program, reason: usmp::UsmpError) -> ArenaError {
    let pool = match reason {
        usmp::UsmpError::PoolOverflow { pool, .. } => Some(memories.name(PoolId(pool)).to_owned()),
        _ => None,
    };
    let sizes = || program.buffers.iter_ids().map(|(id, buffer)| (buffer.size_bytes, id));
    let first_largest = sizes().max_by_key(|&(size, id)| (size, std::cmp::Reverse(id)));
    // A program without buffers has a place.
    let (largest_bytes, largest) = first_largest.unwrap_or((0, BufferId(0)));
    let bytes = sizes().map(|(size, _)| u128::from(size)).sum();
    ArenaError { buffers: program.buffers.len(), bytes, largest, largest_bytes, pool, reason: Box::new(reason) }
}

/// Whether a placement is right, by the memory planner's own checker.
///
/// No two buffers in use at the same step share a byte that they may not, and no pool exceeds its limit.
pub fn is_right(graph: &CascaderGraph, program: &Program, placement: &Placement) -> bool {
    let count = program.buffers.len();
    let has_end = |(buffer, offset): (&Buffer, &u64)| offset.checked_add(buffer.size_bytes + ALIGNMENT).is_some();
    let is_whole = placement.pools.len() == count && placement.offsets.len() == count;
    if !is_whole || !program.buffers.iter().zip(&placement.offsets).all(has_end) {
        return false;
    }
    let lies = placement.pools.iter().zip(&placement.offsets);
    let slots: Vec<usmp::Slot> = lies.map(|(&pool, &offset)| usmp::Slot { pool: pool.0, offset }).collect();
    let is_joined = |SharedBytes { buffer, with, .. }: &SharedBytes| slots[buffer.index()] == slots[with.index()];
    let items = ArenaItems::new(graph, program, is_joined);
    let mut peaks = vec![0; graph.device.memories().tensors().len()];
    for ((buffer, slot), external) in program.buffers.iter().zip(&slots).zip(&items.external) {
        match external {
            Some(pool) if (pool.0, 0) != (slot.pool, slot.offset) => return false,
            None if buffer.first_step < buffer.last_step => {
                let Some(peak) = peaks.get_mut(slot.pool as usize) else { return false };
                *peak = (slot.offset + buffer.size_bytes).max(*peak);
            }
            Some(_) | None => {}
        }
    }
    let rounded: Vec<u64> = peaks.iter().copied().map(aligned).collect();
    let of_items = (0..items.problem.buffers.len())
        .map(|item| items.of.iter().position(|&of| of == Some(item)).map(|at| slots[at]));
    let answer = usmp::Placement { slots: of_items.flatten().collect(), peaks };
    usmp::check::check(&items.problem, &answer).is_ok() && rounded == placement.pool_bytes.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::model::graph::Work;
    use crate::model::ids::PartId;
    use crate::model::operation::OperationKind;
    use crate::model::plan::{Plan, Staging};
    use crate::plans::options::MOVES;
    use crate::schedule::interleave::interleave;
    use crate::schedule::prefetch::peak_bytes;
    use crate::schedule::shared_bytes::shared_bytes;
    use crate::search::uncascaded;
    use crate::testing::networks::{mobilenet_v2, stacked, Network, INPUT};

    fn program() -> (CascaderGraph, Program) {
        let graph = mobilenet_v2();
        let program = interleave(&graph, &uncascaded(&graph), &mut Costs::default()).expect("blocks fit");
        (graph, program)
    }

    #[test]
    fn what_is_placed_is_right_and_takes_no_less_than_is_alive() {
        let (graph, program) = program();
        let placement = placer(&graph)(&program, MOVES).expect("it has a place");
        assert!(is_right(&graph, &program, &placement));
        assert!(placement.bytes() >= stacked(&program).bytes());
    }

    /// Convolutions, a pool, and `count` operations on the pool's one pixel.
    fn with_a_tail(count: usize) -> (CascaderGraph, Program) {
        let mut net = Network::new([23, 23], 16);
        let t = [(1, 24), (2, 48), (1, 32), (2, 64)].into_iter().fold(INPUT, |t, (stride, depth)| {
            let t = net.window(t, OperationKind::Convolution, 3, stride, depth);
            net.window(t, OperationKind::Convolution, 1, 1, depth)
        });
        let t = net.squeezed(t, 0);
        let t = net.squeezed(t, 1);
        let t = (0..count).fold(t, |t, _| net.pointwise(OperationKind::Abs, t, None, 8));
        let graph = net.finish(t);
        let program = interleave(&graph, &uncascaded(&graph), &mut Costs::default()).expect("blocks fit");
        (graph, program)
    }

    #[test]
    fn an_output_lies_where_the_input_lay_that_it_updates_once_that_is_read() {
        let mut net = Network::new([12, 10], 16);
        let ends =
            [16, 32, 16].into_iter().fold(INPUT, |t, depth| net.window(t, OperationKind::Convolution, 3, 1, depth));
        let plain = net.finish(ends);
        let mut updating = plain.clone();
        updating.tensors[ends].updates = Some(INPUT);
        let lie = |graph: &CascaderGraph, plans: &[Plan]| {
            let program = interleave(graph, plans, &mut Costs::default()).expect("blocks fit");
            let placement = placer(graph)(&program, MOVES).expect("it has a place");
            assert!(is_right(graph, &program, &placement));
            let of = |tensor: TensorId| placement.offsets[program.tensor_buffers[tensor].expect("whole")];
            (of(INPUT), of(ends))
        };
        let whole = uncascaded(&updating);
        let [(before, after), (plain_before, plain_after)] = [&updating, &plain].map(|graph| lie(graph, &whole));
        assert_eq!(before, after);
        assert_ne!(plain_before, plain_after);
        // In a cascade of all three the output is begun while the input is still read.
        let stripes = vec![2; 3];
        let cascade = Plan { last: PartId(2), stripes, staging: vec![Staging::InPlace; 3], ..whole[0].clone() };
        let (before, after) = lie(&updating, &[cascade]);
        assert_ne!(before, after);
    }

    #[test]
    fn state_that_is_not_updated_in_its_place_is_held_for_the_end() {
        let mut net = Network::new([12, 10], 16);
        let made = net.window(INPUT, OperationKind::Convolution, 3, 1, 16);
        let end = net.window(made, OperationKind::Convolution, 3, 1, 16);
        let mut graph = net.finish(end);
        (graph.tensors[INPUT].is_state, graph.tensors[end].updates) = (true, Some(INPUT));
        let program = interleave(&graph, &uncascaded(&graph), &mut Costs::default()).expect("blocks fit");
        let placement = placer(&graph)(&program, MOVES).expect("it has a place");
        let size = 12 * 10 * 16;
        assert_eq!(placement.bytes(), 2 * size);
        let [state, between, updated] = [INPUT, made, end].map(|tensor| program.tensor_buffers[tensor].expect("whole"));
        // The state's bytes, what is made of it, and its update.
        for (lie, expected) in [([0, 1, 0], true), ([0, 1, 2], true), ([0, 1, 1], false), ([1, 2, 0], true)] {
            let mut moved = placement.clone();
            for (buffer, at) in [state, between, updated].into_iter().zip(lie) {
                moved.offsets[buffer] = at * size;
            }
            moved.pool_bytes = vec![(lie.into_iter().max().unwrap_or(0) + 1) * size].into();
            assert_eq!(is_right(&graph, &program, &moved), expected, "{lie:?}");
        }
        let mut partly = placement.clone();
        partly.offsets[updated] = placement.offsets[state] + 16;
        partly.pool_bytes = vec![2 * size + 16].into();
        assert!(!is_right(&graph, &program, &partly));
    }

    /// Three convolutions between a conversion to a quarter of the bytes and one to four times as many.
    fn between_conversions(overlay: bool) -> CascaderGraph {
        let mut net = Network::new([12, 10], 16);
        let last = (0..5).fold(INPUT, |t, _| net.window(t, OperationKind::Convolution, 1, 1, 16));
        let CascaderGraph { mut tensors, mut parts, device, .. } = net.finish(last);
        for (part, wide) in [(PartId(0), INPUT), (PartId(4), last)] {
            tensors[wide].pixel_bytes = 64;
            let least = if wide == last { 12 * 10 * (64 - 16) } else { 0 };
            parts[part].work = Work::Opaque { workspace_bytes: 0, overlay: overlay.then_some(least) };
        }
        parts[PartId(0)].inputs[0].pixel_bytes = 64;
        CascaderGraph::new(tensors, parts, device).expect("it holds together")
    }

    #[test]
    fn a_conversion_is_written_over_its_input_as_far_as_it_may_be() {
        let graph = between_conversions(true);
        let program = interleave(&graph, &uncascaded(&graph), &mut Costs::default()).expect("blocks fit");
        let placement = placer(&graph)(&program, MOVES).expect("it has a place");
        assert!(is_right(&graph, &program, &placement));
        let wide = 12 * 10 * 64;
        assert_eq!((peak_bytes(&program), placement.bytes()), (wide, wide));
        let lies = |tensor: TensorId| program.tensor_buffers[tensor].expect("whole");
        let tensors = |part: PartId| (graph.parts[part].inputs[0].tensor, graph.output(part));
        // Value by value 16 channels of 4 bytes become 1 byte each, and the other way round: both must end together.
        for (part, least_bytes) in [(PartId(0), 0), (PartId(4), 12 * 10 * 16 * 3)] {
            let (input, output) = tensors(part);
            let [read, made] = [input, output].map(lies);
            assert!(placement.offsets[read] >= placement.offsets[made] + least_bytes);
            // A step further, and values are overwritten before they are read.
            let mut wrong = placement.clone();
            (wrong.offsets[read], wrong.offsets[made]) = (0, 16);
            assert!(!is_right(&graph, &program, &wrong));
        }
        let apart = between_conversions(false);
        let program = interleave(&apart, &uncascaded(&apart), &mut Costs::default()).expect("blocks fit");
        let placement = placer(&apart)(&program, MOVES).expect("it has a place");
        assert_eq!(placement.bytes(), wide + wide / 4);
    }

    /// Uncascaded, placed: its program, where its buffers lie, and its live bytes.
    fn placed(graph: &CascaderGraph) -> (Program, Placement, u64) {
        let program = interleave(graph, &uncascaded(graph), &mut Costs::default()).expect("blocks fit");
        let placement = placer(graph)(&program, MOVES).expect("it has a place");
        assert!(is_right(graph, &program, &placement));
        let live = peak_bytes(&program);
        (program, placement, live)
    }

    #[test]
    fn elements_are_written_exactly_where_their_operands_lie() {
        let mut net = Network::new([12, 10], 16);
        let made = net.window(INPUT, OperationKind::Convolution, 3, 1, 16);
        let sum = net.add(made, INPUT);
        let copied = net.pointwise(OperationKind::MaxPool, sum, None, 8);
        let graph = net.finish(copied);
        let (program, placement, live) = placed(&graph);
        let size = 12 * 10 * 16;
        assert_eq!((live, placement.bytes()), (2 * size, 2 * size));
        let lies = |tensor: TensorId| program.tensor_buffers[tensor].expect("whole");
        for (input, output) in [(sum, copied), (made, sum)] {
            for by in [16, size / 2] {
                let mut wrong = placement.clone();
                wrong.offsets[lies(output)] = placement.offsets[lies(input)] + by;
                wrong.pool_bytes = vec![4 * size].into();
                assert!(!is_right(&graph, &program, &wrong), "{by} bytes further");
            }
        }
    }

    #[test]
    fn nothing_else_is_written_over_an_operand() {
        let size = 12 * 10 * 16;
        let bytes = |make: &dyn Fn(&mut Network) -> TensorId| {
            let mut net = Network::new([12, 10], 16);
            let end = make(&mut net);
            let (_, placement, live) = placed(&net.finish(end));
            assert_eq!(live, placement.bytes());
            live
        };
        let abs = |net: &mut Network, bits| net.pointwise(OperationKind::Abs, INPUT, None, bits);
        assert_eq!(bytes(&|net| abs(net, 8)), size);
        // Elements of twice the bytes, another window, pixels in another order.
        assert_eq!(bytes(&|net| abs(net, 16)), 3 * size);
        assert_eq!(bytes(&|net| net.window(INPUT, OperationKind::MaxPool, 3, 1, 16)), 2 * size);
        assert_eq!(bytes(&|net| net.turned(INPUT)), 2 * size);
        // Elements in another order.
        let mut net = Network::new([12, 10], 16);
        let end = abs(&mut net, 8);
        let mut graph = net.finish(end);
        graph.tensors[INPUT].layout = crate::model::graph::Layout::Nhcwb16;
        assert_eq!(placed(&graph).2, 2 * size);
        // Channels that depend on all others.
        assert_eq!(bytes(&|net| net.window(INPUT, OperationKind::Convolution, 1, 1, 16)), 2 * size);
        // One is read again.
        let twice = |net: &mut Network| {
            let first = abs(net, 8);
            net.add(first, INPUT)
        };
        assert_eq!(bytes(&twice), 2 * size);
    }

    #[test]
    fn a_stripe_is_not_written_over_its_operand() {
        let mut net = Network::new([12, 10], 16);
        let end = net.pointwise(OperationKind::Abs, INPUT, None, 8);
        let graph = net.finish(end);
        let plan = Plan { stripes: vec![6], ..uncascaded(&graph)[0].clone() };
        let program = interleave(&graph, &[plan], &mut Costs::default()).expect("blocks fit");
        assert_eq!(shared_bytes(&graph, &program), []);
        assert_eq!(peak_bytes(&program), 12 * 10 * 16 + 6 * 10 * 16);
    }

    #[test]
    fn what_the_same_group_still_reads_is_not_written_over() {
        let mut net = Network::new([12, 10], 16);
        let pooled = net.window(INPUT, OperationKind::MaxPool, 3, 1, 16);
        let made = net.pointwise(OperationKind::Abs, INPUT, None, 8);
        let end = net.add(pooled, made);
        let graph = net.finish(end);
        assert!(graph.overlay(PartId(1)).is_some_and(|overlay| overlay.input == INPUT));
        let [first, _, last] = &uncascaded(&graph)[..] else { panic!("three Parts") };
        // The last Part of the group runs first, as it reads nothing of the other one.
        for stripes in [vec![12, 12], vec![5, 12]] {
            let group = Plan { last: PartId(1), stripes, staging: vec![Staging::InPlace; 2], ..first.clone() };
            let program = interleave(&graph, &[group, last.clone()], &mut Costs::default()).expect("blocks fit");
            let read = program.tensor_buffers[pooled].expect("whole");
            let at = program.steps.len() as u32 - 1;
            let shares: Vec<_> = shared_bytes(&graph, &program).iter().map(|pair| (pair.step, pair.with)).collect();
            assert_ne!(program.tensor_buffers[INPUT], Some(read));
            assert_eq!(shares, [(at, read)]);
        }
    }

    #[test]
    fn what_is_read_again_is_not_written_over() {
        let CascaderGraph { tensors, mut parts, device, .. } = between_conversions(true);
        let again = parts[PartId(0)].inputs[0].clone();
        parts[PartId(1)].inputs.push(again);
        parts[PartId(1)].work = Work::Opaque { workspace_bytes: 0, overlay: None };
        let graph = CascaderGraph::new(tensors, parts, device).expect("it holds together");
        assert_eq!(graph.overlay(PartId(0)), None);
        assert!(graph.overlay(PartId(4)).is_some());
    }

    #[test]
    fn bytes_of_state_are_free_between_its_last_use_and_the_end() {
        let mut net = Network::new([12, 10], 16);
        let last = (0..4).fold(INPUT, |t, _| net.window(t, OperationKind::Convolution, 1, 1, 16));
        let mut graph = net.finish(last);
        graph.tensors[INPUT].is_state = true;
        let program = interleave(&graph, &uncascaded(&graph), &mut Costs::default()).expect("blocks fit");
        let buffer = &program.buffers[program.tensor_buffers[INPUT].expect("whole")];
        let live = |step: u32| {
            let at = buffer.windows.iter().find(|window| window.first_step <= step && step < window.last_step);
            at.is_none_or(|window| window.low < window.high)
        };
        assert_eq!((0..4).map(live).collect::<Vec<_>>(), [true, false, false, true]);
        // What is made last and what is to lie there afterwards are two tensors, unless the one updates the other.
        assert_eq!(placer(&graph)(&program, MOVES).expect("it has a place").bytes(), 3 * 12 * 10 * 16);
        graph.tensors[last].updates = Some(INPUT);
        let program = interleave(&graph, &uncascaded(&graph), &mut Costs::default()).expect("blocks fit");
        assert_eq!(placer(&graph)(&program, MOVES).expect("it has a place").bytes(), 2 * 12 * 10 * 16);
    }

    #[test]
    fn small_buffers_within_runs_move_no_other() {
        let ((short, few), (long, many)) = (with_a_tail(2), with_a_tail(60));
        let [few_placed, many_placed] = [(&short, &few), (&long, &many)]
            .map(|(graph, program)| placer(graph)(program, MOVES).expect("it has a place"));
        assert_eq!(few_placed.pool_bytes, many_placed.pool_bytes);
        assert!(is_right(&long, &many, &many_placed));
        // All that the convolutions make lies where it lay.
        let convolutions = |placed: Placement| placed.offsets.iter().take(9).copied().collect::<Vec<_>>();
        assert_eq!(convolutions(few_placed), convolutions(many_placed));
    }

    #[test]
    fn buffers_that_do_not_fit_beside_the_others_are_placed_with_them() {
        let (graph, mut program) = with_a_tail(6);
        // One of them is as large as all others.
        let within = tensors_within_runs(&graph);
        let last = program
            .buffers
            .ids()
            .rfind(|&id| matches!(program.buffers[id].content, Content::Tensor(tensor) if within[tensor]));
        let last = last.expect("the tail is trivial");
        program.buffers[last].size_bytes = 1 << 20;
        let aside: Vec<bool> = program.buffers.ids().map(|id| id == last).collect();
        assert!(place_around(&ArenaItems::new(&graph, &program, |_| false), &aside, 80).is_none());
        let placement = placer(&graph)(&program, MOVES).expect("it has a place");
        assert!(is_right(&graph, &program, &placement) && placement.bytes() >= 1 << 20);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let (graph, mut program) = program();
        program.buffers[BufferId(3)].size_bytes = 1 << 61;
        let error = placer(&graph)(&program, MOVES).expect_err("beyond 2^60");
        assert_eq!((error.buffers, error.largest, error.largest_bytes), (program.buffers.len(), BufferId(3), 1 << 61));
        assert_eq!(*error.reason, usmp::UsmpError::TooLarge);
        let bytes: u128 = program.buffers.iter().map(|buffer| u128::from(buffer.size_bytes)).sum();
        assert_eq!(error.bytes, bytes);
        assert!(error.to_string().contains("buffer 3 with 2305843009213693952 bytes"), "{error}");
    }
}
