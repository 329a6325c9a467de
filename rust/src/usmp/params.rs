//! How to search, and what a search answers: algorithms, parameters, solutions.
//!
//! Owns the types. `model` has the problems and placements.

use super::model::Placement;

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// First fit, the largest buffer first.
    GreedyBySize,
    /// First fit, the buffer that meets, or conflicts with, most others first.
    GreedyByConflicts,
    /// Local search over first-fit orders from several starts.
    HillClimb,
    /// Branch and bound below the best greedy answer; up to seven buffers of any kind are searched to the end.
    Exact,
    /// Everything above, cheapest first, until one is proved optimal; the best answer wins.
    Best,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::GreedyBySize,
        Algorithm::GreedyByConflicts,
        Algorithm::HillClimb,
        Algorithm::Exact,
        Algorithm::Best,
    ];

    /// The name users write.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::GreedyBySize => "greedy_by_size",
            Algorithm::GreedyByConflicts => "greedy_by_conflicts",
            Algorithm::HillClimb => "hill_climb",
            Algorithm::Exact => "exact",
            Algorithm::Best => "best",
        }
    }

    /// The algorithm of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Algorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// The switches of a search. The same parameters give the same answer on every machine.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Which search.
    pub algorithm: Algorithm,
    /// Seed of the random choices; greedy searches make none.
    pub seed: u64,
    /// Most moves that a hill climb tries, over all its starts; branch and bound looks at four nodes for each. Problems
    /// of more than a few thousand buffers get fewer, so that the work stays bounded.
    pub iterations: u32,
    /// Threads that search; at least 1. However many, the answer is the same.
    pub threads: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self { algorithm: Algorithm::Best, seed: 0, iterations: 50_000, threads: 1 }
    }
}

impl Params {
    /// For thousands of small problems inside another search: well below a millisecond for some sixty buffers.
    #[must_use]
    pub fn quick() -> Self {
        Self { iterations: 200, ..Self::default() }
    }
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Nothing was left to try: the answer is proved optimal, or the algorithm has only one answer.
    Complete,
    /// All iterations were used.
    IterationLimit,
    /// All nodes of branch and bound were used.
    NodeLimit,
    /// The problem is too large, or of a kind, that branch and bound does not take on.
    TooLarge,
}

impl StopReason {
    /// The name users read.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StopReason::Complete => "complete",
            StopReason::IterationLimit => "iteration_limit",
            StopReason::NodeLimit => "node_limit",
            StopReason::TooLarge => "too_large",
        }
    }
}

/// A placement and what is known about it.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The answer.
    pub placement: Placement,
    /// Lower bounds of an optimal plan's peaks in bytes, by pool id. The bytes in use at one step or of a clique of
    /// conflicting buffers, with forced padding; more where a pin ends higher or branch and bound has proved more.
    pub lower_bounds: Vec<u64>,
    /// Whether no plan can be better. `false` says only that this is not proved.
    pub optimal: bool,
    /// The algorithm that found it.
    pub algorithm: Algorithm,
    /// Why the search ended.
    pub stop_reason: StopReason,
    /// Moves tried and nodes searched.
    pub iterations: u64,
}
