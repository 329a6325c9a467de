//! Options of a search: its bounds of work, its resolutions, and the assumed cost of copies.
//!
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
    /// Resolution of fronts, 1 divided by the epsilon. A point is left out where a kept one with less SRAM is at most the
    /// epsilon slower; the smallest and the fastest always stay. 0 leaves out nothing and compares open groups by their
    /// profiles: exact, and far slower.
    pub resolution: u64,
    /// Open groups kept for each stripe extent of a group's first Part. Where there are more, the resolution is halved
    /// until no more are left, and the search says so.
    pub max_points: usize,
    /// If the stripes of more Parts than this tell open groups apart, fewer than `max_points` are kept, in proportion.
    pub max_fork: usize,
    /// Steps of programs that are placed, at most, all together; the search says so where there were more.
    pub max_steps: usize,
    /// The same bound for programs whose copies are issued into gaps; a program counts once for each arena size tried.
    pub max_fills: usize,
    /// Finer passes follow coarse ones with at most this number of open and closed Plans; `refinement` says how much finer.
    pub refined_up_to: u64,
    /// How much finer passes are that follow cheap ones: larger finds more in more time, 0 or 1 nothing new.
    pub refinement: u64,
    /// Whether open groups are pruned by a lower bound of their bytes and cycles: 0 prunes none.
    pub open_group_bound: u64,
    /// Fronts of cross-group prefetch are thinned with this multiple of `resolution`.
    pub hidden_fineness: u64,
    /// How often a geometric mean is put between neighbouring limits for early copies.
    pub limit_halvings: u32,
    /// Which candidates are placed.
    pub placing: PlacingOptions,
    /// Which placed candidates have their copies issued into gaps.
    pub filling: FillingOptions,
    /// Visits without early copies, at most, for one size of the arena; with early copies a quarter as many. At least 1.
    pub visits: usize,
    /// How finely the pass for the fewest bytes looks.
    pub lean: LeanOptions,
}

/// Which candidates are placed, in which order and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacingOptions {
    /// Moves that the memory planner may try for one program: more place tighter and take longer.
    pub moves: u32,
    /// The same for candidates with the least live bytes, which are placed once more.
    pub floor_moves: u32,
    /// How many of them, at most: 0 places none again.
    pub floor_tries: usize,
    /// Rounds of placing candidates with early copies: more place more.
    pub rounds: u32,
    /// A candidate is placed for filling if its estimate is better by one part in this number, in that much more room.
    /// A larger figure tries more. At least 1.
    pub fill_margin: u64,
    /// Fragmentation, as one part of the live bytes in this number, beyond which alternating directions are tried.
    /// A larger figure tries more. At least 1.
    pub fragmentation: u64,
}

/// Which placed candidates have their copies issued into gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillingOptions {
    /// How often the front of the estimates is played by the timing model: 0 fills nothing.
    pub rounds: u32,
}

/// How finely the pass for the fewest bytes looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeanOptions {
    /// `Options::resolution` of that pass: 0 makes none.
    pub resolution: u64,
    /// `Options::max_points` of that pass.
    pub max_points: usize,
}

impl Options {
    /// Open groups to keep at a resolution: the finer the more, up to a bound.
    pub fn points_for(&self, resolution: u64) -> usize {
        let finer = if resolution == 0 { u64::MAX } else { resolution } / RESOLUTION;
        (finer.saturating_mul(POINTS as u64)).clamp(POINTS as u64, MOST_POINTS) as usize
    }
}

/// Defaults of `Options::resolution` and `Options::max_points`.
const RESOLUTION: u64 = 64;
const POINTS: usize = 12;
/// Open groups that a resolution asks for at most, however fine it is.
const MOST_POINTS: u64 = 64;
/// Default number of moves of the memory planner for one program.
pub const MOVES: u32 = 80;

/// Default of `Options::refined_up_to`: with the finer one's about four times as many, well below a second's work.
const CHEAP_PLANS: u64 = 700_000;

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
            refined_up_to: CHEAP_PLANS,
            refinement: 4,
            open_group_bound: 1,
            hidden_fineness: 4,
            limit_halvings: 3,
            placing: PlacingOptions {
                moves: MOVES,
                floor_moves: 2_000,
                floor_tries: 8,
                rounds: 2,
                fill_margin: 64,
                fragmentation: 64,
            },
            filling: FillingOptions { rounds: 3 },
            visits: 128,
            lean: LeanOptions { resolution: 2, max_points: 4 },
        }
    }
}

