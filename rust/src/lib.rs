//! The compiled heart of ethoscade: cascading scheduler, static memory planner and NPU simulator.
//!
//! Rooms, and who may use whom (an arrow reads "is used by"):
//! `npu, stripe -> performance -> ethosu`; `stripe -> propagator, performance -> graph -> program -> register_words,
//! block_overlap -> timeline -> costs`; `program -> clock, walk, lifetimes -> interleave, prefetch`; `graph -> occupancy
//! -> rolling -> plans`; `options, walk -> plans`; `pareto -> prefixes -> plans -> ahead -> proposals`. `hashing` and
//! `interrupt` are for all of them. `usmp`, `npu` and `checker` stand alone (the checker reads graphs and programs, never the search).
//! `rated` reads performance, graph and program, and is asked by `costs` alone. Only `python` knows pyo3.

pub mod ahead;
pub mod arena;
mod block_overlap;
pub mod checker;
mod clock;
pub mod costs;
pub mod ethosu;
#[cfg(test)]
mod exhaustive_tests;
pub mod filling;
pub mod graph;
pub mod hashing;
pub mod interleave;
pub mod interrupt;
pub mod lifetimes;
pub mod npu;
pub mod occupancy;
pub mod options;
pub mod pareto;
pub mod performance;
pub mod placing;
pub mod plans;
pub mod prefetch;
pub mod prefixes;
pub mod program;
pub mod propagator;
pub mod proposals;
pub mod rated;
mod register_words;
mod restage;
pub mod rolling;
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
