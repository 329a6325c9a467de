//! One question about a budget as it is answered: the answer so far, and what is learnt on the way.
//!
//! Owns what is an answer, what may still become a better one, and how holes are filled for it. Which contenders are
//! placed, and in which order, is for `within` to say.

use std::sync::Arc;

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::memory::ALIGNMENT;
use crate::model::plan::Proposal;
use crate::model::program::{Arrangement, Placement, Program};
use crate::plans::options::{Options, WithinOptions};
use crate::proposals::arena::{ArenaError, Placer};
use crate::proposals::filling::Found;
use crate::schedule::prefetch::Filling;
use crate::util::pareto::Point;

/// A placed contender.
pub(super) struct Ground {
    pub proposal: Proposal,
    pub placement: Placement,
    /// Estimated cycles.
    pub sketched: u64,
}

/// What a placement took by what its program has in use at once, in parts of 2^20.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Drift(u128);

impl Drift {
    pub fn new(placed: u64, live: u64) -> Drift {
        Drift((u128::from(placed) << 20) / u128::from(live.max(1)))
    }

    /// What a program is expected to take that has so many bytes in use at once.
    pub fn of(self, live: u64) -> u128 {
        (u128::from(live) * self.0) >> 20
    }
}

/// One question as it is answered.
pub(super) struct Question<'a, 'p> {
    pub graph: &'a CascaderGraph,
    pub options: &'a Options,
    pub bytes: u64,
    pub costs: &'a mut Costs,
    placer: &'a mut Placer<'p>,
    pub best: Option<Found>,
    /// Cycles and the estimate of them, of copies issued early, where these were the fewest for such an estimate.
    pub most_mended: (u64, u64),
    /// The least of what was placed with early copies, and of how many contenders something was.
    least_drift: Option<Drift>,
    drifted: usize,
    /// Contenders of which something was placed.
    pub visited: usize,
    /// Placements with early copies since the answer became better.
    idle: usize,
    /// Buffers of all programs that were placed for this question, or are known from earlier ones.
    placed: usize,
    /// Grounds of which holes were filled: cycles that were expected of that, the contender, and which of its grounds.
    pub filled: Vec<(u64, usize, usize)>,
}

impl<'a, 'p> Question<'a, 'p> {
    pub fn new(
        graph: &'a CascaderGraph,
        options: &'a Options,
        bytes: u64,
        costs: &'a mut Costs,
        placer: &'a mut Placer<'p>,
    ) -> Question<'a, 'p> {
        Question {
            graph,
            options,
            bytes,
            costs,
            placer,
            best: None,
            most_mended: (1, 1),
            least_drift: None,
            drifted: 0,
            visited: 0,
            idle: 0,
            placed: 0,
            filled: Vec::new(),
        }
    }

    /// Whether a program that is estimated to take `sketched` cycles may be faster than the answer. How wrong estimates are
    /// is believed when several contenders have said so: that of one may be wrong in its own way.
    pub fn is_hopeful(&self, sketched: u64) -> bool {
        let Some(best) = &self.best else { return true };
        let WithinOptions { margin, wide_margin, believed, .. } = self.options.within;
        let margin = if self.is_wide() { wide_margin } else { margin };
        let (mut cycles, known) = self.most_mended;
        if self.visited < believed {
            cycles = cycles.min(known);
        }
        let margin = u128::from(margin);
        let (cycles, known) = (u128::from(cycles), u128::from(known));
        u128::from(sketched) * cycles * (margin - 1) / margin < u128::from(best.cycles()) * known
    }

    /// Whether so little was placed yet that what promises less is worth a try, too.
    fn is_wide(&self) -> bool {
        self.placed < self.options.within.wide_buffers
    }

    /// Whether placements with early copies have been of no use for so long that no more are made.
    pub fn is_idle(&self) -> bool {
        !self.is_wide() && self.idle >= self.options.within.idle_tries
    }

