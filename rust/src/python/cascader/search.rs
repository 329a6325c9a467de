//! The search, its options and what it found.

use pyo3::prelude::*;

use super::error::SchedulingError;
use super::graph::CascaderGraph;
use super::plan::{PlanSpec, PyPlan};
use crate::model::plan::Proposal;
use crate::model::program::Program;
use crate::plans::options::Options;
use crate::proposals::arena::place_within;
use crate::proposals::{search, Frontier, Stop};
use crate::python::interruptible;
use crate::python::pickling::class;
use crate::util::pareto::Epsilon;

/// What a Proposal is made of again: bytes, cycles, the two limits of early copies, Plans.
type ProposalFields = (u64, u64, u64, u64, Vec<PyPlan>);

/// A way to run the network, with what it promises.
#[derive(PartialEq, Eq)]
#[pyclass(frozen, eq, name = "Proposal", module = "ethoscade._core")]
struct PyProposal {
    proposal: Proposal,
}

#[pymethods]
impl PyProposal {
    #[new]
    fn new(
        sram_bytes: u64,
        cycles: u64,
        prefetch_bytes: u64,
        fill_bytes: u64,
        plans: Vec<PlanSpec>,
    ) -> PyResult<PyProposal> {
        let plans = plans.into_iter().map(PlanSpec::build).collect::<PyResult<_>>()?;
        Ok(PyProposal { proposal: Proposal { plans, prefetch_bytes, fill_bytes, sram_bytes, cycles } })
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, ProposalFields) {
        let Proposal { sram_bytes, cycles, prefetch_bytes, fill_bytes, .. } = self.proposal;
        (class::<PyProposal>(py), (sram_bytes, cycles, prefetch_bytes, fill_bytes, self.plans()))
    }
    fn __hash__(&self) -> u64 {
        self.proposal.sram_bytes ^ self.proposal.cycles.rotate_left(32)
    }
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
    fn fill_bytes(&self) -> u64 {
        self.proposal.fill_bytes
    }
    #[getter]
    fn plans(&self) -> Vec<PyPlan> {
        self.proposal.plans.iter().map(PyPlan::from).collect()
    }
    fn __repr__(&self) -> String {
        let p = &self.proposal;
        format!("Proposal({} bytes, {} cycles, {} plans)", p.sram_bytes, p.cycles, p.plans.len())
    }
}

/// What a search found.
#[pyclass(frozen, name = "Frontier", module = "ethoscade._core")]
struct PyFrontier {
    frontier: Frontier,
    placements: u64,
    /// CPU seconds that the memory planner took of the search. For benches: nothing is decided by it.
    placement_seconds: f64,
}

/// Proposals, Plans and Proposals considered, uncascaded bytes, stop reason, epsilon, placements and their seconds.
type FrontierTuple = (Vec<PyProposal>, u64, u64, u64, &'static str, (u64, u64), u64, f64);

#[pymethods]
impl PyFrontier {
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        proposals: Vec<PyRef<'_, PyProposal>>,
        plans_considered: u64,
        proposals_considered: u64,
        uncascaded_bytes: u64,
        stop_reason: &str,
        epsilon: (u64, u64),
        placements: u64,
        placement_seconds: f64,
    ) -> PyResult<PyFrontier> {
        let unknown = || SchedulingError::new_err(format!("unknown stop reason '{stop_reason}'"));
        let stopped = STOPS.into_iter().find(|&stop| stop_name(stop) == stop_reason).ok_or_else(unknown)?;
        let frontier = Frontier {
            proposals: proposals.iter().map(|proposal| proposal.proposal.clone()).collect(),
            plans_considered,
            proposals_considered,
            uncascaded_bytes,
            stopped,
            epsilon: Epsilon { parts: epsilon.0, of: epsilon.1 },
        };
        Ok(PyFrontier { frontier, placements, placement_seconds })
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, FrontierTuple) {
        let Frontier { plans_considered, proposals_considered, uncascaded_bytes, .. } = self.frontier;
        let looked_at = (plans_considered, proposals_considered);
        let placing = (self.placements, self.placement_seconds);
        let fields = (
            self.proposals(),
            looked_at.0,
            looked_at.1,
            uncascaded_bytes,
            self.stop_reason(),
            self.epsilon(),
            placing.0,
            placing.1,
        );
        (class::<PyFrontier>(py), fields)
    }
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
        stop_name(self.frontier.stopped)
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

const STOPS: [Stop; 3] = [Stop::Complete, Stop::Width, Stop::Work];

fn stop_name(stop: Stop) -> &'static str {
    match stop {
        Stop::Complete => "complete",
        Stop::Width => "width",
        Stop::Work => "work",
    }
}

/// Largest resolution that is told apart from 0, which leaves out nothing.
const FINEST_RESOLUTION: u64 = 1 << 20;

/// Search all Plans and Proposals of a graph; options left out keep their defaults. Only where no resolution is given, a
/// cheap search is followed by a finer one. `tuning` sets figures of the options by name, for benches. `tick` is called now and then; what it raises ends the search.
#[pyfunction]
#[pyo3(signature = (graph, *, max_group=None, resolution=None, budget_bytes=None, tuning=Vec::new(), tick=None))]
fn search_cascades(
    py: Python<'_>,
    graph: &CascaderGraph,
    max_group: Option<usize>,
    resolution: Option<u64>,
    budget_bytes: Option<u64>,
    tuning: Vec<(String, u64)>,
    tick: Option<Py<PyAny>>,
) -> PyResult<PyFrontier> {
    let defaults = Options::default();
    let mut options = Options {
        max_group: max_group.unwrap_or(defaults.max_group).max(1),
        resolution: resolution.unwrap_or(defaults.resolution),
        max_points: defaults.points_for(resolution.unwrap_or(defaults.resolution)),
        refined_up_to: resolution.map_or(defaults.refined_up_to, |_| 0),
        budget_bytes,
        ..defaults
    };
    for (name, value) in &tuning {
        options.tune(name, *value).map_err(SchedulingError::new_err)?;
    }
    if options.resolution > FINEST_RESOLUTION {
        return Err(SchedulingError::new_err(format!("a resolution is at most {FINEST_RESOLUTION}")));
    }
    let clock = py.import("time")?.getattr("thread_time")?.unbind();
    let seconds = || Python::attach(|py| clock.call0(py)?.extract::<f64>(py)).unwrap_or(0.0);
    let (mut placements, mut placement_seconds) = (0, 0.0);
    let mut timed = |program: &Program| {
        let started = seconds();
        let bytes = place_within(program, options.placing.iterations);
        placements += 1;
        placement_seconds += seconds() - started;
        bytes
    };
    let frontier = interruptible::run(py, tick.as_ref(), || search(&graph.graph, &options, &mut timed))??;
    Ok(PyFrontier { frontier, placements, placement_seconds })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("FINEST_RESOLUTION", FINEST_RESOLUTION)?;
    module.add_class::<PyPlan>()?;
    module.add_class::<PyProposal>()?;
    module.add_class::<PyFrontier>()?;
    module.add_function(wrap_pyfunction!(search_cascades, module)?)
}
