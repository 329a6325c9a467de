//! Tools without a subject: fronts, hashing, and the token that stops long work. Owns nothing of the planner.

pub mod hashing;
pub mod interrupt;
pub mod pareto;
