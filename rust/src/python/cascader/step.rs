//! Steps of programs as Python sees them: frozen classes by the caller's own numbers, and the boxes that they touch.
//!
//! Owns these classes, and making them of the core's steps.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::IntoPyObjectExt;

use super::graph::CascaderGraph;
use crate::model::ids::{BufferId, PartId, Piece};
use crate::model::program::{CopySource, Step, Stripe, View};
use crate::python::pickling::class;

/// What `__reduce__` gives: a class, and what to make it of again.
pub type Reduced<'py, T> = (Py<PyAny>, T);

/// What `PySlab::new` makes a box of again.
type SlabFields = (u32, i64, i64, i64, i64, i64, i64, i64, i64);
/// Four lengths or coordinates.
type Four = (i64, i64, i64, i64);
/// Height, width, depth.
type Three = (i64, i64, i64);

/// A box of a feature map inside a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, get_all, name = "Slab", module = "ethoscade._core", skip_from_py_object)]
pub struct PySlab {
    buffer: u32,
    y0: i64,
    y1: i64,
    x0: i64,
    x1: i64,
    rows: i64,
    columns: i64,
    origin_y: i64,
    origin_x: i64,
}

impl From<&View> for PySlab {
    fn from(view: &View) -> PySlab {
        let [height, width] = view.region.spans;
        let ([rows, columns], [origin_y, origin_x]) = (view.capacity, view.origin);
        let buffer = view.buffer.0;
        PySlab {
            buffer,
            y0: height.start,
            y1: height.end,
            x0: width.start,
            x1: width.end,
            rows,
            columns,
            origin_y,
            origin_x,
        }
    }
}

#[pymethods]
impl PySlab {
    #[new]
    #[pyo3(signature = (buffer, y0, y1, x0, x1, rows, columns, origin_y=0, origin_x=0))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        buffer: u32,
        y0: i64,
        y1: i64,
        x0: i64,
        x1: i64,
        rows: i64,
        columns: i64,
        origin_y: i64,
        origin_x: i64,
    ) -> PySlab {
        PySlab { buffer, y0, y1, x0, x1, rows, columns, origin_y, origin_x }
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, SlabFields) {
        let s = self;
        let fields = (s.buffer, s.y0, s.y1, s.x0, s.x1, s.rows, s.columns, s.origin_y, s.origin_x);
        (class::<PySlab>(py), fields)
    }
    fn __repr__(&self) -> String {
        let PySlab { buffer, y0, y1, x0, x1, rows, columns, origin_y, origin_x } = self;
        format!(
            "Slab(buffer={buffer}, y0={y0}, y1={y1}, x0={x0}, x1={x1}, rows={rows}, columns={columns}, \
             origin_y={origin_y}, origin_x={origin_x})"
        )
    }
}

/// One NPU operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, name = "Stripe", module = "ethoscade._core", skip_from_py_object)]
pub struct PyStripe {
    #[pyo3(get)]
    stage: u32,
    inputs: Vec<PySlab>,
    #[pyo3(get)]
    output: PySlab,
    #[pyo3(get)]
    padding: Four,
    #[pyo3(get)]
    block: Three,
    #[pyo3(get)]
    weights: Option<u32>,
    #[pyo3(get)]
    slice: Option<u32>,
    #[pyo3(get)]
    cycles: u64,
}

#[pymethods]
impl PyStripe {
    #[new]
    #[pyo3(signature = (stage, inputs, output, padding, block, weights=None, slice=None, cycles=0))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        stage: u32,
        inputs: Vec<PyRef<'_, PySlab>>,
        output: PyRef<'_, PySlab>,
        padding: Four,
        block: Three,
        weights: Option<u32>,
        slice: Option<u32>,
        cycles: u64,
    ) -> PyStripe {
        let inputs = inputs.iter().map(|slab| PySlab::clone(slab)).collect();
        PyStripe { stage, inputs, output: output.clone(), padding, block, weights, slice, cycles }
    }
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inputs.iter().cloned())
    }
    #[getter]
    fn portion<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        portion(py, self.slice, self.weights.is_some())
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py, Bound<'py, PyTuple>>> {
        let PyStripe { stage, output, padding, block, weights, slice, cycles, .. } = self.clone();
        let fields = (stage, self.inputs(py)?, output, padding, block, weights, slice, cycles).into_pyobject(py)?;
        Ok((class::<PyStripe>(py), fields))
    }
    fn __repr__(&self) -> String {
        let PyStripe { stage, inputs, output, padding, block, weights, slice, cycles } = self;
        let inputs = listed(inputs.iter().map(PySlab::__repr__));
        let (output, weights, slice) = (output.__repr__(), optional(*weights), optional(*slice));
        format!(
            "Stripe(stage={stage}, inputs={inputs}, output={output}, padding={padding:?}, block={block:?}, \
             weights={weights}, slice={slice}, cycles={cycles})"
        )
    }
}

