//! Maximum-weight cliques of the conflict graph: sets of items of which no two share a byte in any plan.
//!
//! Lifetimes alone need no cliques: intervals that meet in pairs all meet at one step. Explicit conflicts need them, and
//! conflict graphs have no steps. The heaviest clique is searched by branch and bound with weighted colourings (after
//! Kumlander, "A new exact algorithm for the maximum-weight clique problem", 2004). The search is bounded; where it stops
//! early, the best clique so far is a valid bound. Owns the graph and its cliques.

use super::item::Item;
use super::limits::{MAX_STEP_LOOKS, MAX_TABLE_ENTRIES};
use crate::util::interrupt;

/// Most items of a graph: its table of bits takes a byte for each entry of other tables, four megabytes.
const MAX_VERTICES: usize = (8 * MAX_TABLE_ENTRIES).isqrt();
/// Number of greedy cliques before the search, each from one item.
const MAX_SEEDS: usize = 64;

/// The conflict graph: explicit conflicts, and items in use at the same step.
pub(crate) struct Graph {
    /// Items by vertex, the heaviest first.
    members: Vec<u32>,
    /// Vertices by item; `u32::MAX` for an item without one.
    vertex: Vec<u32>,
    /// A row of bits for each vertex.
    rows: Vec<u64>,
    words: usize,
}

impl Graph {
    /// `None` without explicit conflicts. Of too many items only those that conflict explicitly, the heaviest of them.
    pub fn new(items: &[Item]) -> Option<Self> {
        if items.iter().all(|item| item.conflicts.is_empty()) {
            return None;
        }
        let mut members: Vec<u32> = (0..items.len() as u32).collect();
        members.retain(|&item| !items[item as usize].sections.is_empty());
        if members.len() > MAX_VERTICES {
            members.retain(|&item| !items[item as usize].conflicts.is_empty());
        }
        members.sort_by_key(|&item| std::cmp::Reverse(items[item as usize].size_bytes));
        members.truncate(MAX_VERTICES);
        let words = members.len().div_ceil(64);
        let mut graph =
            Self { rows: vec![0; members.len() * words], vertex: vec![u32::MAX; items.len()], members, words };
        for one in 0..graph.members.len() {
            graph.vertex[graph.members[one] as usize] = one as u32;
            for other in 0..one {
                if apart(items, graph.members[one], graph.members[other]) {
                    graph.rows[one * words + other / 64] |= 1 << (other % 64);
                    graph.rows[other * words + one / 64] |= 1 << (one % 64);
                }
            }
        }
        Some(graph)
    }

    /// The heaviest clique found within the limit; `weight` 0 leaves an item out. With `through`, only cliques with this
    /// item.
    pub fn heaviest(&self, weight: impl Fn(u32) -> u64, through: Option<u32>) -> Vec<u32> {
        let mut search =
            CliqueSearch { graph: self, weights: Vec::new(), chosen: Vec::new(), best: (0, Vec::new()), work: 0 };
        search.weights.extend(self.members.iter().map(|&item| weight(item)));
        let mut all = vec![0; self.words];
        for (vertex, _) in search.weights.iter().enumerate().filter(|(_, &weight)| weight > 0) {
            all[vertex / 64] |= 1 << (vertex % 64);
        }
        let mut before = 0;
        if let Some(item) = through {
            let vertex = self.vertex[item as usize];
            if vertex == u32::MAX {
                return vec![item];
            }
            before = weight(item);
            search.chosen.push(vertex);
            search.best = (before, vec![vertex]);
            self.keep_apart(&mut all, vertex);
        }
        search.grow_greedily(&all, before);
        search.expand(all, before);
        search.best.1.iter().map(|&vertex| self.members[vertex as usize]).collect()
    }

