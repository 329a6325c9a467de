//! Which of two items lies above the other: a search over these decisions for one capacity.
//!
//! A capacity gives every item a least and a largest offset; a pair for which one way is impossible takes the other, which
//! raises the one's least and lowers the other's largest offset. It is the disjunctive constraint of shop scheduling
//! (Carlier and Pinson, "An algorithm for solving the job-shop problem", Management Science 35, 1989). Where the least
//! offsets break no range, they are a packing; otherwise a pair that they break is decided either way. Nothing is assumed
//! of windows or alignments, so what is searched to the end is proved.

use super::marked::Marked;
use super::meetings::{Decision, Edge, Meetings, Side};
use super::packing::Verdict;
use crate::util::interrupt;

/// Most decisions above one another, so that the caller's stack bears them.
const DEEPEST: u32 = 4_000;
/// Conclusions in a row that count as a node, and most of them: where items hold one another up in a ring they would rise
/// step by step to the end of the pool.
const PATIENCE: u64 = 1 << 12;
const MOST_CONCLUSIONS: u64 = 1 << 20;
/// A pair's slack counts as so much, divided by how often it failed.
const LESSON: i64 = 64;
/// The urgency of an edge that is decided or that the least offsets do not break.
const SETTLED: i32 = i32::MAX;
/// Edges whose urgency is compared at once.
const STRIDE: usize = 64;

enum DecisionChange {
    Least(u32, i64),
    Most(u32, i64),
    Decided(u32),
}

/// One search after the other, each for a capacity of its own.
pub(super) struct DecisionSearch<'a> {
    meetings: &'a Meetings,
    /// Offsets between which each item can still lie.
    least: Vec<i64>,
    most: Vec<i64>,
    ways: Vec<Decision>,
    /// One more than how often an edge made a branch fail.
    weights: Vec<i64>,
    changes: Vec<DecisionChange>,
    /// Items whose least, and whose largest, offset has changed since their edges were looked at.
    raised: Marked,
    lowered: Marked,
    /// By edge, how urgently it wants a decision, the least the most; `SETTLED` where it wants none. Narrow, as all are
    /// looked at in each node.
    urgency: Vec<i32>,
    /// Items whose least, and whose largest, offset has changed since their edges' urgency was told, and edges that have.
    moved: Marked,
    squeezed: Marked,
    stale: Marked,
    nodes: u64,
    budget: u64,
    depth: u32,
    /// Whether conclusions were left undrawn, so that nothing is known.
    gave_up: bool,
}

impl<'a> DecisionSearch<'a> {
    pub fn new(meetings: &'a Meetings) -> Self {
        Self {
            meetings,
            least: vec![0; meetings.members.len()],
            most: vec![0; meetings.members.len()],
            ways: vec![Decision::Open; meetings.edges.len()],
            weights: vec![1; meetings.edges.len()],
            changes: Vec::new(),
            raised: Marked::new(meetings.members.len()),
            lowered: Marked::new(meetings.members.len()),
            urgency: vec![SETTLED; meetings.edges.len()],
            moved: Marked::new(meetings.members.len()),
            squeezed: Marked::new(meetings.members.len()),
            stale: Marked::new(meetings.edges.len()),
            nodes: 0,
            budget: 0,
            depth: 0,
            gave_up: false,
        }
    }

