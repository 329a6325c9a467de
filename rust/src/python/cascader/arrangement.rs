//! Programs in their places: of given Plans, or as the search found them; their time, and the proof that they are right.
//!
//! Owns what is asked of programs. What they look like from Python is `program`'s to say.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::graph::CascaderGraph;
use super::plan::PlanSpec;
use super::program::PyProgram;
use crate::checker::{check, check_placement};
use crate::cost::{commands, Costs};
use crate::model::graph;
use crate::model::memory::Memories;
use crate::model::program::Arrangement;
use crate::plans::options::{Options, MOVES};
use crate::python::interruptible;
use crate::python::pickling::class;
use crate::python::streams::StreamCommand;
use crate::search::arena::placer;
use crate::search::{arrange, Context};

/// A program and where its buffers lie.
#[pyclass(frozen, get_all, name = "Arrangement", module = "ethoscade._core")]
pub struct PyArrangement {
    program: Py<PyProgram>,
    offsets: Py<PyTuple>,
    arena_bytes: u64,
    pools: Py<PyTuple>,
    pool_bytes: Py<PyTuple>,
}

/// What `PyArrangement::new` makes it of again.
type Fields = (Py<PyProgram>, Py<PyTuple>, u64, Py<PyTuple>, Py<PyTuple>);

#[pymethods]
impl PyArrangement {
    #[new]
    #[pyo3(signature = (program, offsets, arena_bytes, pools=None, pool_bytes=None))]
    fn new(
        py: Python<'_>,
        program: Py<PyProgram>,
        offsets: Vec<u64>,
        arena_bytes: u64,
        pools: Option<Vec<u32>>,
        pool_bytes: Option<Vec<u64>>,
    ) -> PyResult<PyArrangement> {
        let pools = pools.unwrap_or_else(|| vec![Memories::SCARCE.0; offsets.len()]);
        let pool_bytes = pool_bytes.unwrap_or_else(|| vec![arena_bytes]);
        let [offsets, pool_bytes] = [offsets, pool_bytes].map(|bytes| PyTuple::new(py, bytes).map(Bound::unbind));
        Ok(PyArrangement {
            program,
            offsets: offsets?,
            arena_bytes,
            pools: PyTuple::new(py, pools)?.unbind(),
            pool_bytes: pool_bytes?,
        })
    }
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.extract::<PyRef<'_, PyArrangement>>() else { return Ok(false) };
        Ok(self.arena_bytes == other.arena_bytes
            && self.pools.bind(py).eq(&other.pools)?
            && self.pool_bytes.bind(py).eq(&other.pool_bytes)?
            && self.offsets.bind(py).eq(&other.offsets)?
            && self.program.bind(py).eq(&other.program)?)
    }
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.offsets.bind(py).hash()
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, Fields) {
        let [offsets, pools, pool_bytes] = [&self.offsets, &self.pools, &self.pool_bytes].map(|of| of.clone_ref(py));
        let fields = (self.program.clone_ref(py), offsets, self.arena_bytes, pools, pool_bytes);
        (class::<PyArrangement>(py), fields)
    }
    fn __repr__(&self, py: Python<'_>) -> String {
        format!("Arrangement({}, {} bytes)", self.program.get().__repr__(py), self.arena_bytes)
    }
}

impl PyArrangement {
    /// An arrangement of the graph, by its caller's numbers.
    pub fn of(py: Python<'_>, graph: &CascaderGraph, arrangement: &Arrangement) -> PyResult<PyArrangement> {
        let program = Py::new(py, PyProgram::of(py, graph, &arrangement.program)?)?;
        let placement = &arrangement.placement;
        Ok(PyArrangement {
            program,
            offsets: PyTuple::new(py, placement.offsets.iter())?.unbind(),
            arena_bytes: placement.bytes(),
            pools: PyTuple::new(py, placement.pools.iter().map(|pool| pool.0))?.unbind(),
            pool_bytes: PyTuple::new(py, placement.pool_bytes.iter())?.unbind(),
        })
    }
}

/// What is to be arranged: Plans, bytes up to which copies are issued early, bytes that they are then issued into, and the
/// moves that the memory planner may try.
pub struct Decisions {
    pub plans: Vec<crate::model::plan::Plan>,
    pub prefetch_bytes: u64,
    pub fill_bytes: u64,
    pub moves: u32,
}

