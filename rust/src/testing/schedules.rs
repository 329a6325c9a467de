//! Properties of whole schedules: whatever is decided, the program is right.

use proptest::prelude::*;

use crate::checker::{check, Complaint};
use crate::cost::Costs;
use crate::model::device::Device;
use crate::model::graph::{CascaderGraph, Input, Part};
use crate::model::ids::{PartId, TableId, TensorId};
use crate::model::memory::ALIGNMENT;
use crate::model::operation::{LookUpTable, OperationKind, Upscale};
use crate::model::plan::{Plan, Staging};
use crate::model::program::{Content, Program, Step};
use crate::plans::options::Options;
use crate::schedule::estimate::total_cycles;
use crate::schedule::interleave::interleave;
use crate::schedule::stripe_order::{is_interior, wanted};
use crate::search::arena;
use crate::search::{arrange, search, uncascaded};
use crate::stripe::{Axis, Span, Tiling};
use crate::testing::counted_bytes::counted_bytes;
use crate::testing::networks::{
    device, device_of, fed_from_flash, fed_in_rows, realised, skips_rows, stacked, taken_in_rows, Network, INPUT,
};

/// What a layer of `any_operations` is.
#[derive(Clone, Copy, Debug)]
enum Layer {
    /// A window of this size and stride.
    Window(i64, i64),
    /// Doubled rows and columns: with zeros or without, of a window of this size that begins so far ahead, one left out.
    Doubled(bool, i64, i64, bool),
    /// An element-wise operation with the output of a layer some layers before, if that fits or can be repeated, or with a
    /// scalar; elements of these many bits come of it.
    Pointwise(OperationKind, usize, u32),
    /// Every element looked up in one of some tables.
    LookUp(u32, u64),
    /// An element-wise operation with one row, column or both of what the tensor before is.
    Repeated(OperationKind, [bool; 2], u32),
    /// An element-wise operation with a constant of one row, column or channel, or more of them.
    Constant(OperationKind, [bool; 3], u32),
}

fn arbitrary_layer() -> impl Strategy<Value = Layer> {
    use OperationKind::*;
    let bits = prop::sample::select(vec![8u32, 16, 32]);
    let kinds = vec![Mul, Add, Sub, Minimum, Maximum, LeakyRelu, Abs, Clz, Shr, Shl, AveragePool];
    prop_oneof![
        (prop::sample::select(vec![1i64, 2, 3, 5]), 1i64..3).prop_map(|(kernel, stride)| Layer::Window(kernel, stride)),
        (any::<bool>(), 1i64..4, 0i64..3, any::<bool>()).prop_map(|(zeros, kernel, before, odd)| {
            let before = before.min(kernel - 1);
            Layer::Doubled(zeros, kernel, if zeros { before } else { before / 2 * 2 }, odd)
        }),
        (prop::sample::select(kinds), 0usize..4, bits.clone())
            .prop_map(|(kind, back, bits)| Layer::Pointwise(kind, back, bits)),
        (0u32..3, prop::sample::select(vec![256u64, 1024, 2048]))
            .prop_map(|(id, bytes)| Layer::LookUp(id * 4096 + bytes as u32, bytes)),
        (prop::sample::select(vec![Mul, Add, Sub]), any::<[bool; 2]>(), bits.clone())
            .prop_map(|(kind, axes, bits)| Layer::Repeated(kind, axes, bits)),
        (prop::sample::select(vec![Mul, Sub, Maximum]), any::<[bool; 3]>(), bits)
            .prop_map(|(kind, broadcast, bits)| Layer::Constant(kind, broadcast, bits)),
    ]
}

