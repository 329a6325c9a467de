//! The search against exhaustive enumeration: on small networks every partition into groups, every tiling, stripe extent
//! and staging is interleaved and measured, and the frontier must be the same.

use proptest::prelude::*;

use crate::costs::Costs;
use crate::graph::{CascaderGraph, PartId, ALIGNMENT};
use crate::interleave::interleave;
use crate::pareto::pareto_front;
use crate::performance::Primitive;
use crate::plans::{Copies, Options};
use crate::program::{Plan, Staging, Step};
use crate::proposals::{estimated, search, uncascaded};
use crate::samples::{counted_bytes, place, Network};
use crate::stripe::{Axis, Tiling};
use crate::walk::is_interior;

const STRIPES: [i64; 2] = [1, 3];

/// Band counts tried; large networks have too many Plans with more than one.
fn tiles(graph: &CascaderGraph) -> Vec<u32> {
    if graph.parts.len() <= 4 {
        vec![1, 2]
    } else {
        vec![1]
    }
}

fn options(graph: &CascaderGraph) -> Options {
    Options {
        max_group: 8,
        stripes: STRIPES.to_vec(),
        divisions: vec![],
        tiles: tiles(graph),
        resolution: 0,
        max_points: usize::MAX,
        ..Options::default()
    }
}

/// All Plans of Parts `first..=last`, as the options allow them.
fn plans_of(graph: &CascaderGraph, first: PartId, last: PartId) -> Vec<Plan> {
    let count = (last - first + 1) as usize;
    let plane = graph.tensors[graph.output(last) as usize].plane;
    let mut tilings: Vec<Tiling> = Vec::new();
    for roll in [Axis::Height, Axis::Width] {
        // The search cuts a Part on its own in one way only: by rows, in one band.
        let cuts = if count == 1 { vec![1] } else { tiles(graph) };
        if roll == Axis::Height || (count > 1 && plane[1] > plane[0]) {
            let fits = |tiles: &u32| *tiles == 1 || i64::from(*tiles) * 2 <= plane[roll.other() as usize];
            tilings.extend(cuts.into_iter().filter(fits).map(|tiles| Tiling { roll, tiles }));
        }
    }
    let mut found = Vec::new();
    for tiling in tilings {
        let mut partial: Vec<(Vec<i64>, Vec<Staging>)> = vec![(Vec::new(), Vec::new())];
        for part in first..=last {
            let extent = graph.tensors[graph.output(part) as usize].plane[tiling.roll as usize];
            let extents: Vec<i64> = STRIPES.into_iter().filter(|&s| s < extent).chain([extent]).collect();
            let has_constants = graph.kernel(part).is_some_and(|kernel| kernel.constant_bytes > 0);
            let stagings: &[Staging] =
                if has_constants { &[Staging::InPlace, Staging::Whole] } else { &[Staging::InPlace] };
            let mut longer = Vec::new();
            for (stripes, staging) in &partial {
                for (&extent, &staged) in extents.iter().flat_map(|e| stagings.iter().map(move |s| (e, s))) {
                    longer.push(([&stripes[..], &[extent]].concat(), [&staging[..], &[staged]].concat()));
                }
            }
            partial = longer;
        }
        found.extend(partial.into_iter().map(|(stripes, staging)| Plan { first, last, tiling, stripes, staging }));
    }
    let closed = |plan: &Plan| plan.tiling.tiles == 1 || (0..count - 1).all(|offset| is_interior(graph, plan, offset));
    found.retain(closed);
    found
}

/// Bytes and cycles of a Plan as the search adds them up: bytes counted while the group runs, cycles of its stripes and of
/// its copies as `copies` sees them.
fn value(graph: &CascaderGraph, plan: &Plan, copies: Copies, costs: &mut Costs) -> (u64, u64) {
    let mut plans = uncascaded(graph);
    plans.splice(plan.first as usize..=plan.last as usize, [plan.clone()]);
    let program = interleave(graph, &plans, costs).expect("legal plans");
    let cycles = (plan.first..=plan.last).map(|id| {
        let (mut kernels, mut copy) = (0, 0);
        for step in &program.steps {
            match step {
                Step::Stripe(stripe) if stripe.part == id => kernels += stripe.cycles,
                Step::Copy { part, cycles, .. } if *part == id => copy += cycles,
                _ => {}
            }
        }
        copies.cycles(kernels, copy, 0)
    });
    (counted_bytes(graph, plan, &program), cycles.sum())
}

/// The front of every partition into groups and every Plan of each group, by the search's own measure.
fn additive(graph: &CascaderGraph, copies: Copies) -> Vec<(u64, u64)> {
    let mut costs = Costs::default();
    let mut fronts: Vec<Vec<(u64, u64)>> = vec![vec![(0, 0)]];
    for last in 0..graph.parts.len() as PartId {
        let mut all = Vec::new();
        for first in 0..=last {
            let plans = plans_of(graph, first, last);
            // Of a group's Plans, those that another one equals or beats in both are so in every partition, too.
            let values = plans.iter().map(|plan| value(graph, plan, copies, &mut costs)).collect();
            for (bytes, cycles) in pareto_front(values) {
                all.extend(fronts[first as usize].iter().map(|before| (before.0.max(bytes), before.1 + cycles)));
            }
        }
        fronts.push(pareto_front(all));
    }
    fronts.pop().expect("a front for no Parts")
}

