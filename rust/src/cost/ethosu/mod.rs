//! Operations of an Ethos-U on one stripe, and whole programs of them.
//!
//! `described` translates an operation into the registers' terms, `blocks` and `weight_orders` say what may be tried,
//! `operation_cost` what it costs and what is best, `lower_bound` what it costs at least. `stream` clocks a placed program,
//! with `addresses`, `surface`, `constants`, `block_dependency` and `register_image`; the others know nothing of Plans and programs.

pub mod addresses;
pub mod block_dependency;
mod blocks;
mod constants;
mod described;
mod lower_bound;
mod operation_cost;
mod register_image;
pub mod stream;
#[cfg(test)]
mod stream_tests;
pub mod surface;
#[cfg(test)]
mod tests;
mod weight_orders;

pub use lower_bound::floor;
pub use operation_cost::{best_block, choose_encoding, copy_cost, table_cost};
pub use register_image::is_steady;
