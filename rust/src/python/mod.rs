//! The only module that knows pyo3: converts problems in, solutions out, and maps every error.
//!
//! One file or folder per room (`simulator`, `timing`, `usmp`, `devices`, `cascader`), each with a `register` function;
//! `interruptible` runs what may take long. What is handed out can be pickled: `__reduce__` gives the arguments that `new`
//! makes it of again.

use pyo3::prelude::*;
use pyo3::PyTypeInfo;

mod cascader;
mod devices;
mod interruptible;
mod simulator;
mod timing;
mod usmp;

/// A class, as `__reduce__` names it.
fn class<T: PyTypeInfo>(py: Python<'_>) -> Py<PyAny> {
    py.get_type::<T>().into_any().unbind()
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    cascader::register(module)?;
    devices::register(module)?;
    simulator::register(module)?;
    timing::register(module)?;
    usmp::register(module)?;
    Ok(())
}