/// A chain of everything that an NPU can do, with temporaries of all element types.
fn any_operations(size: [i64; 2], layers: &[Layer]) -> CascaderGraph {
    let mut net = Network::new(size, 16);
    let mut made = vec![(INPUT, size)];
    for &layer in layers {
        let &(last, plane) = made.last().expect("the input");
        let next = match layer {
            Layer::Doubled(..) if plane.iter().any(|&extent| extent > 24) => continue,
            Layer::Window(kernel, stride) => {
                let narrow = net.pointwise(OperationKind::AveragePool, last, None, 8);
                (
                    net.window(narrow, OperationKind::MaxPool, kernel, stride, 16),
                    plane.map(|e| (e + stride - 1) / stride),
                )
            }
            Layer::Doubled(zeros, kernel, before, odd) => {
                let (kind, upscale) = match zeros {
                    true => (OperationKind::Convolution, Upscale::Zeros),
                    false => (OperationKind::AveragePool, Upscale::Nearest),
                };
                let narrow = net.pointwise(OperationKind::AveragePool, last, None, 8);
                let doubled = net.doubled(narrow, (kind, upscale), (kernel, before), odd);
                (doubled, plane.map(|extent| 2 * extent - i64::from(odd)))
            }
            Layer::Constant(kind, broadcast, bits) => (net.with_constant(kind, last, broadcast, bits), plane),
            Layer::Pointwise(kind, back, bits) => {
                let other = made[made.len() - 1 - back.min(made.len() - 1)];
                let fits = (0..2).all(|axis| [1, plane[axis]].contains(&other.1[axis]));
                let second = (kind.is_binary() && back > 0 && fits).then_some(other.0);
                (net.pointwise(kind, last, second, bits), plane)
            }
            Layer::LookUp(id, bytes) => {
                let narrow = net.pointwise(OperationKind::AveragePool, last, None, 8);
                (net.look_up(narrow, LookUpTable { id: TableId(id), bytes }), plane)
            }
            Layer::Repeated(kind, axes, bits) => {
                let mut squeezed = net.pointwise(OperationKind::AveragePool, last, None, 8);
                for axis in (0..2).filter(|&axis| axes[axis]) {
                    squeezed = net.squeezed(squeezed, axis);
                }
                let summed = net.pointwise(OperationKind::SumOverDepth, squeezed, None, 32);
                (net.pointwise(kind, last, Some(summed), bits), plane)
            }
        };
        made.push(next);
    }
    let end = net.pointwise(OperationKind::AveragePool, made[made.len() - 1].0, None, 8);
    net.finish(end)
}

fn arbitrary_operations() -> impl Strategy<Value = CascaderGraph> {
    let layers = prop::collection::vec(arbitrary_layer(), 1..5);
    (3i64..12, 3i64..12, layers).prop_map(|(height, width, layers)| any_operations([height, width], &layers))
}

/// A chain of windows; where `residual` says so and the shapes allow it, what a window reads is added to or joined with
/// what it makes. Behind `reshaped` layers the bytes are seen as another plane, columns for rows or more columns, or the
/// pixels are turned to it.
pub fn network(size: [i64; 2], layers: &[(bool, i64, i64)], residual: bool, reshaped: usize) -> CascaderGraph {
    let mut net = Network::new(size, 16);
    let (mut t, mut plane) = (INPUT, size);
    for (index, &(depthwise, kernel, stride)) in layers.iter().enumerate() {
        if index == reshaped {
            if depthwise && !residual {
                plane[1] *= 2;
            } else {
                plane.reverse();
            }
            t = if residual {
                net.turned(t)
            } else {
                net.window_over((t, plane), OperationKind::Convolution, kernel, 1, 16)
            };
        }
        plane = plane.map(|extent| (extent + stride - 1) / stride);
        let from = t;
        let kind = if depthwise { OperationKind::Depthwise } else { OperationKind::Convolution };
        t = net.window(t, kind, kernel, stride, 16);
        if residual && stride == 1 {
            t = net.window(t, OperationKind::Convolution, 1, 1, 16);
            t = if kernel == 2 {
                // Channels, rows and columns in turn.
                let axis = [2, 0, 1][index % 3];
                // Long joins are walked otherwise than short ones.
                let turns = if depthwise && plane.iter().all(|&extent| extent <= 12) { 3 } else { 1 };
                let joined = net.join_along(axis, &[from, t].repeat(turns));
                if axis < 2 {
                    plane[axis] *= 2 * turns as i64;
                }
                net.window(joined, OperationKind::Convolution, 1, 1, 16)
            } else {
                net.add(from, t)
            };
        }
    }
    net.finish(t)
}

/// Chains with residuals, joins and views. The input lies among the tensors or in flash, or arrives row by row; the output
/// is there as a whole, or is taken row by row.
pub fn arbitrary_network() -> impl Strategy<Value = CascaderGraph> {
    let layers = prop::collection::vec((any::<bool>(), prop::sample::select(vec![1i64, 2, 3, 5]), 1i64..4), 1..6);
    (5i64..24, 5i64..24, layers, any::<bool>(), (0usize..8, 0i64..11, 0i64..9)).prop_map(
        |(height, width, layers, residual, (reshaped, input, output))| {
            let graph = network([height, width], &layers, residual, reshaped);
            let graph = if output > 5 { taken_in_rows(&graph, output - 5) } else { graph };
            match input {
                0..=2 => graph,
                3..=4 => fed_from_flash(&graph),
                rows => fed_in_rows(&graph, 1 + rows % 3, rows > 7),
            }
        },
    )
}

