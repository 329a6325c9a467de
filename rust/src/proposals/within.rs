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
//! - Cost: `WithinOptions::visits` contenders at most, and as many that may fit in turns, each placed in two directions,
//!   with `WithinOptions::tries` placements with early copies of each, until `WithinOptions::idle_tries` in a row are of no
//!   use; at the end twice `WithinOptions::rooms` fillings of `WithinOptions::refills` of them. The first
//!   `WithinOptions::wide_buffers` buffers are placed by a wider margin, and however idle: small programs cost little.
//!
//! The answer does not depend on what was asked before: what is kept are results of functions.
//! Owns which contenders are placed for a question. A budget below what is found here to fit is for the whole frontier
//! to judge.

use std::sync::Arc;

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::memory::ALIGNMENT;
use crate::model::plan::{Plan, Proposal};
use crate::model::program::{Placement, Program};
use crate::plans::options::WithinOptions;
use crate::proposals::arena::Placer;
use crate::proposals::contenders::{Contender, Contenders};
use crate::proposals::directions::{alternating, orders};
use crate::proposals::error::SearchError;
use crate::proposals::filling::Found;
use crate::proposals::question::{found, rooms_below, Drift, Ground, Question};
use crate::schedule::estimate::total_cycles;
use crate::schedule::interleave::interleave;
use crate::schedule::prefetch::{peak_bytes, prefetch, sketches, sketches_beside, Sketch};
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

/// A contender that has more bytes in use than the budget, by at most one part in so many of it, may fit in turns.
const TURNED: u64 = 16;

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
            .filter(|(_, contender)| contender.live_bytes() <= bytes + bytes / TURNED)
            .map(|(number, contender)| (contender.least_cycles(bytes.max(contender.live_bytes())), number))
            .collect();
        waiting.sort_unstable();
        let mut question = Question::new(graph, options, bytes, costs, place);
        // Those that may fit in turns promise the most and fit seldom: they take no visit from those that fit.
        let mut visits = [options.within.visits; 2];
        for (least, number) in waiting {
            interrupt::ask();
            if !question.is_hopeful(least) {
                break;
            }
            let left = &mut visits[usize::from(contenders.all[number].live_bytes() > bytes)];
            if *left > 0 {
                *left -= 1;
                self.visit(&mut question, number, &contenders.all[number])?;
            }
        }
        self.fill_less(&mut question)?;
        let best = question.best;
        Ok(Some(best.filter(|best| best.cycles() <= floor.cycles()).unwrap_or(floor)))
    }

    /// Let a contender improve the answer, if it can.
    fn visit(&mut self, question: &mut Question, number: usize, contender: &Contender) -> Result<(), SearchError> {
        let (graph, bytes) = (question.graph, question.bytes);
        let plans = alternating(graph, &contender.chosen.plans);
        let (program, ways) = ways(question, contender, &plans)?;
        let Some(fewest) = ways.iter().map(|sketch| sketch.cycles).min() else { return Ok(()) };
        if !question.is_hopeful(fewest) {
            return Ok(());
        }
        question.visited += 1;
        let grounds = self.grounds(question, number, contender)?;
        // Plans that do not turn have one program for all that follows.
        let is_turned = plans == contender.chosen.plans || contender.live_bytes() > bytes;
        let mut turned = is_turned.then(|| program.clone());
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
        if question.is_idle() || !question.is_hopeful(fewest) {
            return Ok(());
        }
        let program = match turned {
            Some(program) => program,
            None => interleave(graph, &plans, question.costs)?,
        };
        let (tries, moves) = (question.options.within.tries, question.options.placing.moves);
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
            let mut early = program.clone();
            prefetch(graph, &mut early, prefetch_bytes);
            let placement = question.place_early(&early)?;
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
            question.recall(known);
            return Ok(Arc::clone(known));
        }
        let (live, moves) = (contender.live_bytes(), question.options.placing.moves);
        let mut grounds = Vec::new();
        for plans in orders(question.graph, &contender.chosen.plans, 0) {
            interrupt::ask();
            let program = interleave(question.graph, &plans, question.costs)?;
            let placement = question.place(&program)?;
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

/// The program of a contender, and what it takes within the budget, ascending in limits. Where it has more bytes in use than
/// that, it is the program of its `turned` Plans: outputs that are made in turns may leave fewer in use at once.
fn ways(
    question: &mut Question,
    contender: &Contender,
    turned: &[Plan],
) -> Result<(Program, Vec<Sketch>), SearchError> {
    let (bytes, lower) = (question.bytes, question.options.within.lower);
    let limits: Vec<u64> = (0..=lower).map(|part| bytes.saturating_sub(bytes / 16 * part)).collect();
    let Contender { chosen, sketches: known } = contender;
    let (program, mut ways) = if contender.live_bytes() <= bytes {
        let program = interleave(question.graph, &chosen.plans, question.costs)?;
        let ways = sketches_beside(&program, known, &limits);
        (program, ways)
    } else {
        let program = interleave(question.graph, turned, question.costs)?;
        let fits = peak_bytes(&program) <= bytes;
        let ways = if fits { sketches(&program, &limits, &question.options.limits) } else { Vec::new() };
        (program, ways)
    };
    ways.retain(|sketch| sketch.peak_bytes <= bytes);
    Ok((program, ways))
}

#[cfg(test)]
mod tests;
