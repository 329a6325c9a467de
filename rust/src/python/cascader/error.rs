//! What the scheduler raises: one exception for every fault of a graph, a Plan or a program.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::checker::Complaint;
use crate::model::graph::GraphError;
use crate::schedule::interleave::PlanError;

create_exception!(
    ethoscade._core,
    SchedulingError,
    PyValueError,
    "A graph, Plan or program that does not hold together."
);

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