/// DMA of encoded constants into a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, get_all, name = "CopyConstants", module = "ethoscade._core", skip_from_py_object)]
pub struct PyCopyConstants {
    stage: u32,
    buffer: u32,
    slice: Option<u32>,
    cycles: u64,
}

#[pymethods]
impl PyCopyConstants {
    #[new]
    #[pyo3(signature = (stage, buffer, slice=None, cycles=0))]
    fn new(stage: u32, buffer: u32, slice: Option<u32>, cycles: u64) -> PyCopyConstants {
        PyCopyConstants { stage, buffer, slice, cycles }
    }
    #[getter]
    fn portion<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        portion(py, self.slice, true)
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, (u32, u32, Option<u32>, u64)) {
        (class::<PyCopyConstants>(py), (self.stage, self.buffer, self.slice, self.cycles))
    }
    fn __repr__(&self) -> String {
        let PyCopyConstants { stage, buffer, slice, cycles } = self;
        format!("CopyConstants(stage={stage}, buffer={buffer}, slice={}, cycles={cycles})", optional(*slice))
    }
}

/// DMA of a table into the NPU's area for tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, get_all, name = "LoadTable", module = "ethoscade._core", skip_from_py_object)]
pub struct PyLoadTable {
    stage: u32,
    slot: u32,
    cycles: u64,
}

#[pymethods]
impl PyLoadTable {
    #[new]
    #[pyo3(signature = (stage, slot, cycles=0))]
    fn new(stage: u32, slot: u32, cycles: u64) -> PyLoadTable {
        PyLoadTable { stage, slot, cycles }
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, (u32, u32, u64)) {
        (class::<PyLoadTable>(py), (self.stage, self.slot, self.cycles))
    }
    fn __repr__(&self) -> String {
        let PyLoadTable { stage, slot, cycles } = self;
        format!("LoadTable(stage={stage}, slot={slot}, cycles={cycles})")
    }
}

/// A whole tensor from one buffer to another one, in another pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, get_all, name = "CopyTensor", module = "ethoscade._core", skip_from_py_object)]
pub struct PyCopyTensor {
    tensor: Option<u32>,
    source: u32,
    buffer: u32,
    cycles: u64,
}

#[pymethods]
impl PyCopyTensor {
    #[new]
    #[pyo3(signature = (tensor, source, buffer, cycles=0))]
    fn new(tensor: Option<u32>, source: u32, buffer: u32, cycles: u64) -> PyCopyTensor {
        PyCopyTensor { tensor, source, buffer, cycles }
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, (Option<u32>, u32, u32, u64)) {
        (class::<PyCopyTensor>(py), (self.tensor, self.source, self.buffer, self.cycles))
    }
    fn __repr__(&self) -> String {
        let PyCopyTensor { tensor, source, buffer, cycles } = self;
        let tensor = tensor.map_or("None".to_owned(), |tensor| tensor.to_string());
        format!("CopyTensor(tensor={tensor}, source={source}, buffer={buffer}, cycles={cycles})")
    }
}

/// A graph operator on the CPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, get_all, name = "CallOperator", module = "ethoscade._core", skip_from_py_object)]
pub struct PyCallOperator {
    operator: u32,
    workspace: Option<u32>,
}

#[pymethods]
impl PyCallOperator {
    #[new]
    #[pyo3(signature = (operator, workspace=None))]
    fn new(operator: u32, workspace: Option<u32>) -> PyCallOperator {
        PyCallOperator { operator, workspace }
    }
    #[getter]
    fn cycles(&self) -> u64 {
        0
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, (u32, Option<u32>)) {
        (class::<PyCallOperator>(py), (self.operator, self.workspace))
    }
    fn __repr__(&self) -> String {
        format!("CallOperator(operator={}, workspace={})", self.operator, optional(self.workspace))
    }
}

/// Rows of an input, handed over by its caller, and where they lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, get_all, name = "Feed", module = "ethoscade._core", skip_from_py_object)]
pub struct PyFeed {
    tensor: u32,
    output: PySlab,
}

#[pymethods]
impl PyFeed {
    #[new]
    fn new(tensor: u32, output: PyRef<'_, PySlab>) -> PyFeed {
        PyFeed { tensor, output: output.clone() }
    }
    #[getter]
    fn cycles(&self) -> u64 {
        0
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, (u32, PySlab)) {
        (class::<PyFeed>(py), (self.tensor, self.output.clone()))
    }
    fn __repr__(&self) -> String {
        format!("Feed(tensor={}, output={})", self.tensor, self.output.__repr__())
    }
}

/// Rows of an output, taken by its caller, and where they lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[pyclass(frozen, eq, hash, get_all, name = "Take", module = "ethoscade._core", skip_from_py_object)]
pub struct PyTake {
    tensor: u32,
    input: PySlab,
}

