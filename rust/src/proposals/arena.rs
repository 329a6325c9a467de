//! A program's buffers as the memory planner sees them, and where it puts them.
//!
//! Owns the one way from a program to a problem of the planner, and from its answer back. Decides nothing.

use thiserror::Error;

use crate::model::graph::{CascaderGraph, Tensor};
use crate::model::ids::{BufferId, IdVec, PoolId, TensorId};
use crate::model::memory::Memories;
use crate::model::memory::{aligned, ALIGNMENT};
use crate::model::program::{Buffer, Content, LiveWindow, Placement, Program};
use crate::plans::options::Options;
use crate::plans::settled::Settled;
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

/// What places a program: [`place`], or what tests put in its stead.
pub type Placer<'a> = dyn FnMut(&Program) -> Result<Placement, ArenaError> + 'a;

/// What places programs of a graph: [`place`], between the memories of its device, with the default number of moves.
pub fn placer(graph: &CascaderGraph) -> impl FnMut(&Program) -> Result<Placement, ArenaError> + '_ {
    placer_within(graph, Options::default().placing.iterations)
}

/// The same with so many moves that the memory planner may try for one program.
pub fn placer_within(
    graph: &CascaderGraph,
    iterations: u32,
) -> impl FnMut(&Program) -> Result<Placement, ArenaError> + '_ {
    let memories = graph.device.memories();
    let within_runs = tensors_within_runs(graph);
    move |program| {
        let aside = |content: &Content| matches!(content, Content::Tensor(tensor) if within_runs[*tensor]);
        let aside: Vec<bool> = program.buffers.iter().map(|buffer| aside(&buffer.content)).collect();
        match place_around(memories, program, &aside, iterations) {
            Some(placement) => Ok(placement),
            None => place(memories, program, iterations),
        }
    }
}

/// Tensors that settled Parts alone make and read.
fn tensors_within_runs(graph: &CascaderGraph) -> IdVec<TensorId, bool> {
    let settled = Settled::new(graph);
    let within = |(id, tensor): (TensorId, &Tensor)| {
        let made = graph.producer[id].is_some_and(|part| settled.holds(part));
        made && !tensor.is_output && graph.consumers[id].iter().all(|&part| settled.holds(part))
    };
    graph.tensors.iter_ids().map(within).collect::<Vec<_>>().into()
}

/// Where a program's buffers lie if those set `aside` are placed after all others, by first fit; None if there are none of
/// them, or they do not fit beside the others without more bytes.
///
/// Small buffers by the dozen would else take the moves that are tried, and chance to place the others better or worse.
fn place_around(memories: &Memories, program: &Program, aside: &[bool], iterations: u32) -> Option<Placement> {
    if !aside.contains(&true) {
        return None;
    }
    let mut all = problem(memories, program);
    let core: Vec<usize> = (0..aside.len()).filter(|&buffer| !aside[buffer]).collect();
    let buffers = core.iter().map(|&buffer| all.buffers[buffer].clone()).collect();
    let params = usmp::Params { iterations, ..usmp::Params::default() };
    let found = usmp::plan(&usmp::Problem { buffers, pools: all.pools.clone() }, &params).ok()?.placement;
    for (&buffer, slot) in core.iter().zip(&found.slots) {
        let buffer = &mut all.buffers[buffer];
        (buffer.pools, buffer.pinned_offset) = ([slot.pool].into_iter().collect(), Some(slot.offset));
    }
    let params = usmp::Params { algorithm: usmp::Algorithm::GreedyBySize, ..params };
    let around = usmp::plan(&all, &params).ok()?.placement;
    (around.peaks == found.peaks).then(|| placement(&around))
}

fn placement(found: &usmp::Placement) -> Placement {
    Placement {
        pool_bytes: found.peaks.iter().copied().map(aligned).collect(),
        pools: found.slots.iter().map(|slot| PoolId(slot.pool)).collect(),
        offsets: found.slots.iter().map(|slot| slot.offset).collect(),
    }
}

