//! The searches that questions about a network are answered by, each made when it is first wanted and kept.
//!
//! - `whole` is that of the frontier. It answers budgets for which a network must be cut.
//! - `ample` answers budgets that hold the network `WithinOptions::ample` times as it is, without cascades. Cascades that
//!   save much are worth nothing there, so most groups are dropped at once.
//! - `lean` looks for the least bytes alone: fewer and coarser fronts leave groups that finer ones crowd out, and take
//!   little time. Frontiers have what it finds, and it tells the floor where `ample` answers.
//!
//! What answers a question depends on the network and the budget alone, not on what was asked before.
//! Owns which search is asked. How one answers is `within`'s to say.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::plans::options::Options;
use crate::proposals::arena::{placer, Placer};
use crate::proposals::contenders::Contenders;
use crate::proposals::enumerated::{Enumerated, Uncascaded};
use crate::proposals::error::SearchError;
use crate::proposals::filling::Found;
use crate::proposals::within::{is_near, Placements};
use crate::proposals::{placed_frontier, Frontier};
use crate::util::interrupt;
use crate::util::pareto::Point;

/// A network, and what is kept of questions about it.
pub struct Budgets {
    graph: Arc<CascaderGraph>,
    options: Options,
    uncascaded: OnceLock<Uncascaded>,
    whole: OnceLock<Search>,
    ample: OnceLock<Search>,
    lean: OnceLock<Option<Search>>,
    work: Mutex<Shared>,
}

/// One search, and what of it may answer budgets.
struct Search {
    enumerated: Enumerated,
    contenders: OnceLock<Contenders>,
}

/// What grows with every question.
#[derive(Default)]
struct Shared {
    /// Of stripes and commands.
    costs: Costs,
    whole: Placements,
    ample: Placements,
    lean: Placements,
}

impl Budgets {
    /// Nothing is searched yet.
    pub fn new(graph: Arc<CascaderGraph>, options: Options) -> Budgets {
        let [whole, ample] = [(); 2].map(|()| OnceLock::new());
        let (uncascaded, lean) = (OnceLock::new(), OnceLock::new());
        Budgets { graph, options, uncascaded, whole, ample, lean, work: Mutex::default() }
    }

    /// Whether so many bytes are enough; None where only the frontier can tell.
    ///
    /// # Errors
    /// Where a Part fits no block unstriped, or a program has no place.
    pub fn fits(&self, bytes: u64) -> Result<Option<bool>, SearchError> {
        self.ask(|work, place| {
            if self.is_ample(bytes, work, place)? {
                return Ok(Some(true));
            }
            let whole = interrupt::portion(0, 7, 10, || self.whole(work, place))?;
            if self.is_cheap(whole) {
                return Ok(None);
            }
            let Shared { costs, whole: placements, .. } = work;
            let contenders = self.contenders(whole, costs)?;
            let fits = |found: Option<Found>| found.is_some_and(|found| found.memory_bytes() <= bytes);
            if fits(placements.floor_beside(&self.graph, contenders, bytes, costs, place)?) {
                return Ok(Some(true));
            }
            let mut least = contenders.least_live_bytes();
            if let Some(lean) = interrupt::portion(7, 10, 10, || self.lean(work, place))? {
                let Shared { costs, lean: placements, .. } = work;
                let contenders = self.contenders(lean, costs)?;
                if fits(placements.floor_beside(&self.graph, contenders, bytes, costs, place)?) {
                    return Ok(Some(true));
                }
                least = least.min(contenders.least_live_bytes());
            }
            Ok((bytes < least).then_some(false))
        })
    }

    /// The leanest Proposal that is told beside the answer to a budget, of the search that answers it; None where only the
    /// frontier can tell.
    ///
    /// # Errors
    /// As [`Budgets::fits`].
    pub fn leanest(&self, bytes: u64) -> Result<Option<Frontier>, SearchError> {
        self.ask(|work, place| {
            let is_ample = self.is_ample(bytes, work, place)?;
            let search = interrupt::portion(0, 7, 10, || self.answering(is_ample, work, place))?;
            if !is_ample && self.is_cheap(search) {
                return Ok(None);
            }
            let Shared { costs, whole, ample, .. } = work;
            let placements = if is_ample { ample } else { whole };
            let contenders = self.contenders(search, costs)?;
            let floor = placements.floor_beside(&self.graph, contenders, bytes, costs, place)?;
            Ok(floor.map(|floor| search.enumerated.frontier_of(vec![floor])))
        })
    }

