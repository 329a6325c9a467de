//! Copies of constants are issued early, so that they run while kernels before them do.
//!
//! Owns the place of each copy among the steps. A copy is moved ahead only as far as the time it takes, and only over
//! steps at which the arena has room.

use crate::graph::{aligned, CascaderGraph};
use crate::lifetimes::settle;
use crate::program::{Program, Step};

/// Most bytes in use at any step.
pub fn peak_bytes(program: &Program) -> u64 {
    live_bytes(program).into_iter().max().unwrap_or(0)
}

/// Move copies ahead as far as no more than `limit_bytes` are in use at any step that they are moved over.
pub fn prefetch(graph: &CascaderGraph, program: &mut Program, limit_bytes: u64) {
    let mut live = live_bytes(program);
    let mut place: Vec<usize> = (0..program.steps.len()).collect();
    let mut barrier = 0;
    for (index, step) in program.steps.iter().enumerate() {
        let &Step::Copy { buffer, cycles, .. } = step else {
            if matches!(step, Step::Call { .. }) {
                barrier = index + 1;
            }
            continue;
        };
        let bytes = aligned(program.buffers[buffer as usize].size_bytes);
        let mut covered = 0;
        let mut at = index;
        while at > barrier && covered < cycles && live[at - 1] + bytes <= limit_bytes {
            at -= 1;
            live[at] += bytes;
            covered += step_cycles(&program.steps[at]);
        }
        place[index] = at;
        barrier = at;
    }
    let mut order: Vec<usize> = (0..program.steps.len()).collect();
    // At equal places copies go before the kernel that they were moved over, in their own order.
    order.sort_by_key(|&index| (place[index], !matches!(program.steps[index], Step::Copy { .. }), index));
    program.steps = order.into_iter().map(|index| program.steps[index].clone()).collect();
    settle(graph, program);
}

fn step_cycles(step: &Step) -> u64 {
    match step {
        Step::Stripe(stripe) => stripe.cycles,
        _ => 0,
    }
}

/// Bytes in use at each step.
fn live_bytes(program: &Program) -> Vec<u64> {
    let mut change = vec![0i64; program.steps.len() + 2];
    for buffer in &program.buffers {
        let mut add = |from: u32, to: u32, bytes: u64| {
            change[from as usize] += aligned(bytes) as i64;
            change[to as usize] -= aligned(bytes) as i64;
        };
        if buffer.windows.is_empty() {
            add(buffer.first_step, buffer.last_step, buffer.size_bytes);
        }
        for window in &buffer.windows {
            add(window.first_step, window.last_step, window.high - window.low);
        }
    }
    let mut alive = 0;
    change[..program.steps.len()]
        .iter()
        .map(|&step| {
            alive += step;
            alive as u64
        })
        .collect()
}
