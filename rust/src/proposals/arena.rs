//! A program's buffers as the memory planner sees them, and where it puts them.
//!
//! Owns the one way from a program to a problem of the planner, and from its answer back. Decides nothing.

use thiserror::Error;

use crate::model::graph::{aligned, ALIGNMENT};
use crate::model::ids::BufferId;
use crate::model::program::{Buffer, LiveWindow, Placement, Program};
use crate::usmp;

/// Moves that the memory planner may try for one program.
const ITERATIONS: u32 = 80;

/// A program whose buffers have no place.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the program's {buffers} buffers, {bytes} bytes in all, cannot be placed: {reason}; the largest is buffer {largest} \
     with {largest_bytes} bytes"
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
    /// What the memory planner says.
    pub reason: usmp::UsmpError,
}

/// What places a program: [`place`], or what tests put in its stead.
pub type Placer<'a> = dyn FnMut(&Program) -> Result<Placement, ArenaError> + 'a;

/// Where the memory planner puts a program's buffers, in an arena without a limit.
///
/// # Errors
/// Where they have no place: sizes beyond what addresses tell.
pub fn place(program: &Program) -> Result<Placement, ArenaError> {
    let params = usmp::Params { iterations: ITERATIONS, ..usmp::Params::default() };
    match usmp::plan(&problem(program), &params) {
        Ok(solution) => {
            let offsets = solution.placement.slots.iter().map(|slot| slot.offset).collect();
            Ok(Placement { bytes: aligned(solution.placement.peaks[0]), offsets })
        }
        Err(reason) => Err(refused(program, reason)),
    }
}

fn refused(program: &Program, reason: usmp::UsmpError) -> ArenaError {
    let sizes = || program.buffers.iter_ids().map(|(id, buffer)| (buffer.size_bytes, id));
    let first_largest = sizes().max_by_key(|&(size, id)| (size, std::cmp::Reverse(id)));
    // A program without buffers has a place.
    let (largest_bytes, largest) = first_largest.unwrap_or((0, BufferId(0)));
    let bytes = sizes().map(|(size, _)| u128::from(size)).sum();
    ArenaError { buffers: program.buffers.len(), bytes, largest, largest_bytes, reason }
}

/// All buffers of a program in one arena without a limit.
fn problem(program: &Program) -> usmp::Problem {
    let pool = usmp::Pool { alignment: ALIGNMENT, ..usmp::Pool::unbounded() };
    usmp::Problem { buffers: program.buffers.iter().map(of_program).collect(), pools: vec![pool] }
}

fn of_program(buffer: &Buffer) -> usmp::Buffer {
    buffer_of(buffer.size_bytes, [buffer.first_step, buffer.last_step], buffer.windows.iter().copied())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::proposals::uncascaded;
    use crate::schedule::interleave::interleave;
    use crate::testing::networks::{mobilenet_v2, stacked};

    fn program() -> Program {
        let graph = mobilenet_v2();
        interleave(&graph, &uncascaded(&graph), &mut Costs::default()).expect("blocks fit")
    }

    #[test]
    fn what_is_placed_is_right_and_takes_no_less_than_is_alive() {
        let program = program();
        let placement = place(&program).expect("it has a place");
        assert!(is_right(&program, &placement));
        assert!(placement.bytes >= stacked(&program).bytes);
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let mut program = program();
        program.buffers[BufferId(3)].size_bytes = 1 << 61;
        let error = place(&program).expect_err("beyond 2^60");
        assert_eq!((error.buffers, error.largest, error.largest_bytes), (program.buffers.len(), BufferId(3), 1 << 61));
        assert_eq!(error.reason, usmp::UsmpError::TooLarge);
        let bytes: u128 = program.buffers.iter().map(|buffer| u128::from(buffer.size_bytes)).sum();
        assert_eq!(error.bytes, bytes);
        assert!(error.to_string().contains("buffer 3 with 2305843009213693952 bytes"), "{error}");
    }
}
