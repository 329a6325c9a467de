//! A program's buffers as the memory planner sees them, and where it puts them.
//!
//! Owns the one way from a program to a problem of the planner, and from its answer back, and which outputs lie where the
//! inputs lay that they update.

use smallvec::SmallVec;
use thiserror::Error;

use crate::model::graph::{CascaderGraph, Tensor};
use crate::model::ids::{BufferId, Id, IdVec, PoolId, TensorId};
use crate::model::memory::Memories;
use crate::model::memory::{aligned, ALIGNMENT};
use crate::model::program::{Buffer, Content, LiveWindow, Placement, Program};
use crate::plans::trivial_parts::TrivialParts;
use crate::schedule::lifetimes::live_windows;
use crate::schedule::shared_bytes::{shared_bytes, updates, SharedBytes};
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
        let items = Items::new(graph, program);
        match place_around(&items, &aside, moves) {
            Some(placement) => Ok(placement),
            None => place(memories, program, &items, moves),
        }
    }
}

/// What the memory planner places: a program's buffers, of which two are one item where the one updates the other, without
/// external inputs.
///
/// Of two tensors that share bytes in a step both are in use then, as far apart as they must be.
struct Items {
    problem: usmp::Problem,
    /// The item of each buffer; None of an external input.
    of: Vec<Option<usize>>,
    /// The pool of each external input, at whose beginning it lies.
    external: Vec<Option<PoolId>>,
}

impl Items {
    /// An output is one item with the state that it updates where it may lie in its place.
    fn new(graph: &CascaderGraph, program: &Program) -> Items {
        let mut problem = problem(graph.device.memories(), program);
        let mut same: Vec<usize> = (0..program.buffers.len()).collect();
        for [first, last] in updates(graph, program) {
            let [before, after] = [first, last].map(|id| &program.buffers[id]);
            let between = LiveWindow { first_step: before.last_step, last_step: after.first_step, low: 0, high: 0 };
            let between = (between.first_step < between.last_step).then_some(between);
            let windows = live_windows(before).into_iter().chain(between).chain(live_windows(after));
            let joined = buffer_of(before.size_bytes, [before.first_step, after.last_step], windows);
            problem.buffers[first.index()] = usmp::Buffer { pools: pools_of(before), ..joined };
            same[last.index()] = first.index();
        }
        let external = program.buffers.iter().map(|buffer| match buffer.content {
            Content::Tensor(tensor) => graph.external_pool(tensor),
            _ => None,
        });
        let external: Vec<Option<PoolId>> = external.collect();
        let is_item = |buffer: usize| same[buffer] == buffer && external[buffer].is_none();
        let kept: Vec<usize> = (0..same.len()).filter(|&buffer| is_item(buffer)).collect();
        let of: Vec<Option<usize>> = same.iter().map(|first| kept.binary_search(first).ok()).collect();
        let mut buffer = 0..;
        problem.buffers.retain(|_| buffer.next().is_some_and(is_item));
        for SharedBytes { step, buffer, with, apart: [low, high] } in shared_bytes(graph, program) {
            let [Some(owner), Some(other)] = [buffer, with].map(|id| of[id.index()]) else { continue };
            if owner != other {
                for item in [owner, other] {
                    problem.buffers[item].lifetime = problem.buffers[item].lifetime.with_step(i64::from(step));
                }
                problem.buffers[owner].shares.push(usmp::AllowedOverlap { with: other as u32, low, high });
            }
        }
        Items { problem, of, external }
    }