/// Figures of the search that were chosen by measuring, by name, each of at least so much; see `Options::tune`.
pub const TUNED: [(&str, u64); 19] = [
    ("max_points", 1),
    ("max_fork", 1),
    ("max_steps", 1),
    ("max_fills", 0),
    ("refined_up_to", 0),
    ("refinement", 0),
    ("open_group_bound", 0),
    ("hidden_fineness", 0),
    ("limit_halvings", 0),
    ("placing.moves", 0),
    ("placing.floor_moves", 0),
    ("placing.floor_tries", 0),
    ("placing.rounds", 0),
    ("placing.fill_margin", 1),
    ("placing.fragmentation", 1),
    ("filling.rounds", 0),
    ("lean.resolution", 0),
    ("lean.max_points", 1),
    ("visits", 1),
];

impl Options {
    /// Set a figure by its name. For benches, which ask what each is good for.
    ///
    /// # Errors
    /// The sentence that says what is wrong with the name or the value.
    pub fn tune(&mut self, name: &str, value: u64) -> Result<(), String> {
        let known = TUNED.iter().find(|known| known.0 == name);
        let Some(&(_, least)) = known else { return Err(format!("there is no option '{name}'")) };
        if value < least || value > MOST_TUNED {
            return Err(format!("option '{name}' is {value}; it is {least} to {MOST_TUNED}"));
        }
        match name {
            "max_points" => self.max_points = value as usize,
            "max_fork" => self.max_fork = value as usize,
            "max_steps" => self.max_steps = value as usize,
            "max_fills" => self.max_fills = value as usize,
            "refined_up_to" => self.refined_up_to = value,
            "refinement" => self.refinement = value,
            "open_group_bound" => self.open_group_bound = value,
            "hidden_fineness" => self.hidden_fineness = value,
            "placing.moves" => self.placing.moves = value as u32,
            "placing.floor_moves" => self.placing.floor_moves = value as u32,
            "placing.floor_tries" => self.placing.floor_tries = value as usize,
            "placing.rounds" => self.placing.rounds = value as u32,
            "placing.fill_margin" => self.placing.fill_margin = value,
            "placing.fragmentation" => self.placing.fragmentation = value,
            "filling.rounds" => self.filling.rounds = value as u32,
            "lean.resolution" => self.lean.resolution = value,
            "lean.max_points" => self.lean.max_points = value as usize,
            "limit_halvings" => self.limit_halvings = value as u32,
            _ => self.visits = value as usize,
        }
        Ok(())
    }
}

/// Largest value of a figure that `Options::tune` takes.
pub const MOST_TUNED: u64 = 1 << 31;

/// The assumed cost of a copy of constants during enumeration, before its predecessor is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyCost {
    /// It starts with the group that uses it and runs beside nothing but kernels on earlier slices: as where SRAM is
    /// short.
    Serial,
    /// It runs beside whatever comes before and costs nothing: as where there is SRAM to hold it early.
    Overlapped,
}

impl CopyCost {
    /// Cycles of `kernels` that read their constants in place. They keep the memory of constants busy for `constants`
    /// cycles; one copy would have taken `once`. Where copies are hidden, the difference is time that copies of
    /// others lose.
    pub fn in_place(self, kernels: u64, constants: u64, once: u64) -> u64 {
        match self {
            CopyCost::Serial => kernels,
            CopyCost::Overlapped => kernels + constants.saturating_sub(once),
        }
    }

    /// Cycles of kernels and of the copies that they use; `first` is the copy that the first kernel waits for.
    pub fn cycles(self, kernels: u64, first: u64, rest: u64) -> u64 {
        match self {
            CopyCost::Serial => first + kernels.max(rest),
            CopyCost::Overlapped => kernels,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tuned_figure_has_a_field_of_its_own() {
        let defaults = Options::default();
        let mut all = defaults.clone();
        for (index, (name, least)) in TUNED.into_iter().enumerate() {
            let mut one = defaults.clone();
            one.tune(name, 1000 + index as u64).expect("a known name and a value within its range");
            assert_ne!(one, defaults, "{name}");
            assert!(one.tune(name, least).is_ok() && one.tune(name, MOST_TUNED + 1).is_err());
            assert!(least == 0 || one.tune(name, least - 1).is_err());
            all.tune(name, 1000 + index as u64).expect("as before");
        }
        // Each has kept its value: none was set twice.
        let values = format!("{all:?}");
        assert!((0..TUNED.len()).all(|index| values.contains(&(1000 + index).to_string())));
        assert_eq!(Options::default().tune("margin", 1), Err("there is no option 'margin'".to_string()));
    }
}
