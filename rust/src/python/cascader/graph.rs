//! Parts and tensors as Python describes them, made into the core's graph.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::IntoPyObjectExt;

use super::error;
use super::operation::{layout_of, OperationSpec};
use crate::model::graph;
use crate::model::ids::{IdVec, PartId, TensorId};
use crate::propagator::Propagator;
use crate::python::devices::DeviceSpec;
use crate::python::pickling::class;
use crate::stripe::Region;

#[derive(FromPyObject)]
struct TensorSpec {
    name: String,
    plane: [i64; 2],
    pixel_bytes: u64,
    layout: String,
    is_input: bool,
    is_output: bool,
    updates: Option<u32>,
    is_state: bool,
    external: Option<u32>,
}

#[derive(FromPyObject)]
pub struct PropagatorSpec {
    transform: [[i64; 5]; 4],
    strides: [[i64; 4]; 4],
    offset: [i64; 4],
    denominators: [i64; 4],
}

impl PropagatorSpec {
    /// The core's propagator.
    pub fn build(&self) -> PyResult<Propagator> {
        if self.denominators.iter().any(|&by| by < 1) {
            let fault = format!("the denominators of a propagator are at least 1, not {:?}", self.denominators);
            return Err(error::no_extent(fault, self.denominators));
        }
        Ok(Propagator::new(self.transform, self.strides, self.offset).divided_by(self.denominators))
    }
}

#[derive(FromPyObject)]
struct InputSpec {
    tensor: u32,
    propagator: PropagatorSpec,
    plane: [i64; 2],
    pixel_bytes: u64,
    first_channel: i64,
    inside: Option<([i64; 2], [i64; 2])>,
    strides: Option<[u64; 2]>,
}

impl InputSpec {
    fn build(&self) -> PyResult<graph::Input> {
        let InputSpec { tensor, plane, pixel_bytes, first_channel, strides, .. } = *self;
        let propagator = self.propagator.build()?;
        let input = graph::Input::new(TensorId(tensor), propagator, plane, pixel_bytes);
        let inside = self.inside.map_or(input.inside, |(first, plane)| Region::at(first, plane));
        Ok(graph::Input { first_channel, strides, inside, ..input })
    }
}

#[derive(FromPyObject)]
struct PartSpec {
    name: String,
    inputs: Vec<InputSpec>,
    outputs: Vec<u32>,
    kernel: Option<OperationSpec>,
    workspace_bytes: u64,
    overlay: Option<u64>,
    feed_rows: Option<i64>,
    is_fed_ahead: bool,
    take_rows: Option<i64>,
}

/// Parts and tensors on a device, verified.
#[pyclass(frozen, module = "ethoscade._core")]
pub struct CascaderGraph {
    pub graph: Arc<graph::CascaderGraph>,
    /// What the caller calls each Part in programs.
    pub part_numbers: IdVec<PartId, u32>,
    /// What the caller calls tensors: its numbers, and the tensors that they mean. Several may mean one.
    pub tensor_numbers: Vec<(u32, TensorId)>,
    /// What it was made of: tensors, Parts, device and the two kinds of numbers.
    described: [Py<PyAny>; 5],
}

impl CascaderGraph {
    /// The first of the caller's numbers that mean a tensor.
    pub fn number_of(&self, tensor: TensorId) -> Option<u32> {
        self.tensor_numbers.iter().find(|(_, known)| *known == tensor).map(|(number, _)| *number)
    }
}

#[pymethods]
impl CascaderGraph {
    #[new]
    #[pyo3(signature = (tensors, parts, device, part_numbers=None, tensor_numbers=None))]
    fn new(
        py: Python<'_>,
        tensors: Bound<PyAny>,
        parts: Bound<PyAny>,
        device: Bound<PyAny>,
        part_numbers: Option<Vec<u32>>,
        tensor_numbers: Option<Vec<(u32, u32)>>,
    ) -> PyResult<CascaderGraph> {
        let numbers = [part_numbers.clone().into_py_any(py)?, tensor_numbers.clone().into_py_any(py)?];
        let [of_parts, of_tensors] = numbers;
        let described =
            [tensors.clone().unbind(), parts.clone().unbind(), device.clone().unbind(), of_parts, of_tensors];
        let specs: Vec<TensorSpec> = tensors.extract()?;
        let tensors = specs.into_iter().map(build_tensor).collect::<PyResult<_>>()?;
        let specs: Vec<PartSpec> = parts.extract()?;
        let parts = specs.into_iter().map(build_part).collect::<PyResult<_>>()?;
        let device = device.extract::<DeviceSpec>()?.build()?;
        let graph = graph::CascaderGraph::new(tensors, parts, device)?;
        let part_numbers = part_numbers.unwrap_or_else(|| (0..graph.parts.len() as u32).collect());
        if part_numbers.len() != graph.parts.len() {
            let message = format!("{} numbers for {} parts", part_numbers.len(), graph.parts.len());
            return Err(error::too_many(message, part_numbers.len(), graph.parts.len()));
        }
        let tensor_numbers =
            tensor_numbers.unwrap_or_else(|| (0..graph.tensors.len() as u32).map(|t| (t, t)).collect());
        let beyond = tensor_numbers.iter().find(|(_, tensor)| *tensor as usize >= graph.tensors.len());
        if let Some((number, tensor)) = beyond {
            let message = format!("tensor {tensor}, called {number}, is beyond the {} there are", graph.tensors.len());
            return Err(error::too_many(message, *tensor as usize, graph.tensors.len()));
        }
        let tensor_numbers = tensor_numbers.into_iter().map(|(number, tensor)| (number, TensorId(tensor))).collect();
        Ok(CascaderGraph { graph: Arc::new(graph), part_numbers: part_numbers.into(), tensor_numbers, described })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Py<PyAny>, Bound<'py, PyTuple>)> {
        Ok((class::<CascaderGraph>(py), PyTuple::new(py, self.described.iter())?))
    }

    fn __repr__(&self) -> String {
        format!("CascaderGraph({} parts, {} tensors)", self.graph.parts.len(), self.graph.tensors.len())
    }
}

fn build_tensor(spec: TensorSpec) -> PyResult<graph::Tensor> {
    let layout = layout_of(&spec.layout)?;
    Ok(graph::Tensor {
        name: spec.name,
        plane: spec.plane,
        pixel_bytes: spec.pixel_bytes,
        layout,
        is_input: spec.is_input,
        is_output: spec.is_output,
        updates: spec.updates.map(TensorId),
        is_state: spec.is_state,
        external: spec.external,
    })
}

fn build_part(spec: PartSpec) -> PyResult<graph::Part> {
    let inputs = spec.inputs.iter().map(InputSpec::build).collect::<PyResult<_>>()?;
    let work = match (spec.kernel, spec.feed_rows, spec.take_rows) {
        (Some(kernel), ..) => graph::Work::Npu(Box::new(kernel.build()?)),
        (None, Some(rows), _) => graph::Work::Feed { rows, is_ahead: spec.is_fed_ahead },
        (None, None, Some(rows)) => graph::Work::Take { rows },
        (None, None, None) => graph::Work::Opaque { workspace_bytes: spec.workspace_bytes, overlay: spec.overlay },
    };
    Ok(graph::Part { name: spec.name, inputs, outputs: spec.outputs.into_iter().map(TensorId).collect(), work })
}
