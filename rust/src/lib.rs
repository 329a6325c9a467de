//! The compiled heart of ethoscade: cascading scheduler, static memory planner and NPU simulator.
//!
//! Rooms, and who may use whom (an arrow reads "is used by"):
//! `stripe -> propagator -> performance -> graph -> costs -> program -> walk, lifetimes -> interleave, prefetch,
//! edge -> pareto -> plans -> proposals`.
//! `usmp`, `npu` and `checker` stand alone (the checker reads graphs and programs, never the search).
//! `rated` reads performance, graph and program, and is asked by `costs` alone. Only `python` knows pyo3.

mod block_overlap;
pub mod checker;
pub mod costs;
pub mod edge;
pub mod ethosu;
pub mod graph;
pub mod interleave;
pub mod lifetimes;
pub mod npu;
pub mod pareto;
pub mod performance;
pub mod plans;
pub mod prefetch;
pub mod program;
pub mod propagator;
pub mod proposals;
pub mod rated;
mod register_words;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod schedule_tests;
pub mod stripe;
pub mod timeline;
pub mod usmp;
pub mod walk;

#[cfg(feature = "python")]
mod python;
