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
    /// A point of a front is left out where a leaner one that stays is slower by at most one part in so many; the
    /// leanest and the fastest always stay. 0 leaves out nothing and compares open groups by their profiles: exact,
    /// and far slower.
    pub resolution: u64,
    /// Open groups kept for each stripe extent of a group's first Part. Where there are more, the resolution is halved
    /// until no more are left, and the search says so.
    pub max_points: usize,
    /// If the stripes of more Parts than this tell open groups apart, fewer than `max_points` are kept, in proportion.
    pub max_fork: usize,
    /// Steps of programs that are placed, at most, all together; the search says so where there were more.
    pub max_steps: usize,
    /// The same bound for programs whose copies are issued into holes; a program counts once for each arena size tried.
    pub max_fills: usize,
    /// What copies of constants are taken to cost; Plans are enumerated under each of these views.
    pub copies: Vec<Copies>,
    /// The budget, if there is one. Copies are then issued into holes of this arena size alone; the floor stays the
    /// same.
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

    /// Open groups to keep at a resolution: the finer the more, up to a bound.
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

/// What a copy of constants is taken to cost while Plans are enumerated, when nobody knows yet what runs before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// It starts with the group that uses it and runs beside nothing but kernels on earlier slices: as where SRAM is
    /// short.
    Exposed,
    /// It runs beside whatever comes before and costs nothing: as where there is SRAM to hold it early.
    Hidden,
}

impl Copies {
    /// Cycles of `kernels` that read their constants in place. They keep the memory of constants busy for `constants`
    /// cycles; one copy would have taken `once`. Where copies are hidden, the difference is time that copies of
    /// others lose.
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
