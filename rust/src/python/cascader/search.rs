//! The search, its options and what it found.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use std::sync::Arc;

use super::arrangement::{self, IssueFields, IssueTuples, PlacementFields, PlacementTuples, PyArrangement};
use super::error::{self, known};
use super::graph::CascaderGraph;
use super::plan::{PlanSpec, PyPlan};
use crate::model::plan::Proposal;
use crate::plans::options::{Options, MOST_TUNED, TUNED};
use crate::python::interruptible;
use crate::python::pickling::class;
use crate::search::{arrange, Frontier, Goal, Search, Stop};
use crate::util::pareto::Epsilon;

/// What a Proposal is made of again: cycles, Plans, issue order, placement.
type ProposalFields<'py> = (u64, Vec<PyPlan>, Option<IssueTuples<'py>>, PlacementTuples<'py>);

/// A way to run the network, with what it promises.
#[derive(Clone, PartialEq)]
#[pyclass(frozen, eq, name = "Proposal", module = "ethoscade._core", skip_from_py_object)]
struct PyProposal {
    proposal: Proposal,
}

#[pymethods]
impl PyProposal {
    #[new]
    #[pyo3(signature = (cycles, plans, issue_order, placement))]
    fn new(
        cycles: u64,
        plans: Vec<PlanSpec>,
        issue_order: Option<IssueFields>,
        placement: PlacementFields,
    ) -> PyResult<PyProposal> {
        let plans = plans.into_iter().map(PlanSpec::build).collect::<PyResult<_>>()?;
        let issue_order = issue_order.map(arrangement::issue_order);
        let proposal = Proposal { plans, issue_order, placement: arrangement::placement(placement), cycles };
        Ok(PyProposal { proposal })
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Py<PyAny>, ProposalFields<'py>)> {
        let fields = (self.proposal.cycles, self.plans(), self.issue_order(py)?, self.placement(py)?);
        Ok((class::<PyProposal>(py), fields))
    }
    fn __hash__(&self) -> u64 {
        self.proposal.sram_bytes() ^ self.proposal.cycles.rotate_left(32)
    }
    #[getter]
    fn sram_bytes(&self) -> u64 {
        self.proposal.sram_bytes()
    }
    #[getter]
    fn cycles(&self) -> u64 {
        self.proposal.cycles
    }
    #[getter]
    fn plans(&self) -> Vec<PyPlan> {
        self.proposal.plans.iter().map(PyPlan::from).collect()
    }
    #[getter]
    fn issue_order<'py>(&self, py: Python<'py>) -> PyResult<Option<IssueTuples<'py>>> {
        self.proposal.issue_order.as_ref().map(|order| arrangement::issue_tuples(py, order)).transpose()
    }
    #[getter]
    fn placement<'py>(&self, py: Python<'py>) -> PyResult<PlacementTuples<'py>> {
        arrangement::placement_tuples(py, &self.proposal.placement)
    }
    /// Its program and where everything lies.
    #[pyo3(signature = (graph, tick=None))]
    fn arrangement(&self, py: Python<'_>, graph: &CascaderGraph, tick: Option<Py<PyAny>>) -> PyResult<PyArrangement> {
        let Proposal { plans, issue_order, placement, .. } = &self.proposal;
        let work = || arrange(&graph.graph, plans, issue_order.as_ref(), Some(placement));
        PyArrangement::of(py, graph, &interruptible::run(py, tick.as_ref(), work)??)
    }
    fn __repr__(&self) -> String {
        let p = &self.proposal;
        format!("Proposal({} bytes, {} cycles, {} plans)", p.sram_bytes(), p.cycles, p.plans.len())
    }
}

/// What a search found.
#[pyclass(frozen, name = "Frontier", module = "ethoscade._core")]
struct PyFrontier {
    frontier: Frontier,
    proposals: Py<PyTuple>,
}

