//! What a search may try and how finely it looks; what copies are taken to cost meanwhile.
//! Owns the bounds of work and their defaults, not the search.

use crate::schedule::prefetch::LimitOptions;

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
    /// A search that looked at no more open and closed Plans than this is followed by one that is `refinement` times as
    /// fine.
    pub refined_up_to: u64,
    /// How much finer a search is that follows a cheap one: larger finds more in more time, 0 or 1 nothing new.
    pub refinement: u64,
    /// Open groups that a resolution asks for at most, however fine it is.
    pub most_points: usize,
    /// Whether open groups are dropped that cannot come to anything of use by what they take already: 0 drops none.
    pub outlook: u64,
    /// Fronts with each group's first copy behind the group before are thinned with so many times `resolution`.
    pub hidden_fineness: u64,
    /// Which limits for early copies are tried.
    pub limits: LimitOptions,
    /// Which Proposals are placed.
    pub placing: PlacingOptions,
    /// Which Proposals have their copies issued into holes.
    pub filling: FillingOptions,
    /// How long other places of the fastest one's constants are tried.
    pub restaging: RestagingOptions,
    /// How much is placed for one budget.
    pub within: WithinOptions,
    /// How finely the least bytes are searched for once more.
    pub lean: LeanOptions,
}

/// Which Proposals are placed, in which order and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacingOptions {
    /// Moves that the memory planner may try for one program: more place tighter and take longer.
    pub moves: u32,
    /// The same for the leanest Proposals, once more, when the rest is placed: the fewest bytes are worth it.
    pub floor_moves: u32,
    /// How many of them, at most: 0 places none again.
    pub floor_tries: usize,
    /// Rounds of placing Proposals with early copies: more place more.
    pub rounds: u32,
    /// The fronts of a round are thinned with so many times the resolution of the options: larger places more, 0 all.
    pub round_fineness: u64,
    /// Resolution at which Proposals without early copies are placed first, so that what is placed before the work is
    /// spent covers the whole range.
    pub coarse_resolution: u64,
    /// A placement is expected to take more than the live bytes by one part in so many of them: a smaller figure expects
    /// more and places less. At least 1.
    pub margin: u64,
    /// A Proposal is placed for filling only if it promises to be faster by one part in so many, in so much more room: a
    /// larger figure tries more. At least 1.
    pub ground_margin: u64,
    /// If a placement takes more than the live bytes by one part in so many, it is tried again with alternating
    /// directions: a larger figure tries more. At least 1.
    pub drift: u64,
}

/// Which Proposals have their copies issued into holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillingOptions {
    /// How often the front of the sketches is played: 0 fills nothing.
    pub rounds: u32,
    /// The front of a round is thinned with so many times the resolution of the options: larger fills more, 0 all.
    pub round_fineness: u64,
}

/// How much is placed for one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithinOptions {
    /// Budgets of at least so many times the bytes of the network as it is, without cascades, are answered by a search of
    /// their own: 0 for none.
    pub ample: u64,
    /// A search that looked at no more open and closed Plans than this is placed as a whole, which takes some tenths of a
    /// second at most.
    pub whole_up_to: u64,
    /// Contenders looked at, at most.
    pub visits: usize,
    /// Placements with early copies of one contender, at most.
    pub tries: usize,
    /// After so many in a row that make no answer better, contenders are placed without early copies alone.
    pub idle_tries: usize,
    /// After so many contenders in a row that take no fewer bytes, no more are placed for the floor that is told beside an
    /// answer with room to spare. At least 1.
    pub idle_visits: usize,
    /// Limits for early copies that are tried below the budget, each lower by one part in 16 of it.
    pub lower: u64,
    /// A contender is placed if its estimate is larger than the answer's by less than one part in so many: a smaller
    /// figure places more. At least 2.
    pub margin: u64,
    /// Until the programs placed for a question have so many buffers together, `wide_margin` stands for `margin` and
    /// `idle_tries` ends nothing.
    pub wide_buffers: usize,
    /// A contender is placed meanwhile by this instead of `margin`. At least 2.
    pub wide_margin: u64,
    /// Contenders placed without early copies whose copies are issued once more, into less room than the budget.
    pub refills: usize,
    /// How many sizes of that there are from one power of two to the next. At least 1.
    pub rooms: u64,
    /// Contenders that must be placed before how wrong their estimates were leaves out others.
    pub believed: usize,
    /// Contenders of which something must be placed with early copies before what that took by their bytes in use leaves out
    /// placements of others.
    pub drifts: usize,
}

/// How finely the least bytes are searched for once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeanOptions {
    /// `Options::resolution` of that search: 0 makes none.
    pub resolution: u64,
    /// `Options::max_points` of that search.
    pub max_points: usize,
}

/// How long other places of the fastest Proposal's constants are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestagingOptions {
    /// Passes over all operators, at most: 0 changes nothing.
    pub passes: u32,
    /// Bound of the steps of all programs that are estimated, so that long networks take no longer than others.
    pub max_steps: usize,
}

impl Options {
    /// The options of the finer search that follows one of `considered` Plans; None where none does.
    pub fn refined(&self, considered: u64) -> Option<Options> {
        let resolution = self.resolution * self.refinement;
        (resolution > self.resolution && considered <= self.refined_up_to).then(|| Options {
            resolution,
            max_points: self.max_points.max(self.points_for(resolution)),
            refined_up_to: 0,
            ..self.clone()
        })
    }

