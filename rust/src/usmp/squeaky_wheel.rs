//! Squeaky wheel optimisation: items that end too high move to an earlier place in the order of first fit.
//!
//! After Joslin and Clements, "Squeaky wheel optimization" (Journal of Artificial Intelligence Research 10, 1999). A pass
//! places all items, blames those above the target and moves each of them to a random earlier position. Every plan is
//! accepted, so no local optimum traps the search. Small problems have good plans after a few hundred passes, while
//! annealing is still cooling. Owns the passes; first fit is in `placer`.

use super::instance::Instance;
use super::item::PlanCost;
use super::model::Pool;
use super::placer::{OrderedPlan, Placer};
use super::random::Random;

/// Most starts.
const MAX_STARTS: usize = 4;
/// The target is the best peak less the gap to the lower bound, divided by this.
const TARGET_DIVISOR: u64 = 2;

/// The best plan of `passes` passes from the best of `starts` (at least one), and the number of passes made.
pub(crate) fn improve(placer: &mut Placer, starts: &[OrderedPlan], passes: u64, seed: u64) -> (OrderedPlan, u64) {
    let instance = placer.instance();
    let starts = &starts[..starts.len().min(MAX_STARTS)];
    let mut best = starts[0].clone();
    let mut random = Random::new(seed);
    let mut blame = Blame { targets: targets(instance, &best.cost), ..Blame::default() };
    let mut done = 0;
    for (round, start) in (1u64..).zip(starts) {
        let mut order = start.order.clone();
        placer.place_all(&order);
        while done < passes * round / starts.len() as u64 && !instance.proves_optimal(&best.cost, &[]) {
            if !blame.reorder(placer, &mut order, &mut random) {
                break;
            }
            placer.place_moved(&order, &blame.moved);
            done += 1;
            if *placer.cost() < best.cost {
                best = placer.found(&order);
                instance.report(&best.cost);
                blame.targets = targets(instance, &best.cost);
            }
        }
    }
    (best, done)
}

/// Peaks between those of the best plan and the lower bounds, in bytes, by pool.
pub(crate) fn targets(instance: &Instance, best: &PlanCost) -> Vec<u64> {
    let target = |(pool, spec): (usize, &Pool)| {
        let peak = best.peaks[pool];
        let wanted = peak - peak.saturating_sub(instance.goal(pool)).div_ceil(TARGET_DIVISOR);
        wanted.min(spec.limit_bytes.unwrap_or(u64::MAX))
    };
    instance.pools.iter().enumerate().map(target).collect()
}

#[derive(Default)]
struct Blame {
    targets: Vec<u64>,
    /// What was moved last.
    moved: Vec<u32>,
    /// The same with the positions before which it goes, ascending.
    places: Vec<(u32, u32)>,
    /// All else with the positions where it was, ascending.
    kept: Vec<(u32, u32)>,
}

impl Blame {
    /// Moves items above their target, or outside their preferred pool, to earlier positions. `false` where there is none.
    fn reorder(&mut self, placer: &Placer, order: &mut Vec<u32>, random: &mut Random) -> bool {
        self.places.clear();
        self.kept.clear();
        for (position, &index) in (0u32..).zip(order.iter()) {
            let there = placer.placed(index);
            if there.spill > 0 || there.end > self.targets[there.pool as usize] {
                self.places.push((random.below(position as usize + 1) as u32, index));
            } else {
                self.kept.push((position, index));
            }
        }
        self.places.sort_by_key(|&(place, _)| place);
        self.moved.clear();
        self.moved.extend(self.places.iter().map(|&(_, index)| index));
        order.clear();
        let mut places = self.places.iter().peekable();
        for &(position, index) in &self.kept {
            while let Some(&(_, moved)) = places.next_if(|&&(place, _)| place <= position) {
                order.push(moved);
            }
            order.push(index);
        }
        order.extend(places.map(|&(_, moved)| moved));
        !self.moved.is_empty()
    }
}
