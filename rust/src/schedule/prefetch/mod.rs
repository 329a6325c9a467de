//! Prefetch: copies of constants are issued early and run beside the kernels before their use.
//!
//! `latest_start` says from which step on each copy is wanted, `issue` when memory and the transfers before it let it
//! be issued, `holes` where in the arena of a placed program there is room for it.
//! Owns the limits on memory worth trying for that, and the program that comes of it. The times are `estimate`'s.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

mod holes;
mod issue;
mod latest_start;

use crate::model::graph::CascaderGraph;
use crate::model::memory::aligned;
use crate::model::memory::Memories;
use crate::model::program::{IssueOrder, Placement, Program};
use crate::schedule::estimate::total_cycles;
use crate::schedule::lifetimes::set_lifetimes;
use holes::{Arena, Holes};
pub use issue::live_bytes;
use issue::{Copy, Issue, Issuer, TableLoad};

/// Most bytes in use at any step.
pub fn peak_bytes(program: &Program) -> u64 {
    live_bytes(program).into_iter().max().unwrap_or(0)
}

/// Issue copies early where no more than `limit_bytes` are then in use at any step. Returns their order.
///
/// The buffer of such a copy belongs to it as long before as kernels in flight may still use other bytes: one that had
/// to wait for them would hold up the front end, and the transfers behind it.
pub fn prefetch(graph: &CascaderGraph, program: &mut Program, limit_bytes: u64) -> IssueOrder {
    let issuer = with_latest_starts(program);
    let Issue { order, .. } = issuer.issued(limit_bytes);
    issue_at(graph, program, &issuer, &order);
    order
}

/// Let the copies of a program, each right before its first use, stand where an order has them; None where it is of another
/// program: each copy and each load of a table must be there for its user, and find its slots free.
pub fn issue(graph: &CascaderGraph, program: &mut Program, order: &IssueOrder) -> Option<()> {
    let issuer = Issuer::new(program);
    let is_in_time = |(load, ahead): (&TableLoad, &Option<usize>)| {
        ahead.is_none_or(|copy| order.copies.get(copy).is_some_and(|at| (load.free..=load.user).contains(&at.slot)))
    };
    let is_own = order.copies.len() == issuer.copies.len()
        && order.tables.len() == issuer.tables.len()
        && order.copies.is_sorted_by_key(|copy| copy.slot)
        && order.copies.iter().zip(&issuer.copies).all(|(at, copy)| at.reserved <= at.slot && at.slot <= copy.user)
        && issuer.tables.iter().zip(&order.tables).all(is_in_time);
    is_own.then(|| issue_at(graph, program, &issuer, order))
}

fn issue_at(graph: &CascaderGraph, program: &mut Program, issuer: &Issuer, issue_order: &IssueOrder) {
    let mut copies = issuer.copies.iter().zip(&issue_order.copies).enumerate().peekable();
    let mut ahead = vec![Vec::new(); issuer.copies.len()];
    let mut late = Vec::new();
    for (load, place) in issuer.tables.iter().zip(&issue_order.tables) {
        match place {
            Some(copy) => ahead[*copy].push(load.step),
            None => late.push((load.user, load.step)),
        }
    }
    let mut tables = late.into_iter().peekable();
    let mut order = Vec::with_capacity(program.steps.len());
    let mut reserved = Vec::new();
    let mut moved = Vec::with_capacity(issuer.others.len());
    for (slot, &step) in issuer.others.iter().enumerate() {
        while let Some((index, (copy, place))) = copies.next_if(|(_, (_, place))| place.slot <= slot) {
            order.append(&mut ahead[index]);
            if place.reserved < slot {
                reserved.push((copy.buffer, moved[place.reserved]));
            }
            order.push(copy.step);
        }
        moved.push(order.len() as u32);
        order.extend(tables.next_if(|(user, _)| *user == slot).map(|(_, load)| load));
        order.push(step);
    }
    program.steps = order.into_iter().map(|step| program.steps[step].clone()).collect();
    set_lifetimes(graph, program);
    for (buffer, first_step) in reserved {
        program.buffers[buffer].first_step = first_step;
    }
}

/// A program and the free bytes of its placement, for copies issued early and elsewhere.
pub struct Filling {
    issuer: Issuer,
    arena: Arena,
    placed: Placement,
}

/// Copies issued into holes of an arena.
pub struct FilledHoles<'a> {
    filling: &'a Filling,
    cycles: u64,
    order: IssueOrder,
    holes: Holes<'a>,
}

impl Filling {
    /// The filling of a program whose copies stand right before their first use.
    ///
    /// None without copies, or if some of their buffers lie outside the scarce pool. The placement may be that of the
    /// same program with its copies issued early.
    pub fn new(graph: &CascaderGraph, program: &Program, placed: Placement) -> Option<Filling> {
        let issuer = with_latest_starts(program);
        let is_near = |copy: &Copy| placed.pools[copy.buffer] == Memories::SCARCE;
        if issuer.copies.is_empty() || !issuer.copies.iter().all(is_near) {
            return None;
        }
        let arena = Arena::new(graph, program, (&issuer, &placed));
        Some(Filling { issuer, arena, placed })
    }

    /// Estimated cycles if a copy has room whenever no more than `room_bytes` are in use: fewer than with real holes.
    pub fn least_cycles(&self, room_bytes: u64) -> u64 {
        self.issuer.issued(room_bytes).cycles
    }

