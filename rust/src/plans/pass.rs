//! One enumeration of Plans: how finely, under which cost of copies, for which sizes of the arena.
//!
//! Owns these parameters. `search::passes` decides which passes answer a question.

use crate::plans::options::{CopyCost, Options};

/// Sizes of an arena, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaRange {
    /// Plans of fewer bytes are worth no more than Plans of this size.
    pub least_bytes: u64,
    /// Cascades of more bytes are dropped.
    pub most_bytes: u64,
}

impl ArenaRange {
    /// All sizes.
    pub const ALL: ArenaRange = ArenaRange { least_bytes: 0, most_bytes: u64::MAX };
}

/// Parameters of one enumeration of Plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// As `Options::resolution`.
    pub resolution: u64,
    /// As `Options::max_points`.
    pub max_points: usize,
    /// What copies of constants are taken to cost.
    pub copies: CopyCost,
    /// Sizes of the arena.
    pub range: ArenaRange,
}

impl Pass {
    /// The first pass of the options, for all sizes of the arena.
    pub fn new(options: &Options, copies: CopyCost) -> Pass {
        let Options { resolution, max_points, .. } = *options;
        Pass { resolution, max_points, copies, range: ArenaRange::ALL }
    }
}
