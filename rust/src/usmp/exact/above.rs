//! Which of two items lies above the other: a search over these decisions, for items of which parts die, and for shares.
//!
//! Two items whose bytes may meet keep out of a range of differences of offsets ([`Pairs`]), so one lies at least so far
//! above the other, or the other at least so far above the one. A capacity gives every item a least and a largest offset;
//! a pair for which one way is impossible takes the other, which raises the one's least and lowers the other's largest
//! offset. It is the disjunctive constraint of shop scheduling (Carlier and Pinson, "An algorithm for solving the
//! job-shop problem", Management Science 35, 1989). Where the least offsets break no range, they are a packing;
//! otherwise a pair that they break is decided either way. Nothing is assumed of windows or alignments, so what is
//! searched to the end is proved.

use crate::usmp::bound::gcd;
use crate::usmp::instance::Instance;
use crate::usmp::pairs::Pairs;
use crate::util::interrupt;

use super::ladder::{Found, Goal};
use super::marked::Marked;
use super::search::Verdict;

/// Nodes of the shortest run.
const SHORTEST_RUN: u64 = 100;
/// The rungs of a ladder lie these parts of the way from the bound to the best packing, in 64ths.
const PARTS: [u64; 5] = [0, 32, 16, 8, 64];
/// Pairs looked at, over all nodes, at most.
const WORK: u64 = 1 << 31;
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

/// A pair and what it must keep out of: the first's offset less the second's must not lie in `[low, high)`.
struct Edge {
    items: (u32, u32),
    low: i64,
    high: i64,
}

/// What is decided about an edge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// The first lies at least `high` above the second.
    FirstAbove,
    /// The second lies at least `1 - low` above the first.
    SecondAbove,
}

impl Way {
    /// The other way round.
    fn other(self) -> Way {
        match self {
            Way::Open => Way::Open,
            Way::FirstAbove => Way::SecondAbove,
            Way::SecondAbove => Way::FirstAbove,
        }
    }
}

enum Change {
    Least(u32, i64),
    Most(u32, i64),
    Decided(u32),
}

/// An item of the pool.
struct Node {
    /// Index in the instance.
    item: u32,
    size: i64,
    alignment: i64,
    pinned: Option<i64>,
    edges: Vec<Side>,
}

/// An edge as one of its items sees it.
struct Side {
    edge: u32,
    other: u32,
    /// The way in which this item lies above, and so far above the other.
    above: (Way, i64),
    /// So far the other lies above this one where it does.
    below: i64,
}

/// One pool's items and the pairs of them that may meet.
pub(super) struct Above {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    base: i64,
    /// Bytes of which every end of an item is a multiple; at least 1.
    grain: u64,
}

impl Above {
    /// The items among `items` that are ever in use; they lie in `pool`.
    pub fn new(instance: &Instance, pairs: &Pairs, pool: u32, items: &[u32]) -> Self {
        let mut place = vec![u32::MAX; instance.items.len()];
        let mut nodes = Vec::with_capacity(items.len());
        let base = instance.pools[pool as usize].base_address;
        let mut grain = base;
        for &index in items {
            let item = &instance.items[index as usize];
            let Some(candidate) = item.candidates.iter().find(|candidate| candidate.pool == pool) else { continue };
            if item.sections.is_empty() {
                continue;
            }
            place[index as usize] = nodes.len() as u32;
            grain = gcd(gcd(grain, candidate.alignment), gcd(item.size_bytes, item.pinned.unwrap_or(0)));
            nodes.push(Node {
                item: index,
                size: item.size_bytes as i64,
                alignment: candidate.alignment as i64,
                pinned: item.pinned.map(|offset| offset as i64),
                edges: Vec::new(),
            });
        }
        let mut edges = Vec::new();
        for one in 0..nodes.len() {
            for ban in pairs.of(nodes[one].item) {
                let other = place[ban.other as usize];
                if (other as usize) < one {
                    let edge = edges.len() as u32;
                    let (above, below) = (ban.high, 1 - ban.low);
                    nodes[one].edges.push(Side { edge, other, above: (Way::FirstAbove, above), below });
                    let theirs = Side { edge, other: one as u32, above: (Way::SecondAbove, below), below: above };
                    nodes[other as usize].edges.push(theirs);
                    edges.push(Edge { items: (one as u32, other), low: ban.low, high: ban.high });
                }
            }
        }
        if base == 0 && nodes.iter().all(|node| node.alignment == 1) {
            // Least offsets are then sums of what keeps pairs apart.
            let of_edges = edges
                .iter()
                .fold(0, |all, edge: &Edge| gcd(all, gcd(edge.high.unsigned_abs(), (1 - edge.low).unsigned_abs())));
            let of_nodes = |all, node: &Node| gcd(all, gcd(node.size as u64, node.pinned.unwrap_or(0) as u64));
            grain = nodes.iter().fold(of_edges, of_nodes);
        }
        Self { nodes, edges, base: base as i64, grain: grain.max(1) }
    }

