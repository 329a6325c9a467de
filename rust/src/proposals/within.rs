//! The fastest Proposal within a budget, and the least that one takes, without the rest of the frontier.
//!
//! What Plans are worth combining does not depend on a budget, so they are enumerated once, and sketched once. A
//! question then places only what may be its answer.
//!
//! - State: the answer so far; contenders, which are Plans of the whole network with the cycles of their program by the
//!   bytes that early copies may take; what was placed for earlier questions.
//! - Step: the contender with the fewest estimated cycles within the budget is placed without early copies, its copies
//!   are issued into the holes that the budget leaves it, and it is placed with early copies by falling limits until it
//!   fits. Last, the copies of what was fastest are issued into less room.
//! - Invariant: the answer fits, and is never slower than before. A contender is left out if its estimate, mended by how
//!   much the answer's was wrong, is no better than the answer by one part in `WithinOptions::margin`.
//! - Cost: `WithinOptions::visits` contenders at most, each placed in two directions, with `WithinOptions::tries`
//!   placements with early copies of each, until `WithinOptions::idle_tries` in a row are of no use; at the end twice
//!   `WithinOptions::rooms` fillings of `WithinOptions::refills` of them.
//!
//! The answer does not depend on what was asked before: what is kept are results of functions.
//! Owns which contenders are placed for a question. A budget below what is found here to fit is for the whole frontier
//! to judge.

use std::sync::Arc;

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::memory::ALIGNMENT;
use crate::model::plan::Proposal;
use crate::model::program::Placement;
use crate::plans::options::WithinOptions;
use crate::proposals::arena::Placer;
use crate::proposals::contenders::{Contender, Contenders};
use crate::proposals::directions::{alternating, orders};
use crate::proposals::error::SearchError;
use crate::proposals::filling::Found;
use crate::proposals::question::{found, rooms_below, Drift, Ground, Question};
use crate::schedule::estimate::total_cycles;
use crate::schedule::interleave::interleave;
use crate::schedule::prefetch::{prefetch, sketches_beside, Sketch};
use crate::util::hashing::Table;
use crate::util::interrupt;
use crate::util::pareto::Point;

/// What questions share beside the contenders.
#[derive(Default)]
pub struct Placements {
    /// Contenders placed without early copies, by number.
    grounds: Table<usize, Arc<Vec<Ground>>>,
    floor: Option<Found>,
    /// The least bytes of the first contenders alone.
    first: Option<Found>,
}

/// A budget is near the floor if it is larger by one part in so many of it at most.
const NEAR: u64 = 8;

/// Whether a budget is near what is known of the floor, or below it.
pub fn is_near(bytes: u64, floor: &Found) -> bool {
    bytes - bytes / NEAR <= floor.memory_bytes()
}

impl Placements {
    /// The leanest Proposal without early copies. The frontier has one that takes no more.
    ///
    /// # Errors
    /// Those of placing programs.
    pub fn floor(
        &mut self,
        graph: &CascaderGraph,
        contenders: &Contenders,
        costs: &mut Costs,
        place: &mut Placer,
    ) -> Result<Option<Found>, SearchError> {
        if self.floor.is_none() {
            self.floor = self.leanest(graph, contenders, usize::MAX, costs, place)?;
        }
        Ok(self.floor.clone())
    }

    /// The floor, if a budget is near it; else something at most a little above it, which takes less to know.
    ///
    /// # Errors
    /// Those of placing programs.
    pub fn floor_beside(
        &mut self,
        graph: &CascaderGraph,
        contenders: &Contenders,
        bytes: u64,
        costs: &mut Costs,
        place: &mut Placer,
    ) -> Result<Option<Found>, SearchError> {
        if self.first.is_none() {
            self.first = self.leanest(graph, contenders, contenders.options.within.idle_visits, costs, place)?;
        }
        match self.first.as_ref().filter(|first| !is_near(bytes, first)) {
            Some(first) => Ok(Some(first.clone())),
            None => self.floor(graph, contenders, costs, place),
        }
    }

