//! Timing model of the Ethos-U55/U65: what a command stream of any compiler costs, operation by operation.
//!
//! The way of a payload: [`walk`] reads it into steps, [`kernel`] costs each kernel alone (its blocks through
//! `engine`, their extents from `axis`, their bytes from `traffic`), `schedule` plays the steps on concurrent
//! `flows` that share the memories of a `system`, and `report` adds up. `docs/timing.md` names the source of each
//! term; what is assumed is a switch in [`rules`]. Times are exact [`ticks`].
//!
//! Knows neither the planner nor code generation. The planner asks [`kernel`], [`least`] and `schedule` what stripes and
//! programs that it describes itself would cost.

mod axis;
mod engine;
mod flows;
pub mod kernel;
pub mod least;
pub mod report;
pub mod rules;
pub mod schedule;
pub mod system;
#[cfg(test)]
mod tests;
pub mod ticks;
pub mod traffic;
pub mod walk;

use super::accelerator::Accelerator;
use super::error::NpuError;

pub use report::{Bound, Totals};
pub use rules::Rules;
pub use schedule::{Event, What};
pub use system::{Port, System};
pub use ticks::Ticks;

/// A payload in time.
#[derive(Debug, Clone)]
pub struct Timing {
    /// Every kernel, transfer and wait, in stream order.
    pub events: Vec<Event>,
    /// Sums and bounds.
    pub totals: Totals,
}

/// Plays a payload on an accelerator with its memories. Nothing is computed: no weights and no inputs are needed.
///
/// # Errors
/// What is wrong with the payload, or the first command that is wrong.
pub fn simulate(payload: &[u8], accelerator: &Accelerator, system: &System, rules: &Rules) -> Result<Timing, NpuError> {
    let walk = walk::walk(payload, accelerator, system, rules)?;
    let line = schedule::play(&walk.steps, accelerator, system, rules);
    let totals = report::totals(&walk, &line, accelerator, system, rules.fetch_commands);
    Ok(Timing { events: line.events, totals })
}
