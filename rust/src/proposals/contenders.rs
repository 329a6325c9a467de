//! Plans of the whole network that may answer a question about a budget, with what they are estimated to take.
//!
//! What Plans are worth combining does not depend on the budgets of a bracket, so all its questions share them. Owns the
//! sketches. Which of them are placed is for `within` to say.

use crate::cost::Costs;
use crate::model::graph::CascaderGraph;
use crate::model::plan::Plan;
use crate::plans::options::Options;
use crate::proposals::enumerated::Enumerated;
use crate::proposals::error::SearchError;
use crate::proposals::placing::Chosen;
use crate::proposals::restaging::restaged;
use crate::schedule::interleave::interleave;
use crate::schedule::prefetch::{sketches, Sketch};
use crate::util::hashing::Table;
use crate::util::interrupt;

/// Plans of the whole network, and what their program takes under each limit for early copies.
#[derive(Debug)]
pub(super) struct Contender {
    pub chosen: Chosen,
    /// Ascending in limits, the first without early copies.
    pub sketches: Vec<Sketch>,
}

impl Contender {
    fn new(
        graph: &CascaderGraph,
        chosen: Chosen,
        options: &Options,
        costs: &mut Costs,
    ) -> Result<Contender, SearchError> {
        interrupt::ask();
        let program = interleave(graph, &chosen.plans, costs)?;
        let sketches = sketches(&program, &chosen.limits, &options.limits);
        Ok(Contender { chosen, sketches })
    }

    /// Most bytes in use at once without early copies: no placement takes fewer.
    pub fn live_bytes(&self) -> u64 {
        self.sketches[0].peak_bytes
    }

    /// Fewer cycles are not expected within so many bytes: more room makes none slower.
    pub fn least_cycles(&self, bytes: u64) -> u64 {
        let within = self.sketches.partition_point(|sketch| sketch.peak_bytes <= bytes);
        self.sketches[within.min(self.sketches.len() - 1)].cycles
    }
}

/// All contenders of one search.
#[derive(Debug)]
pub struct Contenders {
    pub(super) all: Vec<Contender>,
    pub(super) options: Options,
}

impl Contenders {
    /// What was enumerated, and of each search the fastest with its constants read otherwise.
    ///
    /// # Errors
    /// Those of interleaving the Plans.
    pub fn new(
        graph: &CascaderGraph,
        enumerated: &Enumerated,
        options: &Options,
        costs: &mut Costs,
    ) -> Result<Contenders, SearchError> {
        let mut all: Vec<Contender> = Vec::new();
        let mut numbers: Table<Vec<Plan>, usize> = Table::default();
        for search in &enumerated.searches {
            let mut fastest: Option<(u64, usize)> = None;
            for chosen in &search.chosen {
                let number = match numbers.get(&chosen.plans) {
                    Some(&number) => number,
                    None => {
                        numbers.insert(chosen.plans.clone(), all.len());
                        all.push(Contender::new(graph, chosen.clone(), options, costs)?);
                        all.len() - 1
                    }
                };
                let cycles = all[number].sketches.iter().map(|sketch| sketch.cycles).min().unwrap_or(u64::MAX);
                if fastest.is_none_or(|(known, _)| cycles < known) {
                    fastest = Some((cycles, number));
                }
            }
            let Some((_, number)) = fastest else { continue };
            let plans = restaged(graph, &all[number].chosen.plans, &options.restaging, costs)?;
            if !numbers.contains_key(&plans) {
                numbers.insert(plans.clone(), all.len());
                all.push(Contender::new(graph, Chosen { plans, limits: Vec::new() }, options, costs)?);
            }
        }
        Ok(Contenders { all, options: options.clone() })
    }

    /// What no Proposal of these Plans goes below: the fewest bytes that any has in use at once.
    pub fn least_live_bytes(&self) -> u64 {
        self.all.iter().map(Contender::live_bytes).min().unwrap_or(0)
    }

    /// Bytes beyond which more are of no use: whatever is ever in use at once, and as much again for holes.
    pub fn most_bytes(&self) -> u64 {
        let most = self.all.iter().flat_map(|contender| &contender.sketches).map(|sketch| sketch.peak_bytes).max();
        2 * most.unwrap_or(0)
    }
}
