//! Python face of the scheduler: Python's problem dataclasses become owned graphs, results become frozen classes.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::devices::{primitive_of, DeviceSpec};
use crate::checker::{check, Complaint};
use crate::costs::{choose_encoding, floor, Costs};
use crate::graph::{self, aligned, GraphError, ALIGNMENT};
use crate::interleave::{interleave, PlanError};
use crate::options::Options;
use crate::performance::{Encoding, Kernel, Order, Sliced};
use crate::prefetch::prefetch;
use crate::program::{Buffer, Content, Plan, Program, Staging, Step, View};
use crate::propagator::Propagator;
use crate::proposals::{search, Frontier, Placement, Proposal, Stop};
use crate::stripe::{Axis, Tiling};
use crate::usmp;

create_exception!(_core, SchedulingError, PyValueError, "A graph, Plan or program that does not hold together.");

impl From<GraphError> for PyErr {
    fn from(error: GraphError) -> PyErr {
        SchedulingError::new_err(error.to_string())
    }
}

impl From<PlanError> for PyErr {
    fn from(error: PlanError) -> PyErr {
        SchedulingError::new_err(error.to_string())
    }
}

impl From<Complaint> for PyErr {
    fn from(error: Complaint) -> PyErr {
        SchedulingError::new_err(error.to_string())
    }
}

