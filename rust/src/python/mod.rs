//! The only module that knows pyo3: converts problems in, solutions out, and maps every error.
//!
//! One file or folder per room (`simulator`, `dataflow`, `streams`, `timing`, `usmp`, `weights`, `devices`, `cascader`,
//! `block_dependency`), each with a `register` function;
//! `interruptible` runs what may take long, `pickling` names classes for `__reduce__`.

use pyo3::prelude::*;

mod block_dependency;
mod cascader;
mod dataflow;
mod devices;
mod interruptible;
mod pickling;
mod simulator;
mod streams;
mod timing;
mod usmp;
mod weights;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    block_dependency::register(module)?;
    cascader::register(module)?;
    dataflow::register(module)?;
    devices::register(module)?;
    simulator::register(module)?;
    streams::register(module)?;
    timing::register(module)?;
    usmp::register(module)?;
    weights::register(module)?;
    Ok(())
}
