//! Programs of given Plans: their steps and buffers, their time, and the proof that they are right.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::graph::CascaderGraph;
use super::plan::PlanSpec;
use crate::checker::check;
use crate::cost::{commands, Costs};
use crate::model::program::{Content, Placement, Program, Step, View};
use crate::proposals::arena::place;
use crate::proposals::placing::arranged;
use crate::python::interruptible;
use crate::python::streams::StreamCommand;

/// Steps, buffers, the buffer of each tensor, first bytes of the buffers, and bytes of the arena.
type ProgramTuple<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Vec<Option<u32>>, Vec<u64>, u64);

/// The program of a set of Plans and where everything lies, as tuples (see `_core.pyi`).
#[pyfunction]
#[pyo3(signature = (graph, plans, prefetch_bytes=0, fill_bytes=0, tick=None))]
fn arrange_plans<'py>(
    py: Python<'py>,
    graph: &CascaderGraph,
    plans: Vec<PlanSpec>,
    prefetch_bytes: u64,
    fill_bytes: u64,
    tick: Option<Py<PyAny>>,
) -> PyResult<ProgramTuple<'py>> {
    let (program, placement) = build_program(py, graph, plans, [prefetch_bytes, fill_bytes], tick)?;
    let steps = PyList::empty(py);
    for step in &program.steps {
        steps.append(to_python_step(py, step)?)?;
    }
    let buffers = PyList::empty(py);
    for buffer in &program.buffers {
        let (kind, of) = match buffer.content {
            Content::Tensor(tensor) => ("tensor", tensor.0),
            Content::Rolling(tensor, _) => ("rolling", tensor.0),
            Content::Constants(part) => ("weights", part.0),
            Content::Workspace(part) => ("workspace", part.0),
        };
        let windows: Vec<_> = buffer.windows.iter().map(|w| (w.first_step, w.last_step, w.low, w.high)).collect();
        buffers.append((kind, of, buffer.size_bytes, buffer.first_step, buffer.last_step, windows))?;
    }
    let tensor_buffers = program.tensor_buffers.iter().map(|buffer| buffer.map(|buffer| buffer.0)).collect();
    Ok((steps, buffers, tensor_buffers, placement.offsets.to_vec(), placement.bytes))
}

fn build_program(
    py: Python<'_>,
    graph: &CascaderGraph,
    plans: Vec<PlanSpec>,
    [prefetch_bytes, fill_bytes]: [u64; 2],
    tick: Option<Py<PyAny>>,
) -> PyResult<(Program, Placement)> {
    let plans = plans.into_iter().map(PlanSpec::build).collect::<PyResult<Vec<_>>>()?;
    let built = interruptible::run(py, tick.as_ref(), || {
        arranged(&graph.graph, &plans, prefetch_bytes, fill_bytes, &mut Costs::default(), &mut place)
    })??;
    Ok(built)
}

fn to_python_view(view: &View) -> (u32, [i64; 4], [i64; 2], [i64; 2]) {
    let [rows, columns] = view.region.spans;
    (view.buffer.0, [rows.start, rows.end, columns.start, columns.end], view.capacity, view.origin)
}

fn to_python_step<'py>(py: Python<'py>, step: &Step) -> PyResult<Bound<'py, PyTuple>> {
    match step {
        Step::Copy { part, buffer, piece, cycles } => {
            ("copy", part.0, buffer.0, piece.map(|piece| piece.0), *cycles).into_pyobject(py)
        }
        Step::Call { part, workspace } => ("call", part.0, workspace.map(|buffer| buffer.0)).into_pyobject(py),
        Step::Stripe(stripe) => {
            let inputs: Vec<_> = stripe.inputs.iter().map(to_python_view).collect();
            let output = to_python_view(&stripe.output);
            (
                "stripe",
                stripe.part.0,
                inputs,
                output,
                stripe.padding,
                stripe.cost.block,
                stripe.constants.map(|buffer| buffer.0),
                stripe.piece.map(|piece| piece.0),
                stripe.cost.cycles,
            )
                .into_pyobject(py)
        }
    }
}

/// Modelled cycles of the program of a set of Plans, placed as a Proposal's is.
#[pyfunction]
#[pyo3(signature = (graph, plans, prefetch_bytes=0, fill_bytes=0))]
fn clock_plans(
    py: Python<'_>,
    graph: &CascaderGraph,
    plans: Vec<PlanSpec>,
    prefetch_bytes: u64,
    fill_bytes: u64,
) -> PyResult<u64> {
    let (program, placement) = build_program(py, graph, plans, [prefetch_bytes, fill_bytes], None)?;
    interruptible::run(py, None, || Costs::default().program(&graph.graph, &program, &placement.offsets))
}

/// The command streams that code generation will make of the program of a set of Plans, one for each run of the NPU; none for
/// a device that is described by data.
#[pyfunction]
#[pyo3(signature = (graph, plans, prefetch_bytes=0, fill_bytes=0))]
fn predict_streams(
    py: Python<'_>,
    graph: &CascaderGraph,
    plans: Vec<PlanSpec>,
    prefetch_bytes: u64,
    fill_bytes: u64,
) -> PyResult<Vec<Vec<StreamCommand>>> {
    let (program, placement) = build_program(py, graph, plans, [prefetch_bytes, fill_bytes], None)?;
    let streams = interruptible::run(py, None, || commands(&graph.graph, &program, &placement.offsets))?;
    Ok(streams.iter().map(|stream| stream.iter().map(StreamCommand::from).collect()).collect())
}

/// Prove the program of a set of Plans right; raises `SchedulingError` with the first complaint.
#[pyfunction]
#[pyo3(signature = (graph, plans, prefetch_bytes=0, fill_bytes=0))]
fn check_plans(
    py: Python<'_>,
    graph: &CascaderGraph,
    plans: Vec<PlanSpec>,
    prefetch_bytes: u64,
    fill_bytes: u64,
) -> PyResult<()> {
    let (program, _) = build_program(py, graph, plans, [prefetch_bytes, fill_bytes], None)?;
    Ok(interruptible::run(py, None, || check(&graph.graph, &program))??)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(arrange_plans, module)?)?;
    module.add_function(wrap_pyfunction!(clock_plans, module)?)?;
    module.add_function(wrap_pyfunction!(predict_streams, module)?)?;
    module.add_function(wrap_pyfunction!(check_plans, module)?)
}
