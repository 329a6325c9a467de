//! The compiled heart of ethoscade: cascading scheduler, static memory planner and NPU simulator.
//!
//! Rooms, and who may use whom (an arrow reads "is used by"):
//! `stripe -> propagator -> graph, performance -> pareto -> plans -> proposals`.
//! `usmp`, `checker` and `npu` stand alone. Only `python` knows pyo3.

pub mod npu;
pub mod usmp;

#[cfg(feature = "python")]
mod python;
