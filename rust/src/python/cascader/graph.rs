//! Parts, tensors and kernels as Python describes them, made into the core's graph.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::error::SchedulingError;
use crate::cost::ethosu::is_steady;
use crate::model::graph;
use crate::model::ids::TensorId;
use crate::model::operation::{Emitted, Encoding, NpuOperation, Sliced};
use crate::npu::registers::Register;
use crate::propagator::Propagator;
use crate::python::devices::{primitive_of, DeviceSpec};
use crate::python::pickling::class;

#[derive(FromPyObject)]
pub struct KernelSpec {
    primitive: String,
    kernel: [i64; 2],
    stride: [i64; 2],
    dilation: [i64; 2],
    ifm_depth: i64,
    ofm_depth: i64,
    clamped: bool,
    part_kernel: bool,
    block_depth: i64,
    constant_bytes: u64,
    staged: Option<EncodingSpec>,
    sliced: Option<SlicedSpec>,
    joined: Vec<KernelSpec>,
    stream: StreamSpec,
}

#[derive(FromPyObject)]
struct StreamSpec {
    registers: [Vec<(u32, u64)>; 2],
    contents: Vec<u32>,
}

impl StreamSpec {
    /// What is emitted, without the registers that stripes set.
    fn build(&self) -> PyResult<Emitted> {
        let mut registers = [Vec::new(), Vec::new()];
        for (found, given) in registers.iter_mut().zip(&self.registers) {
            for &(command, value) in given {
                let unknown = || SchedulingError::new_err(format!("no register is set by command {command}"));
                let register = Register::from_code(command >> 14, command & 0x3FFF).ok_or_else(unknown)?;
                if is_steady(register) {
                    found.push((register, value));
                }
            }
        }
        Ok(Emitted { registers, contents: self.contents.clone() })
    }
}

#[derive(FromPyObject)]
struct EncodingSpec {
    block_depth: i64,
    part_kernel: bool,
    bytes: u64,
}

#[derive(FromPyObject)]
struct SlicedSpec {
    depth: i64,
    block_depth: i64,
    part_kernel: bool,
    bytes: Vec<u64>,
}

impl KernelSpec {
    /// The core's kernel.
    pub fn build(&self) -> PyResult<NpuOperation> {
        let unknown = || SchedulingError::new_err(format!("unknown primitive '{}'", self.primitive));
        let extents = [self.kernel, self.stride, self.dilation, [self.ifm_depth, self.ofm_depth]];
        if extents.iter().flatten().any(|&extent| extent < 1) {
            let fault = "the extents, strides, dilations and depths of a kernel are at least 1, not";
            return Err(SchedulingError::new_err(format!("{fault} {extents:?}")));
        }
        Ok(NpuOperation {
            primitive: primitive_of(&self.primitive).ok_or_else(unknown)?,
            kernel: self.kernel,
            stride: self.stride,
            dilation: self.dilation,
            ifm_depth: self.ifm_depth,
            ofm_depth: self.ofm_depth,
            clamped: self.clamped,
            part_kernel: self.part_kernel,
            block_depth: self.block_depth,
            constant_bytes: self.constant_bytes,
            staged: self.staged.as_ref().map(|staged| Encoding {
                block_depth: staged.block_depth,
                part_kernel: staged.part_kernel,
                bytes: staged.bytes,
            }),
            sliced: self.sliced.as_ref().map(|sliced| Sliced {
                depth: sliced.depth,
                block_depth: sliced.block_depth,
                part_kernel: sliced.part_kernel,
                bytes: sliced.bytes.clone(),
            }),
            joined: self.joined.iter().map(KernelSpec::build).collect::<PyResult<_>>()?,
            emitted: Arc::new(self.stream.build()?),
        })
    }
}

#[derive(FromPyObject)]
struct TensorSpec {
    name: String,
    plane: [i64; 2],
    pixel_bytes: u64,
    layout: String,
    is_input: bool,
    is_output: bool,
}

#[derive(FromPyObject)]
pub struct PropagatorSpec {
    transform: [[i64; 5]; 4],
    strides: [[i64; 4]; 4],
    offset: [i64; 4],
}

impl PropagatorSpec {
    /// The core's propagator.
    pub fn build(&self) -> Propagator {
        Propagator::new(self.transform, self.strides, self.offset)
    }
}

#[derive(FromPyObject)]
struct InputSpec {
    tensor: u32,
    propagator: PropagatorSpec,
    plane: [i64; 2],
    pixel_bytes: u64,
    first_channel: i64,
}

impl InputSpec {
    fn build(&self) -> graph::Input {
        let InputSpec { tensor, plane, pixel_bytes, first_channel, .. } = *self;
        graph::Input {
            tensor: TensorId(tensor),
            propagator: self.propagator.build(),
            plane,
            pixel_bytes,
            first_channel,
        }
    }
}

#[derive(FromPyObject)]
struct PartSpec {
    name: String,
    inputs: Vec<InputSpec>,
    outputs: Vec<u32>,
    kernel: Option<KernelSpec>,
    workspace_bytes: u64,
}

/// Parts and tensors on a device, verified.
#[pyclass(frozen, module = "ethoscade._core")]
pub struct CascaderGraph {
    pub graph: graph::CascaderGraph,
    /// What it was made of: tensors, Parts, device.
    described: [Py<PyAny>; 3],
}

#[pymethods]
impl CascaderGraph {
    #[new]
    fn new(tensors: Bound<PyAny>, parts: Bound<PyAny>, device: Bound<PyAny>) -> PyResult<CascaderGraph> {
        let described = [&tensors, &parts, &device].map(|given| given.clone().unbind());
        let specs: Vec<TensorSpec> = tensors.extract()?;
        let tensors = specs.into_iter().map(build_tensor).collect::<PyResult<_>>()?;
        let specs: Vec<PartSpec> = parts.extract()?;
        let parts = specs.into_iter().map(build_part).collect::<PyResult<_>>()?;
        let device = device.extract::<DeviceSpec>()?.build()?;
        Ok(CascaderGraph { graph: graph::CascaderGraph::new(tensors, parts, device)?, described })
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
    })
}

/// A layout by its name.
pub fn layout_of(name: &str) -> PyResult<graph::Layout> {
    match name {
        "NHWC" => Ok(graph::Layout::Nhwc),
        "NHCWB16" => Ok(graph::Layout::Nhcwb16),
        other => Err(SchedulingError::new_err(format!("unknown layout '{other}'"))),
    }
}

fn build_part(spec: PartSpec) -> PyResult<graph::Part> {
    let inputs = spec.inputs.iter().map(InputSpec::build).collect();
    let work = match spec.kernel {
        Some(kernel) => graph::Work::Npu(Box::new(kernel.build()?)),
        None => graph::Work::Opaque { workspace_bytes: spec.workspace_bytes },
    };
    Ok(graph::Part { name: spec.name, inputs, outputs: spec.outputs.into_iter().map(TensorId).collect(), work })
}
