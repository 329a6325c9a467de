//! The core's errors as `ethoscade.errors.SchedulingError`, with what each of them knows as attributes.
//!
//! Owns this mapping. A variant that is added to the core does not compile until it has a place here.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::checker::Complaint;
use crate::model::graph::GraphError;
use crate::schedule::legal_plans::PlanError;
use crate::search::arena::ArenaError;
use crate::search::error::SearchError;

/// What an error says besides its sentence: attributes of the exception, by name.
type Attributes<'py> = Bound<'py, PyDict>;

/// A `SchedulingError` of this kind of `fault`.
fn raised(message: String, fault: &str, fill: impl FnOnce(&Attributes) -> PyResult<()>) -> PyErr {
    Python::attach(|py| {
        let built = || {
            let attributes = PyDict::new(py);
            attributes.set_item("fault", fault)?;
            fill(&attributes)?;
            py.import("ethoscade.errors")?.getattr("SchedulingError")?.call((message,), Some(&attributes))
        };
        built().map_or_else(|error| error, PyErr::from_value)
    })
}

/// A name that is none of those `expected` for a kind of thing; none are listed where another crate owns them.
pub fn unknown(what: &str, name: &str, expected: &[&str]) -> PyErr {
    let choose = if expected.is_empty() { String::new() } else { format!("; choose one of {}", expected.join(", ")) };
    raised(format!("unknown {what} '{name}'{choose}"), "name", |set| {
        set.set_item("value", name)?;
        set.set_item("expected", expected)
    })
}

/// Which of the names there are for a kind of thing it is.
///
/// # Errors
/// A `SchedulingError` that lists them.
pub fn known(what: &str, name: &str, names: &[&str]) -> PyResult<usize> {
    names.iter().position(|&known| known == name).ok_or_else(|| unknown(what, name, names))
}

/// A number, or a count, that is not what it may be.
pub fn too_many(message: String, value: impl TryInto<u64>, limit: impl TryInto<u64>) -> PyErr {
    let (value, limit) = (value.try_into().unwrap_or(u64::MAX), limit.try_into().unwrap_or(u64::MAX));
    raised(message, "range", |set| {
        set.set_item("value", value)?;
        set.set_item("limit", limit)
    })
}

/// Figures of an operation that contradict each other, or that no operation has.
pub fn impossible(message: impl Into<String>) -> PyErr {
    raised(message.into(), "operation", |_| Ok(()))
}

/// Lengths of an operation, of which some are none.
pub fn no_extent(message: String, value: impl for<'py> IntoPyObject<'py>) -> PyErr {
    raised(message, "extent", |set| {
        set.set_item("value", value)?;
        set.set_item("expected", 1)
    })
}

impl From<GraphError> for PyErr {
    fn from(error: GraphError) -> PyErr {
        let message = error.to_string();
        match error {
            GraphError::NoSuchTensor { part, tensor, count } => raised(message, "no_such_tensor", |set| {
                set.set_item("part", part)?;
                set.set_item("value", tensor.0)?;
                set.set_item("limit", count)
            }),
            GraphError::Order { tensor, fault, part } => raised(message, "order", |set| {
                set.set_item("part", part)?;
                set.set_item("tensor", tensor)?;
                set.set_item("value", fault)
            }),
            GraphError::Outputs { part, count } => raised(message, "outputs", |set| {
                set.set_item("part", part)?;
                set.set_item("value", count)?;
                set.set_item("expected", 1)
            }),
            GraphError::Inputs { part, count, expected } => raised(message, "inputs", |set| {
                set.set_item("part", part)?;
                set.set_item("value", count)?;
                set.set_item("expected", expected)
            }),
            GraphError::View { tensor, part, fault } => raised(message, "view", |set| {
                set.set_item("part", part)?;
                set.set_item("tensor", tensor)?;
                set.set_item("value", fault)
            }),
            GraphError::Operation { part, fault } => raised(message, "operation", |set| {
                set.set_item("part", part)?;
                set.set_item("value", fault)
            }),
            GraphError::Update { tensor, fault, .. } => raised(message, "update", |set| {
                set.set_item("tensor", tensor)?;
                set.set_item("value", fault)
            }),
            GraphError::External { tensor, .. } => raised(message, "external", |set| set.set_item("tensor", tensor)),
            GraphError::Feed { part, .. } => raised(message, "feed", |set| set.set_item("part", part)),
            GraphError::Take { part, .. } => raised(message, "take", |set| set.set_item("part", part)),
            GraphError::Empty { tensor } => raised(message, "empty", |set| set.set_item("tensor", tensor)),
        }
    }
}

impl From<PlanError> for PyErr {
    fn from(error: PlanError) -> PyErr {
        let message = error.to_string();
        match error {
            PlanError::Cover { plan, first, last, expected, count } => raised(message, "cover", |set| {
                set.set_item("group", plan)?;
                set.set_item("value", (first.0, last.0))?;
                set.set_item("expected", expected.0)?;
                set.set_item("limit", count)
            }),
            PlanError::Decision { plan, fault } => raised(message, "decision", |set| {
                set.set_item("group", plan)?;
                set.set_item("value", fault)
            }),
            PlanError::Block { part, height, width } => raised(message, "block", |set| {
                set.set_item("part", part)?;
                set.set_item("value", (height, width))
            }),
        }
    }
}