    /// The options of the search for the least bytes alone; None where there is none, or fronts are exact anyway.
    pub fn leanest(&self) -> Option<Options> {
        let LeanOptions { resolution, max_points } = self.lean;
        (resolution > 0 && self.resolution > 0).then(|| Options {
            resolution,
            max_points,
            copies: vec![Copies::Exposed],
            refined_up_to: 0,
            restaging: RestagingOptions { passes: 0, ..self.restaging.clone() },
            lean: LeanOptions { resolution: 0, ..self.lean.clone() },
            ..self.clone()
        })
    }

    /// Open groups to keep at a resolution: the finer the more, up to a bound.
    pub fn points_for(&self, resolution: u64) -> usize {
        let finer = if resolution == 0 { u64::MAX } else { resolution } / RESOLUTION;
        (finer.saturating_mul(POINTS as u64)).clamp(POINTS as u64, self.most_points.max(POINTS) as u64) as usize
    }
}

/// Defaults of `Options::resolution` and `Options::max_points`.
const RESOLUTION: u64 = 64;
const POINTS: usize = 12;
/// Moves that the memory planner may try for one program, where nobody says.
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
            copies: vec![Copies::Exposed, Copies::Hidden],
            refined_up_to: CHEAP_PLANS,
            refinement: 4,
            most_points: 64,
            outlook: 1,
            hidden_fineness: 4,
            limits: LimitOptions::default(),
            placing: PlacingOptions {
                moves: MOVES,
                floor_moves: 2_000,
                floor_tries: 8,
                rounds: 2,
                round_fineness: 2,
                coarse_resolution: 8,
                margin: 16,
                ground_margin: 64,
                drift: 64,
            },
            filling: FillingOptions { rounds: 3, round_fineness: 2 },
            restaging: RestagingOptions { passes: 3, max_steps: 100_000 },
            within: WithinOptions {
                ample: 3,
                whole_up_to: CHEAP_PLANS / 2,
                visits: 128,
                tries: 4,
                idle_tries: 8,
                idle_visits: 8,
                lower: 5,
                margin: 128,
                wide_buffers: 2_000,
                wide_margin: 16,
                refills: 3,
                rooms: 8,
                believed: 4,
                drifts: 6,
            },
            lean: LeanOptions { resolution: 2, max_points: 4 },
        }
    }
}

/// Figures of the search that were chosen by measuring, by name, each of at least so much; see `Options::tune`.
pub const TUNED: [(&str, u64); 40] = [
    ("max_points", 1),
    ("max_fork", 1),
    ("max_steps", 1),
    ("max_fills", 0),
    ("refined_up_to", 0),
    ("refinement", 0),
    ("most_points", 1),
    ("outlook", 0),
    ("hidden_fineness", 0),
    ("limits.lean", 1),
    ("limits.halvings", 0),
    ("placing.moves", 0),
    ("placing.floor_moves", 0),
    ("placing.floor_tries", 0),
    ("placing.rounds", 0),
    ("placing.round_fineness", 0),
    ("placing.coarse_resolution", 0),
    ("placing.margin", 1),
    ("placing.ground_margin", 1),
    ("placing.drift", 1),
    ("filling.rounds", 0),
    ("filling.round_fineness", 0),
    ("restaging.passes", 0),
    ("restaging.max_steps", 0),
    ("lean.resolution", 0),
    ("lean.max_points", 1),
    ("within.ample", 0),
    ("within.whole_up_to", 0),
    ("within.visits", 1),
    ("within.tries", 0),
    ("within.idle_tries", 0),
    ("within.idle_visits", 1),
    ("within.lower", 0),
    ("within.margin", 2),
    ("within.wide_buffers", 0),
    ("within.wide_margin", 2),
    ("within.refills", 0),
    ("within.rooms", 1),
    ("within.believed", 0),
    ("within.drifts", 0),
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
            "most_points" => self.most_points = value as usize,
            "outlook" => self.outlook = value,
            "hidden_fineness" => self.hidden_fineness = value,
            "limits.lean" => self.limits.lean = value,
            "limits.halvings" => self.limits.halvings = value as u32,
            "placing.moves" => self.placing.moves = value as u32,
            "placing.floor_moves" => self.placing.floor_moves = value as u32,
            "placing.floor_tries" => self.placing.floor_tries = value as usize,
            "placing.rounds" => self.placing.rounds = value as u32,
            "placing.round_fineness" => self.placing.round_fineness = value,
            "placing.coarse_resolution" => self.placing.coarse_resolution = value,
            "placing.margin" => self.placing.margin = value,
            "placing.ground_margin" => self.placing.ground_margin = value,
            "placing.drift" => self.placing.drift = value,
            "filling.rounds" => self.filling.rounds = value as u32,
            "filling.round_fineness" => self.filling.round_fineness = value,
            "restaging.passes" => self.restaging.passes = value as u32,
            "restaging.max_steps" => self.restaging.max_steps = value as usize,
            "lean.resolution" => self.lean.resolution = value,
            "lean.max_points" => self.lean.max_points = value as usize,
            "within.ample" => self.within.ample = value,
            "within.whole_up_to" => self.within.whole_up_to = value,
            "within.visits" => self.within.visits = value as usize,
            "within.tries" => self.within.tries = value as usize,
            "within.idle_tries" => self.within.idle_tries = value as usize,
            "within.idle_visits" => self.within.idle_visits = value as usize,
            "within.lower" => self.within.lower = value,
            "within.margin" => self.within.margin = value,
            "within.wide_buffers" => self.within.wide_buffers = value as usize,
            "within.wide_margin" => self.within.wide_margin = value,
            "within.refills" => self.within.refills = value as usize,
            "within.rooms" => self.within.rooms = value,
            "within.believed" => self.within.believed = value as usize,
            _ => self.within.drifts = value as usize,
        }
        Ok(())
    }
}

/// Largest value of a figure that `Options::tune` takes.
pub const MOST_TUNED: u64 = 1 << 31;

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
