//! What a search may try and how finely it looks; what copies are taken to cost meanwhile.
//! Owns the bounds of work and their defaults, not the search.

/// Bounds of the search. All are counts of work, none is a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Parts in a group at most.
    pub max_group: usize,
    /// Stripe extents tried, besides the whole extent.
    pub stripes: Vec<i64>,
    /// Numbers of even stripes tried, rounded up to whole micro-blocks.
    pub divisions: Vec<i64>,
    /// Band counts tried.
    pub tiles: Vec<u32>,
    /// A point of a front is left out where a leaner one is at most one part in this slower; the ends always stay. 0 leaves
    /// out nothing and tells open groups apart by their profiles, which is exact but takes far longer.
    pub resolution: u64,
    /// Open groups kept per group and stripe extent of its first Part; where there are more, the resolution is halved
    /// until there are not, and the search says so.
    pub max_points: usize,
    /// Parts under an open fork up to which `max_points` groups are kept; where there are more, fewer in proportion.
    pub max_fork: usize,
    /// Steps of programs that are placed, at most, all together; the search says so where there were more.
    pub max_steps: usize,
    /// The same of programs whose copies are issued into holes, once for each room that is tried.
    pub max_fills: usize,
    /// What copies of constants are taken to cost; Plans are enumerated under each of these views.
    pub copies: Vec<Copies>,
    /// SRAM that there is. Where it is told, copies are issued into holes only for what is fastest within it; what is leanest is
    /// the same.
    pub budget_bytes: Option<u64>,
    /// A search that looked at no more open and closed Plans than this is followed by one that is `REFINEMENT` times as
    /// fine.
    pub refined_up_to: u64,
}

impl Options {
    /// The options of the finer search that follows one of `considered` Plans; None where none does.
    pub fn refined(&self, considered: u64) -> Option<Options> {
        let resolution = self.resolution * REFINEMENT;
        (resolution > 0 && considered <= self.refined_up_to).then(|| Options {
            resolution,
            max_points: self.max_points.max(Options::points_for(resolution)),
            refined_up_to: 0,
            ..self.clone()
        })
    }

    /// Open groups that a resolution deserves: a finer one more, but never so many that work knows no bound.
    pub fn points_for(resolution: u64) -> usize {
        let finer = if resolution == 0 { u64::MAX } else { resolution } / RESOLUTION;
        (finer.saturating_mul(POINTS as u64)).clamp(POINTS as u64, MOST_POINTS as u64) as usize
    }
}

/// Defaults of `Options::resolution` and `Options::max_points`, and the most of the latter that a resolution asks for.
const RESOLUTION: u64 = 64;
const POINTS: usize = 12;
const MOST_POINTS: usize = 64;
/// How much finer a search is that follows a cheap one.
const REFINEMENT: u64 = 4;
/// Default of `Options::refined_up_to`: with the finer one's about four times as many, well below two seconds' work.
const CHEAP_PLANS: u64 = 2_500_000;

impl Default for Options {
    fn default() -> Options {
        Options {
            max_group: 40,
            stripes: vec![1, 2, 3, 4, 5, 6, 8],
            divisions: vec![2],
            tiles: vec![1, 2, 3, 4, 6],
            resolution: RESOLUTION,
            max_points: POINTS,
            max_fork: 32,
            max_steps: 1 << 20,
            max_fills: 1 << 24,
            copies: vec![Copies::Exposed, Copies::Hidden],
            budget_bytes: None,
            refined_up_to: CHEAP_PLANS,
        }
    }
}

/// How long a copy of constants counts, while Plans are enumerated, before there are kernels to issue it ahead of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// It starts with the group that uses it and hides behind nothing but kernels on earlier slices, as where SRAM is
    /// short.
    Exposed,
    /// It hides behind whatever runs before, as where there is SRAM to hold it.
    Hidden,
}

impl Copies {
    /// Cycles of kernels that read their constants in place, which keeps the constants' memory busy for `constants` of
    /// them, while one copy would have taken `once`: where copies hide, others wait for the rest.
    pub fn in_place(self, kernels: u64, constants: u64, once: u64) -> u64 {
        match self {
            Copies::Exposed => kernels,
            Copies::Hidden => kernels + constants.saturating_sub(once),
        }
    }

    /// Cycles of kernels and of the copies that they use; `first` is the copy that the first kernel waits for.
    pub fn cycles(self, kernels: u64, first: u64, rest: u64) -> u64 {
        match self {
            Copies::Exposed => first + kernels.max(rest),
            Copies::Hidden => kernels,
        }
    }
}