    /// The fastest Proposal found within so many bytes, and the leanest; None where only the frontier can tell whether
    /// there is any.
    ///
    /// # Errors
    /// As [`Budgets::fits`].
    pub fn within(&self, bytes: u64) -> Result<Option<Frontier>, SearchError> {
        self.ask(|work, place| {
            let is_ample = self.is_ample(bytes, work, place)?;
            let search = interrupt::portion(0, 6, 10, || self.answering(is_ample, work, place))?;
            if !is_ample && self.is_cheap(search) {
                return Ok(None);
            }
            let Shared { costs, whole, ample, .. } = work;
            let (graph, placements) = (&self.graph, if is_ample { ample } else { whole });
            let contenders = self.contenders(search, costs)?;
            let (Some(floor), Some(fastest)) = (
                placements.floor_beside(graph, contenders, bytes, costs, place)?,
                placements.fastest(graph, contenders, bytes, costs, place)?,
            ) else {
                return Ok(None);
            };
            let is_near = is_near(bytes, &floor);
            let mut found = vec![floor, fastest];
            // What the least bytes alone are searched for tells the floor, and near it may be the fastest.
            if let Some(lean) = (is_ample || is_near).then(|| self.lean(work, place)).transpose()?.flatten() {
                let Shared { costs, lean: placements, .. } = work;
                let contenders = self.contenders(lean, costs)?;
                found.extend(placements.floor_beside(graph, contenders, bytes, costs, place)?);
                if is_near {
                    found.extend(placements.fastest(graph, contenders, bytes, costs, place)?);
                }
            }
            let leanest = found.iter().min_by_key(|found| (found.memory_bytes(), found.cycles())).cloned();
            let within = found.into_iter().filter(|found| found.memory_bytes() <= bytes);
            let fastest = within.min_by_key(|found| (found.cycles(), found.memory_bytes()));
            Ok(fastest.map(|fastest| search.enumerated.frontier_of(leanest.into_iter().chain([fastest]).collect())))
        })
    }

    /// Every Pareto-efficient Proposal.
    ///
    /// # Errors
    /// As [`Budgets::fits`].
    pub fn frontier(&self) -> Result<Frontier, SearchError> {
        self.ask(|work, place| {
            let whole = interrupt::portion(0, 7, 10, || self.whole(work, place))?;
            interrupt::portion(7, 10, 10, || placed_frontier(&whole.enumerated, &self.graph, &mut work.costs, place))
        })
    }

    /// Shared on what is kept. If that is stopped, what grows begins anew.
    fn ask<T>(
        &self,
        question: impl FnOnce(&mut Shared, &mut Placer) -> Result<T, SearchError>,
    ) -> Result<T, SearchError> {
        let held = || self.work.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out meanwhile: who else asks at the same time begins with none, and gets the same answer.
        let mut work = std::mem::take(&mut *held());
        let answer = question(&mut work, &mut placer(&self.graph))?;
        *held() = work;
        Ok(answer)
    }

    /// Whether a budget is ample: it holds the network several times as it is. Between several pools bytes in use are not
    /// one arena's.
    fn is_ample(&self, bytes: u64, work: &mut Shared, place: &mut Placer) -> Result<bool, SearchError> {
        let (times, is_one) = (self.options.within.ample, self.graph.device.memories().spacious().is_empty());
        Ok(is_one && times > 0 && bytes / times >= self.uncascaded(work, place)?.bytes)
    }

    /// Whether the whole frontier takes hardly longer than an answer.
    fn is_cheap(&self, whole: &Search) -> bool {
        whole.enumerated.plans_considered() <= self.options.within.whole_up_to
    }

    /// The search that answers budgets that are ample, or those that are not.
    fn answering(&self, is_ample: bool, work: &mut Shared, place: &mut Placer) -> Result<&Search, SearchError> {
        if is_ample {
            self.ample(work, place)
        } else {
            self.whole(work, place)
        }
    }

    fn uncascaded(&self, work: &mut Shared, place: &mut Placer) -> Result<Uncascaded, SearchError> {
        kept(&self.uncascaded, || Uncascaded::new(&self.graph, &self.options, &mut work.costs, place)).copied()
    }

    fn whole(&self, work: &mut Shared, place: &mut Placer) -> Result<&Search, SearchError> {
        let uncascaded = self.uncascaded(work, place)?;
        kept(&self.whole, || Ok(Search::new(&self.graph, &self.options, 0, uncascaded, &mut work.costs)))
    }

    /// Plans that take less than half of the network as it is leave no room that is wanted there.
    fn ample(&self, work: &mut Shared, place: &mut Placer) -> Result<&Search, SearchError> {
        let uncascaded = self.uncascaded(work, place)?;
        let (once, least) = (Options { refined_up_to: 0, ..self.options.clone() }, uncascaded.bytes / 2);
        kept(&self.ample, || Ok(Search::new(&self.graph, &once, least, uncascaded, &mut work.costs)))
    }

    fn lean(&self, work: &mut Shared, place: &mut Placer) -> Result<Option<&Search>, SearchError> {
        let uncascaded = self.uncascaded(work, place)?;
        let search = |options: Options| Search::new(&self.graph, &options, 0, uncascaded, &mut work.costs);
        Ok(kept(&self.lean, || Ok(self.options.leanest().map(search)))?.as_ref())
    }

    fn contenders<'a>(&self, search: &'a Search, costs: &mut Costs) -> Result<&'a Contenders, SearchError> {
        kept(&search.contenders, || Contenders::new(&self.graph, &search.enumerated, &self.options, costs))
    }
}

