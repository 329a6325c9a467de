//! Programs as Python sees them: frozen buffers, and the steps over them.
//!
//! Owns these classes, and making them of the core's programs. What a caller calls a Part or a tensor is the graph's to say,
//! what a step is `step`'s.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyMappingProxy, PyTuple};

use super::error::known;
use super::graph::CascaderGraph;
use super::step::{listed, optional, to_step, PyStep, Reduced};
use crate::model::program::{Buffer, Content, LiveWindow, Program};
use crate::python::pickling::class;
use crate::schedule::shared_bytes::{shared_bytes, SharedBytes};
use crate::search::items;
use crate::usmp;

/// What `PyProgram::new` makes a program of again.
type ProgramFields<'py> = (Py<PyTuple>, Py<PyTuple>, Bound<'py, PyDict>, Py<PyTuple>);

/// Step, buffer, the other buffer, least and largest distance.
type SharedFields = (u32, u32, u32, i64, i64);

/// Bytes of a buffer that are in use during some steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, get_all, name = "LiveWindow", module = "ethoscade._core", skip_from_py_object)]
pub struct PyLiveWindow {
    pub first_step: u32,
    pub last_step: u32,
    pub low: u64,
    pub high: u64,
}

#[pymethods]
impl PyLiveWindow {
    #[new]
    fn new(first_step: u32, last_step: u32, low: u64, high: u64) -> PyLiveWindow {
        PyLiveWindow { first_step, last_step, low, high }
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, (u32, u32, u64, u64)) {
        (class::<PyLiveWindow>(py), (self.first_step, self.last_step, self.low, self.high))
    }
    fn __repr__(&self) -> String {
        let PyLiveWindow { first_step, last_step, low, high } = self;
        format!("LiveWindow(first_step={first_step}, last_step={last_step}, low={low}, high={high})")
    }
}

/// Bytes in the arena and when they are in use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, name = "ProgramBuffer", module = "ethoscade._core", skip_from_py_object)]
pub struct PyProgramBuffer {
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    kind: &'static str,
    #[pyo3(get)]
    pub size_bytes: u64,
    #[pyo3(get)]
    pub first_step: u32,
    #[pyo3(get)]
    pub last_step: u32,
    #[pyo3(get)]
    tensor: Option<u32>,
    pub windows: Vec<PyLiveWindow>,
    pools: Vec<u32>,
}

/// What `PyProgramBuffer::new` makes it of again.
type BufferFields<'py> = (String, &'static str, u64, u32, u32, Option<u32>, Bound<'py, PyTuple>, Bound<'py, PyTuple>);

const KINDS: [&str; 4] = ["tensor", "rolling", "weights", "workspace"];

#[pymethods]
impl PyProgramBuffer {
    #[new]
    #[pyo3(signature = (name, kind, size_bytes, first_step, last_step, tensor=None, windows=Vec::new(), pools=vec![0]))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        name: String,
        kind: &str,
        size_bytes: u64,
        first_step: u32,
        last_step: u32,
        tensor: Option<u32>,
        windows: Vec<PyRef<'_, PyLiveWindow>>,
        pools: Vec<u32>,
    ) -> PyResult<PyProgramBuffer> {
        let kind = KINDS[known("kind of buffer", kind, &KINDS)?];
        let windows = windows.iter().map(|window| PyLiveWindow::clone(window)).collect();
        Ok(PyProgramBuffer { name, kind, size_bytes, first_step, last_step, tensor, windows, pools })
    }
    #[getter]
    fn windows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.windows.iter().cloned())
    }
    #[getter]
    fn pools<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.pools.iter())
    }
    /// First step, one past the last, and bytes in use meanwhile, in order of time.
    fn periods(&self) -> Vec<(u32, u32, u64)> {
        if self.windows.is_empty() {
            return vec![(self.first_step, self.last_step, self.size_bytes)];
        }
        self.windows.iter().map(|live| (live.first_step, live.last_step, live.high - live.low)).collect()
    }
    /// Bytes in use at a step.
    fn live_bytes(&self, step: u32) -> u64 {
        if step < self.first_step || self.last_step <= step {
            return 0;
        }
        let live = self.windows.iter().find(|live| live.first_step <= step && step < live.last_step);
        live.map_or(self.size_bytes, |live| live.high - live.low)
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py, BufferFields<'py>>> {
        let PyProgramBuffer { name, kind, size_bytes, first_step, last_step, tensor, .. } = self.clone();
        let fields = (name, kind, size_bytes, first_step, last_step, tensor, self.windows(py)?, self.pools(py)?);
        Ok((class::<PyProgramBuffer>(py), fields))
    }
    fn __repr__(&self) -> String {
        let PyProgramBuffer { name, kind, size_bytes, first_step, last_step, tensor, windows, pools } = self;
        let windows = listed(windows.iter().map(PyLiveWindow::__repr__));
        format!(
            "ProgramBuffer(name={name:?}, kind='{kind}', size_bytes={size_bytes}, first_step={first_step}, \
             last_step={last_step}, tensor={}, windows={windows}, pools={})",
            optional(*tensor),
            listed(pools.iter().map(u32::to_string))
        )
    }
}

