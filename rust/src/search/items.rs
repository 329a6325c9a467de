//! A program's buffers as the memory planner takes them.
//!
//! Owns the one way from a program to a problem of the planner, and from its answer back, and which buffers are one item
//! because the one takes the other's place.

use crate::model::graph::CascaderGraph;
use crate::model::ids::{Id, PoolId};
use crate::model::memory::{aligned, Memories, ALIGNMENT};
use crate::model::program::{Buffer, Content, LiveWindow, Placement, Program};
use crate::schedule::lifetimes::live_windows;
use crate::schedule::shared_bytes::{shared_bytes, SharedBytes};
use crate::usmp;

/// What the memory planner places: a program's buffers, without external inputs.
///
/// Two are one item where the one takes the other's place. Of two others that may share bytes in a step both are in use then,
/// apart or as far from each other as they must be.
pub struct ArenaItems {
    /// Their buffers and pools.
    pub problem: usmp::Problem,
    /// The item of each buffer; None of an external input.
    pub of: Vec<Option<usize>>,
    /// The pool of each external input, at whose beginning it lies.
    pub external: Vec<Option<PoolId>>,
}

impl ArenaItems {
    /// The items of a program.
    ///
    /// `is_joined` says which outputs are one with the operands that they are made over, or with the state that they update.
    pub fn new(graph: &CascaderGraph, program: &Program, is_joined: impl Fn(&SharedBytes) -> bool) -> ArenaItems {
        let mut problem = problem(graph.device.memories(), program);
        let mut same: Vec<usize> = (0..program.buffers.len()).collect();
        let mut windows: Vec<Vec<LiveWindow>> = program.buffers.iter().map(live_windows).collect();
        let (joined, apart): (Vec<SharedBytes>, Vec<SharedBytes>) =
            shared_bytes(graph, program).into_iter().partition(|pair| pair.is_handed_over() && is_joined(pair));
        for SharedBytes { buffer, with, .. } in joined {
            let first = same[with.index()];
            same[buffer.index()] = first;
            let before = std::mem::take(&mut windows[first]);
            windows[first] = in_turn(before, &windows[buffer.index()]);
            problem.buffers[first] = of_windows(&program.buffers[buffer], &windows[first]);
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
        for shared in apart {
            let [Some(owner), Some(other)] = [shared.buffer, shared.with].map(|id| of[id.index()]) else { continue };
            for item in [owner, other] {
                problem.buffers[item].lifetime = problem.buffers[item].lifetime.with_step(i64::from(shared.step));
            }
            if !shared.is_handed_over() {
                let [low, high] = shared.apart;
                problem.buffers[owner].shares.push(usmp::AllowedOverlap { with: other as u32, low, high });
            }
        }
        ArenaItems { problem, of, external }
    }

    /// Where the program's buffers lie as the planner placed the items.
    pub fn placement(&self, found: &usmp::Placement) -> Placement {
        let place = |(item, external): (&Option<usize>, &Option<PoolId>)| match item {
            Some(item) => (PoolId(found.slots[*item].pool), found.slots[*item].offset),
            None => (external.unwrap_or(Memories::SCARCE), 0),
        };
        let (pools, offsets): (Vec<PoolId>, Vec<u64>) = self.of.iter().zip(&self.external).map(place).unzip();
        let pool_bytes = found.peaks.iter().copied().map(aligned).collect();
        Placement { pool_bytes, pools: pools.into(), offsets: offsets.into() }
    }
}

/// The live windows of two buffers in one place, of which the second takes over from the first.
fn in_turn(before: Vec<LiveWindow>, after: &[LiveWindow]) -> Vec<LiveWindow> {
    let begin = after[0].first_step;
    let mut windows: Vec<LiveWindow> = before
        .into_iter()
        .map(|window| LiveWindow { last_step: window.last_step.min(begin), ..window })
        .filter(|window| window.first_step < window.last_step)
        .collect();
    let end = windows.last().map_or(begin, |window| window.last_step);
    let between = LiveWindow { first_step: end, last_step: begin, low: 0, high: 0 };
    windows.extend((end < begin).then_some(between).into_iter().chain(after.iter().copied()));
    windows
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
    let buffers = program.buffers.iter().map(|buffer| of_windows(buffer, &live_windows(buffer))).collect();
    usmp::Problem { buffers, pools: pools.iter().enumerate().map(pool).collect() }
}

/// A buffer as the memory planner takes it, with its live `windows` from its first step to its last.
fn of_windows(buffer: &Buffer, windows: &[LiveWindow]) -> usmp::Buffer {
    let extent = [windows[0].first_step, windows[windows.len() - 1].last_step];
    let pools = buffer.pools.iter().map(|pool| pool.0).collect();
    usmp::Buffer { pools, ..buffer_of(buffer.size_bytes, extent, windows.iter().copied()) }
}

/// A buffer of steps `[first, last)` as the memory planner takes it, live in windows.
pub fn buffer_of(size_bytes: u64, [first, last]: [u32; 2], windows: impl Iterator<Item = LiveWindow>) -> usmp::Buffer {
    let partly = windows.filter(|window| (window.low, window.high) != (0, size_bytes));
    let gaps = partly.map(|window| usmp::Gap {
        lower: i64::from(window.first_step),
        upper: i64::from(window.last_step),
        window: (window.low < window.high).then_some((window.low, window.high)),
    });
    let lifetime = usmp::Lifetime::with_gaps(i64::from(first), i64::from(last), gaps.collect());
    usmp::Buffer::new(size_bytes, ALIGNMENT, lifetime)
}
