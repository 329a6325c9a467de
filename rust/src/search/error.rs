//! Why there is no frontier: Plans that do not hold together, or a program that has no place.

use thiserror::Error;

use crate::schedule::interleave::PlanError;
use crate::search::arena::ArenaError;

/// Why there is no frontier.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SearchError {
    /// Plans that do not hold together.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A program that has no place.
    #[error(transparent)]
    Arena(#[from] ArenaError),
}
