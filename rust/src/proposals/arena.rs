//! A program's buffers as the memory planner sees them, and where it puts them.
//!
//! Owns the way from a program to a problem of the planner, and from its answer back. Decides nothing.

use crate::model::graph::{aligned, ALIGNMENT};
use crate::model::program::{Buffer, Placement, Program};
use crate::plans::options::Options;
use crate::usmp;

/// Where the memory planner puts a program's buffers; what it cannot place takes everything.
pub fn place(program: &Program) -> Placement {
    place_within(program, Options::default().placing.iterations)
}

/// The same with another number of moves.
pub fn place_within(program: &Program, iterations: u32) -> Placement {
    let params = usmp::Params { iterations, ..usmp::Params::default() };
    usmp::plan(&problem(program), &params).map_or_else(
        |_| Placement { bytes: u64::MAX, offsets: vec![0; program.buffers.len()].into() },
        |solution| {
            let offsets = solution.placement.slots.iter().map(|slot| slot.offset).collect();
            Placement { bytes: aligned(solution.placement.peaks[0]), offsets }
        },
    )
}

/// All buffers of a program in one arena without a limit.
fn problem(program: &Program) -> usmp::Problem {
    let lifetime = |buffer: &Buffer| {
        let gaps = buffer.windows.iter().map(|window| usmp::Gap {
            lower: i64::from(window.first_step),
            upper: i64::from(window.last_step),
            window: (window.low < window.high).then_some((window.low, window.high)),
        });
        usmp::Lifetime::with_gaps(i64::from(buffer.first_step), i64::from(buffer.last_step), gaps.collect())
    };
    let buffer = |buffer: &Buffer| usmp::Buffer::new(buffer.size_bytes, ALIGNMENT, lifetime(buffer));
    let pool = usmp::Pool { alignment: ALIGNMENT, ..usmp::Pool::unbounded() };
    usmp::Problem { buffers: program.buffers.iter().map(buffer).collect(), pools: vec![pool] }
}

/// Whether no two buffers in use at the same step share a byte, by the memory planner's own checker.
#[cfg(test)]
pub fn is_right(program: &Program, placement: &Placement) -> bool {
    let slots = placement.offsets.iter().map(|&offset| usmp::Slot { pool: 0, offset }).collect();
    let ends = program.buffers.iter().zip(&placement.offsets);
    let used = ends.filter(|(buffer, _)| buffer.first_step < buffer.last_step);
    let peak = used.map(|(buffer, offset)| offset + buffer.size_bytes).max().unwrap_or(0);
    let answer = usmp::Placement { slots, peaks: vec![peak] };
    usmp::check::check(&problem(program), &answer).is_ok() && aligned(peak) == placement.bytes
}