    /// Cliques that cover every explicit conflict between two items of `among`. `None` where the cliques have more than
    /// `most` items in all.
    pub fn cover(&self, items: &[Item], among: &[u32], most: usize) -> Option<Vec<Vec<u32>>> {
        let mut is_among = vec![false; items.len()];
        let mut all = vec![0; self.words];
        for &item in among {
            is_among[item as usize] = true;
            let vertex = self.vertex[item as usize];
            if vertex != u32::MAX {
                all[vertex as usize / 64] |= 1 << (vertex % 64);
            }
        }
        let mut covered: Vec<Vec<bool>> = items.iter().map(|item| vec![false; item.conflicts.len()]).collect();
        let (mut sets, mut listed) = (Vec::new(), 0);
        for &one in among {
            for at in 0..items[one as usize].conflicts.len() {
                let other = items[one as usize].conflicts[at];
                if covered[one as usize][at] || !is_among[other as usize] {
                    continue;
                }
                let set = self.grown(&[one, other], &all);
                for &item in &set {
                    let conflicts = items[item as usize].conflicts.iter();
                    for (partner, covered) in conflicts.zip(&mut covered[item as usize]) {
                        *covered |= set.contains(partner);
                    }
                }
                listed += set.len();
                if listed > most {
                    return None;
                }
                sets.push(set);
            }
        }
        Some(sets)
    }

    /// `set`, greedily extended by the heaviest of `all` in conflict with every member.
    fn grown(&self, set: &[u32], all: &[u64]) -> Vec<u32> {
        let (mut set, mut left) = (set.to_vec(), all.to_vec());
        for &item in &set {
            match self.vertex[item as usize] {
                u32::MAX => return set,
                vertex => self.keep_apart(&mut left, vertex),
            }
        }
        while let Some(vertex) = first(&left) {
            set.push(self.members[vertex as usize]);
            self.keep_apart(&mut left, vertex);
        }
        set
    }

    fn row(&self, vertex: u32) -> &[u64] {
        &self.rows[vertex as usize * self.words..][..self.words]
    }

    /// Removes `vertex` and all vertices without a conflict with it.
    fn keep_apart(&self, set: &mut [u64], vertex: u32) {
        set.iter_mut().zip(self.row(vertex)).for_each(|(word, row)| *word &= row);
    }
}

/// Whether two items may share no byte in any plan that puts them into one pool.
fn apart(items: &[Item], one: u32, other: u32) -> bool {
    let (item, partner) = (&items[one as usize], &items[other as usize]);
    let may_share = item.shares.iter().any(|share| share.0 == other);
    !may_share && (item.conflicts_with(other) || item.meets_in_time(partner) && use_all_together(item, partner))
}

/// Whether there is a step in which both use all their bytes.
fn use_all_together(one: &Item, other: &Item) -> bool {
    let whole = |item: &Item, low: u64, high: u64| low == 0 && high == item.size_bytes;
    let (mut ours, mut theirs) = (one.sections.iter().peekable(), other.sections.iter().peekable());
    while let (Some(our), Some(their)) = (ours.peek(), theirs.peek()) {
        if our.meets(their) && whole(one, our.low, our.high) && whole(other, their.low, their.high) {
            return true;
        }
        if our.upper < their.upper {
            ours.next();
        } else {
            theirs.next();
        }
    }
    false
}

fn first(set: &[u64]) -> Option<u32> {
    let (at, word) = set.iter().enumerate().find(|(_, &word)| word != 0)?;
    Some(at as u32 * 64 + word.trailing_zeros())
}

struct CliqueSearch<'a> {
    graph: &'a Graph,
    /// By vertex.
    weights: Vec<u64>,
    chosen: Vec<u32>,
    /// The heaviest set so far and its weight.
    best: (u64, Vec<u32>),
    /// Words looked at.
    work: u64,
}

