//! Python face of the `usmp` room: plain tuples in, frozen results out. Names of buffers and pools stay in Python.

use super::cascader::program::{memory_of, PyProgram};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use super::interruptible;
use super::pickling::class;
use crate::usmp::{
    self, Algorithm, AllowedOverlap, Buffer, Gap, Lifetime, OptimalityGap, Params, Placement, Pool, Problem, Slot,
    UsmpError,
};

create_exception!(ethoscade._core, MemoryProblemError, PyException, "A memory planning problem that makes no sense.");

type GapTuple = (i64, i64, Option<(u64, u64)>);
/// Size, alignment, lower, upper, gaps, candidate pools, pin, conflicts, shares.
type BufferTuple = (u64, u64, i64, i64, Vec<GapTuple>, Vec<u32>, Option<u64>, Vec<u32>, Vec<(u32, i64, i64)>);
/// Limit, alignment, base address.
type PoolTuple = (Option<u64>, u64, u64);

/// What `plan_memory` found. All bytes; lists are by buffer or pool id.
#[pyclass(frozen, get_all, module = "ethoscade._core")]
struct MemorySolution {
    offsets: Vec<u64>,
    pools: Vec<u32>,
    peaks: Vec<u64>,
    lower_bounds: Vec<u64>,
    optimal: bool,
    stop_reason: String,
    iterations: u64,
}

type OverflowTuple = (u32, u64, u64, u64, Vec<u32>);
type SolutionTuple = (Vec<u64>, Vec<u32>, Vec<u64>, Vec<u64>, bool, String, u64);

#[pymethods]
impl MemorySolution {
    #[new]
    fn new(
        offsets: Vec<u64>,
        pools: Vec<u32>,
        peaks: Vec<u64>,
        lower_bounds: Vec<u64>,
        optimal: bool,
        stop_reason: String,
        iterations: u64,
    ) -> MemorySolution {
        MemorySolution { offsets, pools, peaks, lower_bounds, optimal, stop_reason, iterations }
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, SolutionTuple) {
        let s = self;
        let lists = (s.offsets.clone(), s.pools.clone(), s.peaks.clone(), s.lower_bounds.clone());
        let fields = (lists.0, lists.1, lists.2, lists.3, s.optimal, s.stop_reason.clone(), s.iterations);
        (class::<MemorySolution>(py), fields)
    }
    fn __repr__(&self) -> String {
        let (peaks, reason) = (&self.peaks, &self.stop_reason);
        format!("MemorySolution(peaks={peaks:?}, optimal={}, stop_reason={reason:?})", self.optimal)
    }
}

/// The pool that no plan found by `plan_memory` fits.
#[pyclass(frozen, get_all, module = "ethoscade._core")]
struct MemoryOverflow {
    pool: u32,
    needed_bytes: u64,
    available_bytes: u64,
    lower_bound_bytes: u64,
    live: Vec<u32>,
}

#[pymethods]
impl MemoryOverflow {
    #[new]
    fn new(
        pool: u32,
        needed_bytes: u64,
        available_bytes: u64,
        lower_bound_bytes: u64,
        live: Vec<u32>,
    ) -> MemoryOverflow {
        MemoryOverflow { pool, needed_bytes, available_bytes, lower_bound_bytes, live }
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, OverflowTuple) {
        let MemoryOverflow { pool, needed_bytes, available_bytes, lower_bound_bytes, .. } = *self;
        (class::<MemoryOverflow>(py), (pool, needed_bytes, available_bytes, lower_bound_bytes, self.live.clone()))
    }
    fn __repr__(&self) -> String {
        let (pool, needed, available) = (self.pool, self.needed_bytes, self.available_bytes);
        format!("MemoryOverflow(pool={pool}, needed_bytes={needed}, available_bytes={available})")
    }
}

fn problem(buffers: Vec<BufferTuple>, pools: Vec<PoolTuple>) -> Problem {
    let buffer = |row: BufferTuple| {
        let (size_bytes, alignment, lower, upper, gaps, pools, pinned_offset, conflicts, shares) = row;
        let gaps = gaps.into_iter().map(|(lower, upper, window)| Gap { lower, upper, window }).collect();
        let lifetime = Lifetime::with_gaps(lower, upper, gaps);
        let shares = shares.into_iter().map(|(with, low, high)| AllowedOverlap { with, low, high }).collect();
        Buffer { size_bytes, alignment, lifetime, pools: pools.into(), pinned_offset, conflicts, shares }
    };
    let pools =
        pools.into_iter().map(|(limit_bytes, alignment, base_address)| Pool { limit_bytes, alignment, base_address });
    Problem { buffers: buffers.into_iter().map(buffer).collect(), pools: pools.collect() }
}

