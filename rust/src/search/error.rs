//! Errors of a search: inconsistent Plans, or a program without a placement.

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
