//! The least capacity of a space, found by deciding a ladder of capacities.
//!
//! Capacities just below the best packing are hard to decide. Those far above the least one are easy, and so is the lower
//! bound where it is met. So the bound is decided first, then rungs at an eighth, a quarter and half of the gap above it
//! and just below the best packing. They alternate until the nodes run out.

use crate::usmp::optimality_gap::OptimalityGap;
use crate::usmp::parallel::until;

use super::packing::{Goal, LadderAnswer, Verdict};
use super::search::PackingSearch;
use super::space::Space;
use super::tactic::{luby, Tactic, ROUND};

/// Nodes of the shortest run. Fewer are not worth a search.
pub(super) const MIN_RUN_NODES: u64 = 1_000;

/// A capacity, tried again until it is decided.
#[derive(Clone)]
struct Rung {
    capacity: u64,
    turn: u64,
    /// Failure weights of the sections, by tactic.
    weights: Vec<Vec<u64>>,
    /// Searched to the end without a proof.
    closed: bool,
}

/// Lowers the best packing until the bound is met, everything is searched, or the nodes run out.
pub(super) fn descend(space: &Space, goal: &Goal) -> LadderAnswer {
    let mut found = LadderAnswer { offsets: None, bound: goal.bound, nodes: 0, work: 0 };
    let mut below = goal.below;
    let mut rungs: Vec<Rung> = Vec::new();
    while found.bound < below && found.nodes < goal.nodes && found.work < goal.work {
        rungs = capacities(space, found.bound, below, rungs);
        if rungs.is_empty() {
            // No multiple of the grain lies between the two.
            found.bound = below;
            break;
        }
        if rungs.iter().all(|rung| rung.closed) {
            break;
        }
        let (nodes, work) = (goal.nodes - found.nodes, goal.work - found.work);
        // Of several threads' packings some may be forgotten.
        let left = Limits { below: Some(below), nodes, work, gap: goal.gap.filter(|_| goal.threads == 1) };
        for trial in try_all(space, &rungs, goal, left) {
            found.nodes += trial.nodes;
            found.work += trial.work;
            let rung = &mut rungs[trial.index];
            *rung = trial.rung;
            if let Some(offsets) = trial.offsets {
                let peak = peak(space, &offsets);
                if peak < below {
                    below = peak;
                    found.offsets = Some(offsets);
                }
            }
            match trial.verdict {
                Verdict::Found => {}
                Verdict::Impossible if !space.solid => rung.closed = true,
                Verdict::Impossible => found.bound = found.bound.max(rung.capacity + 1),
                Verdict::Spent => {}
            }
            goal.report(below, found.bound);
        }
    }
    found
}

/// A packing of at most `capacity` bytes, if one is found, and the nodes and looks spent.
pub(super) fn decide(space: &Space, capacity: u64, most: (u64, u64), seed: u64) -> (Option<Vec<u64>>, (u64, u64)) {
    let mut rung = Rung::new(capacity);
    let (mut nodes, mut work) = (0, 0);
    while nodes < most.0 && work < most.1 {
        let left = Limits { below: None, nodes: most.0 - nodes, work: most.1 - work, gap: None };
        let trial = climb(space, rung, seed, left, &|| true);
        nodes += trial.nodes;
        work += trial.work;
        if trial.verdict != Verdict::Spent {
            return (trial.offsets, (nodes, work));
        }
        rung = trial.rung;
    }
    (None, (nodes, work))
}

/// One past the last byte of a packing.
fn peak(space: &Space, offsets: &[u64]) -> u64 {
    offsets.iter().zip(&space.blocks).map(|(&at, block)| at + block.size).max().unwrap_or(0)
}

/// What a trial may spend, and what its packing must be below.
#[derive(Clone, Copy)]
struct Limits<'a> {
    /// The best packing so far, in bytes; None where only what is asked for counts.
    below: Option<u64>,
    nodes: u64,
    work: u64,
    /// Where packings are reported at once, if anywhere.
    gap: Option<&'a OptimalityGap>,
}

/// The result of one trial of a rung.
struct Trial {
    /// Position in the list of rungs.
    index: usize,
    /// The rung with its new failure weights.
    rung: Rung,
    verdict: Verdict,
    offsets: Option<Vec<u64>>,
    nodes: u64,
    work: u64,
}