/// `tick` is called now and then: without an argument, or with pool 0's best peak and lower bound.
#[pyfunction]
#[pyo3(signature = (buffers, pools, algorithm, seed, iterations, threads, tick=None))]
#[allow(clippy::too_many_arguments)]
fn plan_memory(
    py: Python<'_>,
    buffers: Vec<BufferTuple>,
    pools: Vec<PoolTuple>,
    algorithm: &str,
    seed: u64,
    iterations: u32,
    threads: u32,
    tick: Option<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let Some(algorithm) = Algorithm::from_name(algorithm) else {
        return Err(MemoryProblemError::new_err(format!("there is no algorithm {algorithm:?}")));
    };
    let problem = problem(buffers, pools);
    let params = Params { algorithm, seed, iterations, threads };
    let gap = OptimalityGap::default();
    let call = |py: Python<'_>, _: u64| {
        tick.as_ref().map_or(Ok(()), |tick| match gap.read() {
            None => tick.call0(py).map(drop),
            Some(known) => tick.call1(py, known).map(drop),
        })
    };
    match interruptible::run_calling(py, &call, || usmp::plan_reporting(&problem, &params, &gap))? {
        Ok(found) => {
            let solution = MemorySolution {
                offsets: found.placement.slots.iter().map(|slot| slot.offset).collect(),
                pools: found.placement.slots.iter().map(|slot| slot.pool).collect(),
                peaks: found.placement.peaks,
                lower_bounds: found.lower_bounds,
                optimal: found.optimal,
                stop_reason: found.stop_reason.name().to_string(),
                iterations: found.iterations,
            };
            Ok(Py::new(py, solution)?.into_any())
        }
        Err(error) => refuse(py, error),
    }
}

/// An overflow is an answer that Python words with names; everything else is the caller's mistake.
fn refuse(py: Python<'_>, error: UsmpError) -> PyResult<Py<PyAny>> {
    match error {
        UsmpError::PoolOverflow { pool, needed_bytes, available_bytes, lower_bound_bytes, live } => {
            let overflow = MemoryOverflow { pool, needed_bytes, available_bytes, lower_bound_bytes, live };
            Ok(Py::new(py, overflow)?.into_any())
        }
        UsmpError::ReversedLifetime { .. }
        | UsmpError::BadGap { .. }
        | UsmpError::BufferAlignment { .. }
        | UsmpError::PoolAlignment { .. }
        | UsmpError::UnknownPartner { .. }
        | UsmpError::BadShare { .. }
        | UsmpError::NoPool { .. }
        | UsmpError::UnknownPool { .. }
        | UsmpError::PinMisaligned { .. }
        | UsmpError::PinsOverlap { .. }
        | UsmpError::TooLarge => Err(MemoryProblemError::new_err(error.to_string())),
    }
}

/// A program's buffers as `plan_memory` takes them, in the program's order.
#[pyfunction]
fn program_memory(py: Python<'_>, program: &PyProgram) -> PyResult<Vec<BufferTuple>> {
    let row = |buffer: Buffer| {
        let (lower, upper) = (buffer.lifetime.lower(), buffer.lifetime.upper());
        let gaps = buffer.lifetime.gaps().iter().map(|gap| (gap.lower, gap.upper, gap.window)).collect();
        let shares = buffer.shares.iter().map(|share| (share.with, share.low, share.high)).collect();
        let pools = buffer.pools.to_vec();
        (buffer.size_bytes, buffer.alignment, lower, upper, gaps, pools, buffer.pinned_offset, buffer.conflicts, shares)
    };
    Ok(memory_of(py, program)?.into_iter().map(row).collect())
}

/// What is wrong with a placement, in one sentence, or `None`.
#[pyfunction]
fn check_memory(
    py: Python<'_>,
    buffers: Vec<BufferTuple>,
    pools: Vec<PoolTuple>,
    offsets: Vec<u64>,
    pool_of: Vec<u32>,
    peaks: Vec<u64>,
) -> PyResult<Option<String>> {
    let problem = problem(buffers, pools);
    problem.validate().map_err(|error| MemoryProblemError::new_err(error.to_string()))?;
    if pool_of.len() != offsets.len() {
        return Ok(Some(format!("{} offsets, but {} pools", offsets.len(), pool_of.len())));
    }
    let slots = pool_of.into_iter().zip(offsets).map(|(pool, offset)| Slot { pool, offset }).collect();
    let placement = Placement { slots, peaks };
    let complaint = interruptible::run(py, None, || usmp::check::check(&problem, &placement).err())?;
    Ok(complaint.map(|complaint| complaint.to_string()))
}

/// The largest sum of sizes in use at one step among the buffers that can lie in no other pool, by pool id.
#[pyfunction]
fn memory_lower_bounds(py: Python<'_>, buffers: Vec<BufferTuple>, pools: Vec<PoolTuple>) -> PyResult<Vec<u64>> {
    let problem = problem(buffers, pools);
    interruptible::run(py, None, || usmp::lower_bounds(&problem))?
        .map_err(|error| MemoryProblemError::new_err(error.to_string()))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("MemoryProblemError", module.py().get_type::<MemoryProblemError>())?;
    module.add_class::<MemorySolution>()?;
    module.add_class::<MemoryOverflow>()?;
    module.add_function(wrap_pyfunction!(plan_memory, module)?)?;
    module.add_function(wrap_pyfunction!(program_memory, module)?)?;
    module.add_function(wrap_pyfunction!(check_memory, module)?)?;
    module.add_function(wrap_pyfunction!(memory_lower_bounds, module)?)
}