impl From<ArenaError> for PyErr {
    fn from(error: ArenaError) -> PyErr {
        let message = error.to_string();
        let ArenaError { buffers: _, bytes, largest, largest_bytes: _, pool, reason: _ } = error;
        raised(message, "arena", |set| {
            set.set_item("buffer", largest.0)?;
            set.set_item("pool", pool)?;
            set.set_item("value", bytes)
        })
    }
}

impl From<SearchError> for PyErr {
    fn from(error: SearchError) -> PyErr {
        match error {
            SearchError::Plan(error) => error.into(),
            SearchError::Arena(error) => error.into(),
            SearchError::IssueOrder => raised(error.to_string(), "issue_order", |_| Ok(())),
            SearchError::Placement => raised(error.to_string(), "placement", |_| Ok(())),
        }
    }
}

impl From<Complaint> for PyErr {
    fn from(error: Complaint) -> PyErr {
        let message = error.to_string();
        let at = |set: &Attributes, step: usize, part: String| -> PyResult<()> {
            set.set_item("step", step)?;
            set.set_item("part", part)
        };
        let of = |set: &Attributes, tensor: String, pixel: (i64, i64)| -> PyResult<()> {
            set.set_item("tensor", tensor)?;
            set.set_item("pixel", pixel)
        };
        match error {
            Complaint::Missing { step, part, tensor, y, x } => raised(message, "missing", |set| {
                at(set, step, part)?;
                of(set, tensor, (y, x))
            }),
            Complaint::Uncovered { step, part, tensor, y, x } => raised(message, "uncovered", |set| {
                at(set, step, part)?;
                of(set, tensor, (y, x))
            }),
            Complaint::Elsewhere { step, part, tensor, found, expected } => raised(message, "elsewhere", |set| {
                at(set, step, part)?;
                set.set_item("tensor", tensor)?;
                set.set_item("value", (found[0], found[1]))?;
                set.set_item("expected", (expected[0], expected[1]))
            }),
            Complaint::Reshaped { step, part, tensor } => raised(message, "reshaped", |set| {
                at(set, step, part)?;
                set.set_item("tensor", tensor)
            }),
            Complaint::Padding { step, part, found, expected } => raised(message, "padding", |set| {
                at(set, step, part)?;
                set.set_item("value", found)?;
                set.set_item("expected", expected)
            }),
            Complaint::Unordered { step, tensor, next, start } => raised(message, "unordered", |set| {
                set.set_item("step", step)?;
                set.set_item("tensor", tensor)?;
                set.set_item("value", start)?;
                set.set_item("expected", next)
            }),
            Complaint::Repeated { step, part, tensor, y, x } => raised(message, "repeated", |set| {
                at(set, step, part)?;
                of(set, tensor, (y, x))
            }),
            Complaint::Beside { step, part } => raised(message, "beside", |set| at(set, step, part)),
            Complaint::Incomplete { tensor, y, x } => raised(message, "incomplete", |set| of(set, tensor, (y, x))),
            Complaint::Lifetime { step, buffer, first, last } => raised(message, "lifetime", |set| {
                set.set_item("step", step)?;
                set.set_item("buffer", buffer.0)?;
                set.set_item("expected", (first, last))
            }),
            Complaint::Dead { step, buffer, y } => raised(message, "dead", |set| {
                set.set_item("step", step)?;
                set.set_item("buffer", buffer.0)?;
                set.set_item("value", y)
            }),
            Complaint::Size { buffer, size_bytes, needed_bytes } => raised(message, "size", |set| {
                set.set_item("buffer", buffer.0)?;
                set.set_item("value", size_bytes)?;
                set.set_item("expected", needed_bytes)
            }),
            Complaint::Halved { step, part, y, x } => raised(message, "halved", |set| {
                at(set, step, part)?;
                set.set_item("pixel", (y, x))
            }),
            Complaint::Slot { step, part, bytes, slot } => raised(message, "slot", |set| {
                at(set, step, part)?;
                set.set_item("value", (slot, bytes))
            }),
            Complaint::Unloaded { step, part, table } => raised(message, "unloaded", |set| {
                at(set, step, part)?;
                set.set_item("value", table.0)
            }),
            Complaint::NotThere { step, tensor, buffer, y, x } => raised(message, "not_there", |set| {
                set.set_item("step", step)?;
                set.set_item("buffer", buffer.0)?;
                of(set, tensor, (y, x))
            }),
            Complaint::Misplaced { buffer, pool } => raised(message, "misplaced", |set| {
                set.set_item("buffer", buffer.0)?;
                set.set_item("pool", pool)
            }),
            Complaint::Beyond { buffer, pool, needed_bytes, limit_bytes } => raised(message, "beyond", |set| {
                set.set_item("buffer", buffer.0)?;
                set.set_item("pool", pool)?;
                set.set_item("value", needed_bytes)?;
                set.set_item("limit", limit_bytes)
            }),
            Complaint::Unstaged { step, part } => raised(message, "unstaged", |set| at(set, step, part)),
        }
    }
}
