//! Disjunctive search for one capacity: for every pair it decides which item lies above the other.
//!
//! A capacity gives every item a least and a largest offset. A pair with one possible decision takes it, which raises one
//! item's least and lowers the other's largest offset: the disjunctive constraint of shop scheduling (Carlier and Pinson,
//! "An algorithm for solving the job-shop problem", Management Science 35, 1989). Least offsets outside all forbidden
//! ranges are a packing; otherwise the search branches on a pair inside one. It assumes nothing of windows or alignments,
//! so a complete search is a proof.

use super::disjunctions::{Decision, Disjunctions, Edge, Side};
use super::packing::Verdict;
use super::unique_stack::UniqueStack;
use crate::usmp::limits::{MAX_STEP_LOOKS, NODES_PER_ITERATION, WORK_PER_ITERATION};
use crate::usmp::pairs::MAX_ITEMS;
use crate::util::interrupt;

/// Deepest recursion, on the caller's stack: two decisions for each item.
const MAX_DEPTH: u32 = 2 * MAX_ITEMS as u32;
/// Propagation steps in a row, counted as one node. Items that hold one another up in a ring would rise step by step to
/// the end of the pool.
const CONCLUSIONS_PER_NODE: u64 = WORK_PER_ITERATION / NODES_PER_ITERATION;
/// Scale of an edge's slack before it is divided by the edge's failure weight.
const FAILURE_WEIGHT_SCALE: i64 = 64;
/// The urgency of an edge without need of a decision: decided, or kept by the least offsets.
const NO_URGENCY: i32 = i32::MAX;
/// Edges compared at once by their urgency.
const URGENCY_CHUNK: usize = 64;

enum DisjunctiveChange {
    Least(u32, i64),
    Most(u32, i64),
    Decided(u32),
}

/// One search after the other, each for a capacity of its own.
pub(super) struct DisjunctiveSearch<'a> {
    disjunctions: &'a Disjunctions,
    /// Offsets between which each item can still lie.
    least: Vec<i64>,
    most: Vec<i64>,
    decisions: Vec<Decision>,
    /// Failure weights: by edge, one more than the number of branches it made fail.
    weights: Vec<i64>,
    changes: Vec<DisjunctiveChange>,
    /// Items whose least, and whose largest, offset has changed since their last propagation.
    raised: UniqueStack,
    lowered: UniqueStack,
    /// Urgency of a decision by edge, the least first; `NO_URGENCY` where none is needed. The type is narrow because each
    /// node looks at all of them.
    urgency: Vec<i32>,
    /// Items whose least, or largest, offset has changed since the last look at urgencies, and edges with a new weight.
    moved: UniqueStack,
    squeezed: UniqueStack,
    stale: UniqueStack,
    nodes: u64,
    budget: u64,
    depth: u32,
    /// Whether propagation was cut short: nothing is known then.
    gave_up: bool,
}

impl<'a> DisjunctiveSearch<'a> {
    pub fn new(disjunctions: &'a Disjunctions) -> Self {
        Self {
            disjunctions,
            least: vec![0; disjunctions.members.len()],
            most: vec![0; disjunctions.members.len()],
            decisions: vec![Decision::Open; disjunctions.edges.len()],
            weights: vec![1; disjunctions.edges.len()],
            changes: Vec::new(),
            raised: UniqueStack::new(disjunctions.members.len()),
            lowered: UniqueStack::new(disjunctions.members.len()),
            urgency: vec![NO_URGENCY; disjunctions.edges.len()],
            moved: UniqueStack::new(disjunctions.members.len()),
            squeezed: UniqueStack::new(disjunctions.members.len()),
            stale: UniqueStack::new(disjunctions.edges.len()),
            nodes: 0,
            budget: 0,
            depth: 0,
            gave_up: false,
        }
    }