/// Where the memory planner puts a program's buffers, each into a pool that may hold it, the preferred one where it fits.
/// It may try `iterations` moves.
///
/// A pool has its limit where another one comes after it; the last one takes what is left over, and whether that fits is for
/// whoever asks for a frontier to say.
///
/// # Errors
/// Where they have no place: what may lie nowhere else is more than a pool holds, or sizes are beyond what addresses tell.
pub fn place(memories: &Memories, program: &Program, iterations: u32) -> Result<Placement, ArenaError> {
    let params = usmp::Params { iterations, ..usmp::Params::default() };
    match usmp::plan(&problem(memories, program), &params) {
        Ok(solution) => Ok(placement(&solution.placement)),
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
    let pools = buffer.pools.iter().map(|pool| pool.0).collect();
    usmp::Buffer { pools, ..buffer_of(buffer.size_bytes, [buffer.first_step, buffer.last_step], windows) }
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
#[cfg(test)]
pub fn is_right(memories: &Memories, program: &Program, placement: &Placement) -> bool {
    let lies = placement.pools.iter().zip(&placement.offsets);
    let slots: Vec<usmp::Slot> = lies.map(|(&pool, &offset)| usmp::Slot { pool: pool.0, offset }).collect();
    let mut peaks = vec![0; memories.tensors().len()];
    for (buffer, slot) in program.buffers.iter().zip(&slots).filter(|(buffer, _)| buffer.first_step < buffer.last_step)
    {
        let peak = &mut peaks[slot.pool as usize];
        *peak = slot.offset.saturating_add(buffer.size_bytes).max(*peak);
    }
    let rounded: Vec<u64> = peaks.iter().copied().map(aligned).collect();
    let answer = usmp::Placement { slots, peaks };
    usmp::check::check(&problem(memories, program), &answer).is_ok() && rounded == placement.pool_bytes.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::model::operation::OperationKind;
    use crate::proposals::uncascaded;
    use crate::schedule::interleave::interleave;
    use crate::testing::networks::{mobilenet_v2, stacked, Network, INPUT};

    fn program() -> (CascaderGraph, Program) {
        let graph = mobilenet_v2();
        let program = interleave(&graph, &uncascaded(&graph), &mut Costs::default()).expect("blocks fit");
        (graph, program)
    }

    #[test]
    fn what_is_placed_is_right_and_takes_no_less_than_is_alive() {
        let (graph, program) = program();
        let placement = placer(&graph)(&program).expect("it has a place");
        assert!(is_right(graph.device.memories(), &program, &placement));
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
    fn small_buffers_within_runs_move_no_other() {
        let ((short, few), (long, many)) = (with_a_tail(2), with_a_tail(60));
        let [few_placed, many_placed] =
            [(&short, &few), (&long, &many)].map(|(graph, program)| placer(graph)(program).expect("it has a place"));
        assert_eq!(few_placed.pool_bytes, many_placed.pool_bytes);
        assert!(is_right(long.device.memories(), &many, &many_placed));
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
        let last = last.expect("the tail is settled");
        program.buffers[last].size_bytes = 1 << 20;
        let aside: Vec<bool> = program.buffers.ids().map(|id| id == last).collect();
        assert!(place_around(graph.device.memories(), &program, &aside, 80).is_none());
        let placement = placer(&graph)(&program).expect("it has a place");
        assert!(is_right(graph.device.memories(), &program, &placement) && placement.bytes() >= 1 << 20);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let (graph, mut program) = program();
        program.buffers[BufferId(3)].size_bytes = 1 << 61;
        let error = placer(&graph)(&program).expect_err("beyond 2^60");
        assert_eq!((error.buffers, error.largest, error.largest_bytes), (program.buffers.len(), BufferId(3), 1 << 61));
        assert_eq!(*error.reason, usmp::UsmpError::TooLarge);
        let bytes: u128 = program.buffers.iter().map(|buffer| u128::from(buffer.size_bytes)).sum();
        assert_eq!(error.bytes, bytes);
        assert!(error.to_string().contains("buffer 3 with 2305843009213693952 bytes"), "{error}");
    }
}