    fn placement(&self, found: &usmp::Placement) -> Placement {
        let place = |(item, external): (&Option<usize>, &Option<PoolId>)| match item {
            Some(item) => (PoolId(found.slots[*item].pool), found.slots[*item].offset),
            None => (external.unwrap_or(Memories::SCARCE), 0),
        };
        let (pools, offsets): (Vec<PoolId>, Vec<u64>) = self.of.iter().zip(&self.external).map(place).unzip();
        let pool_bytes = found.peaks.iter().copied().map(aligned).collect();
        Placement { pool_bytes, pools: pools.into(), offsets: offsets.into() }
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
fn place_around(items: &Items, aside: &[bool], moves: u32) -> Option<Placement> {
    if !aside.contains(&true) {
        return None;
    }
    let mut all = items.problem.clone();
    let mut core: Vec<usize> =
        (0..aside.len()).filter(|&buffer| !aside[buffer]).filter_map(|buffer| items.of[buffer]).collect();
    core.sort_unstable();
    core.dedup();
    let mut buffers: Vec<usmp::Buffer> = core.iter().map(|&buffer| all.buffers[buffer].clone()).collect();
    for share in buffers.iter_mut().flat_map(|buffer| &mut buffer.shares) {
        // Tensors that share bytes are an opaque Part's, of which none is trivial.
        share.with = core.partition_point(|&buffer| buffer < share.with as usize) as u32;
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
fn place(memories: &Memories, program: &Program, items: &Items, moves: u32) -> Result<Placement, ArenaError> {
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

/// All buffers of a program and the pools of tensors, whose ids are the same there.
fn problem(memories: &Memories, program: &Program) -> usmp::Problem {
    let pools = memories.tensors();
    let pool = |(number, &pool): (usize, &PoolId)| {
        let is_last = number + 1 == pools.len();
        let limit_bytes =
            memories.pool(pool).limit_bytes.filter(|_| !is_last).map(|limit| limit / ALIGNMENT * ALIGNMENT);
        usmp::Pool { alignment: ALIGNMENT, limit_bytes, ..usmp::Pool::unbounded() }
    };
    let buffers = program.buffers.iter().map(of_program).collect();
    usmp::Problem { buffers, pools: pools.iter().enumerate().map(pool).collect() }
}

fn of_program(buffer: &Buffer) -> usmp::Buffer {
    let windows = buffer.windows.iter().copied();
    let pools = pools_of(buffer);
    usmp::Buffer { pools, ..buffer_of(buffer.size_bytes, [buffer.first_step, buffer.last_step], windows) }
}

fn pools_of(buffer: &Buffer) -> SmallVec<[u32; 2]> {
    buffer.pools.iter().map(|pool| pool.0).collect()
}

/// A buffer in use in steps `[first, last)`, with what of it is live meanwhile, as the memory planner takes it.
pub fn buffer_of(size_bytes: u64, [first, last]: [u32; 2], windows: impl Iterator<Item = LiveWindow>) -> usmp::Buffer {
    let gaps = windows.map(|window| usmp::Gap {
        lower: i64::from(window.first_step),
        upper: i64::from(window.last_step),
        window: (window.low < window.high).then_some((window.low, window.high)),
    });
    let lifetime = usmp::Lifetime::with_gaps(i64::from(first), i64::from(last), gaps.collect());
    usmp::Buffer::new(size_bytes, ALIGNMENT, lifetime)
}

/// Whether no two buffers in use at the same step share a byte, and no pool exceeds its limit, by the memory planner's own
/// checker.
pub fn is_right(graph: &CascaderGraph, program: &Program, placement: &Placement) -> bool {
    let count = program.buffers.len();
    let has_end = |(buffer, offset): (&Buffer, &u64)| offset.checked_add(buffer.size_bytes + ALIGNMENT).is_some();
    let is_whole = placement.pools.len() == count && placement.offsets.len() == count;
    if !is_whole || !program.buffers.iter().zip(&placement.offsets).all(has_end) {
        return false;
    }
    let lies = placement.pools.iter().zip(&placement.offsets);
    let slots: Vec<usmp::Slot> = lies.map(|(&pool, &offset)| usmp::Slot { pool: pool.0, offset }).collect();
    let items = Items::new(graph, program);
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
        assert!(place_around(&Items::new(&graph, &program), &aside, 80).is_none());
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
