//! Python face of the scheduler: Python's problem dataclasses become owned graphs, results become frozen classes.
//!
//! `graph`, `operation`, `plan`, `step` and `program` say what crosses, `search` and `arrangement` what is asked of them, `error`
//! what is raised; here are the questions about a single Part.

mod arrangement;
mod error;
mod graph;
mod operation;
mod plan;
pub(super) mod program;
mod search;
mod step;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::devices::DeviceSpec;
use crate::cost::{choose_encoding, floor};
use crate::model::ids::{Id, PartId};
use crate::model::operation::{LowerBound, WeightOrder};
use crate::python::pickling::class;
use graph::{CascaderGraph, PropagatorSpec};
use operation::{layout_of, OperationSpec};

/// How constants are encoded: OFM block depth, and part-kernel-first or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, get_all, name = "WeightOrder", module = "ethoscade._core", skip_from_py_object)]
struct PyWeightOrder {
    block_depth: i64,
    part_kernel: bool,
}

#[pymethods]
impl PyWeightOrder {
    #[new]
    fn new(block_depth: i64, part_kernel: bool) -> PyWeightOrder {
        PyWeightOrder { block_depth, part_kernel }
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, (i64, bool)) {
        (class::<PyWeightOrder>(py), (self.block_depth, self.part_kernel))
    }
    fn __repr__(&self) -> String {
        let part_kernel = if self.part_kernel { "True" } else { "False" };
        format!("WeightOrder(block_depth={}, part_kernel={part_kernel})", self.block_depth)
    }
}

impl From<WeightOrder> for PyWeightOrder {
    fn from((block_depth, part_kernel): WeightOrder) -> PyWeightOrder {
        PyWeightOrder { block_depth, part_kernel }
    }
}

/// How to encode weights to be read in place, and weights to be staged; None if nothing fits. `known` are bytes of constants
/// by block depth and whether it is part-kernel-first.
#[pyfunction]
#[pyo3(signature = (device, kernel, plane, layouts, known = Vec::new()))]
fn choose_weight_encoding(
    device: DeviceSpec<'_>,
    kernel: OperationSpec,
    plane: [i64; 2],
    layouts: (String, String),
    known: Vec<(WeightOrder, u64)>,
) -> PyResult<Option<(PyWeightOrder, PyWeightOrder)>> {
    let layouts = [layout_of(&layouts.0)?, layout_of(&layouts.1)?];
    let chosen = choose_encoding(&device.build()?, &kernel.build()?, plane, layouts, &known);
    Ok(chosen.map(|[in_place, staged]| (in_place.into(), staged.into())))
}

/// What an NPU Part costs at least in any schedule, in cycles; by depth the most pixels of its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[pyclass(frozen, eq, get_all, module = "ethoscade._core", skip_from_py_object)]
struct PartFloor {
    mac: u64,
    dense: u64,
    output: u64,
    in_one_piece: u64,
    planes: Vec<(i64, i64)>,
}

#[pymethods]
impl PartFloor {
    #[new]
    fn new(mac: u64, dense: u64, output: u64, in_one_piece: u64, planes: Vec<(i64, i64)>) -> PartFloor {
        PartFloor { mac, dense, output, in_one_piece, planes }
    }
    fn __hash__(&self) -> u64 {
        self.mac ^ self.output.rotate_left(32)
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Py<PyAny>, Bound<'py, PyTuple>)> {
        let PartFloor { mac, dense, output, in_one_piece, planes } = self.clone();
        Ok((class::<PartFloor>(py), (mac, dense, output, in_one_piece, planes).into_pyobject(py)?))
    }
    fn __repr__(&self) -> String {
        let PartFloor { mac, dense, output, in_one_piece, planes } = self;
        format!("PartFloor(mac={mac}, dense={dense}, output={output}, in_one_piece={in_one_piece}, planes={planes:?})")
    }
}

/// The least cycles of an NPU Part; None if it is opaque or the device is described by data.
#[pyfunction]
fn part_floor(graph: &CascaderGraph, part: u32) -> PyResult<Option<PartFloor>> {
    let (part, count) = (PartId(part), graph.graph.parts.len());
    if part.index() >= count {
        return Err(error::too_many(format!("there is no part {part}; the graph has {count}"), part.index(), count));
    }
    Ok(floor(&graph.graph, part).map(|floor| {
        let LowerBound { mac, dense, output, in_one_piece, planes } = floor;
        PartFloor { mac, dense, output, in_one_piece, planes }
    }))
}

/// Input stripe shape and start of a propagator, before clamping.
#[pyfunction]
fn propagate(propagator: PropagatorSpec, shape: [i64; 4], start: [i64; 4]) -> PyResult<([i64; 4], [i64; 4])> {
    let [shape, start] = propagator.build()?.stripe(shape, start);
    Ok((shape, start))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CascaderGraph>()?;
    search::register(module)?;
    step::register(module)?;
    program::register(module)?;
    arrangement::register(module)?;
    module.add_class::<PyWeightOrder>()?;
    module.add_class::<PartFloor>()?;
    module.add_function(wrap_pyfunction!(choose_weight_encoding, module)?)?;
    module.add_function(wrap_pyfunction!(part_floor, module)?)?;
    module.add_function(wrap_pyfunction!(propagate, module)?)?;
    Ok(())
}