    /// Searches for a packing of at most `capacity` bytes with at most `budget` nodes more.
    ///
    /// The failure weights of edges stay from run to run.
    pub fn run(&mut self, capacity: u64, budget: u64) -> Verdict {
        self.budget = self.nodes + budget;
        (self.depth, self.gave_up) = (0, false);
        self.changes.clear();
        self.raised.clear();
        self.lowered.clear();
        self.decisions.fill(Decision::Open);
        for (index, member) in self.disjunctions.members.iter().enumerate() {
            let room = capacity as i64 - member.size;
            if room < member.pinned.unwrap_or(0) {
                return Verdict::Impossible;
            }
            self.least[index] = member.pinned.unwrap_or_else(|| self.disjunctions.up(member, 0));
            self.most[index] = member.pinned.unwrap_or_else(|| self.disjunctions.down(member, room));
            if self.least[index] > self.most[index] {
                return Verdict::Impossible;
            }
            self.raised.add(index as u32);
            self.lowered.add(index as u32);
            self.moved.add(index as u32);
        }
        match self.propagate() {
            true => self.solve(),
            false if self.gave_up => Verdict::Spent,
            false => Verdict::Impossible,
        }
    }

    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// The least offsets, once they are a packing.
    pub fn packing(&self) -> Vec<u64> {
        self.least.iter().map(|&offset| offset as u64).collect()
    }

    fn solve(&mut self) -> Verdict {
        interrupt::ask();
        let Some(edge) = self.tightest() else { return Verdict::Found };
        if self.depth >= MAX_DEPTH {
            return Verdict::Spent;
        }
        self.depth += 1;
        let (first, second) = self.slacks(edge);
        let both = [Decision::FirstAbove, Decision::SecondAbove];
        for decision in if first >= second { both } else { [both[1], both[0]] } {
            if self.nodes >= self.budget {
                return Verdict::Spent;
            }
            self.nodes += 1;
            let mark = self.changes.len();
            if self.keep(edge, decision) && self.propagate() {
                let verdict = self.solve();
                if verdict != Verdict::Impossible {
                    return verdict;
                }
            } else if self.gave_up {
                return Verdict::Spent;
            } else {
                self.blame(edge);
            }
            self.undo(mark);
        }
        self.depth -= 1;
        Verdict::Impossible
    }

    /// The most urgent edge: broken by the least offsets, with the least slack for either decision.
    fn tightest(&mut self) -> Option<usize> {
        let disjunctions = self.disjunctions;
        while let Some(member) = self.moved.pop() {
            for &Side { edge, .. } in &disjunctions.members[member as usize].edges {
                self.urgency[edge as usize] = self.urgency(edge as usize);
            }
        }
        while let Some(member) = self.squeezed.pop() {
            // Edges kept by the least offsets need no decision, whatever the largest offsets are.
            for &Side { edge, .. } in &disjunctions.members[member as usize].edges {
                if self.urgency[edge as usize] != NO_URGENCY {
                    self.urgency[edge as usize] = self.urgency(edge as usize);
                }
            }
        }
        while let Some(edge) = self.stale.pop() {
            self.urgency[edge as usize] = self.urgency(edge as usize);
        }
        let (mut least, mut from) = (NO_URGENCY, 0);
        for (stride, some) in self.urgency.chunks(URGENCY_CHUNK).enumerate() {
            let most_urgent = some.iter().fold(NO_URGENCY, |least, &urgency| least.min(urgency));
            if most_urgent < least {
                (least, from) = (most_urgent, stride * URGENCY_CHUNK);
            }
        }
        let at = || self.urgency[from..].iter().position(|&urgency| urgency == least).map(|at| from + at);
        (least != NO_URGENCY).then(at)?
    }

    fn urgency(&self, index: usize) -> i32 {
        let Edge { items: (first, second), low, high } = self.disjunctions.edges[index];
        let apart = self.least[first as usize] - self.least[second as usize];
        if self.decisions[index] != Decision::Open || apart < low || high <= apart {
            return NO_URGENCY;
        }
        let (first, second) = self.slacks(index);
        let slack = first.min(second) + (first + second) / 8 + 16;
        let lenient = slack.saturating_mul(FAILURE_WEIGHT_SCALE) / self.weights[index];
        lenient.min(i64::from(NO_URGENCY) - 1) as i32
    }

    /// Slack in bytes with the first item of an edge above, and with the second above; negative where impossible.
    fn slacks(&self, edge: usize) -> (i64, i64) {
        let Edge { items: (first, second), low, high } = self.disjunctions.edges[edge];
        let (first, second) = (first as usize, second as usize);
        (self.most[first] - self.least[second] - high, self.most[second] - self.least[first] - (1 - low))
    }