impl CliqueSearch<'_> {
    /// Greedy cliques of `all`, one from each of the first vertices.
    fn grow_greedily(&mut self, all: &[u64], before: u64) {
        let mut seeds = all.to_vec();
        for _ in 0..MAX_SEEDS {
            let Some(seed) = first(&seeds) else { return };
            seeds[seed as usize / 64] &= !(1 << (seed % 64));
            let (mut set, mut weight, mut left) = (self.chosen.clone(), before, all.to_vec());
            let mut next = Some(seed);
            while let Some(vertex) = next {
                set.push(vertex);
                weight += self.weights[vertex as usize];
                self.graph.keep_apart(&mut left, vertex);
                next = first(&left);
            }
            if weight > self.best.0 {
                self.best = (weight, set);
            }
        }
    }

    /// Cliques of the chosen vertices, of `weight`, and some of `left`.
    fn expand(&mut self, mut left: Vec<u64>, weight: u64) {
        for (vertex, bound) in self.coloured(&left).into_iter().rev() {
            interrupt::ask();
            if self.work > MAX_STEP_LOOKS || weight + bound <= self.best.0 {
                return;
            }
            self.chosen.push(vertex);
            let heavier = weight + self.weights[vertex as usize];
            if heavier > self.best.0 {
                self.best = (heavier, self.chosen.clone());
            }
            let mut rest = left.clone();
            self.graph.keep_apart(&mut rest, vertex);
            self.expand(rest, heavier);
            self.chosen.pop();
            left[vertex as usize / 64] &= !(1 << (vertex % 64));
        }
    }

    /// The vertices of `left`, each with an upper bound of the cliques of it and those before it. Vertices of one colour
    /// have no conflict with one another, so a clique holds at most one of them.
    fn coloured(&mut self, left: &[u64]) -> Vec<(u32, u64)> {
        let (mut left, mut before) = (left.to_vec(), 0);
        let mut order: Vec<(u32, u64)> = Vec::new();
        while first(&left).is_some() {
            let (mut colour, from) = (left.clone(), order.len());
            let mut heaviest = 0;
            while let Some(vertex) = first(&colour) {
                let (word, bit) = (vertex as usize / 64, 1 << (vertex % 64));
                left[word] &= !bit;
                colour[word] &= !bit;
                colour.iter_mut().zip(self.graph.row(vertex)).for_each(|(word, row)| *word &= !row);
                let weight = self.weights[vertex as usize];
                order.push((vertex, before + weight));
                heaviest = heaviest.max(weight);
                self.work += 2 * self.graph.words as u64;
            }
            order[from..].sort_by_key(|&(_, bound)| bound);
            before += heaviest;
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::super::instance::Instance;
    use super::super::model::{Buffer, Lifetime, Pool, Problem};
    use super::*;
    use proptest::prelude::*;

    /// The weight of the heaviest of all sets.
    fn heaviest_of_all(sizes: &[u64], conflicts: &[(usize, usize)]) -> u64 {
        let apart = |one, other| conflicts.contains(&(one, other)) || conflicts.contains(&(other, one));
        let is_apart = |set: u32| {
            let of = |index: &usize| set >> index & 1 == 1;
            let all: Vec<usize> = (0..sizes.len()).filter(of).collect();
            all.iter().all(|&one| all.iter().all(|&other| one == other || apart(one, other)))
        };
        let weight = |set: u32| (0..sizes.len()).filter(|index| set >> index & 1 == 1).map(|index| sizes[index]).sum();
        (0..1 << sizes.len()).filter(|&set| is_apart(set)).map(weight).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn the_heaviest_set_is_found(
            sizes in prop::collection::vec(1u64..20, 2..11),
            pairs in prop::collection::vec((0usize..11, 0usize..11), 1..40),
        ) {
            let count = sizes.len();
            let pairs: Vec<(usize, usize)> =
                pairs.into_iter().map(|(one, other)| (one % count, other % count)).filter(|(a, b)| a != b).collect();
            let mut buffers: Vec<Buffer> =
                (0i64..).zip(&sizes).map(|(at, &size)| Buffer::new(size, 1, Lifetime::new(at, at + 1))).collect();
            pairs.iter().for_each(|&(one, other)| buffers[one].conflicts.push(other as u32));
            let problem = Problem { buffers, pools: vec![Pool::unbounded()] };
            let instance = Instance::new(&problem).unwrap();
            let Some(graph) = Graph::new(&instance.items) else { return Ok(()) };
            let weight = |item: u32| instance.items[item as usize].size_bytes;
            let set = graph.heaviest(weight, None);
            prop_assert_eq!(set.iter().map(|&item| weight(item)).sum::<u64>(), heaviest_of_all(&sizes, &pairs));
            for (at, &one) in set.iter().enumerate() {
                prop_assert!(set[..at].iter().all(|&other| apart(&instance.items, one, other)));
            }
            let all: Vec<u32> = (0..count as u32).collect();
            let sets = graph.cover(&instance.items, &all, usize::MAX).unwrap();
            for &one in &all {
                for other in &instance.items[one as usize].conflicts {
                    prop_assert!(sets.iter().any(|set| set.contains(&one) && set.contains(other)));
                }
            }
        }
    }
}