#[derive(FromPyObject)]
struct KernelSpec {
    primitive: String,
    kernel: [i64; 2],
    stride: [i64; 2],
    dilation: [i64; 2],
    ifm_depth: i64,
    ofm_depth: i64,
    clamped: bool,
    offsets: [i64; 5],
    part_kernel: bool,
    block_depth: i64,
    constant_bytes: u64,
    staged: Option<EncodingSpec>,
    sliced: Option<SlicedSpec>,
    joined: Vec<KernelSpec>,
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
    fn build(&self) -> PyResult<Kernel> {
        let unknown = || SchedulingError::new_err(format!("unknown primitive '{}'", self.primitive));
        Ok(Kernel {
            primitive: primitive_of(&self.primitive).ok_or_else(unknown)?,
            kernel: self.kernel,
            stride: self.stride,
            dilation: self.dilation,
            ifm_depth: self.ifm_depth,
            ofm_depth: self.ofm_depth,
            clamped: self.clamped,
            offsets: self.offsets,
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
struct PropagatorSpec {
    transform: [[i64; 5]; 4],
    strides: [[i64; 4]; 4],
    offset: [i64; 4],
}

impl PropagatorSpec {
    fn build(&self) -> Propagator {
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
        graph::Input { tensor, propagator: self.propagator.build(), plane, pixel_bytes, first_channel }
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
#[pyclass(frozen)]
struct CascaderGraph {
    graph: graph::CascaderGraph,
}

#[pymethods]
impl CascaderGraph {
    #[new]
    fn new(tensors: Vec<TensorSpec>, parts: Vec<PartSpec>, device: DeviceSpec<'_>) -> PyResult<CascaderGraph> {
        let tensors = tensors.into_iter().map(build_tensor).collect::<PyResult<_>>()?;
        let parts = parts.into_iter().map(build_part).collect::<PyResult<_>>()?;
        Ok(CascaderGraph { graph: graph::CascaderGraph::new(tensors, parts, device.build()?)? })
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

fn layout_of(name: &str) -> PyResult<graph::Layout> {
    match name {
        "NHWC" => Ok(graph::Layout::Nhwc),
        "NHCWB16" => Ok(graph::Layout::Nhcwb16),
        other => Err(PyValueError::new_err(format!("unknown layout '{other}'"))),
    }
}

fn build_part(spec: PartSpec) -> PyResult<graph::Part> {
    let inputs = spec.inputs.iter().map(InputSpec::build).collect();
    let work = match spec.kernel {
        Some(kernel) => graph::Work::Npu(Box::new(kernel.build()?)),
        None => graph::Work::Opaque { workspace_bytes: spec.workspace_bytes },
    };
    Ok(graph::Part { name: spec.name, inputs, outputs: spec.outputs, work })
}

#[derive(FromPyObject)]
struct PlanSpec {
    first: u32,
    last: u32,
    roll: String,
    backwards: bool,
    tiles: u32,
    stripes: Vec<i64>,
    staging: Vec<String>,
}

impl PlanSpec {
    fn build(self) -> PyResult<Plan> {
        let roll = match self.roll.as_str() {
            "height" => Axis::Height,
            "width" => Axis::Width,
            other => return Err(SchedulingError::new_err(format!("unknown axis '{other}': height or width"))),
        };
        let tiling = Tiling { roll, tiles: self.tiles };
        let staging = self.staging.iter().map(|name| staging_of(name)).collect::<PyResult<_>>()?;
        let PlanSpec { first, last, backwards, stripes, .. } = self;
        Ok(Plan { first, last, tiling, backwards, stripes, staging })
    }
}

const STAGING: [(Staging, &str); 3] =
    [(Staging::InPlace, "in_place"), (Staging::Whole, "whole"), (Staging::Sliced, "sliced")];

fn staging_of(name: &str) -> PyResult<Staging> {
    let found = STAGING.iter().find(|(_, known)| *known == name);
    found.map(|(staging, _)| *staging).ok_or_else(|| SchedulingError::new_err(format!("unknown staging '{name}'")))
}

/// Decisions for one group of Parts.
#[pyclass(frozen, get_all, name = "Plan")]
struct PyPlan {
    first: u32,
    last: u32,
    roll: &'static str,
    backwards: bool,
    tiles: u32,
    stripes: Vec<i64>,
    staging: Vec<&'static str>,
}

#[pymethods]
impl PyPlan {
    fn __repr__(&self) -> String {
        format!(
            "Plan(parts {}..={}, rolls along {}, {} bands, stripes {:?})",
            self.first, self.last, self.roll, self.tiles, self.stripes
        )
    }
}

/// A way to run the network, with what it promises.
#[pyclass(frozen, name = "Proposal")]
struct PyProposal {
    proposal: Proposal,
}

#[pymethods]
impl PyProposal {
    #[getter]
    fn sram_bytes(&self) -> u64 {
        self.proposal.sram_bytes
    }
    #[getter]
    fn cycles(&self) -> u64 {
        self.proposal.cycles
    }
    #[getter]
    fn prefetch_bytes(&self) -> u64 {
        self.proposal.prefetch_bytes
    }
    #[getter]
    fn plans(&self) -> Vec<PyPlan> {
        self.proposal.plans.iter().map(to_python_plan).collect()
    }
    fn __repr__(&self) -> String {
        let p = &self.proposal;
        format!("Proposal({} bytes, {} cycles, {} plans)", p.sram_bytes, p.cycles, p.plans.len())
    }
}

fn to_python_plan(plan: &Plan) -> PyPlan {
    PyPlan {
        first: plan.first,
        last: plan.last,
        roll: match plan.tiling.roll {
            Axis::Height => "height",
            Axis::Width => "width",
        },
        backwards: plan.backwards,
        tiles: plan.tiling.tiles,
        stripes: plan.stripes.clone(),
        staging: plan
            .staging
            .iter()
            .filter_map(|staging| STAGING.iter().find(|(known, _)| known == staging).map(|(_, name)| *name))
            .collect(),
    }
}

/// What a search found.
#[pyclass(frozen, name = "Frontier")]
struct PyFrontier {
    frontier: Frontier,
    placements: u64,
    /// CPU seconds that the memory planner took of the search. For benches: nothing is decided by it.
    placement_seconds: f64,
}

#[pymethods]
impl PyFrontier {
    #[getter]
    fn proposals(&self) -> Vec<PyProposal> {
        self.frontier.proposals.iter().map(|p| PyProposal { proposal: p.clone() }).collect()
    }
    #[getter]
    fn plans_considered(&self) -> u64 {
        self.frontier.plans_considered
    }
    #[getter]
    fn proposals_considered(&self) -> u64 {
        self.frontier.proposals_considered
    }
    #[getter]
    fn uncascaded_bytes(&self) -> u64 {
        self.frontier.uncascaded_bytes
    }
    #[getter]
    fn stop_reason(&self) -> &'static str {
        match self.frontier.stopped {
            Stop::Complete => "complete",
            Stop::Width => "width",
        }
    }
    #[getter]
    fn epsilon(&self) -> (u64, u64) {
        (self.frontier.epsilon.parts, self.frontier.epsilon.of)
    }
    #[getter]
    fn placements(&self) -> u64 {
        self.placements
    }
    #[getter]
    fn placement_seconds(&self) -> f64 {
        self.placement_seconds
    }
    fn __repr__(&self) -> String {
        format!("Frontier({} proposals)", self.frontier.proposals.len())
    }
}

/// Largest resolution that is told apart from 0, which leaves out nothing.
const FINEST_RESOLUTION: u64 = 1 << 20;

/// Search all Plans and Proposals of a graph; options left out keep their defaults. Only where no resolution is given, a
/// cheap search is followed by a finer one.
#[pyfunction]
#[pyo3(signature = (graph, *, max_group=None, stripes=None, divisions=None, tiles=None, resolution=None, max_points=None))]
#[allow(clippy::too_many_arguments)]
fn search_cascades(
    py: Python<'_>,
    graph: &CascaderGraph,
    max_group: Option<usize>,
    stripes: Option<Vec<i64>>,
    divisions: Option<Vec<i64>>,
    tiles: Option<Vec<u32>>,
    resolution: Option<u64>,
    max_points: Option<usize>,
) -> PyResult<PyFrontier> {
    let defaults = Options::default();
    let options = Options {
        max_group: max_group.unwrap_or(defaults.max_group).max(1),
        stripes: stripes.unwrap_or(defaults.stripes),
        divisions: divisions.unwrap_or(defaults.divisions),
        tiles: tiles.unwrap_or(defaults.tiles),
        resolution: resolution.unwrap_or(defaults.resolution),
        max_points: max_points.unwrap_or_else(|| Options::points_for(resolution.unwrap_or(defaults.resolution))),
        refined_up_to: resolution.map_or(defaults.refined_up_to, |_| 0),
        ..defaults
    };
    if options.stripes.iter().chain(&options.divisions).any(|&s| s < 1) || options.tiles.contains(&0) {
        return Err(SchedulingError::new_err("stripes, divisions and tiles are at least 1"));
    }
    if options.resolution > FINEST_RESOLUTION {
        return Err(SchedulingError::new_err(format!("a resolution is at most {FINEST_RESOLUTION}")));
    }
    let clock = py.import("time")?.getattr("thread_time")?.unbind();
    let seconds = || Python::attach(|py| clock.call0(py)?.extract::<f64>(py)).unwrap_or(0.0);
    let (mut placements, mut placement_seconds) = (0, 0.0);
    let mut timed = |program: &Program| {
        let started = seconds();
        let bytes = place(program);
        placements += 1;
        placement_seconds += seconds() - started;
        bytes
    };
    let frontier = py.detach(|| search(&graph.graph, &options, &mut timed))?;
    Ok(PyFrontier { frontier, placements, placement_seconds })
}

/// Moves that the memory planner may try for one program, here and when the chosen one is placed for good.
const PLACEMENT_ITERATIONS: u32 = 200;

/// A program's buffers as the memory planner places them; unplaceable ones take everything.
fn place(program: &Program) -> Placement {
    let lifetime = |b: &Buffer| {
        let gaps = b.windows.iter().map(|w| usmp::Gap {
            lower: i64::from(w.first_step),
            upper: i64::from(w.last_step),
            window: Some((w.low, w.high)),
        });
        usmp::Lifetime::with_gaps(i64::from(b.first_step), i64::from(b.last_step), gaps.collect())
    };
    let buffers = program.buffers.iter().map(|b| usmp::Buffer::new(b.size_bytes, ALIGNMENT, lifetime(b))).collect();
    let pool = usmp::Pool { alignment: ALIGNMENT, ..usmp::Pool::unbounded() };
    let params = usmp::Params { iterations: PLACEMENT_ITERATIONS, ..usmp::Params::default() };
    let found = usmp::plan(&usmp::Problem { buffers, pools: vec![pool] }, &params);
    found.map_or_else(
        |_| Placement { bytes: u64::MAX, offsets: vec![0; program.buffers.len()] },
        |solution| {
            let offsets = solution.placement.slots.iter().map(|slot| slot.offset).collect();
            Placement { bytes: aligned(solution.placement.peaks[0]), offsets }
        },
    )
}

/// Steps, buffers, and the buffer of each tensor.
type ProgramTuple<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Vec<Option<u32>>);

/// Steps and buffers of a set of Plans, as tuples (see `_core.pyi`).
#[pyfunction]
#[pyo3(signature = (graph, plans, prefetch_bytes=0))]
fn interleave_plans<'py>(
    py: Python<'py>,
    graph: &CascaderGraph,
    plans: Vec<PlanSpec>,
    prefetch_bytes: u64,
) -> PyResult<ProgramTuple<'py>> {
    let program = build_program(py, graph, plans, prefetch_bytes)?;
    let steps = PyList::empty(py);
    for step in &program.steps {
        steps.append(to_python_step(py, step)?)?;
    }
    let buffers = PyList::empty(py);
    for buffer in &program.buffers {
        let (kind, of) = match buffer.content {
            Content::Tensor(tensor) => ("tensor", tensor),
            Content::Rolling(tensor) => ("rolling", tensor),
            Content::Constants(part) => ("weights", part),
            Content::Workspace(part) => ("workspace", part),
        };
        let windows: Vec<_> = buffer.windows.iter().map(|w| (w.first_step, w.last_step, w.low, w.high)).collect();
        buffers.append((kind, of, buffer.size_bytes, buffer.first_step, buffer.last_step, windows))?;
    }
    Ok((steps, buffers, program.tensor_buffers))
}

fn build_program(
    py: Python<'_>,
    graph: &CascaderGraph,
    plans: Vec<PlanSpec>,
    prefetch_bytes: u64,
) -> PyResult<Program> {
    let plans = plans.into_iter().map(PlanSpec::build).collect::<PyResult<Vec<_>>>()?;
    let built = py.detach(|| {
        let mut program = interleave(&graph.graph, &plans, &mut Costs::default())?;
        prefetch(&graph.graph, &mut program, prefetch_bytes);
        Ok::<_, PlanError>(program)
    })?;
    Ok(built)
}

fn to_python_view(view: &View) -> (u32, [i64; 4], [i64; 2], [i64; 2]) {
    let [rows, columns] = view.region.spans;
    (view.buffer, [rows.start, rows.end, columns.start, columns.end], view.capacity, view.origin)
}

fn to_python_step<'py>(py: Python<'py>, step: &Step) -> PyResult<Bound<'py, PyTuple>> {
    match step {
        Step::Copy { part, buffer, slice, cycles } => ("copy", *part, *buffer, *slice, *cycles).into_pyobject(py),
        Step::Call { part, workspace } => ("call", *part, *workspace).into_pyobject(py),
        Step::Stripe(stripe) => {
            let inputs: Vec<_> = stripe.inputs.iter().map(to_python_view).collect();
            let output = to_python_view(&stripe.output);
            (
                "stripe",
                stripe.part,
                inputs,
                output,
                stripe.padding,
                stripe.cost.block,
                stripe.constants,
                stripe.slice,
                stripe.cost.cycles,
            )
                .into_pyobject(py)
        }
    }
}

/// Modelled cycles of the program of a set of Plans, placed as a Proposal's is.
#[pyfunction]
#[pyo3(signature = (graph, plans, prefetch_bytes=0))]
fn clock_plans(py: Python<'_>, graph: &CascaderGraph, plans: Vec<PlanSpec>, prefetch_bytes: u64) -> PyResult<u64> {
    let program = build_program(py, graph, plans, prefetch_bytes)?;
    let clock = || Costs::default().program(&graph.graph, &program, &place(&program).offsets);
    Ok(py.detach(clock))
}

/// Prove the program of a set of Plans right; raises `SchedulingError` with the first complaint.
#[pyfunction]
#[pyo3(signature = (graph, plans, prefetch_bytes=0))]
fn check_plans(py: Python<'_>, graph: &CascaderGraph, plans: Vec<PlanSpec>, prefetch_bytes: u64) -> PyResult<()> {
    let program = build_program(py, graph, plans, prefetch_bytes)?;
    Ok(py.detach(|| check(&graph.graph, &program))?)
}

/// (OFM block depth, part-kernel-first) of weights to be read in place, and of weights to be staged; None if nothing fits.
#[pyfunction]
fn choose_weight_encoding(
    device: DeviceSpec<'_>,
    kernel: KernelSpec,
    plane: [i64; 2],
    layouts: (String, String),
) -> PyResult<Option<[Order; 2]>> {
    let layouts = [layout_of(&layouts.0)?, layout_of(&layouts.1)?];
    Ok(choose_encoding(&device.build()?, &kernel.build()?, plane, layouts))
}

/// Cycles, and (depth, pixels) of blocks.
type FloorTuple = (u64, u64, u64, u64, Vec<(i64, i64)>);

/// What an NPU Part costs at least in any schedule: cycles of the MAC engine, of the MAC engine in proportion to the output,
/// of the output stage, and of the Part in one piece; and by depth the most pixels of its blocks, where it has weights. None
/// if it is opaque or the device is described by data.
#[pyfunction]
fn part_floor(graph: &CascaderGraph, part: u32) -> PyResult<Option<FloorTuple>> {
    if part as usize >= graph.graph.parts.len() {
        return Err(SchedulingError::new_err(format!("there is no part {part}")));
    }
    Ok(floor(&graph.graph, part).map(|floor| (floor.mac, floor.dense, floor.output, floor.in_one_piece, floor.planes)))
}

/// Input stripe shape and start of a propagator, before clamping.
#[pyfunction]
fn propagate(propagator: PropagatorSpec, shape: [i64; 4], start: [i64; 4]) -> ([i64; 4], [i64; 4]) {
    let propagator = propagator.build();
    (propagator.shape(shape), propagator.start(start))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("SchedulingError", module.py().get_type::<SchedulingError>())?;
    module.add("PLACEMENT_ITERATIONS", PLACEMENT_ITERATIONS)?;
    module.add("FINEST_RESOLUTION", FINEST_RESOLUTION)?;
    module.add_class::<CascaderGraph>()?;
    module.add_class::<PyPlan>()?;
    module.add_class::<PyProposal>()?;
    module.add_class::<PyFrontier>()?;
    module.add_function(wrap_pyfunction!(search_cascades, module)?)?;
    module.add_function(wrap_pyfunction!(interleave_plans, module)?)?;
    module.add_function(wrap_pyfunction!(clock_plans, module)?)?;
    module.add_function(wrap_pyfunction!(check_plans, module)?)?;
    module.add_function(wrap_pyfunction!(choose_weight_encoding, module)?)?;
    module.add_function(wrap_pyfunction!(part_floor, module)?)?;
    module.add_function(wrap_pyfunction!(propagate, module)?)?;
    Ok(())
}
