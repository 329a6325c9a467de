//! Plans in both directions: decisions that Python brings, and those that the search made.

use pyo3::prelude::*;

use super::error::known;
use crate::model::ids::PartId;
use crate::model::plan::{CopiedTensor, Plan, Staging};
use crate::python::pickling::class;
use crate::stripe::{Axis, Tiling};

const AXES: [Axis; 2] = [Axis::Height, Axis::Width];
const STAGINGS: [Staging; 3] = [Staging::InPlace, Staging::Whole, Staging::Sliced];

fn axis_name(axis: Axis) -> &'static str {
    match axis {
        Axis::Height => "height",
        Axis::Width => "width",
    }
}

fn staging_name(staging: Staging) -> &'static str {
    match staging {
        Staging::InPlace => "in_place",
        Staging::Whole => "whole",
        Staging::Sliced => "sliced",
    }
}

fn axis_of(name: &str) -> PyResult<Axis> {
    Ok(AXES[known("axis", name, &AXES.map(axis_name))?])
}

fn staging_of(name: &str) -> PyResult<Staging> {
    Ok(STAGINGS[known("staging", name, &STAGINGS.map(staging_name))?])
}

#[derive(FromPyObject)]
pub struct PlanSpec {
    first: u32,
    last: u32,
    roll: String,
    backwards: bool,
    tiles: u32,
    stripes: Vec<i64>,
    staging: Vec<String>,
    copied: Vec<CopiedFields>,
}

/// A Part, and the operand that is copied before the group; None where the output is copied after it.
type CopiedFields = (u32, Option<u32>);

impl PlanSpec {
    /// The core's Plan.
    pub fn build(self) -> PyResult<Plan> {
        let tiling = Tiling { roll: axis_of(&self.roll)?, tiles: self.tiles };
        let staging = self.staging.iter().map(|name| staging_of(name)).collect::<PyResult<_>>()?;
        let PlanSpec { first, last, backwards, stripes, copied, .. } = self;
        let of = |(part, operand): CopiedFields| match operand {
            Some(operand) => CopiedTensor::Read(PartId(part), operand),
            None => CopiedTensor::Write(PartId(part)),
        };
        let copied = copied.into_iter().map(of).collect();
        Ok(Plan { first: PartId(first), last: PartId(last), tiling, backwards, stripes, staging, copied })
    }
}

/// Decisions for one group of Parts.
#[derive(PartialEq, Eq, Hash)]
#[pyclass(frozen, get_all, eq, hash, name = "Plan", module = "ethoscade._core")]
pub struct PyPlan {
    first: u32,
    last: u32,
    roll: &'static str,
    backwards: bool,
    tiles: u32,
    stripes: Vec<i64>,
    staging: Vec<&'static str>,
    copied: Vec<CopiedFields>,
}

impl From<&Plan> for PyPlan {
    fn from(plan: &Plan) -> PyPlan {
        PyPlan {
            first: plan.first.0,
            last: plan.last.0,
            roll: axis_name(plan.tiling.roll),
            backwards: plan.backwards,
            tiles: plan.tiling.tiles,
            stripes: plan.stripes.clone(),
            staging: plan.staging.iter().copied().map(staging_name).collect(),
            copied: plan.copied.iter().map(copied_fields).collect(),
        }
    }
}

fn copied_fields(copied: &CopiedTensor) -> CopiedFields {
    match *copied {
        CopiedTensor::Read(part, operand) => (part.0, Some(operand)),
        CopiedTensor::Write(part) => (part.0, None),
    }
}

type PlanTuple = (u32, u32, &'static str, bool, u32, Vec<i64>, Vec<&'static str>, Vec<CopiedFields>);

#[pymethods]
impl PyPlan {
    #[new]
    #[pyo3(signature = (first, last, roll, backwards, tiles, stripes, staging, copied=Vec::new()))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        first: u32,
        last: u32,
        roll: String,
        backwards: bool,
        tiles: u32,
        stripes: Vec<i64>,
        staging: Vec<String>,
        copied: Vec<CopiedFields>,
    ) -> PyResult<PyPlan> {
        let plan = PlanSpec { first, last, roll, backwards, tiles, stripes, staging, copied }.build()?;
        Ok(PyPlan::from(&plan))
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, PlanTuple) {
        let PyPlan { first, last, roll, backwards, tiles, .. } = *self;
        let fields =
            (first, last, roll, backwards, tiles, self.stripes.clone(), self.staging.clone(), self.copied.clone());
        (class::<PyPlan>(py), fields)
    }
    fn __repr__(&self) -> String {
        format!(
            "Plan(parts {}..={}, rolls along {}, {} bands, stripes {:?})",
            self.first, self.last, self.roll, self.tiles, self.stripes
        )
    }
}