    /// The leanest without early copies of the contenders that promise the fewest bytes, until so many in a row are not.
    fn leanest(
        &mut self,
        graph: &CascaderGraph,
        contenders: &Contenders,
        most_idle: usize,
        costs: &mut Costs,
        place: &mut Placer,
    ) -> Result<Option<Found>, SearchError> {
        let options = &contenders.options;
        let mut leanest: Vec<(usize, &Contender)> = contenders.all.iter().enumerate().collect();
        leanest.sort_by_key(|(_, contender)| (contender.live_bytes(), contender.sketches[0].cycles));
        let mut best: Option<(u64, u64, Proposal, Placement)> = None;
        let mut question = Question::new(graph, options, u64::MAX, costs, place);
        let mut idle = 0;
        for (number, contender) in leanest.into_iter().take(options.within.visits) {
            if idle >= most_idle || best.as_ref().is_some_and(|(bytes, ..)| *bytes <= contender.live_bytes()) {
                break;
            }
            idle += 1;
            for Ground { proposal, placement, .. } in self.grounds(&mut question, number, contender)?.iter() {
                let point = (proposal.sram_bytes, proposal.cycles);
                if best.as_ref().is_none_or(|&(bytes, cycles, ..)| point < (bytes, cycles)) {
                    idle = 0;
                    best = Some((point.0, point.1, proposal.clone(), placement.clone()));
                }
            }
        }
        let Some((_, _, proposal, placement)) = best else { return Ok(None) };
        Ok(Some(found(&proposal, interleave(graph, &proposal.plans, question.costs)?, &placement)))
    }

    /// The fastest Proposal that takes no more than `bytes`; None if that is less than the floor.
    ///
    /// # Errors
    /// Those of placing programs.
    pub fn fastest(
        &mut self,
        graph: &CascaderGraph,
        contenders: &Contenders,
        bytes: u64,
        costs: &mut Costs,
        place: &mut Placer,
    ) -> Result<Option<Found>, SearchError> {
        let floor = self.floor_beside(graph, contenders, bytes, costs, place)?;
        let Some(floor) = floor.filter(|floor| floor.memory_bytes() <= bytes) else { return Ok(None) };
        // No buffer ends elsewhere.
        let (options, bytes) = (&contenders.options, bytes.min(contenders.most_bytes()) / ALIGNMENT * ALIGNMENT);
        let mut waiting: Vec<(u64, usize)> = (0..)
            .zip(&contenders.all)
            .filter(|(_, contender)| contender.live_bytes() <= bytes)
            .map(|(number, contender)| (contender.least_cycles(bytes), number))
            .collect();
        waiting.sort_unstable();
        let mut question = Question::new(graph, options, bytes, costs, place);
        for (least, number) in waiting.into_iter().take(options.within.visits) {
            interrupt::ask();
            if !question.is_hopeful(least) {
                break;
            }
            self.visit(&mut question, number, &contenders.all[number])?;
        }
        self.fill_less(&mut question)?;
        let best = question.best;
        Ok(Some(best.filter(|best| best.cycles() <= floor.cycles()).unwrap_or(floor)))
    }

    /// Let a contender improve the answer, if it can.
    fn visit(&mut self, question: &mut Question, number: usize, contender: &Contender) -> Result<(), SearchError> {
        let (graph, bytes) = (question.graph, question.bytes);
        let program = interleave(graph, &contender.chosen.plans, question.costs)?;
        let WithinOptions { lower, tries, .. } = question.options.within;
        let moves = question.options.placing.moves;
        let limits: Vec<u64> = (0..=lower).map(|part| bytes.saturating_sub(bytes / 16 * part)).collect();
        let mut ways = sketches_beside(&program, &contender.sketches, &limits);
        ways.retain(|sketch| sketch.peak_bytes <= bytes);
        let Some(fewest) = ways.iter().map(|sketch| sketch.cycles).min() else { return Ok(()) };
        if !question.is_hopeful(fewest) {
            return Ok(());
        }
        question.visited += 1;
        let grounds = self.grounds(question, number, contender)?;
        let plans = alternating(graph, &contender.chosen.plans);
        // Plans that do not turn have one program for all that follows.
        let mut turned = (plans == contender.chosen.plans).then(|| program.clone());
        for (place, ground) in grounds.iter().enumerate().filter(|(_, ground)| ground.proposal.sram_bytes <= bytes) {
            let program = match &turned {
                Some(turned) if ground.proposal.plans == plans => turned.clone(),
                _ if ground.proposal.plans == contender.chosen.plans => program.clone(),
                _ => interleave(graph, &ground.proposal.plans, question.costs)?,
            };
            if let Some(expected) = question.fill(ground, &program, bytes) {
                question.filled.push((expected, number, place));
            }
            if ground.proposal.plans == plans {
                turned.get_or_insert_with(|| program.clone());
            }
            question.offer(found(&ground.proposal, program, &ground.placement), ground.sketched);
        }
        if question.idle >= question.options.within.idle_tries || !question.is_hopeful(fewest) {
            return Ok(());
        }
        let program = match turned {
            Some(program) => program,
            None => interleave(graph, &plans, question.costs)?,
        };
        // A limit is worth trying if the placement is expected to fit: by the limit tried before, or at first by whichever
        // other contender came nearest to its live bytes, once there are several.
        let (mut tried, mut drift) = (0, question.expected_drift());
        let early = ways.into_iter().rev().filter(|sketch| sketch.prefetch_bytes > 0);
        for Sketch { prefetch_bytes, cycles: sketched, peak_bytes: live } in early {
            if tried == tries || !question.is_hopeful(sketched) {
                break;
            }
            if drift.is_some_and(|drift| drift.of(live) > bytes.into()) {
                continue;
            }
            interrupt::ask();
            tried += 1;
            question.idle += 1;
            let mut early = program.clone();
            prefetch(graph, &mut early, prefetch_bytes);
            let placement = (question.place)(&early, moves)?;
            let taken = Drift::new(placement.bytes(), live);
            question.drifted(taken, tried == 1);
            drift = Some(taken);
            if placement.bytes() > bytes {
                continue;
            }
            let (cycles, sram_bytes) = (question.costs.program(graph, &early, &placement), placement.bytes());
            let plans = plans.clone();
            let proposal = Proposal { plans, prefetch_bytes, fill_bytes: 0, moves, sram_bytes, cycles };
            let ground = Ground { proposal, placement, sketched };
            question.offer(found(&ground.proposal, early, &ground.placement), sketched);
            question.fill(&ground, &program, bytes);
            break;
        }
        Ok(())
    }

