//! How what is handed out is pickled: `__reduce__` gives the class, and the arguments that `new` makes it of again.
//!
//! Owns the class's name. The arguments are each class's own.

use pyo3::prelude::*;
use pyo3::PyTypeInfo;

/// A class, as `__reduce__` names it.
pub fn class<T: PyTypeInfo>(py: Python<'_>) -> Py<PyAny> {
    py.get_type::<T>().into_any().unbind()
}
