//! Everything that the search asks of the hardware: what a stripe costs and with which block, what a copy costs, how
//! weights are to be encoded, and how long a whole program takes.
//!
//! Owns the questions, and a memory of the answers, as the search asks for the same few shapes thousands of times. The
//! answers come from the room of each kind of device; no other room of the planner names one.

use crate::cost::ethosu::stream::{self, Memo, Sent};
use crate::model::device::{Device, Unit};
use crate::model::graph::{CascaderGraph, Input, Layout};
use crate::model::ids::{BufferId, IdVec, PartId, Piece, PoolId};
use crate::model::operation::{
    Cost, Element, Home, LowerBound, NpuOperation, Slab, Source, StripeOperation, WeightOrder,
};
use crate::model::program::{Placement, Program};
use crate::stripe::{Axis, Region, Span};
use crate::util::hashing::Table;

pub mod described_device;
pub mod ethosu;

/// Costs known so far, for one graph.
#[derive(Debug, Default)]
pub struct Costs {
    known: Table<(PartId, [i64; 2], Source), Option<Cost>>,
    programs: Memo,
}

impl Costs {
    /// Cost of an NPU Part on an output of `plane` pixels; None if it is opaque, not sliced so, or no block fits.
    ///
    /// The stripe is taken to lie in the middle of the plane, so that stripes of equal size cost the same.
    pub fn stripe(&mut self, graph: &CascaderGraph, part: PartId, plane: [i64; 2], source: Source) -> Option<Cost> {
        *self.known.entry((part, plane, source)).or_insert_with(|| {
            let kernel = graph.kernel(part)?;
            if source == Source::InPlace && !kernel.joined.is_empty() {
                return joint(graph, part, kernel, plane);
            }
            best_block(graph, (part, source.piece()), &kernel.with(source)?, plane, source.home())
        })
    }

    /// Cycles of a whole program in its place; operators elsewhere take no time.
    pub fn program(&mut self, graph: &CascaderGraph, program: &Program, placement: &Placement) -> u64 {
        match &graph.device.unit {
            Unit::EthosU(npu) => stream::cycles(graph, npu, program, &placement.offsets, &mut self.programs),
            Unit::Described(unit) => described_device::cycles(graph, unit, program, placement),
        }
    }
}

/// The command streams of a program whose buffers lie at `offsets` of the arena, one for each run of an NPU; none where a
/// device is described by data.
pub fn commands(graph: &CascaderGraph, program: &Program, offsets: &IdVec<BufferId, u64>) -> Vec<Vec<Sent>> {
    match &graph.device.unit {
        Unit::EthosU(npu) => stream::commands(graph, npu, program, offsets),
        Unit::Described(_) => Vec::new(),
    }
}

/// Cycles of a copy of a tensor of `bytes` from one pool to another; None on a device that has one pool of tensors.
pub fn tensor_copy_cycles(device: &Device, bytes: u64, from: PoolId, to: PoolId) -> Option<u64> {
    match &device.unit {
        Unit::EthosU(_) => None,
        Unit::Described(unit) => Some(described_device::tensor_copy_cycles(unit, bytes, from, to)),
    }
}

/// Cycles of a copy of `bytes` constants into the arena; none where operations carry it.
pub fn staging_cycles(device: &Device, bytes: u64) -> u64 {
    match &device.unit {
        Unit::EthosU(npu) => ethosu::copy_cost(npu, bytes).alone.ceil(),
        Unit::Described(unit) => described_device::copy_cycles(unit, bytes),
    }
}

/// Cycles of a copy of a table of results to where they are looked up.
pub fn table_cycles(device: &Device, bytes: u64) -> u64 {
    match &device.unit {
        Unit::EthosU(npu) => ethosu::table_cost(npu, bytes).alone.ceil(),
        Unit::Described(_) => 0,
    }
}

/// How to encode the constants of a kernel: to be read in place, and to be staged; None if no block fits. `layouts` are
/// those of input and output.
pub fn choose_encoding(
    device: &Device,
    kernel: &NpuOperation,
    plane: [i64; 2],
    layouts: [Layout; 2],
) -> Option<[WeightOrder; 2]> {
    let input = [0, 1].map(|axis| {
        let enlarged = (plane[axis] - 1) * kernel.stride[axis] + kernel.dilated(axis);
        (enlarged + kernel.upscale.factor() - 1) / kernel.upscale.factor()
    });
    let slab = |plane, layout, (element, depth): (Element, i64)| Slab {
        plane,
        layout,
        pixel_bytes: (depth * element.bytes()) as u64,
    };
    let second = || {
        let plane = [0, 1].map(|axis| if kernel.is_repeated(1, axis) { 1 } else { input[axis] });
        // A single channel is no brick.
        let layout = if kernel.is_repeated(1, 2) { Layout::Nhwc } else { layouts[0] };
        slab(plane, layout, kernel.operand(1))
    };
    let op = StripeOperation {
        kernel,
        input: slab(input, layouts[0], kernel.operand(0)),
        second: (kernel.inputs() > 1).then(second),
        output: slab(plane, layouts[1], (kernel.ofm, kernel.ofm_depth)),
        padding: [0; 4],
        constants: Home::Constants,
    };
    match &device.unit {
        Unit::EthosU(npu) => ethosu::choose_encoding(npu, &op),
        Unit::Described(unit) => described_device::best_block(unit, &op).map(|cost| [(cost.block[2], false); 2]),
    }
}