    /// Issue the copies of what was fastest with its holes filled into less room: with more, copies begin so early that
    /// they are in each other's way.
    fn fill_less(&self, question: &mut Question) -> Result<(), SearchError> {
        let WithinOptions { refills, rooms, .. } = question.options.within;
        let mut filled = std::mem::take(&mut question.filled);
        filled.sort_unstable();
        for (_, number, place) in filled.into_iter().take(refills) {
            interrupt::ask();
            let ground = &self.grounds[&number][place];
            let program = interleave(question.graph, &ground.proposal.plans, question.costs)?;
            question.fill_each(ground, &program, rooms_below(question.bytes, rooms));
        }
        Ok(())
    }

    /// A contender placed without early copies, in the directions that are worth it.
    fn grounds(
        &mut self,
        question: &mut Question,
        number: usize,
        contender: &Contender,
    ) -> Result<Arc<Vec<Ground>>, SearchError> {
        if let Some(known) = self.grounds.get(&number) {
            return Ok(Arc::clone(known));
        }
        let (live, moves) = (contender.live_bytes(), question.options.placing.moves);
        let mut grounds = Vec::new();
        for plans in orders(question.graph, &contender.chosen.plans, 0) {
            interrupt::ask();
            let program = interleave(question.graph, &plans, question.costs)?;
            let placement = (question.place)(&program, moves)?;
            let (cycles, sram_bytes) =
                (question.costs.program(question.graph, &program, &placement), placement.bytes());
            let proposal = Proposal { plans, prefetch_bytes: 0, fill_bytes: 0, moves, sram_bytes, cycles };
            grounds.push(Ground { proposal, placement, sketched: total_cycles(&program) });
            if sram_bytes <= live + live / question.options.placing.drift {
                break;
            }
        }
        let grounds = Arc::new(grounds);
        self.grounds.insert(number, Arc::clone(&grounds));
        Ok(grounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::check;
    use crate::plans::options::Options;
    use crate::proposals::arena::{is_right, placer};
    use crate::proposals::{search, Enumerated, Uncascaded};
    use crate::testing::networks::{mobilenet_v1, mobilenet_v2, realised, stacked};
    use crate::testing::schedules::arbitrary_network;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    /// What is asked of a graph, and the whole frontier.
    struct Asked<'a> {
        graph: &'a CascaderGraph,
        contenders: Contenders,
        /// Of the search for the least bytes alone.
        lean: Contenders,
        placements: Placements,
        costs: Costs,
        whole: Vec<Proposal>,
    }

    impl Asked<'_> {
        fn of(graph: &CascaderGraph) -> Asked<'_> {
            let (options, mut costs) = (Options::default(), Costs::default());
            let uncascaded = Uncascaded::new(graph, &options, &mut costs, &mut placer(graph)).expect("blocks fit");
            let enumerated = Enumerated::new(graph, &options, 0, uncascaded, &mut costs);
            let contenders = Contenders::new(graph, &enumerated, &options, &mut costs).expect("blocks fit");
            let leaner = options.leanest().expect("it is searched for");
            let enumerated = Enumerated::new(graph, &leaner, 0, uncascaded, &mut costs);
            let lean = Contenders::new(graph, &enumerated, &options, &mut costs).expect("blocks fit");
            let whole = search(graph, &options).expect("blocks fit").proposals;
            Asked { graph, contenders, lean, placements: Placements::default(), costs, whole }
        }