    /// Searches for a packing of at most `capacity` bytes with at most `budget` nodes more.
    ///
    /// What was learned about the edges stays from run to run.
    pub fn run(&mut self, capacity: u64, budget: u64) -> Verdict {
        self.budget = self.nodes + budget;
        (self.depth, self.gave_up) = (0, false);
        self.changes.clear();
        self.raised.clear();
        self.lowered.clear();
        self.ways.fill(Decision::Open);
        for (index, member) in self.meetings.members.iter().enumerate() {
            let room = capacity as i64 - member.size;
            if room < member.pinned.unwrap_or(0) {
                return Verdict::Impossible;
            }
            self.least[index] = member.pinned.unwrap_or_else(|| self.meetings.up(member, 0));
            self.most[index] = member.pinned.unwrap_or_else(|| self.meetings.down(member, room));
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
        if self.depth >= DEEPEST {
            return Verdict::Spent;
        }
        self.depth += 1;
        let (first, second) = self.slacks(edge);
        let ways = [Decision::FirstAbove, Decision::SecondAbove];
        for way in if first >= second { ways } else { [ways[1], ways[0]] } {
            if self.nodes >= self.budget {
                return Verdict::Spent;
            }
            self.nodes += 1;
            let mark = self.changes.len();
            if self.keep(edge, way) && self.propagate() {
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

    /// The edge, of those that the least offsets break, that leaves the least room whichever way it is decided.
    fn tightest(&mut self) -> Option<usize> {
        let meetings = self.meetings;
        while let Some(member) = self.moved.pop() {
            for &Side { edge, .. } in &meetings.members[member as usize].edges {
                self.urgency[edge as usize] = self.urgency(edge as usize);
            }
        }
        while let Some(member) = self.squeezed.pop() {
            // What the least offsets do not break wants no decision, whatever the largest are.
            for &Side { edge, .. } in &meetings.members[member as usize].edges {
                if self.urgency[edge as usize] != SETTLED {
                    self.urgency[edge as usize] = self.urgency(edge as usize);
                }
            }
        }
        while let Some(edge) = self.stale.pop() {
            self.urgency[edge as usize] = self.urgency(edge as usize);
        }
        let (mut least, mut from) = (SETTLED, 0);
        for (stride, some) in self.urgency.chunks(STRIDE).enumerate() {
            let most_urgent = some.iter().fold(SETTLED, |least, &urgency| least.min(urgency));
            if most_urgent < least {
                (least, from) = (most_urgent, stride * STRIDE);
            }
        }
        let at = || self.urgency[from..].iter().position(|&urgency| urgency == least).map(|at| from + at);
        (least != SETTLED).then(at)?
    }

    fn urgency(&self, index: usize) -> i32 {
        let Edge { items: (first, second), low, high } = self.meetings.edges[index];
        let apart = self.least[first as usize] - self.least[second as usize];
        if self.ways[index] != Decision::Open || apart < low || high <= apart {
            return SETTLED;
        }
        let (first, second) = self.slacks(index);
        let slack = first.min(second) + (first + second) / 8 + 16;
        let lenient = slack.saturating_mul(LESSON) / self.weights[index];
        lenient.min(i64::from(SETTLED) - 1) as i32
    }

    /// Bytes to spare when the first item of an edge lies above, and when the second does; negative when it cannot.
    fn slacks(&self, edge: usize) -> (i64, i64) {
        let Edge { items: (first, second), low, high } = self.meetings.edges[edge];
        let (first, second) = (first as usize, second as usize);
        (self.most[first] - self.least[second] - high, self.most[second] - self.least[first] - (1 - low))
    }

    /// Decides an edge and draws the conclusions. `false` when it cannot be kept.
    fn keep(&mut self, edge: usize, way: Decision) -> bool {
        self.changes.push(DecisionChange::Decided(edge as u32));
        self.ways[edge] = way;
        self.stale.add(edge as u32);
        let Edge { items: (first, second), low, high } = self.meetings.edges[edge];
        let (upper, lower, apart) =
            if way == Decision::FirstAbove { (first, second, high) } else { (second, first, 1 - low) };
        self.raise(upper, self.least[lower as usize] + apart) && self.lower(lower, self.most[upper as usize] - apart)
    }

    /// Lets an item lie at `offset` or higher. `false` when it cannot.
    fn raise(&mut self, member: u32, offset: i64) -> bool {
        let at = member as usize;
        if offset <= self.least[at] {
            return true;
        }
        let offset = self.meetings.up(&self.meetings.members[at], offset);
        if offset > self.most[at] {
            return false;
        }
        self.changes.push(DecisionChange::Least(member, self.least[at]));
        self.least[at] = offset;
        self.raised.add(member);
        self.moved.add(member);
        true
    }

    /// Lets an item lie at `offset` or lower. `false` when it cannot.
    fn lower(&mut self, member: u32, offset: i64) -> bool {
        let at = member as usize;
        if offset >= self.most[at] {
            return true;
        }
        let offset = self.meetings.down(&self.meetings.members[at], offset);
        if offset < self.least[at] {
            return false;
        }
        self.changes.push(DecisionChange::Most(member, self.most[at]));
        self.most[at] = offset;
        self.lowered.add(member);
        self.squeezed.add(member);
        true
    }

    /// Notes that an edge made a branch fail.
    fn blame(&mut self, edge: usize) {
        self.weights[edge] += 1;
        self.stale.add(edge as u32);
        self.raised.clear();
        self.lowered.clear();
    }

    /// Draws all conclusions from what has changed. `false` when something cannot be kept.
    fn propagate(&mut self) -> bool {
        let meetings = self.meetings;
        let mut conclusions = 0;
        loop {
            conclusions += 1;
            if conclusions % PATIENCE == 0 {
                self.nodes += 1;
                self.gave_up = self.nodes >= self.budget || conclusions >= MOST_CONCLUSIONS;
            }
            let failed = if let Some(member) = self.raised.pop() {
                let mut sides = meetings.members[member as usize].edges.iter();
                sides.find(|side| !self.keep_raised(member as usize, side))
            } else if let Some(member) = self.lowered.pop() {
                let mut sides = meetings.members[member as usize].edges.iter();
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

    /// Draws the conclusions from a larger least offset for one edge of the item.
    fn keep_raised(&mut self, member: usize, side: &Side) -> bool {
        let way = self.ways[side.edge as usize];
        if way == Decision::Open {
            let can_lie_below = self.most[side.other as usize] - self.least[member] >= side.below;
            can_lie_below || self.keep(side.edge as usize, side.above.0)
        } else {
            way == side.above.0 || self.raise(side.other, self.least[member] + side.below)
        }
    }

    /// Draws the conclusions from a smaller largest offset for one edge of the item.
    fn keep_lowered(&mut self, member: usize, side: &Side) -> bool {
        let way = self.ways[side.edge as usize];
        if way == Decision::Open {
            let can_lie_above = self.most[member] - self.least[side.other as usize] >= side.above.1;
            can_lie_above || self.keep(side.edge as usize, side.above.0.other())
        } else {
            way != side.above.0 || self.lower(side.other, self.most[member] - side.above.1)
        }
    }

    fn undo(&mut self, mark: usize) {
        while self.changes.len() > mark {
            match self.changes.pop() {
                Some(DecisionChange::Least(member, before)) => {
                    self.least[member as usize] = before;
                    self.moved.add(member);
                }
                Some(DecisionChange::Most(member, before)) => {
                    self.most[member as usize] = before;
                    self.squeezed.add(member);
                }
                Some(DecisionChange::Decided(edge)) => {
                    self.ways[edge as usize] = Decision::Open;
                    self.stale.add(edge);
                }
                None => break,
            }
        }
    }
}
