//! Disjunctions of one pool: for every two items whose bytes may meet, the distances of one above the other.
//!
//! Such a pair has a forbidden range of differences of offsets ([`Pairs`]). One item lies at least the range's end above
//! the other, or the other at least the range's start above the one. Owns these edges and the aligned offsets of items;
//! `disjunctive_search` decides which item lies above.

use crate::usmp::arithmetic::gcd;
use crate::usmp::instance::Instance;
use crate::usmp::pairs::Pairs;

/// A pair of items: the first's offset less the second's must not lie in `[low, high)`.
pub(super) struct Edge {
    pub items: (u32, u32),
    pub low: i64,
    pub high: i64,
}

/// The decision about an edge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Open,
    /// The first lies at least `high` above the second.
    FirstAbove,
    /// The second lies at least `1 - low` above the first.
    SecondAbove,
}

impl Decision {
    /// The other way round.
    pub fn other(self) -> Decision {
        match self {
            Decision::Open => Decision::Open,
            Decision::FirstAbove => Decision::SecondAbove,
            Decision::SecondAbove => Decision::FirstAbove,
        }
    }
}

/// An item of the pool.
pub(super) struct Member {
    /// Index in the instance.
    pub item: u32,
    pub size: i64,
    pub alignment: i64,
    pub pinned: Option<i64>,
    pub edges: Vec<Side>,
}

/// An edge as one of its items sees it.
pub(super) struct Side {
    pub edge: u32,
    pub other: u32,
    /// The decision for this item above the other, and the distance it then keeps.
    pub above: (Decision, i64),
    /// The distance the other keeps where it lies above this one.
    pub below: i64,
}

/// One pool's items and the pairs whose bytes may meet.
pub(super) struct Disjunctions {
    pub members: Vec<Member>,
    pub edges: Vec<Edge>,
    base: i64,
    /// Bytes of which every end of an item is a multiple; at least 1.
    pub grain: u64,
}

impl Disjunctions {
    /// The disjunctions of those of `items` in use at some step; all lie in `pool`.
    pub fn new(instance: &Instance, pairs: &Pairs, pool: u32, items: &[u32]) -> Self {
        let mut place = vec![u32::MAX; instance.items.len()];
        let mut members = Vec::with_capacity(items.len());
        let base = instance.pools[pool as usize].base_address;
        let mut grain = base;
        for &index in items {
            let item = &instance.items[index as usize];
            let Some(candidate) = item.candidates.iter().find(|candidate| candidate.pool == pool) else { continue };
            if item.sections.is_empty() {
                continue;
            }
            place[index as usize] = members.len() as u32;
            grain = gcd(gcd(grain, candidate.alignment), gcd(item.size_bytes, item.pinned.unwrap_or(0)));
            members.push(Member {
                item: index,
                size: item.size_bytes as i64,
                alignment: candidate.alignment as i64,
                pinned: item.pinned.map(|offset| offset as i64),
                edges: Vec::new(),
            });
        }
        let mut edges = Vec::new();
        for one in 0..members.len() {
            for ban in pairs.of(members[one].item) {
                let other = place[ban.other as usize];
                if (other as usize) < one {
                    let edge = edges.len() as u32;
                    let (above, below) = (ban.high, 1 - ban.low);
                    members[one].edges.push(Side { edge, other, above: (Decision::FirstAbove, above), below });
                    let theirs = Side { edge, other: one as u32, above: (Decision::SecondAbove, below), below: above };
                    members[other as usize].edges.push(theirs);
                    edges.push(Edge { items: (one as u32, other), low: ban.low, high: ban.high });
                }
            }
        }
        if base == 0 && members.iter().all(|member| member.alignment == 1) {
            // Least offsets are then sums of these distances.
            let of_edges = edges
                .iter()
                .fold(0, |all, edge: &Edge| gcd(all, gcd(edge.high.unsigned_abs(), (1 - edge.low).unsigned_abs())));
            let of_nodes = |all, member: &Member| gcd(all, gcd(member.size as u64, member.pinned.unwrap_or(0) as u64));
            grain = members.iter().fold(of_edges, of_nodes);
        }
        Self { members, edges, base: base as i64, grain: grain.max(1) }
    }

    /// Item indices, in the order of a packing's offsets.
    pub fn items(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.iter().map(|member| member.item)
    }

    /// The least offset from `offset` on whose address suits `member`.
    pub fn up(&self, member: &Member, offset: i64) -> i64 {
        let past = past(self.base + offset, member.alignment);
        if past == 0 {
            offset
        } else {
            offset + member.alignment - past
        }
    }

    /// The largest offset up to `offset` whose address suits `member`.
    pub fn down(&self, member: &Member, offset: i64) -> i64 {
        offset - past(self.base + offset, member.alignment)
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