fn whole(staged: bool) -> Staging {
    if staged {
        Staging::Whole
    } else {
        Staging::InPlace
    }
}

/// Plans with arbitrary groups, stripes, bands and staging, as far as they are legal.
pub fn arbitrary_plans(graph: &CascaderGraph, choices: &[(u8, i64, u32, bool, bool)]) -> Vec<Plan> {
    let mut plans = Vec::new();
    let end = graph.parts.ids().next_back().expect("Parts");
    let mut first = PartId(0);
    let mut choice = choices.iter().cycle();
    while first <= end {
        let &(size, stripe, tiles, wide, staged) = choice.next().expect("choices are not empty");
        let last = first.after(size.into()).min(end);
        let count = last.since(first) + 1;
        let roll = if wide { Axis::Width } else { Axis::Height };
        let multiple = |i: i64| graph.stripe_multiple(first.after(i as usize));
        let stripes = (0..count as i64).map(|i| (1 + (stripe + i) % 5) * multiple(i)).collect();
        let mut plan = Plan {
            first,
            last,
            tiling: Tiling { roll, tiles: 1 },
            backwards: stripe % 2 == 1,
            stripes,
            staging: vec![whole(staged); count],
            copied: Vec::new(),
        };
        let handed: Vec<_> =
            plan.parts().filter_map(|part| Some((plan.offset(part), graph.handed_rows(part)?))).collect();
        for &(offset, rows) in &handed {
            (plan.tiling, plan.backwards, plan.stripes[offset]) = (Tiling::WHOLE_ROWS, false, rows);
        }
        let across = graph.tensors[graph.output(last)].plane[roll.other() as usize];
        if handed.is_empty() && (0..count - 1).all(|offset| is_interior(graph, &plan, offset)) {
            plan.tiling.tiles = tiles.min((across as u32).div_ceil(graph.stripe_multiple(last) as u32));
        }
        plans.push(plan);
        first = last.after(1);
    }
    plans
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_legal_plans_make_a_right_program(
        graph in arbitrary_network(),
        choices in prop::collection::vec((0u8..6, 0i64..5, 1u32..4, any::<bool>(), any::<bool>()), 1..4),
    ) {
        let plans = arbitrary_plans(&graph, &choices);
        let program = interleave(&graph, &plans, &mut Costs::default()).expect("legal plans");
        prop_assert_eq!(check(&graph, &program), Ok(()));
    }

    #[test]
    fn any_legal_plans_of_any_operations_make_a_right_program(
        graph in arbitrary_operations(),
        choices in prop::collection::vec((0u8..6, 0i64..5, 1u32..4, any::<bool>(), any::<bool>()), 1..4),
    ) {
        let plans = arbitrary_plans(&graph, &choices);
        let program = interleave(&graph, &plans, &mut Costs::default()).expect("legal plans");
        prop_assert_eq!(check(&graph, &program), Ok(()));
    }

    #[test]
    fn every_proposal_of_any_operations_is_right_and_promises_what_it_takes(graph in arbitrary_operations()) {
        let frontier = search(&graph, &Options::default()).expect("blocks fit");
        prop_assert!(!frontier.proposals.is_empty());
        for proposal in &frontier.proposals {
            let (program, placement) = realised(&graph, proposal);
            prop_assert_eq!(check(&graph, &program), Ok(()));
            prop_assert!(arena::is_right(&graph, &program, &placement));
            prop_assert_eq!(placement.bytes(), proposal.sram_bytes());
            prop_assert_eq!(Costs::default().program(&graph, &program, &placement), proposal.cycles);
        }
    }

    #[test]
    fn every_proposal_is_right_and_promises_what_it_takes(graph in arbitrary_network()) {
        let frontier = search(&graph, &Options::default()).expect("blocks fit");
        prop_assert!(!frontier.proposals.is_empty());
        prop_assert!(frontier.proposals[0].sram_bytes() <= frontier.uncascaded_bytes);
        for pair in frontier.proposals.windows(2) {
            prop_assert!(pair[0].sram_bytes() < pair[1].sram_bytes() && pair[0].cycles > pair[1].cycles);
        }
        for proposal in &frontier.proposals {
            let (program, placement) = realised(&graph, proposal);
            prop_assert_eq!(check(&graph, &program), Ok(()));
            prop_assert!(arena::is_right(&graph, &program, &placement));
            prop_assert_eq!(placement.bytes(), proposal.sram_bytes());
            prop_assert_eq!(Costs::default().program(&graph, &program, &placement), proposal.cycles);
        }
        let uncascaded = arrange(&graph, &uncascaded(&graph), None, None).expect("blocks fit");
        let cycles = Costs::default().program(&graph, &uncascaded.program, &uncascaded.placement);
        prop_assert_eq!((uncascaded.placement.bytes(), cycles), (frontier.uncascaded_bytes, frontier.uncascaded_cycles));
    }
}