/// The frontier of all programs there are.
fn exhaustive(graph: &CascaderGraph) -> Vec<(u64, u64)> {
    let parts = graph.parts.len() as PartId;
    let mut costs = Costs::default();
    let mut found = Vec::new();
    let mut open: Vec<Vec<Plan>> = vec![Vec::new()];
    while let Some(plans) = open.pop() {
        let first = plans.last().map_or(0, |plan: &Plan| plan.last + 1);
        if first == parts {
            let program = interleave(graph, &plans, &mut costs).expect("legal plans");
            let placed = place(&program);
            found.push((placed.bytes, costs.program(graph, &program, &placed.offsets)));
            if found.len() > 4096 {
                found = pareto_front(found);
            }
            continue;
        }
        for last in first..parts {
            open.extend(plans_of(graph, first, last).into_iter().map(|plan| [&plans[..], &[plan]].concat()));
        }
    }
    pareto_front(found)
}

/// A network of windows in a chain; each `Some(back)` instead adds the tensor made `back` windows before, where it fits.
fn network(size: [i64; 2], primitive: Primitive, layers: &[(i64, i64, Option<usize>)]) -> CascaderGraph {
    let mut net = Network::new(size, 16);
    let mut made = vec![0];
    let mut planes = vec![size];
    for &(kernel, stride, back) in layers {
        let last = made.len() - 1;
        let from = back.filter(|&back| back <= last && back > 0 && planes[last - back] == planes[last]);
        let tensor = match from {
            Some(back) => net.add(made[last - back], made[last]),
            None => net.window(made[last], primitive, kernel, stride, 16),
        };
        planes.push(if from.is_some() {
            planes[last]
        } else {
            planes[last].map(|extent| (extent + stride - 1) / stride)
        });
        made.push(tensor);
    }
    net.finish(made[made.len() - 1])
}

fn layers(most: usize) -> impl Strategy<Value = Vec<(i64, i64, Option<usize>)>> {
    let back = prop::option::of(1usize..4);
    prop::collection::vec(
        (prop::sample::select(vec![1i64, 3, 3, 5]), prop::sample::select(vec![1i64, 1, 2]), back),
        1..=most,
    )
}

/// Whether something found takes no more bytes than `best`, but for alignment, and `times` its cycles at most.
fn covers(found: &[(u64, u64)], best: (u64, u64), parts: usize, times: (u64, u64)) -> bool {
    let bytes = best.0 + ALIGNMENT * parts as u64;
    found.iter().any(|point| point.0 <= bytes && point.1 * times.1 <= best.1 * times.0)
}

fn found(graph: &CascaderGraph) -> Vec<(u64, u64)> {
    let frontier = search(graph, &options(graph), &mut place).expect("blocks fit");
    frontier.proposals.iter().map(|p| (p.sram_bytes, p.cycles)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_search_is_exact_in_its_own_measure_without_weights(
        size in (6i64..14, 5i64..14), layers in layers(6),
    ) {
        let graph = network([size.0, size.1], Primitive::MaxPool, &layers);
        let found = estimated(&graph, &options(&graph), Copies::Exposed, &mut Costs::default());
        prop_assert_eq!(found, additive(&graph, Copies::Exposed));
    }

    #[test]
    fn the_search_is_exact_in_its_own_measure_with_weights(
        size in (6i64..12, 5i64..12), layers in layers(4), copies in prop::sample::select(vec![Copies::Exposed, Copies::Hidden]),
    ) {
        let graph = network([size.0, size.1], Primitive::Convolution, &layers);
        let found = estimated(&graph, &options(&graph), copies, &mut Costs::default());
        prop_assert_eq!(found, additive(&graph, copies));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn chains_and_joins_without_weights(
        size in (8i64..14, 5i64..8), layers in layers(5),
    ) {
        let graph = network([size.0, size.1], Primitive::MaxPool, &layers);
        let (found, best) = (found(&graph), exhaustive(&graph));
        for point in &best {
            prop_assert!(covers(&found, *point, graph.parts.len(), (2, 1)), "{point:?} is missing in {found:?}");
        }
    }

    /// Copies are taken to hide behind the kernels that use them, which in a network this small they do not.
    #[test]
    fn chains_and_joins_with_weights(
        size in (6i64..12, 5i64..8), layers in layers(3),
    ) {
        let graph = network([size.0, size.1], Primitive::Convolution, &layers);
        let (found, best) = (found(&graph), exhaustive(&graph));
        for point in &best {
            prop_assert!(covers(&found, *point, graph.parts.len(), (2, 1)), "{point:?} is missing in {found:?}");
        }
    }
}
