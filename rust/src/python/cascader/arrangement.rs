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
use crate::model::ids::PoolId;
use crate::model::memory::Memories;
use crate::model::program::{Arrangement, IssueOrder, IssueSlot, Placement};
use crate::python::interruptible;
use crate::python::pickling::class;
use crate::python::streams::StreamCommand;
use crate::search::{arrange, decide_issue_order};

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
        let (offsets, pools, pool_bytes) = placement_tuples(py, &arrangement.placement)?;
        let [offsets, pools, pool_bytes] = [offsets, pools, pool_bytes].map(Bound::unbind);
        Ok(PyArrangement { program, offsets, arena_bytes: arrangement.placement.bytes(), pools, pool_bytes })
    }
}

/// An issue order as read: of each copy its slot and the slot from which on its buffer is its own; the copy that each load of a
/// table stands before.
pub type IssueFields = (Vec<(usize, usize)>, Vec<Option<usize>>);

/// `IssueFields` as Python sees them.
pub type IssueTuples<'py> = (Bound<'py, PyTuple>, Bound<'py, PyTuple>);

/// A placement as read: offset and pool of each buffer, bytes of each pool.
pub type PlacementFields = (Vec<u64>, Vec<u32>, Vec<u64>);

/// `PlacementFields` as Python sees them.
pub type PlacementTuples<'py> = (Bound<'py, PyTuple>, Bound<'py, PyTuple>, Bound<'py, PyTuple>);

/// An issue order of its fields.
pub fn issue_order((copies, tables): IssueFields) -> IssueOrder {
    IssueOrder { copies: copies.into_iter().map(|(slot, reserved)| IssueSlot { slot, reserved }).collect(), tables }
}

/// The fields of an issue order.
pub fn issue_tuples<'py>(py: Python<'py>, order: &IssueOrder) -> PyResult<IssueTuples<'py>> {
    let copies = order.copies.iter().map(|copy| (copy.slot, copy.reserved));
    Ok((PyTuple::new(py, copies)?, PyTuple::new(py, &order.tables)?))
}

/// A placement of its fields.
pub fn placement((offsets, pools, pool_bytes): PlacementFields) -> Placement {
    let pools = pools.into_iter().map(PoolId).collect::<Vec<_>>().into();
    Placement { pool_bytes: pool_bytes.into(), pools, offsets: offsets.into() }
}

/// The fields of a placement.
pub fn placement_tuples<'py>(py: Python<'py>, placement: &Placement) -> PyResult<PlacementTuples<'py>> {
    let pools = PyTuple::new(py, placement.pools.iter().map(|pool| pool.0))?;
    Ok((PyTuple::new(py, placement.offsets.iter())?, pools, PyTuple::new(py, placement.pool_bytes.iter())?))
}

/// A schedule as Python gives it.
#[derive(FromPyObject)]
struct ScheduleSpec {
    plans: Vec<PlanSpec>,
    issue_order: Option<IssueFields>,
    placement: Option<PlacementFields>,
}

impl ScheduleSpec {
    fn arrange(
        self,
        py: Python<'_>,
        graph: &Arc<graph::CascaderGraph>,
        tick: Option<&Py<PyAny>>,
    ) -> PyResult<Arrangement> {
        let plans = self.plans.into_iter().map(PlanSpec::build).collect::<PyResult<Vec<_>>>()?;
        let (order, placement) = (self.issue_order.map(issue_order), self.placement.map(placement));
        Ok(interruptible::run(py, tick, || arrange(graph, &plans, order.as_ref(), placement.as_ref()))??)
    }
}

/// The program of a schedule and where everything lies.
#[pyfunction]
#[pyo3(signature = (graph, schedule, tick=None))]
fn arrange_plans(
    py: Python<'_>,
    graph: &CascaderGraph,
    schedule: ScheduleSpec,
    tick: Option<Py<PyAny>>,
) -> PyResult<PyArrangement> {
    PyArrangement::of(py, graph, &schedule.arrange(py, &graph.graph, tick.as_ref())?)
}

/// The issue order of a schedule's copies, early where no more than `limit_bytes` are then in use.
#[pyfunction]
fn prefetch_plans<'py>(
    py: Python<'py>,
    graph: &CascaderGraph,
    schedule: ScheduleSpec,
    limit_bytes: u64,
) -> PyResult<IssueTuples<'py>> {
    let plans = schedule.plans.into_iter().map(PlanSpec::build).collect::<PyResult<Vec<_>>>()?;
    issue_tuples(py, &interruptible::run(py, None, || decide_issue_order(&graph.graph, &plans, limit_bytes))??)
}

/// Modelled cycles of the program of a schedule.
#[pyfunction]
fn clock_plans(py: Python<'_>, graph: &CascaderGraph, schedule: ScheduleSpec) -> PyResult<u64> {
    let Arrangement { program, placement } = schedule.arrange(py, &graph.graph, None)?;
    interruptible::run(py, None, || Costs::default().program(&graph.graph, &program, &placement))
}

/// The command streams that code generation will make of the program of a schedule, one for each run of the NPU; none for a
/// device that is described by data.
#[pyfunction]
fn predict_streams(py: Python<'_>, graph: &CascaderGraph, schedule: ScheduleSpec) -> PyResult<Vec<Vec<StreamCommand>>> {
    let Arrangement { program, placement } = schedule.arrange(py, &graph.graph, None)?;
    let streams = interruptible::run(py, None, || commands(&graph.graph, &program, &placement))?;
    Ok(streams.iter().map(|stream| stream.iter().map(StreamCommand::from).collect()).collect())
}

/// Prove the program of a schedule right; raises `SchedulingError` with the first complaint.
#[pyfunction]
fn check_plans(py: Python<'_>, graph: &CascaderGraph, schedule: ScheduleSpec) -> PyResult<()> {
    let Arrangement { program, placement } = schedule.arrange(py, &graph.graph, None)?;
    let proof = || {
        check(&graph.graph, &program)
            .and_then(|()| check_placement(graph.graph.device.memories(), &program, &placement))
    };
    Ok(interruptible::run(py, None, proof)??)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyArrangement>()?;
    module.add_function(wrap_pyfunction!(arrange_plans, module)?)?;
    module.add_function(wrap_pyfunction!(prefetch_plans, module)?)?;
    module.add_function(wrap_pyfunction!(clock_plans, module)?)?;
    module.add_function(wrap_pyfunction!(predict_streams, module)?)?;
    module.add_function(wrap_pyfunction!(check_plans, module)?)
}
