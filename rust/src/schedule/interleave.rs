//! From Plans to a program: the stripes, in the order of demand, become steps over buffers.
//!
//! Owns the steps and the buffers' extents. Does not choose anything, does not place buffers, and leaves copies of constants
//! right before their first use. What makes Plans legal is `legal_plans`' to say.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::cost::{staging_cycles, tensor_copy_cycles, Costs};
use crate::model::graph::{CascaderGraph, Input, Work};
use crate::model::ids::{BufferId, Id, IdVec, PartId, Piece, TensorId};
use crate::model::memory::{Candidates, Memories};
use crate::model::operation::{Cost, Source};
use crate::model::plan::{CopiedTensor, Plan, Staging};
use crate::model::program::{Buffer, Content, CopySource, Program, Step, Stripe, View};
use crate::schedule::legal_plans::{check_plan, copied_tensor, PlanError};
use crate::schedule::lifetimes::{is_tiled, set_lifetimes};
use crate::schedule::stripe_order::{is_interior, wanted, StripeOrder};
use crate::schedule::tables::load_tables;
use crate::stripe::{Axis, Region, Span};
use crate::util::interrupt;

/// Turn Plans, which must cover the graph's Parts in order, into a program.
///
/// Copies of constants stand right before their first use; `prefetch` moves them ahead. Tables are loaded right before the
/// stripes that look results up in them.
pub fn interleave(graph: &CascaderGraph, plans: &[Plan], costs: &mut Costs) -> Result<Program, PlanError> {
    let count = graph.tensors.len();
    let mut builder = Builder {
        graph,
        costs,
        program: Program::default(),
        whole: vec![None; count].into(),
        near: vec![None; count].into(),
        is_far: match graph.device.keeps_interface_behind() {
            true => graph.interface(),
            false => vec![false; count].into(),
        },
    };
    for copied in plans.iter().flat_map(|plan| &plan.copied) {
        if let Some(tensor) = copied_tensor(graph, *copied) {
            builder.is_far[tensor] = true;
        }
    }
    let mut expected = PartId(0);
    for (index, plan) in plans.iter().enumerate() {
        check_plan(graph, plan, index, expected)?;
        expected = plan.last.after(1);
        match &graph.parts[plan.first].work {
            Work::Opaque { workspace_bytes, .. } => builder.call(plan.first, *workspace_bytes),
            Work::Npu(_) if plan.staging[0] == Staging::Sliced => builder.slices(plan)?,
            Work::Npu(_) | Work::Feed { .. } | Work::Take { .. } => builder.cascade(plan)?,
        }
    }
    if expected.index() != graph.parts.len() {
        let (plan, count) = (plans.len(), graph.parts.len());
        return Err(PlanError::Cover { plan, first: PartId(0), last: PartId(0), expected, count });
    }
    builder.place_for_callers();
    builder.program.tensor_buffers = builder.whole;
    let mut program = builder.program;
    await_last_rows(graph, &mut program);
    load_tables(graph, &mut program.steps);
    set_lifetimes(graph, &mut program);
    debug_assert!(program.buffers.iter().all(is_tiled), "windows that do not follow one another");
    Ok(program)
}

/// Await the last rows that arrive while the device works: put a feed of no rows ahead of their first reader.
///
/// Without a reader, or in a whole tensor, they are awaited at once: they are not counted any longer.
fn await_last_rows(graph: &CascaderGraph, program: &mut Program) {
    let ahead = |step: &Step| matches!(step, Step::Feed { part, .. } if graph.arrives_ahead(*part));
    let Some(at) = program.steps.iter().rposition(ahead) else { return };
    let Step::Feed { part, output } = program.steps[at].clone() else { return };
    let buffer = &program.buffers[output.buffer];
    let rows = output.region.spans[0];
    let reads = |step: &Step| {
        let Step::Stripe(stripe) = step else { return false };
        let mut views = stripe.inputs.iter().filter(|view| view.buffer == output.buffer);
        let is_in_rows = |view: &View| view.in_rows && view.capacity[0] == buffer.capacity[0];
        views.any(|view| !is_in_rows(view) || view.region.spans[0].end > rows.start)
    };
    let rolls = matches!(buffer.content, Content::Rolling(..));
    let first = program.steps[at..].iter().position(reads).filter(|_| rolls).unwrap_or(1);
    let region = Region { spans: [Span::new(rows.end, rows.end), output.region.spans[1]] };
    program.steps.insert(at + first, Step::Feed { part, output: View { region, ..output } });
}