#[pymethods]
impl PyFrontier {
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        proposals: Vec<Bound<'_, PyProposal>>,
        plans_considered: u64,
        proposals_considered: u64,
        uncascaded_bytes: u64,
        uncascaded_cycles: u64,
        stop_reason: &str,
        epsilon: (u64, u64),
        placements: u64,
        floor_is_bound: bool,
    ) -> PyResult<PyFrontier> {
        let frontier = Frontier {
            proposals: Vec::new(),
            plans_considered,
            proposals_considered,
            uncascaded_bytes,
            uncascaded_cycles,
            placements,
            stopped: STOPS[known("stop reason", stop_reason, &STOPS.map(stop_name))?],
            epsilon: Epsilon { parts: epsilon.0, of: epsilon.1 },
            floor_is_bound,
        };
        Ok(PyFrontier { frontier, proposals: PyTuple::new(py, proposals)?.unbind() })
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Py<PyAny>, Bound<'py, PyTuple>)> {
        let Frontier { plans_considered, proposals_considered, uncascaded_bytes, uncascaded_cycles, .. } =
            self.frontier;
        let fields = (
            self.proposals(py),
            plans_considered,
            proposals_considered,
            uncascaded_bytes,
            uncascaded_cycles,
            self.stop_reason(),
            self.epsilon(),
            self.placements(),
            self.floor_is_bound(),
        );
        Ok((class::<PyFrontier>(py), fields.into_pyobject(py)?))
    }
    #[getter]
    fn proposals(&self, py: Python<'_>) -> Py<PyTuple> {
        self.proposals.clone_ref(py)
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
    fn uncascaded_cycles(&self) -> u64 {
        self.frontier.uncascaded_cycles
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
        self.frontier.placements
    }
    #[getter]
    fn floor_is_bound(&self) -> bool {
        self.frontier.floor_is_bound
    }
    fn __repr__(&self, py: Python<'_>) -> String {
        format!("Frontier({} proposals)", self.proposals.bind(py).len())
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

/// Largest resolution; a larger one counts as 0, which leaves out nothing.
const FINEST_RESOLUTION: u64 = 1 << 20;

/// Options by what Python gives of them.
fn options_of(max_group: Option<usize>, resolution: Option<u64>, tuning: &[(String, u64)]) -> PyResult<Options> {
    let defaults = Options::default();
    let mut options = Options {
        max_group: max_group.unwrap_or(defaults.max_group).max(1),
        resolution: resolution.unwrap_or(defaults.resolution),
        max_points: defaults.points_for(resolution.unwrap_or(defaults.resolution)),
        refined_up_to: resolution.map_or(defaults.refined_up_to, |_| 0),
        ..defaults
    };
    for (name, value) in tuning {
        let (_, least) = TUNED[known("option", name, &TUNED.map(|(name, _)| name))?];
        let limit = if *value < least { least } else { MOST_TUNED };
        options.tune(name, *value).map_err(|message| error::too_many(message, *value, limit))?;
    }
    if options.resolution > FINEST_RESOLUTION {
        let message = format!("a resolution is at most {FINEST_RESOLUTION}, not {}", options.resolution);
        return Err(error::too_many(message, options.resolution, FINEST_RESOLUTION));
    }
    Ok(options)
}

/// The search of one graph. What several goals need is made once and kept.
#[pyclass(frozen, name = "Search", module = "ethoscade._core")]
struct PySearch {
    search: Search,
}

impl PySearch {
    fn run(&self, py: Python<'_>, goal: Goal, tick: Option<&Py<PyAny>>) -> PyResult<PyFrontier> {
        let mut frontier = interruptible::run(py, tick, || self.search.run(goal))??;
        let found = std::mem::take(&mut frontier.proposals).into_iter().map(|proposal| PyProposal { proposal });
        let proposals = PyTuple::new(py, found.collect::<Vec<_>>())?.unbind();
        Ok(PyFrontier { frontier, proposals })
    }
}

#[pymethods]
impl PySearch {
    #[new]
    #[pyo3(signature = (graph, *, max_group=None, resolution=None, tuning=Vec::new()))]
    fn new(
        graph: &CascaderGraph,
        max_group: Option<usize>,
        resolution: Option<u64>,
        tuning: Vec<(String, u64)>,
    ) -> PyResult<PySearch> {
        let options = options_of(max_group, resolution, &tuning)?;
        Ok(PySearch { search: Search::new(Arc::clone(&graph.graph), options) })
    }
    /// Whether `budget_bytes` are enough.
    #[pyo3(signature = (budget_bytes, tick=None))]
    fn fits(&self, py: Python<'_>, budget_bytes: u64, tick: Option<Py<PyAny>>) -> PyResult<bool> {
        Ok(interruptible::run(py, tick.as_ref(), || self.search.fits(budget_bytes))??)
    }
    /// A first look at the frontier: (bytes, cycles) before anything is placed.
    #[pyo3(signature = (tick=None))]
    fn coarse_front(&self, py: Python<'_>, tick: Option<Py<PyAny>>) -> PyResult<Vec<(u64, u64)>> {
        Ok(interruptible::run(py, tick.as_ref(), || self.search.coarse_front())??)
    }
    /// The floor, and the fastest Proposal found within `budget_bytes` if that is no less.
    #[pyo3(signature = (budget_bytes, tick=None))]
    fn within(&self, py: Python<'_>, budget_bytes: u64, tick: Option<Py<PyAny>>) -> PyResult<PyFrontier> {
        self.run(py, Goal::Within(budget_bytes), tick.as_ref())
    }
    /// As `within`, and the fastest within half of the bytes of that. No budget is any number of bytes.
    #[pyo3(signature = (budget_bytes=None, tick=None))]
    fn fastest(&self, py: Python<'_>, budget_bytes: Option<u64>, tick: Option<Py<PyAny>>) -> PyResult<PyFrontier> {
        self.run(py, Goal::Fastest(budget_bytes.unwrap_or(Goal::ANY_BYTES)), tick.as_ref())
    }
    /// As `within`, and the smallest Proposal at most 1 % slower: the answer. And the fastest within half of its bytes. No
    /// budget is any number of bytes.
    #[pyo3(signature = (budget_bytes=None, tick=None))]
    fn nearly_fastest(
        &self,
        py: Python<'_>,
        budget_bytes: Option<u64>,
        tick: Option<Py<PyAny>>,
    ) -> PyResult<PyFrontier> {
        self.run(py, Goal::NearlyFastest(budget_bytes.unwrap_or(Goal::ANY_BYTES)), tick.as_ref())
    }
    /// The Proposal of fewest bytes.
    #[pyo3(signature = (tick=None))]
    fn floor(&self, py: Python<'_>, tick: Option<Py<PyAny>>) -> PyResult<PyFrontier> {
        self.run(py, Goal::Floor, tick.as_ref())
    }
    /// Every Pareto-efficient Proposal.
    #[pyo3(signature = (tick=None))]
    fn frontier(&self, py: Python<'_>, tick: Option<Py<PyAny>>) -> PyResult<PyFrontier> {
        self.run(py, Goal::Front, tick.as_ref())
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("FINEST_RESOLUTION", FINEST_RESOLUTION)?;
    module.add_class::<PyPlan>()?;
    module.add_class::<PyProposal>()?;
    module.add_class::<PyFrontier>()?;
    module.add_class::<PySearch>()
}