    /// Place a program.
    ///
    /// # Errors
    /// Those of the memory planner.
    pub fn place(&mut self, program: &Program) -> Result<Placement, ArenaError> {
        self.placed += program.buffers.len();
        (self.placer)(program, self.options.placing.moves)
    }

    /// Place a program with early copies.
    ///
    /// # Errors
    /// Those of the memory planner.
    pub fn place_early(&mut self, program: &Program) -> Result<Placement, ArenaError> {
        self.idle += 1;
        self.place(program)
    }

    /// Count what an earlier question has placed as if it were placed now: answers do not depend on earlier questions.
    pub fn recall(&mut self, grounds: &[Ground]) {
        self.placed += grounds.iter().map(|ground| ground.placement.offsets.len()).sum::<usize>();
    }

    /// What a contender is expected to take of which nothing was placed with early copies: what others came nearest to. That
    /// of few may be wrong in its own way.
    pub fn expected_drift(&self) -> Option<Drift> {
        self.least_drift.filter(|_| self.drifted >= self.options.within.drifts)
    }

    /// What a placement with early copies took, the first one of its contender or another.
    pub fn drifted(&mut self, drift: Drift, is_first: bool) {
        self.least_drift = Some(self.least_drift.map_or(drift, |least| least.min(drift)));
        self.drifted += usize::from(is_first);
    }

    /// Take what was placed and estimated so for the answer, if it is.
    pub fn offer(&mut self, found: Found, sketched: u64) {
        let of = |(cycles, known): (u64, u64), by: u64| u128::from(cycles) * u128::from(by) / u128::from(known.max(1));
        let ratio = (found.cycles(), sketched);
        // Without early copies the estimate is wrong in another way.
        let is_early = found.proposal.prefetch_bytes > 0 || found.proposal.fill_bytes > 0;
        if self.best.is_none() || is_early && of(ratio, 1 << 20) < of(self.most_mended, 1 << 20) {
            self.most_mended = ratio;
        }
        let is_better = |best: &Found| (found.cycles(), found.memory_bytes()) < (best.cycles(), best.memory_bytes());
        if found.memory_bytes() <= self.bytes && self.best.as_ref().is_none_or(is_better) {
            self.best = Some(found);
            self.idle = 0;
        }
    }

    /// Issue the copies of a placed program into holes of so many bytes, if that promises a better answer. Returns the
    /// cycles that are expected, None where there is nothing to be filled.
    pub fn fill(&mut self, ground: &Ground, program: &Program, room_bytes: u64) -> Option<u64> {
        if ground.proposal.sram_bytes > room_bytes {
            return None;
        }
        let filling = Filling::new(program, ground.placement.clone())?;
        Some(self.fill_into(ground, program, &filling, room_bytes))
    }

    /// The same for several rooms, one after the other.
    pub fn fill_each(&mut self, ground: &Ground, program: &Program, rooms: impl Iterator<Item = u64>) {
        let mut rooms = rooms.filter(|&room_bytes| ground.proposal.sram_bytes <= room_bytes).peekable();
        if rooms.peek().is_none() {
            return;
        }
        let Some(filling) = Filling::new(program, ground.placement.clone()) else { return };
        for room_bytes in rooms {
            self.fill_into(ground, program, &filling, room_bytes);
        }
    }

    fn fill_into(&mut self, ground: &Ground, program: &Program, filling: &Filling, room_bytes: u64) -> u64 {
        let Ground { proposal, sketched: before, .. } = ground;
        let filled = filling.fill(room_bytes);
        let sketched = filled.cycles();
        // The estimate is taken to be wrong by the same factor before and after.
        let expected = u128::from(sketched) * u128::from(proposal.cycles) / u128::from(*before).max(1);
        let expected = u64::try_from(expected).unwrap_or(u64::MAX);
        if self.best.as_ref().is_some_and(|best| expected >= best.cycles()) {
            return expected;
        }
        let mut program = program.clone();
        let placement = filled.apply(self.graph, &mut program);
        let cycles = self.costs.program(self.graph, &program, &placement);
        let (fill_bytes, sram_bytes) = (room_bytes, placement.bytes());
        let proposal = Proposal { fill_bytes, sram_bytes, cycles, ..proposal.clone() };
        self.offer(found(&proposal, program, &placement), sketched);
        cycles
    }
}