    /// Copies issued into the free ranges of the arena's first `room_bytes`, at least the bytes of the placement.
    ///
    /// Of several latest starts those with the fewest estimated cycles are taken.
    pub fn fill(&self, room_bytes: u64) -> FilledHoles<'_> {
        let by = |latest_starts| {
            let mut holes = Holes::new(&self.arena, room_bytes);
            let (order, cycles) = self.issuer.issue_into(latest_starts, &mut holes);
            FilledHoles { filling: self, cycles, order, holes }
        };
        let mut best = by(&self.issuer.latest_starts);
        for latest_starts in &self.issuer.other_starts {
            let other = by(latest_starts);
            if other.cycles < best.cycles {
                best = other;
            }
        }
        best
    }
}

impl FilledHoles<'_> {
    /// Estimated cycles of the program.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Bytes of the arena.
    pub fn bytes(&self) -> u64 {
        self.filling.arena.busy_bytes().max(self.holes.end())
    }

    /// Where the program's copies are issued.
    pub fn order(&self) -> &IssueOrder {
        &self.order
    }

    /// Issue the program's copies like this. Returns where all buffers lie then.
    pub fn apply(&self, graph: &CascaderGraph, program: &mut Program) -> Placement {
        let Filling { issuer, placed, .. } = self.filling;
        let mut offsets = placed.offsets.clone();
        for (index, copy) in issuer.copies.iter().enumerate() {
            offsets[copy.buffer] = self.holes.offset(index);
        }
        issue_at(graph, program, issuer, &self.order);
        let ends = program.buffers.iter_ids().map(|(id, buffer)| (placed.pools[id], offsets[id] + buffer.size_bytes));
        let mut pool_bytes = placed.pool_bytes.clone();
        pool_bytes[Memories::SCARCE] =
            aligned(ends.filter(|&(pool, _)| pool == Memories::SCARCE).map(|(_, end)| end).max().unwrap_or(0));
        Placement { pool_bytes, offsets, pools: placed.pools.clone() }
    }
}

/// An estimate of a program's bytes and cycles before it is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramEstimate {
    /// Bytes up to which copies of constants are issued early; None if all are right before their first use.
    pub prefetch_bytes: Option<u64>,
    /// Most bytes in use at any step.
    pub peak_bytes: u64,
    /// Estimated cycles.
    pub cycles: u64,
}

/// Estimates of a program under limits for early copies, ascending.
///
/// The limits are none, even ratios from the program's own peak up to where every copy is in time, and those
/// of `extra`. A limit that is no faster than a lower one is left out.
pub fn estimates(program: &Program, extra: &[u64], halvings: u32) -> Vec<ProgramEstimate> {
    let issuer = with_latest_starts(program);
    let (own, cycles) = (peak_bytes(program), total_cycles(program));
    let mut found = vec![ProgramEstimate { prefetch_bytes: None, peak_bytes: own, cycles }];
    for limit in limits(&issuer, own, extra, halvings) {
        let issue = issuer.issued(limit);
        let peak_bytes = issue.peak_bytes.max(own);
        if found.iter().all(|known| issue.cycles < known.cycles) {
            found.push(ProgramEstimate { prefetch_bytes: Some(limit), peak_bytes, cycles: issue.cycles });
        }
    }
    found
}

/// All estimates of a program: those `known`, and those under the limits `beside`.
///
/// The result is the same as if these limits had been among the first.
pub fn estimates_beside(program: &Program, known: &[ProgramEstimate], beside: &[u64]) -> Vec<ProgramEstimate> {
    let issuer = with_latest_starts(program);
    let own = known.first().map_or(0, |estimate| estimate.peak_bytes);
    let is_new = |limit: &&u64| **limit >= own && known.iter().all(|estimate| estimate.prefetch_bytes != Some(**limit));
    let estimate = |&limit: &u64| {
        let issue = issuer.issued(limit);
        ProgramEstimate { prefetch_bytes: Some(limit), peak_bytes: issue.peak_bytes.max(own), cycles: issue.cycles }
    };
    let mut found: Vec<ProgramEstimate> = known.to_vec();
    found.extend(beside.iter().filter(is_new).filter(|_| !issuer.copies.is_empty()).map(estimate));
    found.sort_by_key(|estimate| estimate.prefetch_bytes);
    let mut fewest = u64::MAX;
    found.retain(|estimate| {
        let is_faster = estimate.cycles < fewest;
        fewest = fewest.min(estimate.cycles);
        is_faster
    });
    found
}

/// Estimated cycles with every copy at its latest start, however many bytes that takes.
pub fn unlimited_cycles(program: &Program) -> u64 {
    with_latest_starts(program).issued(u64::MAX).cycles
}

/// The issuer of a program, and when each copy is wanted.
fn with_latest_starts(program: &Program) -> Issuer {
    let mut issuer = Issuer::new(program);
    issuer.find_latest_starts();
    issuer
}

/// The geometric mean, rounded down.
fn mean(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let (mut low, mut high) = (a.min(b), a.max(b));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if u128::from(middle) * u128::from(middle) <= product {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// Limits to try for early copies, none if there are no copies; without early copies the program takes `own` bytes.
/// Between neighbours their geometric mean is put, `halvings` times.
fn limits(issuer: &Issuer, own: u64, extra: &[u64], halvings: u32) -> Vec<u64> {
    if issuer.copies.is_empty() {
        return Vec::new();
    }
    let most = issuer.issued(u64::MAX).peak_bytes.max(own);
    let mut limits = vec![own, most];
    for _ in 0..halvings {
        let means: Vec<u64> = limits.windows(2).map(|pair| mean(pair[0], pair[1])).collect();
        limits.extend(means);
        limits.sort_unstable();
    }
    limits.extend(extra.iter().copied().filter(|limit| (own..most).contains(limit)));
    limits.sort_unstable();
    limits.dedup();
    limits
}

#[cfg(test)]
mod tests;