#[pymethods]
impl PyTake {
    #[new]
    fn new(tensor: u32, input: PyRef<'_, PySlab>) -> PyTake {
        PyTake { tensor, input: input.clone() }
    }
    #[getter]
    fn cycles(&self) -> u64 {
        0
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, (u32, PySlab)) {
        (class::<PyTake>(py), (self.tensor, self.input.clone()))
    }
    fn __repr__(&self) -> String {
        format!("Take(tensor={}, input={})", self.tensor, self.input.__repr__())
    }
}

/// A step, whichever it is.
#[derive(FromPyObject, IntoPyObject)]
pub enum PyStep<'py> {
    Stripe(Bound<'py, PyStripe>),
    Copy(Bound<'py, PyCopyConstants>),
    Table(Bound<'py, PyLoadTable>),
    Move(Bound<'py, PyCopyTensor>),
    Feed(Bound<'py, PyFeed>),
    Take(Bound<'py, PyTake>),
    Call(Bound<'py, PyCallOperator>),
}

/// A step of the graph, by the numbers that its caller has for Parts and tensors.
pub fn to_step<'py>(py: Python<'py>, graph: &CascaderGraph, step: &Step) -> PyResult<PyStep<'py>> {
    Ok(match step {
        Step::Copy { moved: CopySource::Constants(part, piece), buffer, cycles } => {
            let (stage, slice) = stage(graph, *part, *piece);
            let copy = PyCopyConstants { stage, buffer: buffer.0, slice, cycles: *cycles };
            PyStep::Copy(Bound::new(py, copy)?)
        }
        Step::LoadTable { part, piece, slot, cycles, .. } => {
            let table = PyLoadTable { stage: stage(graph, *part, *piece).0, slot: *slot, cycles: *cycles };
            PyStep::Table(Bound::new(py, table)?)
        }
        Step::Copy { moved: CopySource::Tensor { tensor, from }, buffer, cycles } => {
            let tensor = graph.number_of(*tensor);
            let copy = PyCopyTensor { tensor, source: from.0, buffer: buffer.0, cycles: *cycles };
            PyStep::Move(Bound::new(py, copy)?)
        }
        Step::Stripe(stripe) => PyStep::Stripe(Bound::new(py, to_stripe(graph, stripe))?),
        Step::Feed { part, output } => {
            let (tensor, output) = (graph.part_numbers[*part], PySlab::from(output));
            PyStep::Feed(Bound::new(py, PyFeed { tensor, output })?)
        }
        Step::Take { part, input } => {
            let (tensor, input) = (graph.part_numbers[*part], PySlab::from(input));
            PyStep::Take(Bound::new(py, PyTake { tensor, input })?)
        }
        Step::Call { part, workspace } => {
            let (operator, workspace) = (graph.part_numbers[*part], workspace.map(number_of));
            PyStep::Call(Bound::new(py, PyCallOperator { operator, workspace })?)
        }
    })
}

/// The number of the operation that makes a piece of a Part's output, and which slice of it that is: operations that a Part
/// joins have numbers of their own, one after the other.
fn stage(graph: &CascaderGraph, part: PartId, piece: Option<Piece>) -> (u32, Option<u32>) {
    let (number, piece) = (graph.part_numbers[part], piece.map(|piece| piece.0));
    let joins = graph.graph.kernel(part).is_some_and(|kernel| !kernel.joined.is_empty());
    match piece.filter(|_| joins) {
        Some(index) => (number + index, None),
        None => (number, piece),
    }
}

fn to_stripe(graph: &CascaderGraph, stripe: &Stripe) -> PyStripe {
    let ([top, left, bottom, right], [height, width, depth]) = (stripe.padding, stripe.cost.block);
    let (stage, slice) = stage(graph, stripe.part, stripe.piece);
    PyStripe {
        stage,
        inputs: stripe.inputs.iter().map(PySlab::from).collect(),
        output: PySlab::from(&stripe.output),
        padding: (top, left, bottom, right),
        block: (height, width, depth),
        weights: stripe.constants.map(number_of),
        slice,
        cycles: stripe.cost.cycles,
    }
}

fn number_of(buffer: BufferId) -> u32 {
    buffer.0
}

/// Which of a stage's constants: one slice, or all as encoded for being copied, or for being read in place.
fn portion<'py>(py: Python<'py>, slice: Option<u32>, is_staged: bool) -> PyResult<Bound<'py, PyAny>> {
    match slice {
        Some(slice) => slice.into_bound_py_any(py),
        None => (if is_staged { "staged" } else { "in_place" }).into_bound_py_any(py),
    }
}

/// A number as Python writes it.
pub fn optional(number: Option<u32>) -> String {
    number.map_or_else(|| "None".into(), |number| number.to_string())
}

/// A tuple as Python writes it.
pub fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    format!("({}{})", items.join(", "), if items.len() == 1 { "," } else { "" })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PySlab>()?;
    module.add_class::<PyStripe>()?;
    module.add_class::<PyCopyConstants>()?;
    module.add_class::<PyLoadTable>()?;
    module.add_class::<PyCopyTensor>()?;
    module.add_class::<PyFeed>()?;
    module.add_class::<PyTake>()?;
    module.add_class::<PyCallOperator>()
}