/// Steps in order over buffers by dense index.
#[pyclass(frozen, name = "Program", module = "ethoscade._core")]
pub struct PyProgram {
    steps: Py<PyTuple>,
    buffers: Py<PyTuple>,
    tensor_buffers: Py<PyMappingProxy>,
    shared_bytes: Vec<SharedFields>,
}

#[pymethods]
impl PyProgram {
    #[new]
    #[pyo3(signature = (steps, buffers, tensor_buffers, shared_bytes=Vec::new()))]
    fn new(
        py: Python<'_>,
        steps: &Bound<'_, PyAny>,
        buffers: Vec<Bound<'_, PyProgramBuffer>>,
        tensor_buffers: Bound<'_, PyMapping>,
        shared_bytes: Vec<SharedFields>,
    ) -> PyResult<PyProgram> {
        let count = buffers.len();
        if let Some(beyond) = shared_bytes.iter().map(|shared| shared.1.max(shared.2)).find(|&id| id as usize >= count)
        {
            return Err(super::error::too_many(format!("buffer {beyond} of {count}"), beyond as usize, count));
        }
        let steps: Vec<PyStep> = steps.extract()?;
        let own = PyDict::new(py);
        own.update(&tensor_buffers)?;
        let tensor_buffers = PyMappingProxy::new(py, own.as_mapping());
        let (steps, buffers) = (PyTuple::new(py, steps)?.unbind(), PyTuple::new(py, buffers)?.unbind());
        Ok(PyProgram { steps, buffers, tensor_buffers: tensor_buffers.unbind(), shared_bytes })
    }
    #[getter]
    fn steps(&self, py: Python<'_>) -> Py<PyTuple> {
        self.steps.clone_ref(py)
    }
    #[getter]
    fn buffers(&self, py: Python<'_>) -> Py<PyTuple> {
        self.buffers.clone_ref(py)
    }
    #[getter]
    fn tensor_buffers(&self, py: Python<'_>) -> Py<PyMappingProxy> {
        self.tensor_buffers.clone_ref(py)
    }
    #[getter]
    fn shared_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shared_bytes.iter().copied())
    }
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Ok(other) = other.extract::<PyRef<'_, PyProgram>>() else { return Ok(false) };
        Ok(self.shared_bytes == other.shared_bytes
            && self.steps.bind(py).eq(&other.steps)?
            && self.buffers.bind(py).eq(&other.buffers)?
            && self.tensor_buffers.bind(py).eq(&other.tensor_buffers)?)
    }
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.steps.bind(py).hash()
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py, ProgramFields<'py>>> {
        let buffers = PyDict::new(py);
        buffers.update(self.tensor_buffers.bind(py).as_mapping())?;
        let shared_bytes = self.shared_bytes(py)?.unbind();
        Ok((class::<PyProgram>(py), (self.steps.clone_ref(py), self.buffers.clone_ref(py), buffers, shared_bytes)))
    }
    pub fn __repr__(&self, py: Python<'_>) -> String {
        format!("Program({} steps, {} buffers)", self.steps.bind(py).len(), self.buffers.bind(py).len())
    }
}

