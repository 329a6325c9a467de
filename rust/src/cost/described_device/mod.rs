//! Devices that are described by data alone: what operations, copies and whole programs cost on them.
//!
//! Owns the meaning of a `DescribedUnit`, all in exact integers; docs/devices.md is the same in words. `description` says
//! whether one makes sense, `traffic` what its memories move, `operation` and `copies` what it does, `play` what overlaps.
//! An operation is cut into blocks; each is one instruction of an engine, its tiles of input, constants and output share
//! the buffer. Work is rounded up to the engine's granules, traffic to the bursts of each memory. Knows nothing of Plans.

mod copies;
mod description;
mod operation;
mod play;
#[cfg(test)]
mod tests;
mod traffic;

pub use copies::{carried_cycles, copy_cycles, tensor_copy_cycles};
pub use description::verify;
pub use operation::best_block;
pub use play::cycles;