        fn fastest(&mut self, bytes: u64) -> Option<Found> {
            let Asked { graph, contenders, placements, costs, .. } = self;
            placements.fastest(graph, contenders, bytes, costs, &mut placer(graph)).expect("blocks fit")
        }

        fn floor(&mut self) -> u64 {
            let Asked { graph, contenders, placements, costs, .. } = self;
            let floor = placements.floor(graph, contenders, costs, &mut placer(graph)).expect("blocks fit");
            floor.expect("there is always a schedule").memory_bytes()
        }

        fn told_beside(&mut self, bytes: u64) -> u64 {
            let Asked { graph, contenders, placements, costs, .. } = self;
            let told =
                placements.floor_beside(graph, contenders, bytes, costs, &mut placer(graph)).expect("blocks fit");
            told.expect("there is always a schedule").memory_bytes()
        }

        /// The fewest cycles of the whole frontier within so many bytes.
        fn whole_within(&self, bytes: u64) -> Option<u64> {
            self.whole.iter().rfind(|proposal| proposal.sram_bytes <= bytes).map(|proposal| proposal.cycles)
        }

        /// The answer fits, keeps its promise, and is right; the frontier knows no fewer bytes.
        fn assert_right(&mut self, bytes: u64) -> Option<u64> {
            let graph = self.graph;
            let Found { proposal, arrangement } = self.fastest(bytes)?;
            assert!(proposal.sram_bytes <= bytes && self.whole_within(bytes).is_some());
            let (program, placement) = realised(graph, &proposal);
            assert_eq!(program, arrangement.program);
            assert_eq!(placement.offsets, arrangement.placement.offsets);
            check(graph, &program).expect("the program is right");
            assert!(is_right(graph.device.memories(), &program, &placement));
            let cycles = Costs::default().program(graph, &program, &placement);
            assert_eq!((placement.bytes(), cycles), (proposal.sram_bytes, proposal.cycles));
            Some(cycles)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
        #[test]
        fn answers_fit_and_are_right_and_the_frontier_decides_below_the_leanest(graph in arbitrary_network(), more in 0u64..4096) {
            let mut asked = Asked::of(&graph);
            let floor = asked.whole[0].sram_bytes;
            // No schedule takes less than what one has in use at once, of this search or of that for the least bytes, which
            // the frontier has as well; and what is found to fit does.
            let least = asked.contenders.least_live_bytes().min(asked.lean.least_live_bytes());
            prop_assert!(least <= floor && floor <= asked.floor(), "{least} {floor} {}", asked.floor());
            prop_assert!(asked.fastest(floor - 1).is_none());
            let sizes: Vec<u64> = asked.whole.iter().map(|proposal| proposal.sram_bytes).collect();
            for bytes in sizes.into_iter().flat_map(|bytes| [bytes, bytes + more]) {
                let answer = asked.assert_right(bytes);
                prop_assert_eq!(answer.is_none(), bytes < asked.floor());
            }
        }

        #[test]
        fn a_floor_told_beside_room_to_spare_takes_less_and_one_near_the_budget_is_it(
            graph in arbitrary_network(), idle_visits in 1usize..4, eighths in 0u64..40,
        ) {
            let mut asked = Asked::of(&graph);
            asked.contenders.options.within.idle_visits = idle_visits;
            let ample = asked.told_beside(u64::MAX);
            let visited = asked.placements.grounds.len();
            let floor = asked.floor();
            prop_assert!(floor <= ample && visited <= asked.placements.grounds.len());
            let bytes = floor * (8 + eighths) / 8;
            let told = asked.told_beside(bytes);
            prop_assert_eq!(told, if bytes - bytes / 8 <= ample { floor } else { ample });
        }
    }