    /// Decides an edge and updates both offsets. Returns `false` when an item has no offset left.
    fn keep(&mut self, edge: usize, decision: Decision) -> bool {
        self.changes.push(DisjunctiveChange::Decided(edge as u32));
        self.decisions[edge] = decision;
        self.stale.add(edge as u32);
        let Edge { items: (first, second), low, high } = self.disjunctions.edges[edge];
        let (upper, lower, apart) =
            if decision == Decision::FirstAbove { (first, second, high) } else { (second, first, 1 - low) };
        self.raise(upper, self.least[lower as usize] + apart) && self.lower(lower, self.most[upper as usize] - apart)
    }

    /// Raises an item's least offset to `offset`. Returns `false` when it has no offset left.
    fn raise(&mut self, member: u32, offset: i64) -> bool {
        let at = member as usize;
        if offset <= self.least[at] {
            return true;
        }
        let offset = self.disjunctions.up(&self.disjunctions.members[at], offset);
        if offset > self.most[at] {
            return false;
        }
        self.changes.push(DisjunctiveChange::Least(member, self.least[at]));
        self.least[at] = offset;
        self.raised.add(member);
        self.moved.add(member);
        true
    }

    /// Lowers an item's largest offset to `offset`. Returns `false` when it has no offset left.
    fn lower(&mut self, member: u32, offset: i64) -> bool {
        let at = member as usize;
        if offset >= self.most[at] {
            return true;
        }
        let offset = self.disjunctions.down(&self.disjunctions.members[at], offset);
        if offset < self.least[at] {
            return false;
        }
        self.changes.push(DisjunctiveChange::Most(member, self.most[at]));
        self.most[at] = offset;
        self.lowered.add(member);
        self.squeezed.add(member);
        true
    }

    /// Raises the failure weight of an edge.
    fn blame(&mut self, edge: usize) {
        self.weights[edge] += 1;
        self.stale.add(edge as u32);
        self.raised.clear();
        self.lowered.clear();
    }

    /// Propagates all changed offsets. Returns `false` when an item has no offset left.
    fn propagate(&mut self) -> bool {
        let disjunctions = self.disjunctions;
        let mut conclusions = 0;
        loop {
            conclusions += 1;
            if conclusions % CONCLUSIONS_PER_NODE == 0 {
                self.nodes += 1;
                self.gave_up = self.nodes >= self.budget || conclusions >= MAX_STEP_LOOKS;
            }
            let failed = if let Some(member) = self.raised.pop() {
                let mut sides = disjunctions.members[member as usize].edges.iter();
                sides.find(|side| !self.keep_raised(member as usize, side))
            } else if let Some(member) = self.lowered.pop() {
                let mut sides = disjunctions.members[member as usize].edges.iter();
                sides.find(|side| !self.keep_lowered(member as usize, side))
            } else {
                return true;
            };
            if self.gave_up {
                self.raised.clear();
                self.lowered.clear();
                return false;
            }
            if let Some(side) = failed {
                self.blame(side.edge as usize);
                return false;
            }
        }
    }

    /// Propagates a larger least offset of an item along one of its edges.
    fn keep_raised(&mut self, member: usize, side: &Side) -> bool {
        let decision = self.decisions[side.edge as usize];
        if decision == Decision::Open {
            let can_lie_below = self.most[side.other as usize] - self.least[member] >= side.below;
            can_lie_below || self.keep(side.edge as usize, side.above.0)
        } else {
            decision == side.above.0 || self.raise(side.other, self.least[member] + side.below)
        }
    }

    /// Propagates a smaller largest offset of an item along one of its edges.
    fn keep_lowered(&mut self, member: usize, side: &Side) -> bool {
        let decision = self.decisions[side.edge as usize];
        if decision == Decision::Open {
            let can_lie_above = self.most[member] - self.least[side.other as usize] >= side.above.1;
            can_lie_above || self.keep(side.edge as usize, side.above.0.other())
        } else {
            decision != side.above.0 || self.lower(side.other, self.most[member] - side.above.1)
        }
    }

    fn undo(&mut self, mark: usize) {
        while self.changes.len() > mark {
            match self.changes.pop() {
                Some(DisjunctiveChange::Least(member, before)) => {
                    self.least[member as usize] = before;
                    self.moved.add(member);
                }
                Some(DisjunctiveChange::Most(member, before)) => {
                    self.most[member as usize] = before;
                    self.squeezed.add(member);
                }
                Some(DisjunctiveChange::Decided(edge)) => {
                    self.decisions[edge as usize] = Decision::Open;
                    self.stale.add(edge);
                }
                None => break,
            }
        }
    }
}