impl PyProgram {
    /// A program of the graph, by the numbers that its caller has for Parts and tensors.
    pub fn of(py: Python<'_>, graph: &CascaderGraph, program: &Program) -> PyResult<PyProgram> {
        let steps: Vec<PyStep> = program.steps.iter().map(|step| to_step(py, graph, step)).collect::<PyResult<_>>()?;
        let buffers = PyTuple::new(py, program.buffers.iter().map(|buffer| to_buffer(graph, buffer)))?;
        let tensor_buffers = PyDict::new(py);
        for &(number, tensor) in &graph.tensor_numbers {
            if let Some(buffer) = program.tensor_buffers[tensor] {
                tensor_buffers.set_item(number, buffer.0)?;
            }
        }
        let tensor_buffers = PyMappingProxy::new(py, tensor_buffers.as_mapping()).unbind();
        let shared = shared_bytes(&graph.graph, program);
        let fields = |of: &SharedBytes| (of.step, of.buffer.0, of.with.0, of.apart[0], of.apart[1]);
        Ok(PyProgram {
            steps: PyTuple::new(py, steps)?.unbind(),
            buffers: buffers.unbind(),
            tensor_buffers,
            shared_bytes: shared.iter().map(fields).collect(),
        })
    }
}

fn to_buffer(graph: &CascaderGraph, buffer: &Buffer) -> PyProgramBuffer {
    let core = &graph.graph;
    let (kind, tensor, name) = match buffer.content {
        Content::Tensor(tensor) => (KINDS[0], Some(tensor), &core.tensors[tensor].name),
        Content::Rolling(tensor, _) => (KINDS[1], Some(tensor), &core.tensors[tensor].name),
        Content::Constants(part) => (KINDS[2], None, &core.parts[part].name),
        Content::Workspace(part) => (KINDS[3], None, &core.parts[part].name),
    };
    let windows = buffer.windows.iter().map(|live| PyLiveWindow {
        first_step: live.first_step,
        last_step: live.last_step,
        low: live.low,
        high: live.high,
    });
    PyProgramBuffer {
        name: format!("{kind} of '{name}'"),
        kind,
        size_bytes: buffer.size_bytes,
        first_step: buffer.first_step,
        last_step: buffer.last_step,
        tensor: tensor.and_then(|tensor| graph.number_of(tensor)),
        windows: windows.collect(),
        pools: buffer.pools.iter().map(|pool| pool.0).collect(),
    }
}

/// A program's buffers as the memory planner takes them.
pub fn memory_of(py: Python<'_>, program: &PyProgram) -> PyResult<Vec<usmp::Buffer>> {
    let buffers: Vec<PyRef<'_, PyProgramBuffer>> = program.buffers.bind(py).extract()?;
    let taken = |buffer: &PyRef<'_, PyProgramBuffer>| {
        let windows = buffer.windows.iter().map(|live| LiveWindow {
            first_step: live.first_step,
            last_step: live.last_step,
            low: live.low,
            high: live.high,
        });
        items::buffer_of(buffer.size_bytes, [buffer.first_step, buffer.last_step], windows)
    };
    let mut taken: Vec<usmp::Buffer> = buffers.iter().map(taken).collect();
    for &(step, buffer, with, low, high) in &program.shared_bytes {
        for id in [buffer, with] {
            let of = &mut taken[id as usize];
            of.lifetime = of.lifetime.with_step(i64::from(step));
        }
        taken[buffer as usize].shares.push(usmp::AllowedOverlap { with, low, high });
    }
    Ok(taken)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyLiveWindow>()?;
    module.add_class::<PyProgramBuffer>()?;
    module.add_class::<PyProgram>()
}
