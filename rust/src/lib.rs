//! The compiled heart of ethoscade: cascading scheduler, static memory planner and NPU simulator.
//!
//! Rooms from the ground up; each may use those before it: `util`, `stripe`, `propagator`; `npu` (the simulator), `usmp`
//! (the memory planner) and `weights` (their compression), which know nothing of the planner; `model`; `checker` (reads the
//! model, never the search); `cost`; `schedule`; `plans`; `search`. Only `python` knows pyo3.

pub mod checker;
pub mod cost;
pub mod model;
pub mod npu;
pub mod plans;
pub mod propagator;
pub mod schedule;
pub mod search;
pub mod stripe;
#[cfg(test)]
mod testing;
pub mod usmp;
pub mod util;
pub mod weights;

#[cfg(feature = "python")]
mod python;
