//! The least capacity that a space fits: a ladder of decisions, most of them far below the best packing known.
//!
//! Coming down from the best packing byte by byte meets one hard decision after the other; most decisions are easy far
//! above the least capacity and, where the bound is met, at the bound. So the bound comes first, then rungs at an
//! eighth, a quarter and half of the gap above it and just below the best packing, in turn, until the nodes run out.

use super::search::{Search, Verdict};
use super::space::Space;
use super::tactic::{luby, Tactic, ROUND};

/// Nodes of the shortest run.
const SHORTEST_RUN: u64 = 1_000;

/// What is wanted of a ladder.
pub(super) struct Goal {
    /// No packing needs less, in bytes.
    pub bound: u64,
    /// Only packings that need less are wanted, in bytes.
    pub below: u64,
    /// Most nodes, over all runs.
    pub nodes: u64,
    pub seed: u64,
}

/// What a ladder found.
pub(super) struct Found {
    /// By block, when there is a packing below what was asked for.
    pub offsets: Option<Vec<u64>>,
    /// No packing needs less, in bytes; proved.
    pub bound: u64,
    /// Nodes searched.
    pub nodes: u64,
}

/// A capacity that is tried again and again.
struct Rung {
    capacity: u64,
    turn: u64,
    /// What each tactic learned about the sections.
    weights: Vec<Vec<u64>>,
    /// Searched to the end without a proof.
    closed: bool,
}

/// Climbs down until the bound is met, everything is searched, or the nodes run out.
pub(super) fn descend(space: &Space, goal: &Goal) -> Found {
    let mut found = Found { offsets: None, bound: goal.bound, nodes: 0 };
    let mut below = goal.below;
    let mut rungs: Vec<Rung> = Vec::new();
    while found.bound < below && found.nodes < goal.nodes {
        rungs = capacities(space, found.bound, below, rungs);
        if rungs.is_empty() {
            // No multiple of the grain lies between the two.
            found.bound = below;
            break;
        }
        if rungs.iter().all(|rung| rung.closed) {
            break;
        }
        for rung in rungs.iter_mut().filter(|rung| !rung.closed) {
            let left = goal.nodes - found.nodes;
            match climb(space, rung, goal.seed, left, &mut found) {
                Verdict::Found => {
                    let offsets = found.offsets.iter().flatten();
                    below = offsets.zip(&space.blocks).map(|(&at, block)| at + block.size).max().unwrap_or(0);
                    break;
                }
                Verdict::Impossible if !space.solid => rung.closed = true,
                Verdict::Impossible => {
                    found.bound = found.bound.max(rung.capacity + 1);
                    break;
                }
                Verdict::Spent => {}
            }
            if found.nodes >= goal.nodes {
                break;
            }
        }
    }
    found
}

/// A packing of at most `capacity` bytes, if one is found, and the nodes that took.
pub(super) fn decide(space: &Space, capacity: u64, nodes: u64, seed: u64) -> (Option<Vec<u64>>, u64) {
    let mut found = Found { offsets: None, bound: 0, nodes: 0 };
    let mut rung = Rung { capacity, turn: 0, weights: vec![Vec::new(); ROUND as usize], closed: false };
    while found.nodes < nodes && climb(space, &mut rung, seed, nodes - found.nodes, &mut found) == Verdict::Spent {}
    (found.offsets, found.nodes)
}

/// Tries one rung: a whole round of tactics the first time, then one more each time.
fn climb(space: &Space, rung: &mut Rung, seed: u64, left: u64, found: &mut Found) -> Verdict {
    let stop = found.nodes + left;
    loop {
        let own = (rung.turn % ROUND) as usize;
        let tactic = Tactic::new(space, rung.turn, seed);
        let mut search = Search::new(space, rung.capacity, &tactic, std::mem::take(&mut rung.weights[own]));
        // A packing takes a node for each block at least.
        let budget = SHORTEST_RUN.max(2 * space.blocks.len() as u64) * luby(rung.turn / ROUND);
        let verdict = search.run(budget.min(stop - found.nodes));
        found.nodes += search.nodes().max(1);
        rung.turn += 1;
        if verdict == Verdict::Found {
            found.offsets = Some(search.offsets().to_vec());
        }
        rung.weights[own] = search.into_weights();
        if verdict != Verdict::Spent || found.nodes >= stop {
            return verdict;
        }
        if rung.turn >= ROUND {
            return Verdict::Spent;
        }
    }
}

/// The rungs between what is proved and what is known, lowest first; what was learned on one stays with it.
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
            None => Rung { capacity, turn: 0, weights: vec![Vec::new(); ROUND as usize], closed: false },
        })
        .collect()
}