/// The last row of the input is never read, and the first step is a copy. Such rows were free for constants in one count and
/// not in the other.
#[test]
fn rows_that_nobody_reads_are_there_until_something_runs() {
    let layers = [(true, 1, 3), (false, 1, 1), (false, 1, 1), (false, 3, 1), (false, 1, 3)];
    let graph = network([8, 18], &layers, true, layers.len());
    for proposal in search(&graph, &Options::default()).expect("blocks fit").proposals {
        let (program, placement) = realised(&graph, &proposal);
        assert!(arena::is_right(&graph, &program, &placement) && placement.bytes() == proposal.sram_bytes());
    }
}

/// A square has as many columns as rows: a turned read of its first row wants all of them.
#[test]
fn rows_that_are_read_as_columns_are_awaited() {
    let mut net = Network::new([6, 6], 16);
    let turned = net.turned(INPUT);
    let graph = fed_in_rows(&net.finish(turned), 2, true);
    let plans = arbitrary_plans(&graph, &[(1, 0, 1, false, false)]);
    assert_eq!(plans.len(), 1);
    let program = interleave(&graph, &plans, &mut Costs::default()).expect("legal plans");
    assert_eq!(check(&graph, &program), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Equal where no row is left unread, at an end or between windows, at least as much otherwise. Bands are counted as if
    /// everything were alive at once: equal across the height if rolling buffers between two uses are, too, and each band
    /// has something of every Part and reads something of all its inputs. A stripe counts as one, however many operations
    /// make its rows.
    #[test]
    fn the_search_counts_what_is_live(
        graph in arbitrary_network(),
        choices in prop::collection::vec((0u8..6, 0i64..5, 1u32..4, any::<bool>(), any::<bool>()), 1..4),
    ) {
        let mut plans = arbitrary_plans(&graph, &choices);
        // Counted before directions are chosen.
        plans.iter_mut().for_each(|plan| plan.backwards = false);
        let program = interleave(&graph, &plans, &mut Costs::default()).expect("legal plans");
        let counted = plans.iter().map(|plan| counted_bytes(&graph, plan, &program)).max().unwrap_or(0);
        let live = stacked(&program).bytes();
        prop_assert!(program.buffers.iter().all(|buffer| buffer.size_bytes % ALIGNMENT == 0));
        prop_assert!(counted >= live, "counted {counted}, live {live}");
        let in_order =
            |plan: &Plan| plan.tiling.tiles == 1 || plan.tiling.roll == Axis::Height && runs_all_in_each_band(&graph, plan);
        let at_once = |plan: &Plan| stripes_are_made_at_once(&graph, plan, &program);
        if plans.iter().all(in_order) && plans.iter().all(at_once) && reads_everything(&graph) {
            prop_assert_eq!(counted, stacked(&restless(&graph, &plans, program)).bytes());
        }
    }
}

/// Whether no band leaves out a Part or what it reads, as a join across bands leaves what it puts beside them.
fn runs_all_in_each_band(graph: &CascaderGraph, plan: &Plan) -> bool {
    let is_there = |[along, across]: [Span; 2]| !along.is_empty() && !across.is_empty();
    let reads = |part: PartId, [along, across]: [Span; 2], input: &Input| {
        let roll = plan.tiling.roll;
        let alike = graph.parts[part].inputs.iter().filter(|other| other.tensor == input.tensor);
        alike
            .into_iter()
            .any(|input| is_there([graph.needed(input, roll, along), graph.needed(input, roll.other(), across)]))
    };
    (0..plan.tiling.tiles).all(|tile| {
        let boxes = wanted(graph, plan, tile);
        plan.parts()
            .zip(boxes)
            .all(|(part, made)| is_there(made) && graph.parts[part].inputs.iter().all(|input| reads(part, made, input)))
    })
}

/// Whether no stripe has rows of two operations: what the first one reads may die before the second one's rows are there. A
/// stripe of columns has them all.
fn stripes_are_made_at_once(graph: &CascaderGraph, plan: &Plan, program: &Program) -> bool {
    plan.parts().all(|part| {
        let starts = program.steps.iter().filter_map(|step| match step {
            Step::Stripe(stripe) if stripe.part == part => Some(stripe.output.region.span(plan.tiling.roll).start),
            _ => None,
        });
        let first = starts.clone().min().unwrap_or(0);
        let height = graph.tensors[graph.output(part)].plane[0];
        let joins_rows =
            graph.kernel(part).is_some_and(|kernel| kernel.joined.iter().any(|one| one.region.spans[0].len() < height));
        graph.kernel(part).is_none_or(|kernel| kernel.joined.is_empty())
            || (plan.tiling.roll == Axis::Height || !joins_rows)
                && starts.into_iter().all(|start| (start - first) % plan.stripes[part.since(plan.first)] == 0)
    })
}

/// A program whose rolling buffers are live from first to last use wherever a Plan is cut into bands.
fn restless(graph: &CascaderGraph, plans: &[Plan], mut program: Program) -> Program {
    let banded = plans.iter().filter(|plan| plan.tiling.tiles > 1);
    let inside: Vec<TensorId> = banded.flat_map(|plan| plan.parts()).map(|part| graph.output(part)).collect();
    for buffer in &mut program.buffers {
        if matches!(buffer.content, Content::Rolling(tensor, _) if inside.contains(&tensor)) {
            buffer.windows.clear();
        }
    }
    program
}

/// Whether each read of a tensor takes in its first and last row and column, and all rows between.
fn reads_everything(graph: &CascaderGraph) -> bool {
    let axes = [Axis::Height, Axis::Width];
    let all = |part: &Part, axis: Axis| {
        let out = Span::new(0, graph.tensors[part.outputs[0]].plane[axis as usize]);
        part.inputs.iter().all(|input| {
            let all = Span::new(0, graph.tensors[input.tensor].plane[axis as usize]);
            !graph.is_aligned(input, axis) || graph.seen(input, axis, out) == all
        })
    };
    graph.parts.iter().all(|part| axes.iter().all(|&axis| all(part, axis))) && !skips_rows(graph)
}

/// A chain of look-ups in tables of 256 bytes, one after the other, row by row.
fn tables(count: u32, device: Device) -> (CascaderGraph, Program) {
    let mut net = Network::new([6, 8], 16);
    let small = |id| LookUpTable { id: TableId(id), bytes: 256 };
    let end = (0..count).fold(INPUT, |t, id| net.look_up(t, small(id)));
    let graph = net.finish_on(end, device);
    let (first, last) = (PartId(0), PartId(count - 1));
    let tiling = Tiling { roll: Axis::Height, tiles: 1 };
    let (stripes, staging) = (vec![1; count as usize], vec![Staging::InPlace; count as usize]);
    let plan = Plan { first, last, tiling, backwards: false, stripes, staging, copied: Vec::new() };
    let program = interleave(&graph, &[plan], &mut Costs::default()).expect("a legal plan");
    assert_eq!(check(&graph, &program), Ok(()));
    (graph, program)
}

fn is_load(step: &Step) -> bool {
    matches!(step, Step::LoadTable { .. })
}

#[test]
fn a_cascade_of_eight_tables_loads_each_once() {
    let loads = |count| tables(count, device()).1.steps.iter().filter(|step| is_load(step)).count();
    assert_eq!(loads(8), 8);
    // Of nine, eight stay from one row to the next at best, and one at least is loaded again.
    assert!((9 + 5..=9 + 2 * 5).contains(&loads(9)), "{}", loads(9));
}

#[test]
fn tables_are_loaded_again_where_kernels_lie_on_them() {
    let small = device_of("ethos-u55-64");
    let mut net = Network::new([6, 8], 16);
    let looked = net.look_up(INPUT, LookUpTable { id: TableId(0), bytes: 256 });
    let pooled = net.window(looked, OperationKind::MaxPool, 3, 1, 16);
    let end = net.look_up(pooled, LookUpTable { id: TableId(0), bytes: 256 });
    let graph = net.finish_on(end, small);
    let program = interleave(&graph, &uncascaded(&graph), &mut Costs::default()).expect("legal plans");
    assert_eq!(program.steps.iter().filter(|step| is_load(step)).count(), 2);
    assert_eq!(check(&graph, &program), Ok(()));
    let mut fewer = program.clone();
    fewer.steps.remove(fewer.steps.iter().rposition(is_load).expect("a load"));
    assert!(matches!(check(&graph, &fewer), Err(Complaint::Unloaded { .. })));
}

#[test]
fn tables_that_are_not_loaded_whole_and_in_place_are_named() {
    let (graph, program) = tables(3, device());
    let with = |change: &dyn Fn(&mut Vec<Step>)| {
        let mut program = program.clone();
        change(&mut program.steps);
        check(&graph, &program).err()
    };
    let at = program.steps.iter().position(is_load).expect("a load");
    let missing = with(&|steps| steps[at] = steps[at + 2].clone());
    assert!(matches!(missing, Some(Complaint::Unloaded { table: TableId(0), .. })), "{missing:?}");
    let outside = with(&|steps| {
        if let Step::LoadTable { slot, .. } = &mut steps[at] {
            *slot = 8;
        }
    });
    assert!(matches!(outside, Some(Complaint::Slot { slot: 8, .. })), "{outside:?}");
    let overwritten = with(&|steps| {
        for step in steps {
            if let Step::LoadTable { slot, .. } = step {
                *slot = 0;
            }
        }
    });
    assert!(matches!(overwritten, Some(Complaint::Unloaded { table: TableId(0), .. })), "{overwritten:?}");
}

#[test]
fn loads_of_tables_take_time() {
    let (graph, program) = tables(8, device());
    let mut bare = program.clone();
    bare.steps.retain(|step| !is_load(step));
    let time = |program: &Program| Costs::default().program(&graph, program, &stacked(program));
    assert!(time(&program) > time(&bare));
    assert!(total_cycles(&program) > total_cycles(&bare));
}

#[test]
fn doubled_rows_are_cut_between_two_pixels() {
    let mut net = Network::new([5, 6], 16);
    let doubled = net.doubled(INPUT, (OperationKind::AveragePool, Upscale::Nearest), (1, 0), true);
    let graph = net.finish(doubled);
    let plan = |stripe, tiles| {
        let tiling = Tiling { roll: Axis::Height, tiles };
        let (stripes, staging) = (vec![stripe], vec![Staging::InPlace]);
        Plan { first: PartId(0), last: PartId(0), tiling, backwards: false, stripes, staging, copied: Vec::new() }
    };
    let made = |stripe, tiles| interleave(&graph, &[plan(stripe, tiles)], &mut Costs::default());
    // Nine rows of eleven columns: odd stripes only where they hold all, and six pairs of columns at most.
    for (stripe, tiles) in [(2, 1), (4, 6), (9, 1), (11, 3)] {
        assert_eq!(check(&graph, &made(stripe, tiles).expect("a legal plan")), Ok(()));
    }
    for (stripe, tiles) in [(1, 1), (3, 1), (2, 7)] {
        assert!(made(stripe, tiles).is_err(), "{stripe} {tiles}");
    }
    let mut program = made(4, 1).expect("a legal plan");
    let Step::Stripe(stripe) = &mut program.steps[1] else { unreachable!() };
    stripe.output.region.spans[0].start -= 1;
    assert!(matches!(check(&graph, &program), Err(Complaint::Halved { y: 3, x: 0, .. })));
}

#[test]
fn a_stripe_of_zeros_between_rows_begins_at_a_row_that_exists() {
    let mut net = Network::new([4, 4], 16);
    let doubled = net.doubled(INPUT, (OperationKind::Convolution, Upscale::Zeros), (2, 1), false);
    let graph = net.finish(doubled);
    let tiling = Tiling { roll: Axis::Height, tiles: 1 };
    let (stripes, staging) = (vec![4], vec![Staging::InPlace]);
    let plan =
        Plan { first: PartId(0), last: PartId(0), tiling, backwards: false, stripes, staging, copied: Vec::new() };
    let program = interleave(&graph, &[plan], &mut Costs::default()).expect("a legal plan");
    assert_eq!(check(&graph, &program), Ok(()));
    let Step::Stripe(stripe) = &program.steps[1] else { unreachable!() };
    // Rows 3 to 8 of what is doubled: row 3 is a zero behind row 1, which nobody reads.
    assert_eq!((stripe.padding, stripe.inputs[0].region.spans[0]), ([1, 1, 0, 0], Span::new(2, 4)));
}