    #[test]
    fn of_mobilenets_little_is_placed_for_an_answer_as_fast() {
        for graph in [mobilenet_v1(), mobilenet_v2()] {
            let mut asked = Asked::of(&graph);
            let floor = asked.floor();
            assert_eq!(floor, asked.whole[0].sram_bytes);
            for bytes in [floor, 250_000, 400_000, 1_000_000, u64::MAX] {
                let (cycles, whole) = (asked.assert_right(bytes), asked.whole_within(bytes));
                assert_eq!(cycles.is_none(), whole.is_none());
                assert!(100 * cycles.unwrap_or(0) <= 101 * whole.unwrap_or(0), "{bytes}: {cycles:?} {whole:?}");
            }
        }
    }

    #[test]
    fn an_answer_does_not_depend_on_what_was_asked_before() {
        let graph = mobilenet_v1();
        let budgets = [1_000_000, 300_000, 240_000, 500_000];
        let mut asked = Asked::of(&graph);
        let one: Vec<Proposal> = budgets.map(|bytes| asked.fastest(bytes).expect("it fits").proposal).into();
        let again = budgets.map(|bytes| asked.fastest(bytes).expect("it fits").proposal);
        asked.placements = Placements::default();
        let mut reversed = budgets;
        reversed.reverse();
        let mut other: Vec<Proposal> = reversed.map(|bytes| asked.fastest(bytes).expect("it fits").proposal).into();
        other.reverse();
        assert_eq!(one, again);
        assert_eq!(one, other);
    }

    #[test]
    fn less_room_serves_some_answers_and_harms_none() {
        let (mut better, mut runner) = (0, TestRunner::deterministic());
        for _ in 0..48 {
            let graph = arbitrary_network().new_tree(&mut runner).expect("drawn").current();
            let mut asked = Asked::of(&graph);
            let floor = asked.floor();
            for bytes in [2, 4, 6].map(|times| times * floor) {
                let [without, with] = [0, 2].map(|refills| {
                    asked.contenders.options.within.refills = refills;
                    asked.assert_right(bytes)
                });
                assert!(with <= without, "{bytes}: {with:?} {without:?}");
                better += u32::from(with < without);
            }
        }
        assert!(better > 0);
    }

    /// Placements with early copies for four budgets when what contenders took leaves out others after so many of them; by
    /// budget the bytes in use at once and those of the arena.
    fn early_placements(drifts: usize) -> Vec<(u64, Vec<(u64, u64)>)> {
        let graph = mobilenet_v2();
        let mut asked = Asked::of(&graph);
        asked.contenders.options.within.drifts = drifts;
        let ask = |bytes| {
            asked.fastest(bytes);
            // What is placed without early copies is known now, so all that is placed has some.
            let (mut found, mut place) = (Vec::new(), placer(&graph));
            let watching: &mut Placer = &mut |program, moves| {
                let placement = place(program, moves)?;
                found.push((stacked(program).bytes(), placement.bytes()));
                Ok(placement)
            };
            let Asked { contenders, placements, costs, .. } = &mut asked;
            placements.fastest(&graph, contenders, bytes, costs, watching).expect("blocks fit");
            (bytes, found)
        };
        [400_000, 700_000, 1_000_000, 1_300_000].map(ask).into()
    }

    #[test]
    fn limits_that_will_not_fit_are_not_tried() {
        let early = early_placements(1);
        for (bytes, found) in &early {
            let mut least = f64::INFINITY;
            for &(live, placed) in found {
                // The search counts in whole 16 bytes.
                let expected = live as f64 * least;
                assert!(least == f64::INFINITY || expected <= 1.01 * *bytes as f64, "{bytes}: {live} * {least}");
                least = least.min(placed as f64 / live as f64);
            }
        }
        let count = |early: &[(u64, Vec<(u64, u64)>)]| early.iter().map(|(_, found)| found.len()).sum::<usize>();
        assert!(count(&early) > 4, "{early:?}");
        // Where several contenders must have been placed first, more is tried.
        assert!(count(&early_placements(4)) > count(&early));
    }

    #[test]
    fn a_repeated_question_places_less_and_one_below_the_leanest_nothing() {
        let graph = mobilenet_v2();
        let mut asked = Asked::of(&graph);
        let mut count = |bytes| {
            let (mut count, mut placer) = (0u64, placer(&graph));
            let counting: &mut Placer = &mut |program, moves| {
                count += 1;
                placer(program, moves)
            };
            let Asked { contenders, placements, costs, .. } = &mut asked;
            placements.fastest(&graph, contenders, bytes, costs, counting).expect("blocks fit");
            count
        };
        let (first, second) = (count(300_000), count(300_000));
        assert!(0 < second && 2 * second < first, "{first} {second}");
        // A budget below the floor needs no more than the floor, which is known.
        assert_eq!(count(16), 0);
    }
}