impl Decisions {
    fn read(plans: Vec<PlanSpec>, prefetch_bytes: u64, fill_bytes: u64, moves: u32) -> PyResult<Decisions> {
        let plans = plans.into_iter().map(PlanSpec::build).collect::<PyResult<Vec<_>>>()?;
        Ok(Decisions { plans, prefetch_bytes, fill_bytes, moves })
    }

    /// Interleaved and placed as the search does it.
    pub fn arrange(
        &self,
        py: Python<'_>,
        graph: &Arc<graph::CascaderGraph>,
        tick: Option<&Py<PyAny>>,
    ) -> PyResult<Arrangement> {
        let Decisions { plans, prefetch_bytes, fill_bytes, moves } = self;
        let costs = &mut Costs::default();
        let work = || {
            let (options, placer) = (Options::default(), &mut placer(graph));
            arrange(&mut Context::new(graph, &options, costs, placer), plans, *prefetch_bytes, *fill_bytes, *moves)
        };
        Ok(interruptible::run(py, tick, work)??)
    }
}

/// The program of a set of Plans and where everything lies.
#[pyfunction]
#[pyo3(signature = (graph, plans, prefetch_bytes=0, fill_bytes=0, moves=MOVES, tick=None))]
fn arrange_plans(
    py: Python<'_>,
    graph: &CascaderGraph,
    plans: Vec<PlanSpec>,
    prefetch_bytes: u64,
    fill_bytes: u64,
    moves: u32,
    tick: Option<Py<PyAny>>,
) -> PyResult<PyArrangement> {
    let arranged =
        Decisions::read(plans, prefetch_bytes, fill_bytes, moves)?.arrange(py, &graph.graph, tick.as_ref())?;
    PyArrangement::of(py, graph, &arranged)
}

/// Modelled cycles of the program of a set of Plans, placed as a Proposal's is.
#[pyfunction]
#[pyo3(signature = (graph, plans, prefetch_bytes=0, fill_bytes=0, moves=MOVES))]
fn clock_plans(
    py: Python<'_>,
    graph: &CascaderGraph,
    plans: Vec<PlanSpec>,
    prefetch_bytes: u64,
    fill_bytes: u64,
    moves: u32,
) -> PyResult<u64> {
    let Arrangement { program, placement } =
        Decisions::read(plans, prefetch_bytes, fill_bytes, moves)?.arrange(py, &graph.graph, None)?;
    interruptible::run(py, None, || Costs::default().program(&graph.graph, &program, &placement))
}

/// The command streams that code generation will make of the program of a set of Plans, one for each run of the NPU; none for
/// a device that is described by data.
#[pyfunction]
#[pyo3(signature = (graph, plans, prefetch_bytes=0, fill_bytes=0, moves=MOVES))]
fn predict_streams(
    py: Python<'_>,
    graph: &CascaderGraph,
    plans: Vec<PlanSpec>,
    prefetch_bytes: u64,
    fill_bytes: u64,
    moves: u32,
) -> PyResult<Vec<Vec<StreamCommand>>> {
    let Arrangement { program, placement } =
        Decisions::read(plans, prefetch_bytes, fill_bytes, moves)?.arrange(py, &graph.graph, None)?;
    let streams = interruptible::run(py, None, || commands(&graph.graph, &program, &placement))?;
    Ok(streams.iter().map(|stream| stream.iter().map(StreamCommand::from).collect()).collect())
}

/// Prove the program of a set of Plans right; raises `SchedulingError` with the first complaint.
#[pyfunction]
#[pyo3(signature = (graph, plans, prefetch_bytes=0, fill_bytes=0, moves=MOVES))]
fn check_plans(
    py: Python<'_>,
    graph: &CascaderGraph,
    plans: Vec<PlanSpec>,
    prefetch_bytes: u64,
    fill_bytes: u64,
    moves: u32,
) -> PyResult<()> {
    let arranged = Decisions::read(plans, prefetch_bytes, fill_bytes, moves)?.arrange(py, &graph.graph, None)?;
    let Arrangement { program, placement } = &arranged;
    let proof = || {
        check(&graph.graph, program).and_then(|()| check_placement(graph.graph.device.memories(), program, placement))
    };
    Ok(interruptible::run(py, None, proof)??)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyArrangement>()?;
    module.add_function(wrap_pyfunction!(arrange_plans, module)?)?;
    module.add_function(wrap_pyfunction!(clock_plans, module)?)?;
    module.add_function(wrap_pyfunction!(predict_streams, module)?)?;
    module.add_function(wrap_pyfunction!(check_plans, module)?)
}