    /// Item indices, in the order of a packing's offsets.
    pub fn items(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().map(|node| node.item)
    }

    /// A packing of at most `capacity` bytes, if one is found, and the nodes that took.
    pub fn decide(&self, capacity: u64, nodes: u64) -> (Option<Vec<u64>>, u64) {
        let mut search = Search::new(self);
        let verdict = search.run(capacity, self.affordable(nodes));
        ((verdict == Verdict::Found).then(|| search.packing()), search.nodes)
    }

    /// Climbs down until the bound is met, everything is searched, or the nodes run out.
    pub fn descend(&self, goal: &Goal) -> Found {
        let mut found = Found { offsets: None, bound: goal.bound, nodes: 0, work: 0 };
        let mut search = Search::new(self);
        let (mut below, most) = (goal.below, self.affordable(goal.nodes));
        let mut run = SHORTEST_RUN;
        while found.nodes < most {
            for part in PARTS {
                // The largest and the least capacity that can be told apart from the two that are known.
                let last = (below.max(1) - 1) / self.grain * self.grain;
                let first = found.bound.next_multiple_of(self.grain);
                if first > last || below == 0 {
                    found.bound = below;
                    return found;
                }
                let capacity =
                    (first + ((u128::from(last - first) * u128::from(part)) / 64) as u64) / self.grain * self.grain;
                let before = search.nodes;
                let verdict = search.run(capacity, run.min(most - found.nodes));
                found.nodes += (search.nodes - before).max(1);
                match verdict {
                    Verdict::Found => {
                        let packing = search.packing();
                        below =
                            packing.iter().zip(&self.nodes).map(|(&at, node)| at + node.size as u64).max().unwrap_or(0);
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

    fn affordable(&self, nodes: u64) -> u64 {
        nodes.min(WORK / (self.edges.len() as u64).max(1))
    }
}

struct Search<'a> {
    above: &'a Above,
    /// Offsets between which each item can still lie.
    least: Vec<i64>,
    most: Vec<i64>,
    ways: Vec<Way>,
    /// One more than how often an edge made a branch fail.
    weights: Vec<i64>,
    changes: Vec<Change>,
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

impl<'a> Search<'a> {
    fn new(above: &'a Above) -> Self {
        Self {
            above,
            least: vec![0; above.nodes.len()],
            most: vec![0; above.nodes.len()],
            ways: vec![Way::Open; above.edges.len()],
            weights: vec![1; above.edges.len()],
            changes: Vec::new(),
            raised: Marked::new(above.nodes.len()),
            lowered: Marked::new(above.nodes.len()),
            urgency: vec![SETTLED; above.edges.len()],
            moved: Marked::new(above.nodes.len()),
            squeezed: Marked::new(above.nodes.len()),
            stale: Marked::new(above.edges.len()),
            nodes: 0,
            budget: 0,
            depth: 0,
            gave_up: false,
        }
    }

    /// What was learned about the edges stays from run to run.
    fn run(&mut self, capacity: u64, budget: u64) -> Verdict {
        self.budget = self.nodes + budget;
        (self.depth, self.gave_up) = (0, false);
        self.changes.clear();
        self.raised.clear();
        self.lowered.clear();
        self.ways.fill(Way::Open);
        for (index, node) in self.above.nodes.iter().enumerate() {
            let room = capacity as i64 - node.size;
            if room < node.pinned.unwrap_or(0) {
                return Verdict::Impossible;
            }
            self.least[index] = node.pinned.unwrap_or_else(|| self.above.up(node, 0));
            self.most[index] = node.pinned.unwrap_or_else(|| self.above.down(node, room));
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

    /// The least offsets, once they are a packing.
    fn packing(&self) -> Vec<u64> {
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
        let ways = [Way::FirstAbove, Way::SecondAbove];
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
        let above = self.above;
        while let Some(node) = self.moved.pop() {
            for &Side { edge, .. } in &above.nodes[node as usize].edges {
                self.urgency[edge as usize] = self.urgency(edge as usize);
            }
        }
        while let Some(node) = self.squeezed.pop() {
            // What the least offsets do not break wants no decision, whatever the largest are.
            for &Side { edge, .. } in &above.nodes[node as usize].edges {
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
        let Edge { items: (first, second), low, high } = self.above.edges[index];
        let apart = self.least[first as usize] - self.least[second as usize];
        if self.ways[index] != Way::Open || apart < low || high <= apart {
            return SETTLED;
        }
        let (first, second) = self.slacks(index);
        let slack = first.min(second) + (first + second) / 8 + 16;
        let lenient = slack.saturating_mul(LESSON) / self.weights[index];
        lenient.min(i64::from(SETTLED) - 1) as i32
    }

    /// Bytes to spare when the first item of an edge lies above, and when the second does; negative when it cannot.
    fn slacks(&self, edge: usize) -> (i64, i64) {
        let Edge { items: (first, second), low, high } = self.above.edges[edge];
        let (first, second) = (first as usize, second as usize);
        (self.most[first] - self.least[second] - high, self.most[second] - self.least[first] - (1 - low))
    }

    /// Decides an edge and draws the conclusions. `false` when it cannot be kept.
    fn keep(&mut self, edge: usize, way: Way) -> bool {
        self.changes.push(Change::Decided(edge as u32));
        self.ways[edge] = way;
        self.stale.add(edge as u32);
        let Edge { items: (first, second), low, high } = self.above.edges[edge];
        let (upper, lower, apart) =
            if way == Way::FirstAbove { (first, second, high) } else { (second, first, 1 - low) };
        self.raise(upper, self.least[lower as usize] + apart) && self.lower(lower, self.most[upper as usize] - apart)
    }

    /// Lets an item lie at `offset` or higher. `false` when it cannot.
    fn raise(&mut self, node: u32, offset: i64) -> bool {
        let at = node as usize;
        if offset <= self.least[at] {
            return true;
        }
        let offset = self.above.up(&self.above.nodes[at], offset);
        if offset > self.most[at] {
            return false;
        }
        self.changes.push(Change::Least(node, self.least[at]));
        self.least[at] = offset;
        self.raised.add(node);
        self.moved.add(node);
        true
    }

    /// Lets an item lie at `offset` or lower. `false` when it cannot.
    fn lower(&mut self, node: u32, offset: i64) -> bool {
        let at = node as usize;
        if offset >= self.most[at] {
            return true;
        }
        let offset = self.above.down(&self.above.nodes[at], offset);
        if offset < self.least[at] {
            return false;
        }
        self.changes.push(Change::Most(node, self.most[at]));
        self.most[at] = offset;
        self.lowered.add(node);
        self.squeezed.add(node);
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
        let above = self.above;
        let mut conclusions = 0;
        loop {
            conclusions += 1;
            if conclusions % PATIENCE == 0 {
                self.nodes += 1;
                self.gave_up = self.nodes >= self.budget || conclusions >= MOST_CONCLUSIONS;
            }
            let failed = if let Some(node) = self.raised.pop() {
                let mut sides = above.nodes[node as usize].edges.iter();
                sides.find(|side| !self.keep_raised(node as usize, side))
            } else if let Some(node) = self.lowered.pop() {
                let mut sides = above.nodes[node as usize].edges.iter();
                sides.find(|side| !self.keep_lowered(node as usize, side))
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
    fn keep_raised(&mut self, node: usize, side: &Side) -> bool {
        let way = self.ways[side.edge as usize];
        if way == Way::Open {
            let can_lie_below = self.most[side.other as usize] - self.least[node] >= side.below;
            can_lie_below || self.keep(side.edge as usize, side.above.0)
        } else {
            way == side.above.0 || self.raise(side.other, self.least[node] + side.below)
        }
    }

    /// Draws the conclusions from a smaller largest offset for one edge of the item.
    fn keep_lowered(&mut self, node: usize, side: &Side) -> bool {
        let way = self.ways[side.edge as usize];
        if way == Way::Open {
            let can_lie_above = self.most[node] - self.least[side.other as usize] >= side.above.1;
            can_lie_above || self.keep(side.edge as usize, side.above.0.other())
        } else {
            way != side.above.0 || self.lower(side.other, self.most[node] - side.above.1)
        }
    }

    fn undo(&mut self, mark: usize) {
        while self.changes.len() > mark {
            match self.changes.pop() {
                Some(Change::Least(node, before)) => {
                    self.least[node as usize] = before;
                    self.moved.add(node);
                }
                Some(Change::Most(node, before)) => {
                    self.most[node as usize] = before;
                    self.squeezed.add(node);
                }
                Some(Change::Decided(edge)) => {
                    self.ways[edge as usize] = Way::Open;
                    self.stale.add(edge);
                }
                None => break,
            }
        }
    }
}

impl Above {
    /// The least offset from `offset` on whose address suits `node`.
    fn up(&self, node: &Node, offset: i64) -> i64 {
        let past = past(self.base + offset, node.alignment);
        if past == 0 {
            offset
        } else {
            offset + node.alignment - past
        }
    }

    /// The largest offset up to `offset` whose address suits `node`.
    fn down(&self, node: &Node, offset: i64) -> i64 {
        offset - past(self.base + offset, node.alignment)
    }
}

/// How far an address lies past the multiple of `alignment` below it.
fn past(address: i64, alignment: i64) -> i64 {
    // Nearly all alignments are powers of two, and a division takes longer than all else here.
    if alignment & (alignment - 1) == 0 {
        address & (alignment - 1)
    } else {
        address.rem_euclid(alignment)
    }
}