impl Search {
    fn new(
        graph: &CascaderGraph,
        options: &Options,
        least_bytes: u64,
        uncascaded: Uncascaded,
        costs: &mut Costs,
    ) -> Search {
        let enumerated = Enumerated::new(graph, options, least_bytes, uncascaded, costs);
        Search { enumerated, contenders: OnceLock::new() }
    }
}

/// What is kept, or is made now.
fn kept<T>(place: &OnceLock<T>, made: impl FnOnce() -> Result<T, SearchError>) -> Result<&T, SearchError> {
    match place.get() {
        Some(known) => Ok(known),
        None => made().map(|made| place.get_or_init(|| made)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::Proposal;
    use crate::proposals::leanest::leanest;
    use crate::proposals::search;
    use crate::testing::networks::{mobilenet_v1, mobilenet_v2, realised};
    use crate::testing::schedules::arbitrary_network;
    use proptest::prelude::*;

    fn budgets(graph: &CascaderGraph, options: Options) -> Budgets {
        Budgets::new(Arc::new(graph.clone()), options)
    }

    /// However small a network is, it is not placed as a whole.
    fn always() -> Options {
        let mut options = Options::default();
        options.within.whole_up_to = 0;
        options
    }

    fn answer(budgets: &Budgets, bytes: u64) -> Option<Proposal> {
        let found = budgets.within(bytes).expect("blocks fit")?;
        found.proposals.into_iter().rfind(|proposal| proposal.sram_bytes <= bytes)
    }

    /// Cycles of the fastest of a frontier within so many bytes.
    fn fewest(frontier: &[Proposal], bytes: u64) -> Option<u64> {
        frontier.iter().rfind(|proposal| proposal.sram_bytes <= bytes).map(|proposal| proposal.cycles)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
        #[test]
        fn answers_are_right_and_none_is_refused_that_the_frontier_has(graph in arbitrary_network(), times in 1u64..6) {
            let frontier = search(&graph, &always()).expect("blocks fit");
            let asked = budgets(&graph, always());
            prop_assert_eq!(&asked.frontier().expect("blocks fit").proposals, &frontier.proposals);
            let (whole, floor) = (frontier.uncascaded_bytes, frontier.proposals[0].sram_bytes);
            for bytes in [floor - 1, floor, floor + floor / 16, whole * times, 3 * whole, 3 * whole - 1] {
                let (found, best) = (answer(&asked, bytes), fewest(&frontier.proposals, bytes));
                let fits = asked.fits(bytes).expect("blocks fit");
                prop_assert!(fits.is_none_or(|fits| fits == best.is_some()), "{bytes}: {fits:?} {best:?}");
                prop_assert!(found.is_some() || fits != Some(true) || bytes < floor + floor / 8);
                let Some(found) = found else { continue };
                let (program, placement) = realised(&graph, &found);
                prop_assert_eq!(placement.bytes(), found.sram_bytes);
                prop_assert_eq!(Costs::default().program(&graph, &program, &placement), found.cycles);
            }
        }
    }

    #[test]
    fn where_a_network_fits_as_it_is_few_plans_are_looked_at() {
        for graph in [mobilenet_v1(), mobilenet_v2()] {
            let frontier = search(&graph, &Options::default()).expect("blocks fit");
            let bytes = 3 * frontier.uncascaded_bytes;
            let asked = budgets(&graph, Options::default());
            let found = asked.within(bytes).expect("blocks fit").expect("it fits");
            assert!(4 * found.plans_considered < frontier.plans_considered);
            assert!(100 * found.proposals[1].cycles <= 101 * fewest(&frontier.proposals, bytes).expect("it fits"));
            // The floor that is told is one.
            assert!(frontier.proposals[0].sram_bytes <= found.proposals[0].sram_bytes);
            assert!(100 * found.proposals[0].sram_bytes <= 110 * frontier.proposals[0].sram_bytes);
            let lean = asked.leanest(bytes).expect("blocks fit").expect("it fits");
            assert!(lean.plans_considered == found.plans_considered && lean.proposals.len() == 1);
            assert!(found.proposals[0].sram_bytes <= lean.proposals[0].sram_bytes);
            // Who asks for less looks at more; who asks for more again gets the same.
            assert!(
                found.plans_considered < asked.within(bytes - 1).expect("blocks fit").expect("fits").plans_considered
            );
            assert_eq!(asked.within(bytes).expect("blocks fit").expect("it fits").proposals, found.proposals);
        }
    }

    #[test]
    fn a_frontier_has_what_the_search_for_the_least_bytes_finds() {
        let graph = mobilenet_v2();
        let options = Options::default();
        let (costs, place) = (&mut Costs::default(), &mut placer(&graph));
        let uncascaded = Uncascaded::new(&graph, &options, costs, place).expect("blocks fit");
        let lean = leanest(&graph, &options, uncascaded, costs, place).expect("blocks fit");
        let found = lean.expect("there is always a schedule");
        let frontier = search(&graph, &options).expect("blocks fit").proposals;
        assert!(fewest(&frontier, found.memory_bytes()).is_some_and(|cycles| cycles <= found.cycles()));
        let mut none = options.clone();
        none.lean.resolution = 0;
        assert!(leanest(&graph, &none, uncascaded, costs, place).expect("blocks fit").is_none());
    }
}
