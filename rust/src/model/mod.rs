//! The types between the planner's rooms: the problem, the decisions, and the program that comes of them.
//!
//! `graph` is the problem (Parts and tensors on a device), made of `parts` and without `faults`, `operation` what a Part asks
//! of an NPU, with its `kinds`, `device` and its `memory` what there is, `plan` what was decided, `program` what is to be
//! done in which order, `ids` what numbers them all. Owns data and its verification; decides nothing.

pub mod device;
mod faults;
pub mod graph;
pub mod ids;
mod kinds;
pub mod memory;
pub mod operation;
mod parts;
pub mod plan;
pub mod program;