/// Powers of two and `steps - 1` sizes between each and the next one, below so many bytes down to a quarter of them.
pub(super) fn rooms_below(bytes: u64, steps: u64) -> impl Iterator<Item = u64> {
    let octaves = (0..3).map(move |times| (bytes.next_power_of_two() / 2) >> times);
    let sizes = octaves.flat_map(move |power| (0..steps).rev().map(move |step| power + power / steps * step));
    sizes.map(|size| size / ALIGNMENT * ALIGNMENT).filter(move |size| (bytes / 4..bytes).contains(size))
}

pub(super) fn found(proposal: &Proposal, program: Program, placement: &Placement) -> Found {
    let arrangement = Arrangement { program, placement: placement.clone() };
    Found { proposal: proposal.clone(), arrangement: Arc::new(arrangement) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proposals::arena::placer;
    use crate::proposals::search;
    use crate::testing::networks::{chain, realised};

    #[test]
    fn drift_is_a_ratio() {
        let (less, more) = (Drift::new(1_050, 1_000), Drift::new(2_200, 2_000));
        assert!(less < more && less == Drift::new(2_100, 2_000));
        assert_eq!([less, more].map(|drift| drift.of(4_096)), [4_300, 4_505]);
        assert_eq!(Drift::new(u64::MAX, u64::MAX).of(u64::MAX), u128::from(u64::MAX));
        assert_eq!(Drift::new(0, 0).of(16), 0);
    }

    #[test]
    fn one_bad_placement_leaves_out_no_other_contender() {
        let graph = chain(1);
        let (mut options, mut costs) = (Options::default(), Costs::default());
        options.within.drifts = 2;
        let mut place = placer(&graph);
        let mut question = Question::new(&graph, &options, 1_000, &mut costs, &mut place);
        question.drifted(Drift::new(1_300, 1_000), true);
        question.drifted(Drift::new(1_250, 1_000), false);
        assert_eq!(question.expected_drift(), None);
        question.drifted(Drift::new(1_400, 1_000), true);
        assert_eq!(question.expected_drift(), Some(Drift::new(1_250, 1_000)));
    }

    #[test]
    fn a_question_is_wide_until_so_many_buffers_are_placed_known_or_not() {
        let graph = chain(2);
        let (mut options, mut costs) = (Options::default(), Costs::default());
        let found = search(&graph, &options).expect("blocks fit");
        let (program, placement) = realised(&graph, &found.proposals[0]);
        options.within = WithinOptions {
            margin: 128,
            wide_margin: 4,
            wide_buffers: 3 * program.buffers.len(),
            idle_tries: 1,
            believed: 0,
            ..options.within
        };
        let mut place = placer(&graph);
        let mut question = Question::new(&graph, &options, u64::MAX, &mut costs, &mut place);
        let proposal = Proposal { cycles: 1_000, ..found.proposals[0].clone() };
        question.offer(super::found(&proposal, program.clone(), &placement), 1_000);
        let ground = Ground { proposal, placement, sketched: 1_000 };
        for _ in 0..2 {
            question.place_early(&program).expect("it was placed before");
            assert!(question.is_hopeful(1_200) && !question.is_hopeful(1_400) && !question.is_idle());
        }
        question.recall(&[ground]);
        assert!(question.is_hopeful(1_005) && !question.is_hopeful(1_200) && question.is_idle());
    }

    #[test]
    fn rooms_are_the_same_for_all_budgets() {
        assert_eq!(rooms_below(1024, 2).collect::<Vec<_>>(), [768, 512, 384, 256]);
        assert_eq!(rooms_below(1040, 2).collect::<Vec<_>>(), [1024, 768, 512, 384]);
        assert_eq!(rooms_below(16, 8).count(), 0);
    }
}
