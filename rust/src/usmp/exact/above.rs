//! The least capacity that a small pool fits: a ladder of searches over which of two items lies above the other.
//!
//! For items of which parts die, and for shares. Owns which capacities are decided, and in what order; `meetings` are the
//! pairs, `decisions` the search.

use super::decisions::DecisionSearch;
use super::meetings::Meetings;
use super::packing::{Goal, LadderAnswer, Verdict};

/// Nodes of the shortest run.
const SHORTEST_RUN: u64 = 100;
/// The rungs of a ladder lie these parts of the way from the bound to the best packing, in 64ths.
const PARTS: [u64; 5] = [0, 32, 16, 8, 64];
/// Pairs looked at, over all nodes, at most.
const WORK: u64 = 1 << 31;

/// A packing of at most `capacity` bytes, if one is found, and the nodes that took.
pub(super) fn decide(meetings: &Meetings, capacity: u64, nodes: u64) -> (Option<Vec<u64>>, u64) {
    let mut search = DecisionSearch::new(meetings);
    let verdict = search.run(capacity, affordable(meetings, nodes));
    ((verdict == Verdict::Found).then(|| search.packing()), search.nodes())
}

/// Climbs down until the bound is met, everything is searched, or the nodes run out.
pub(super) fn descend(meetings: &Meetings, goal: &Goal) -> LadderAnswer {
    let mut found = LadderAnswer { offsets: None, bound: goal.bound, nodes: 0, work: 0 };
    let mut search = DecisionSearch::new(meetings);
    let (mut below, most) = (goal.below, affordable(meetings, goal.nodes));
    let mut run = SHORTEST_RUN;
    while found.nodes < most {
        for part in PARTS {
            // The largest and the least capacity that can be told apart from the two that are known.
            let last = (below.max(1) - 1) / meetings.grain * meetings.grain;
            let first = found.bound.next_multiple_of(meetings.grain);
            if first > last || below == 0 {
                found.bound = below;
                return found;
            }
            let capacity =
                (first + ((u128::from(last - first) * u128::from(part)) / 64) as u64) / meetings.grain * meetings.grain;
            let before = search.nodes();
            let verdict = search.run(capacity, run.min(most - found.nodes));
            found.nodes += (search.nodes() - before).max(1);
            match verdict {
                Verdict::Found => {
                    let packing = search.packing();
                    below = packing
                        .iter()
                        .zip(&meetings.members)
                        .map(|(&at, member)| at + member.size as u64)
                        .max()
                        .unwrap_or(0);
                    found.offsets = Some(packing);
                }
                Verdict::Impossible => found.bound = capacity + 1,
                Verdict::Spent => {}
            }
            if found.nodes >= most {
                break;
            }
        }
        run *= 2;
    }
    found
}

fn affordable(meetings: &Meetings, nodes: u64) -> u64 {
    nodes.min(WORK / (meetings.edges.len() as u64).max(1))
}