/// What an NPU Part costs at least in any schedule; None if it is opaque, no block fits, or the device is described by data.
pub fn floor(graph: &CascaderGraph, part: PartId) -> Option<LowerBound> {
    let (kernel, Unit::EthosU(npu)) = (graph.kernel(part)?, &graph.device.unit) else { return None };
    let plane = graph.tensors[graph.output(part)].plane;
    let region = Region { spans: plane.map(|extent| Span::new(0, extent)) };
    let of = |piece, kernel: &NpuOperation| {
        let fewest = kernel.constant_bytes.min(kernel.staged_bytes());
        let kernel = NpuOperation { constant_bytes: fewest, ..kernel.clone() };
        ethosu::floor(npu, &operation(graph, (part, piece), &kernel, region, Home::Constants))
    };
    if kernel.joined.is_empty() {
        return of(None, kernel);
    }
    let pieces: Option<Vec<LowerBound>> =
        kernel.pieces().zip(&kernel.joined).map(|(piece, copy)| of(Some(piece), copy)).collect();
    Some(pieces?.iter().fold(LowerBound::default(), |sum, piece| LowerBound {
        mac: sum.mac + piece.mac,
        dense: sum.dense + piece.dense,
        output: sum.output + piece.output,
        in_one_piece: sum.in_one_piece + piece.in_one_piece,
        planes: sum.planes,
    }))
}

/// All operations of a Part that joins its inputs, one after the other; the block is the first one's.
fn joint(graph: &CascaderGraph, part: PartId, kernel: &NpuOperation, plane: [i64; 2]) -> Option<Cost> {
    let copy = |(piece, copy)| best_block(graph, (part, Some(piece)), copy, plane, Home::Constants);
    let costs: Option<Vec<Cost>> = kernel.pieces().zip(&kernel.joined).map(copy).collect();
    let costs = costs?;
    let sum = |of: fn(&Cost) -> u64| costs.iter().map(of).sum();
    let (cycles, beside_copies) = (sum(|cost| cost.cycles), sum(|cost| cost.beside_copies));
    Some(Cost { cycles, constants: 0, beside_copies, block: costs.first()?.block })
}

fn best_block(
    graph: &CascaderGraph,
    (part, piece): (PartId, Option<Piece>),
    kernel: &NpuOperation,
    plane: [i64; 2],
    constants: Home,
) -> Option<Cost> {
    let output = &graph.tensors[graph.output(part)];
    let multiple = kernel.stripe_multiple();
    let middle = [0, 1].map(|axis| {
        let start = (output.plane[axis] - plane[axis]) / 2 / multiple * multiple;
        Span::new(start, start + plane[axis])
    });
    let op = operation(graph, (part, piece), kernel, Region { spans: middle }, constants);
    match &graph.device.unit {
        Unit::EthosU(npu) => ethosu::best_block(npu, &op),
        Unit::Described(unit) => {
            let carried = described_device::carried_cycles(unit, &op, output.plane);
            described_device::best_block(unit, &op).map(|cost| Cost {
                cycles: cost.cycles + carried,
                beside_copies: cost.beside_copies + carried,
                ..cost
            })
        }
    }
}

/// The operation that makes a piece of a Part's output, on a box of it.
fn operation<'a>(
    graph: &CascaderGraph,
    (part, piece): (PartId, Option<Piece>),
    kernel: &'a NpuOperation,
    region: Region,
    constants: Home,
) -> StripeOperation<'a> {
    let inputs = graph.reads(part, piece);
    let output = &graph.tensors[graph.output(part)];
    let read = |input: &Input| Slab {
        plane: [Axis::Height, Axis::Width].map(|axis| graph.seen(input, axis, region.span(axis)).len()),
        layout: graph.tensors[input.tensor].layout,
        pixel_bytes: input.pixel_bytes,
    };
    StripeOperation {
        kernel,
        input: read(&inputs[0]),
        second: inputs.get(1).map(read),
        output: Slab { plane: region.spans.map(Span::len), layout: output.layout, pixel_bytes: output.pixel_bytes },
        padding: graph.padding(part, region),
        constants,
    }
}
