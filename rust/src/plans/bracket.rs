//! Which sizes of an arena a search is about.
//!
//! A frontier is wanted over all of them, a budget's answer near the budget alone: what takes much less is worth nothing
//! more there. Owns this range. Which one answers a budget is for `proposals::budgets` to say.

/// Sizes of an arena, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// Whatever takes fewer bytes is worth no more than if it took these.
    pub least_bytes: u64,
    /// Cascades of more bytes are of no use.
    pub most_bytes: u64,
}

impl Bracket {
    /// All sizes there are.
    pub const ALL: Bracket = Bracket { least_bytes: 0, most_bytes: u64::MAX };
}