/// The buffers that a Part's constants are copied to: of all, or piece by piece; None where there are none to copy.
type Copied = BTreeMap<Option<Piece>, Option<BufferId>>;

/// A band of a group under way.
struct Cascade<'a> {
    plan: &'a Plan,
    /// What is wanted of each Part's output: along the rolling axis and across it.
    boxes: &'a [[Span; 2]],
    /// Where each Part's output lies; None of one that no band wants anything of.
    buffers: &'a [Option<BufferId>],
}

struct Builder<'a> {
    graph: &'a CascaderGraph,
    costs: &'a mut Costs,
    program: Program,
    whole: IdVec<TensorId, Option<BufferId>>,
    /// Copies in the scarce pool of tensors that the group at hand reads.
    near: IdVec<TensorId, Option<BufferId>>,
    /// Whether a tensor's home is not the scarce pool.
    is_far: IdVec<TensorId, bool>,
}

impl Builder<'_> {
    fn buffer(&mut self, content: Content, capacity: [i64; 2], size_bytes: u64) -> BufferId {
        let pools = self.graph.device.memories().tensors().clone();
        self.buffer_in(pools, content, capacity, size_bytes)
    }

    fn buffer_in(&mut self, pools: Candidates, content: Content, capacity: [i64; 2], size_bytes: u64) -> BufferId {
        let windows = Vec::new();
        let buffer = Buffer { content, capacity, size_bytes, pools, first_step: 0, last_step: 0, windows };
        self.program.buffers.push(buffer)
    }

    fn whole(&mut self, tensor: TensorId) -> BufferId {
        if let Some(buffer) = self.whole[tensor] {
            return buffer;
        }
        let description = &self.graph.tensors[tensor];
        let (plane, size) = (description.plane, description.size_bytes());
        let memories = self.graph.device.memories();
        let pools = match self.graph.external_pool(tensor) {
            Some(pool) => [pool].as_slice().into(),
            None if self.is_far[tensor] => memories.spacious(),
            None => memories.tensors().clone(),
        };
        let buffer = self.buffer_in(pools, Content::Tensor(tensor), plane, size);
        self.whole[tensor] = Some(buffer);
        buffer
    }

    /// All of a tensor in the scarce pool, beside its home.
    fn copy_of(&mut self, tensor: TensorId) -> BufferId {
        let description = &self.graph.tensors[tensor];
        let (plane, size) = (description.plane, description.size_bytes());
        self.buffer_in([Memories::SCARCE].as_slice().into(), Content::Tensor(tensor), plane, size)
    }

    /// Copy a tensor between its home and a copy of it.
    fn move_tensor(&mut self, tensor: TensorId, from: BufferId, buffer: BufferId) {
        let bytes = self.graph.tensors[tensor].size_bytes();
        // Where it lies is not known yet: the preferred pool stands for it.
        let [source, target] = [from, buffer].map(|buffer| self.program.buffers[buffer].pools[0]);
        let cycles = tensor_copy_cycles(&self.graph.device, bytes, source, target).unwrap_or(0);
        self.program.steps.push(Step::Copy { moved: CopySource::Tensor { tensor, from }, buffer, cycles });
    }

    /// Copy the operands of a group that are to be copied, each once.
    fn read_copies(&mut self, plan: &Plan) {
        for &copied in &plan.copied {
            let Some(tensor) = copied_tensor(self.graph, copied) else { continue };
            if matches!(copied, CopiedTensor::Read(..)) && self.near[tensor].is_none() {
                let (home, copy) = (self.whole(tensor), self.copy_of(tensor));
                self.move_tensor(tensor, home, copy);
                self.near[tensor] = Some(copy);
            }
        }
    }

    /// Copy what the group has made to where it lives, and forget what was copied for it.
    fn write_copies(&mut self, plan: &Plan, buffers: &[Option<BufferId>]) {
        for &copied in &plan.copied {
            let Some(tensor) = copied_tensor(self.graph, copied) else { continue };
            match copied {
                CopiedTensor::Read(..) => self.near[tensor] = None,
                CopiedTensor::Write(part) => {
                    let home = self.whole(tensor);
                    if let Some(made) = buffers[plan.offset(part)] {
                        self.move_tensor(tensor, made, home);
                    }
                }
            }
        }
    }

    fn call(&mut self, part: PartId, workspace_bytes: u64) {
        let description = &self.graph.parts[part];
        let tensors: Vec<TensorId> =
            description.inputs.iter().map(|input| input.tensor).chain(description.outputs.iter().copied()).collect();
        for tensor in tensors {
            self.whole(tensor);
        }
        let pools = match self.graph.device.keeps_interface_behind() {
            true => self.graph.device.memories().spacious(),
            false => self.graph.device.memories().tensors().clone(),
        };
        let content = Content::Workspace(part);
        let workspace = (workspace_bytes > 0).then(|| self.buffer_in(pools, content, [0, 0], workspace_bytes));
        self.program.steps.push(Step::Call { part, workspace });
    }

    fn cascade(&mut self, plan: &Plan) -> Result<(), PlanError> {
        let graph = self.graph;
        self.read_copies(plan);
        let bands: Vec<Vec<[Span; 2]>> = (0..plan.tiling.tiles).map(|tile| wanted(graph, plan, tile)).collect();
        let buffers: Vec<Option<BufferId>> = (0..plan.len())
            .map(|offset| {
                // Rows that a group joins are not always rows that it reads: then nobody makes them. What is taken is gone.
                let is_empty = bands.iter().all(|boxes| boxes[offset][0].is_empty());
                if is_empty || graph.is_take(plan.part(offset)) {
                    return None;
                }
                let tensor = graph.output(plan.part(offset));
                Some(if is_interior(graph, plan, offset) {
                    self.buffer(Content::Rolling(tensor, plan.tiling.roll), [0, 0], 0)
                } else if plan.copied.contains(&CopiedTensor::Write(plan.part(offset))) {
                    self.copy_of(tensor)
                } else {
                    self.whole(tensor)
                })
            })
            .collect();
        let mut constants = vec![BTreeMap::new(); plan.len()];
        for boxes in bands {
            let order = StripeOrder::new(graph, plan, boxes.iter().map(|b| b[0]).collect());
            for offset in 0..plan.len() {
                if let Some(buffer) = buffers[offset].filter(|_| is_interior(graph, plan, offset)) {
                    self.grow(plan, buffer, offset, boxes[offset], order.alive[offset]);
                }
            }
            self.program.steps.reserve(order.stripes.len());
            for (part, span) in order.stripes {
                interrupt::ask();
                self.stripe(plan, part, span, &boxes, &buffers, &mut constants)?;
            }
        }
        self.settle_capacities(plan, &buffers);
        self.write_copies(plan, &buffers);
        Ok(())
    }

    /// Widen a rolling buffer to what one band needs of it.
    fn grow(&mut self, plan: &Plan, buffer: BufferId, offset: usize, wanted: [Span; 2], alive: i64) {
        let stripe = plan.stripes[offset];
        let rows = wanted[0].len();
        // Whole stripes, so that no stripe is ever written across the wrap; all rows, where that is not more.
        let along = ((alive + stripe - 1) / stripe * stripe).min(rows);
        let roll = plan.tiling.roll;
        let buffer = &mut self.program.buffers[buffer];
        buffer.capacity[roll as usize] = buffer.capacity[roll as usize].max(along);
        buffer.capacity[roll.other() as usize] = buffer.capacity[roll.other() as usize].max(wanted[1].len());
    }

    /// When a group is finished and its buffers' sizes are known, set the capacities of the views into them.
    fn settle_capacities(&mut self, plan: &Plan, buffers: &[Option<BufferId>]) {
        let program = &mut self.program;
        for &buffer in buffers.iter().flatten() {
            let buffer = &mut program.buffers[buffer];
            if let Content::Rolling(tensor, _) = buffer.content {
                let pixel_bytes = self.graph.tensors[tensor].pixel_bytes;
                buffer.size_bytes = (buffer.capacity[0] * buffer.capacity[1]) as u64 * pixel_bytes;
            }
        }
        for step in program.steps.iter_mut().rev() {
            let stripe = match step {
                Step::Stripe(stripe) => stripe,
                Step::Feed { part, output: view } | Step::Take { part, input: view } if *part >= plan.first => {
                    view.capacity = program.buffers[view.buffer].capacity;
                    continue;
                }
                _ => continue,
            };
            if stripe.part < plan.first {
                break;
            }
            for (view, input) in stripe.inputs.iter_mut().zip(self.graph.reads(stripe.part, stripe.piece)) {
                for axis in [Axis::Height, Axis::Width] {
                    if self.graph.is_aligned(input, axis) {
                        view.capacity[axis as usize] = program.buffers[view.buffer].capacity[axis as usize];
                    }
                }
            }
            stripe.output.capacity = program.buffers[stripe.output.buffer].capacity;
        }
    }

    fn stripe(
        &mut self,
        plan: &Plan,
        part: PartId,
        span: Span,
        boxes: &[[Span; 2]],
        buffers: &[Option<BufferId>],
        constants: &mut [Copied],
    ) -> Result<(), PlanError> {
        let graph = self.graph;
        let roll = plan.tiling.roll;
        let offset = plan.offset(part);
        let region = Region::oriented(roll, span, boxes[offset][1]);
        let cascade = Cascade { plan, boxes, buffers };
        match graph.parts[part].work {
            Work::Feed { .. } => {
                if let Some(buffer) = buffers[offset] {
                    let origin = self.origin(roll, buffer, boxes[offset]);
                    let output = View { buffer, region, origin, capacity: [0, 0], in_rows: true };
                    self.program.steps.push(Step::Feed { part, output });
                }
                return Ok(());
            }
            Work::Take { .. } => {
                let input = self.read(&cascade, &graph.parts[part].inputs[0], region);
                self.program.steps.push(Step::Take { part, input });
                return Ok(());
            }
            Work::Npu(_) | Work::Opaque { .. } => {}
        }
        let joining = graph.kernel(part).filter(|kernel| !kernel.joined.is_empty());
        // Those of the operations that are joined whose boxes meet the stripe.
        let pieces = joining.map_or(vec![None], |kernel| kernel.pieces().map(Some).collect());
        for piece in pieces {
            let Some(own) = joining.map_or(Some(region), |kernel| region.meet(&kernel.region(piece))) else { continue };
            let copied = match plan.staging[offset] {
                Staging::Whole => *constants[offset].entry(piece).or_insert_with(|| self.copy(part, piece)),
                Staging::InPlace | Staging::Sliced => None,
            };
            self.piece(&cascade, part, piece, own, copied)?;
        }
        Ok(())
    }

    /// One operation of a stripe: all of it, or a piece.
    fn piece(
        &mut self,
        cascade: &Cascade,
        part: PartId,
        piece: Option<Piece>,
        region: Region,
        constants: Option<BufferId>,
    ) -> Result<(), PlanError> {
        let (graph, &Cascade { plan, boxes, buffers }) = (self.graph, cascade);
        let (offset, roll) = (plan.offset(part), plan.tiling.roll);
        let Some(buffer) = buffers[offset] else { return Ok(()) };
        let inputs: SmallVec<_> =
            graph.reads(part, piece).iter().map(|input| self.read(cascade, input, region)).collect();
        let origin = self.origin(roll, buffer, boxes[offset]);
        let output = View { buffer, region, origin, capacity: [0, 0], in_rows: true };
        let padding = graph.padding(part, piece, region);
        let block = [0; 3];
        let unknown = Cost { cycles: 0, constants: 0, beside_copies: 0, block };
        let stripe = Stripe { part, inputs, output, padding, constants, piece, cost: unknown };
        let source = graph.kernel(part).map_or(Source::InPlace, |kernel| stripe.source(kernel));
        let cost = self.cost(part, region, source)?;
        self.program.steps.push(Step::Stripe(Stripe { cost, ..stripe }));
        Ok(())
    }

    /// What an operation sees of an input to make `region`.
    fn read(&mut self, cascade: &Cascade, input: &Input, region: Region) -> View {
        let (graph, &Cascade { plan, boxes, buffers }) = (self.graph, cascade);
        let inner = graph.made_since(input.tensor, plan.first);
        let made_here = inner.and_then(|inner| Some((buffers[inner]?, boxes[inner])));
        let (buffer, origin) = match made_here {
            Some((buffer, wanted)) => (buffer, self.origin(plan.tiling.roll, buffer, wanted)),
            None => (self.near[input.tensor].unwrap_or_else(|| self.whole(input.tensor)), [0, 0]),
        };
        let spans = [Axis::Height, Axis::Width].map(|axis| graph.seen(input, axis, region.span(axis)));
        // What sees the tensor in another shape finds whole rows in its buffer, or all of it, from the first pixel on.
        let aligned = [Axis::Height, Axis::Width].map(|axis| graph.is_aligned(input, axis));
        let origin = [0, 1].map(|axis| if aligned[axis] { origin[axis] } else { 0 });
        let capacity = [0, 1].map(|axis| if aligned[axis] { 0 } else { input.plane[axis] });
        let in_rows = input.strides.is_none();
        View { buffer, region: Region { spans }, origin, capacity, in_rows }
    }

    /// A Part on its own, whole in the plane, slice by slice of its output channels.
    fn slices(&mut self, plan: &Plan) -> Result<(), PlanError> {
        let start = self.program.steps.len();
        let whole = Plan { staging: vec![Staging::InPlace], stripes: vec![i64::MAX / 2], ..plan.clone() };
        self.cascade(&whole)?;
        let stripes = self.program.steps.split_off(start);
        let Some(kernel) = self.graph.kernel(plan.first) else { return Ok(()) };
        for stripe in stripes {
            let Step::Stripe(stripe) = stripe else { continue };
            for piece in kernel.pieces() {
                let constants = self.copy(plan.first, Some(piece));
                let cost = self.cost(plan.first, stripe.output.region, Source::Piece(piece))?;
                let part = Stripe { constants, piece: Some(piece), cost, ..stripe.clone() };
                self.program.steps.push(Step::Stripe(part));
            }
        }
        Ok(())
    }

    fn cost(&mut self, part: PartId, region: Region, source: Source) -> Result<Cost, PlanError> {
        let [height, width] = region.spans.map(Span::len);
        self.costs.stripe(self.graph, part, [height, width], source).ok_or_else(|| PlanError::Block {
            part: self.graph.parts[part].name.clone(),
            height,
            width,
        })
    }

    /// Where a buffer's first pixel lies in its tensor: a rolling buffer starts at its band, a whole one at zero.
    fn origin(&self, roll: Axis, buffer: BufferId, wanted: [Span; 2]) -> [i64; 2] {
        match self.program.buffers[buffer].content {
            Content::Rolling(..) => {
                let region = Region::oriented(roll, wanted[0], wanted[1]);
                region.spans.map(|span| span.start)
            }
            _ => [0, 0],
        }
    }

    fn copy(&mut self, part: PartId, piece: Option<Piece>) -> Option<BufferId> {
        let kernel = self.graph.kernel(part)?;
        let bytes = kernel.encoding(kernel.copied(piece))?.bytes;
        if bytes == 0 {
            return None;
        }
        let cycles = staging_cycles(&self.graph.device, bytes);
        let buffer = self.buffer(Content::Constants(part), [0, 0], bytes);
        self.program.steps.push(Step::Copy { moved: CopySource::Constants(part, piece), buffer, cycles });
        Some(buffer)
    }

    /// A caller's tensor that no Part touches has a place too.
    fn place_for_callers(&mut self) {
        for tensor in self.graph.tensors.ids() {
            let description = &self.graph.tensors[tensor];
            if (description.is_input || description.is_output) && description.pixel_bytes > 0 {
                self.whole(tensor);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::worked_example::{rows_at_a_time, worked_example};

    /// The first 12 steps of rows (1, 1, 1), as (Part, row), in the order of demand.
    #[test]
    fn example() {
        let graph = worked_example();
        let program =
            interleave(&graph, &[rows_at_a_time(0, &[1, 1, 1])], &mut Costs::default()).expect("a legal Plan");
        let row = |step: &Step| match step {
            Step::Stripe(stripe) => (stripe.part.0, stripe.output.region.spans[0].start),
            _ => unreachable!("all constants stay in flash"),
        };
        let rows: Vec<(u32, i64)> = program.steps.iter().take(12).map(row).collect();
        let page = [(0, 0), (0, 1), (1, 0), (2, 0), (0, 2), (1, 1), (2, 1), (0, 3), (1, 2), (2, 2), (0, 4), (1, 3)];
        assert_eq!(rows, page);
    }
}
