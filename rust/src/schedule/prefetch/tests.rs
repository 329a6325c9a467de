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
            for later in [vec![own / 2, own, own + 16], vec![own + own / 3, 3 * own, own + own / 7], vec![64 * own]] {
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
        let none =
            ProgramEstimate { prefetch_bytes: None, peak_bytes: peak_bytes(&program), cycles: total_cycles(&program) };
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
            Step::Feed { .. } | Step::Take { .. } | Step::Call { .. } | Step::LoadTable { .. } => false,
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
