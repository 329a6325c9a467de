//! Errors of a search: inconsistent decisions, or a program without a placement.

use thiserror::Error;

use crate::schedule::legal_plans::PlanError;
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
    /// Copies in the order of another program.
    #[error("the issue order is that of another program: it needs a slot for each copy, in order and before its use")]
    IssueOrder,
    /// Buffers in places of another program.
    #[error("the placement is that of another program: each buffer needs a place that no other has at the same time")]
    Placement,
}
