//! The answer of a search, and its amount of work.
//!
//! Owns these words. How it is found is the other files' to say.

use crate::model::plan::Proposal;
use crate::search::baseline::Baseline;
use crate::search::candidates::CandidatePool;
use crate::util::pareto::{is_front, keep_front, Epsilon};

/// What a search found and how much it looked at.
#[derive(Clone, Debug)]
pub struct Frontier {
    /// Pareto-efficient Proposals, ascending in SRAM, so the first is the floor and the last the fastest.
    pub proposals: Vec<Proposal>,
    /// Open and closed Plans considered.
    pub plans_considered: u64,
    /// Partial Proposals considered.
    pub proposals_considered: u64,
    /// Bytes of running every Part whole, in order, without cascades; between several pools, most in use at once.
    pub uncascaded_bytes: u64,
    /// Modelled cycles of that.
    pub uncascaded_cycles: u64,
    /// Programs that were placed.
    pub placements: u64,
    /// Why the search looked no further.
    pub stopped: Stop,
    /// The coarsest thinning of any front.
    pub epsilon: Epsilon,
    /// Whether the search skipped Proposals with less SRAM.
    pub floor_is_bound: bool,
}

impl Frontier {
    /// The front of what was found among candidates. `is_cut` says whether the bounds of work left anything out.
    pub(super) fn new(
        mut found: Vec<Proposal>,
        is_cut: bool,
        candidates: &CandidatePool,
        baseline: Baseline,
        placements: u64,
    ) -> Frontier {
        keep_front(&mut found);
        debug_assert!(is_front(&found), "Proposals that others beat");
        let asked = Epsilon::of_resolution(candidates.resolution);
        let thinned = if candidates.crowded.is_some() { Stop::Width } else { Stop::Complete };
        Frontier {
            proposals: found,
            plans_considered: candidates.plans_considered,
            proposals_considered: candidates.proposals_considered,
            uncascaded_bytes: baseline.bytes,
            uncascaded_cycles: baseline.cycles,
            placements,
            stopped: if is_cut { Stop::Work } else { thinned },
            epsilon: candidates.crowded.map_or(asked, |taken| asked.max(taken)),
            floor_is_bound: false,
        }
    }
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Every front was kept, as finely as `Options::resolution` asks.
    Complete,
    /// Some fronts had more points than `Options::max_points` and `Options::max_fork` allow, and were thinned more.
    Width,
    /// More programs were worth placing, or filling, than `Options::max_steps` and `Options::max_fills` allow.
    Work,
}