/// Tries one rung after the other, lowest first, until one changes the bounds of the others.
///
/// Each gets an equal part of the looks and the nodes left by those before it, as if these spent all they may. So no rung
/// waits for another.
fn try_all(space: &Space, rungs: &[Rung], goal: &Goal, limits: Limits) -> Vec<Trial> {
    let mut left = limits.nodes;
    let mut jobs = Vec::with_capacity(rungs.len());
    for (index, rung) in rungs.iter().enumerate().filter(|(_, rung)| !rung.closed) {
        let granted = left.min(rung.limit_nodes(space));
        left -= granted;
        if granted > 0 {
            jobs.push((index, granted));
        }
    }
    let share = limits.work.div_ceil(jobs.len().max(1) as u64);
    let run = |(index, granted): (usize, u64), wanted: &dyn Fn() -> bool| {
        let own = Limits { nodes: granted, work: share, ..limits };
        Trial { index, ..climb(space, rungs[index].clone(), goal.seed, own, wanted) }
    };
    let ends = |trial: &Trial| match trial.verdict {
        Verdict::Found => true,
        Verdict::Impossible => space.solid,
        Verdict::Spent => false,
    };
    until(goal.threads, jobs, run, ends)
}

impl Rung {
    fn new(capacity: u64) -> Self {
        Self { capacity, turn: 0, weights: vec![Vec::new(); ROUND as usize], closed: false }
    }

    /// Most nodes of its next run.
    fn limit_run_nodes(&self, space: &Space) -> u64 {
        // A packing takes a node for each block at least.
        MIN_RUN_NODES.max(2 * space.blocks.len() as u64) * luby(self.turn / ROUND)
    }

    /// Most nodes of its next trial: a round of tactics the first time, then one more each time.
    fn limit_nodes(&self, space: &Space) -> u64 {
        self.limit_run_nodes(space) * ROUND.saturating_sub(self.turn).max(1)
    }
}

/// Tries one rung as long as its answer is `wanted`.
fn climb(space: &Space, mut rung: Rung, seed: u64, limits: Limits, wanted: &dyn Fn() -> bool) -> Trial {
    let mut below = limits.below;
    let (mut nodes, mut work, mut verdict, mut offsets) = (0, 0, Verdict::Spent, None);
    while verdict == Verdict::Spent && nodes < limits.nodes && work < limits.work && wanted() {
        let own = (rung.turn % ROUND) as usize;
        // Large blocks first needs the fewest nodes of all where there are many.
        let turn = if space.is_large() { rung.turn ^ 1 } else { rung.turn };
        let tactic = Tactic::new(space, turn, seed);
        // The first run is given up when its nodes run out: where it is enough, more of these find more.
        let relaxed_below = below.filter(|_| rung.turn > 0);
        let weights = std::mem::take(&mut rung.weights[own]);
        let mut search = PackingSearch::new(space, rung.capacity, relaxed_below, &tactic, weights);
        verdict = search.run(rung.limit_run_nodes(space).min(limits.nodes - nodes), limits.work - work);
        nodes += search.nodes().max(1);
        work += search.work();
        rung.turn += 1;
        if verdict == Verdict::Found {
            let found = peak(space, search.offsets());
            below = below.map(|_| found);
            if let Some(gap) = limits.gap {
                gap.narrow(found, 0);
            }
            offsets = Some(search.offsets().to_vec());
            if found > rung.capacity {
                // Found with a relaxed capacity: what was asked is still open.
                verdict = Verdict::Spent;
            }
        }
        rung.weights[own] = search.into_weights();
        if rung.turn >= ROUND {
            break;
        }
    }
    Trial { index: 0, rung, verdict, offsets, nodes, work }
}

/// The rungs between the lower bound and the best packing, lowest first; rungs of `before` keep their weights.
fn capacities(space: &Space, bound: u64, below: u64, before: Vec<Rung>) -> Vec<Rung> {
    let gap = below - bound;
    let lowest = bound.next_multiple_of(space.grain);
    let mut wanted: Vec<u64> = [gap / 8, gap / 4, gap / 2, gap - 1]
        .iter()
        .map(|part| (bound + part) / space.grain * space.grain)
        .chain([lowest])
        .filter(|&capacity| bound <= capacity && capacity < below)
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut before = before;
    wanted
        .into_iter()
        .map(|capacity| match before.iter().position(|rung| rung.capacity == capacity) {
            Some(at) => before.swap_remove(at),
            None => Rung::new(capacity),
        })
        .collect()
}
