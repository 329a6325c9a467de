//! Functional model of the Ethos-U55/U65: bytes in, bytes out. Owns decoding, weight decompression, execution.
//! Knows nothing of how a stream was made.
//!
//! The way of a payload: [`payload`] finds the command stream in it, [`decode`] turns words into commands, [`registers`]
//! remembers what was set, [`kernel_reader`] makes one self-contained [`operation::Kernel`] of it (or [`dma`] a
//! [`dma::Dma`]), [`shram`] judges the block, and [`run::Machine`] executes it on [`memory::Memory`].
//! [`driver`] is the same machine behind the C interface of the Ethos-U driver.

pub mod accelerator;
pub mod arithmetic;
mod context;
mod conv;
pub mod dataflow;
pub mod decode;
pub mod disassemble;
pub mod dma;
pub mod driver;
mod elementwise;
pub mod error;
pub mod feature_map;
pub mod hazards;
pub mod kernel_reader;
pub mod memory;
mod operand;
pub mod operation;
mod output;
pub mod payload;
mod pool;
pub mod registers;
pub mod run;
pub mod shram;
mod sigmoid;
#[cfg(test)]
mod tests;
pub mod timing;
mod weight_cache;
pub mod weight_order;
pub mod weights;
mod window;

pub use accelerator::Accelerator;
pub use error::{Fault, NpuError};
pub use hazards::{Hazard, HazardKind, Rules};
pub use run::{Machine, RunReport};
