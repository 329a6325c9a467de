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
use issue::{live_bytes, Copy, Issue, Issuer, TableLoad};

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
    pub fn new(program: &Program, placed: Placement) -> Option<Filling> {
        let issuer = with_latest_starts(program);
        let is_near = |copy: &Copy| placed.pools[copy.buffer] == Memories::SCARCE;
        if issuer.copies.is_empty() || !issuer.copies.iter().all(is_near) {
            return None;
        }
        let arena = Arena::new(program, &issuer, &placed);
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
mod tests {
    use super::*;
    use crate::checker::check;
    use crate::cost::Costs;
    use crate::model::device::KERNELS_IN_FLIGHT;
    use crate::model::ids::{PartId, TableId};
    use crate::model::operation::{LookUpTable, OperationKind};
    use crate::model::plan::{Plan, Staging};
    use crate::model::program::{CopySource, Step};
    use crate::schedule::interleave::interleave;
    use crate::search::uncascaded;
    use crate::testing::networks::{mobilenet_v1, mobilenet_v2, Network, INPUT};
    use crate::testing::worked_example::{copied_layers, worked_example};

    /// Layers run whole, their constants copied: with room, the copy for `project` runs beside `filter`.
    #[test]
    fn example() {
        let graph = worked_example();
        let late = interleave(&graph, &copied_layers(), &mut Costs::default()).expect("legal Plans");
        let early = ahead(&graph, &late, 2 * peak_bytes(&late));
        // Input and output of `filter`, its constants, and those of `project`.
        assert_eq!((peak_bytes(&late), peak_bytes(&early)), (4096 + 656, 4096 + 656 + 352));
        assert!(total_cycles(&early) < total_cycles(&late));
    }

    const HALVINGS: u32 = 3;

    /// Every Part whole and alone, convolutions with their constants staged so.
    fn staged(graph: &CascaderGraph, staging: Staging) -> Program {
        let plan = |plan: Plan| {
            let kernel = graph.kernel(plan.first).expect("samples are NPU Parts");
            let can = kernel.constant_bytes > 0 && (staging != Staging::Sliced || kernel.sliced.is_some());
            Plan { staging: vec![if can { staging } else { Staging::InPlace }], ..plan }
        };
        let plans: Vec<Plan> = uncascaded(graph).into_iter().map(plan).collect();
        interleave(graph, &plans, &mut Costs::default()).expect("legal plans")
    }

    fn ahead(graph: &CascaderGraph, program: &Program, limit_bytes: u64) -> Program {
        let mut ahead = program.clone();
        prefetch(graph, &mut ahead, limit_bytes);
        ahead
    }

    fn kernels(program: &Program) -> impl Iterator<Item = u64> + '_ {
        program
            .steps
            .iter()
            .filter_map(|step| if let Step::Stripe(stripe) = step { Some(stripe.cost.cycles) } else { None })
    }

    #[test]
    fn limits_that_are_asked_for_later_tell_what_they_would_have_told() {
        for (graph, staging) in [(mobilenet_v1(), Staging::Whole), (mobilenet_v2(), Staging::Sliced)] {
            let program = staged(&graph, staging);
            let own = peak_bytes(&program);
            for first in [&[][..], &[own + own / 7, 2 * own]] {
                let known = estimates(&program, first, HALVINGS);
                for later in [vec![own / 2, own, own + 16], vec![own + own / 3, 3 * own, own + own / 7], vec![64 * own]]
                {
                    let all = [first, &later[..]].concat();
                    assert_eq!(estimates_beside(&program, &known, &later), estimates(&program, &all, HALVINGS));
                }
            }
        }
    }

    #[test]
    fn limits_are_kept_and_programs_stay_right() {
        for (graph, staging) in [(mobilenet_v1(), Staging::Whole), (mobilenet_v2(), Staging::Sliced)] {
            let program = staged(&graph, staging);
            let own = peak_bytes(&program);
            let issuer = with_latest_starts(&program);
            let limits = limits(&issuer, own, &[], HALVINGS);
            assert!(limits.len() > 2 && limits.is_sorted());
            for limit in limits {
                let ahead = ahead(&graph, &program, limit);
                check(&graph, &ahead).expect("the program is right");
                assert!(peak_bytes(&ahead) <= limit.max(own));
                let issue = issuer.issued(limit);
                assert_eq!((peak_bytes(&ahead), total_cycles(&ahead)), (issue.peak_bytes.max(own), issue.cycles));
                assert_eq!(ahead.steps.len(), program.steps.len());
            }
        }
    }

    #[test]
    fn estimates_are_faster_with_more_room() {
        for (graph, staging) in [(mobilenet_v1(), Staging::Whole), (mobilenet_v2(), Staging::Sliced)] {
            let program = staged(&graph, staging);
            let estimates = estimates(&program, &[], HALVINGS);
            let none = ProgramEstimate {
                prefetch_bytes: None,
                peak_bytes: peak_bytes(&program),
                cycles: total_cycles(&program),
            };
            assert!(estimates[0] == none && estimates.len() > 1);
            let better =
                |a: &ProgramEstimate, b: &ProgramEstimate| a.prefetch_bytes < b.prefetch_bytes && a.cycles > b.cycles;
            assert!(estimates.is_sorted_by(better));
            let fastest = total_cycles(&ahead(&graph, &program, u64::MAX));
            assert_eq!(estimates.last().map(|estimate| estimate.cycles), Some(fastest));
        }
    }

    #[test]
    fn no_limit_beyond_the_last_one_changes_anything() {
        let graph = mobilenet_v1();
        let program = staged(&graph, Staging::Whole);
        let last = *limits(&with_latest_starts(&program), peak_bytes(&program), &[], HALVINGS).last().expect("limits");
        assert_eq!(ahead(&graph, &program, last), ahead(&graph, &program, u64::MAX));
        assert_eq!(peak_bytes(&ahead(&graph, &program, last)), last);
    }

    /// Light layers on a large plane, then heavy ones on a small plane.
    fn heavy_at_the_end() -> CascaderGraph {
        let mut net = Network::new([64, 64], 16);
        let mut t = INPUT;
        for _ in 0..24 {
            t = net.window(t, OperationKind::Convolution, 3, 1, 16);
        }
        t = net.window(t, OperationKind::Convolution, 3, 8, 16);
        for depth in [512, 512, 512] {
            t = net.window(t, OperationKind::Convolution, 1, 1, depth);
        }
        net.finish(t)
    }

    #[test]
    fn with_room_everything_but_the_first_copy_hides() {
        let graph = heavy_at_the_end();
        for staging in [Staging::Whole, Staging::Sliced] {
            let mut program = staged(&graph, staging);
            // Kernels that read constants in place would hold up copies.
            for step in &mut program.steps {
                if let Step::Stripe(stripe) = step {
                    stripe.cost.constants = 0;
                }
            }
            let fast = ahead(&graph, &program, u64::MAX);
            let first = match program.steps.iter().find(|step| matches!(step, Step::Copy { .. })) {
                Some(Step::Copy { cycles, .. }) if staging == Staging::Whole => *cycles,
                _ => 0,
            };
            assert_eq!(total_cycles(&fast), first + kernels(&fast).sum::<u64>());
            assert!(total_cycles(&program) > total_cycles(&fast));
        }
    }

    #[test]
    fn heavy_copies_start_many_kernels_ahead() {
        let graph = heavy_at_the_end();
        let fast = ahead(&graph, &staged(&graph, Staging::Whole), u64::MAX);
        let last = graph.parts.ids().next_back().expect("Parts");
        let of = |wanted: PartId, copy: bool| {
            fast.steps.iter().position(|step| match step {
                Step::Copy { moved, .. } => copy && matches!(moved, CopySource::Constants(part, _) if *part == wanted),
                Step::Stripe(stripe) => !copy && stripe.part == wanted,
                Step::Call { .. } | Step::LoadTable { .. } => false,
            })
        };
        let (copy, user) = (of(last, true).expect("a copy"), of(last, false).expect("a kernel"));
        let between = fast.steps[copy..user].iter().filter(|step| matches!(step, Step::Stripe(_))).count();
        assert!(between > 2, "{between} kernels");
    }

    /// Look-ups, each in a table of its own, with convolutions between them, then convolutions whose copies are long.
    fn with_tables(count: u32) -> CascaderGraph {
        let mut net = Network::new([32, 32], 16);
        let mut t = INPUT;
        for id in (0..count).map(TableId) {
            t = net.window(t, OperationKind::Convolution, 3, 1, 16);
            t = net.look_up(t, LookUpTable { id, bytes: 256 });
        }
        t = net.window(t, OperationKind::Convolution, 3, 8, 16);
        for depth in [512, 512] {
            t = net.window(t, OperationKind::Convolution, 1, 1, depth);
        }
        net.finish(t)
    }

    #[test]
    fn tables_are_loaded_ahead_of_copies_that_would_hold_them_up() {
        let graph = with_tables(6);
        let program = staged(&graph, Staging::Whole);
        let early = ahead(&graph, &program, u64::MAX);
        check(&graph, &early).expect("the program is right");
        assert_eq!(total_cycles(&early), with_latest_starts(&program).issued(u64::MAX).cycles);
        let kernel = |wanted: PartId| {
            early.steps.iter().position(|step| matches!(step, Step::Stripe(stripe) if stripe.part == wanted))
        };
        let copied = |step: &Step| match step {
            Step::Copy { moved: CopySource::Constants(part, _), .. } => Some(*part),
            _ => None,
        };
        let mut apart = 0;
        for (index, step) in early.steps.iter().enumerate() {
            let &Step::LoadTable { part, .. } = step else { continue };
            let mut before = early.steps[..index].iter().filter_map(copied);
            assert!(before.all(|of| kernel(of) < kernel(part)), "{part:?} waits for a copy of a later kernel");
            apart += usize::from(kernel(part) != Some(index + 1));
        }
        assert!(apart > 2, "{apart} tables");
    }

    #[test]
    fn an_order_that_loads_a_table_too_late_or_over_another_is_refused() {
        // More than there are slots: the last takes one that an earlier table had.
        let graph = with_tables(12);
        let late = staged(&graph, Staging::Whole);
        let mut early = late.clone();
        let order = prefetch(&graph, &mut early, u64::MAX);
        let issued = |order: &IssueOrder| {
            let mut program = late.clone();
            issue(&graph, &mut program, order).map(|()| program)
        };
        assert_eq!(issued(&order), Some(early));
        let (tables, copies) = (order.tables.len(), order.copies.len());
        assert!(order.tables.iter().any(Option::is_some));
        for (table, copy) in [(0, copies - 1), (tables - 1, 0), (0, copies)] {
            let mut wrong = order.clone();
            wrong.tables[table] = Some(copy);
            assert_eq!(issued(&wrong), None, "table {table} ahead of copy {copy}");
        }
    }

    #[test]
    fn bytes_of_an_early_copy_are_free_of_kernels_in_flight() {
        let graph = mobilenet_v1();
        let program = ahead(&graph, &staged(&graph, Staging::Sliced), u64::MAX);
        let is_kernel = |step: &Step| matches!(step, Step::Stripe(_));
        for (index, step) in program.steps.iter().enumerate() {
            let Step::Copy { buffer, .. } = step else { continue };
            let since = program.buffers[*buffer].first_step as usize;
            let before = program.steps[..index].iter().filter(|step| is_kernel(step)).count();
            let kept = program.steps[since..index].iter().filter(|step| is_kernel(step)).count();
            assert_eq!(kept, before.min(KERNELS_IN_FLIGHT));
        }
    }

    #[test]
    fn means_are_rounded_down() {
        assert_eq!((mean(4, 9), mean(9, 4), mean(2, 3), mean(7, 7)), (6, 6, 2, 7));
    }
}
