//! Everything that the search asks of the hardware: what a stripe costs and with which block, what a copy costs, how
//! weights are to be encoded, and how long a whole program takes.
//!
//! Owns the questions, and a memory of the answers, as the search asks for the same few shapes thousands of times. The
//! answers come from the room of each kind of device; no other room of the planner names one.

use crate::cost::ethosu::stream::{self, Memo, Sent};
use crate::model::device::{Device, Unit};
use crate::model::graph::{CascaderGraph, Input, Layout};
use crate::model::ids::{PartId, Piece, PoolId};
use crate::model::memory::Memories;
use crate::model::operation::{
    Block, Cost, Element, Home, LowerBound, NpuOperation, OperandPools, Slab, Source, StripeOperation, WeightOrder,
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
        if let Some(known) = self.known.get(&(part, plane, source)) {
            return *known;
        }
        let found = self.stripe_unknown(graph, part, plane, source);
        self.known.insert((part, plane, source), found);
        found
    }

    fn stripe_unknown(&mut self, graph: &CascaderGraph, part: PartId, plane: [i64; 2], source: Source) -> Option<Cost> {
        let kernel = graph.kernel(part)?;
        if source.piece().is_none() && !kernel.joined.is_empty() {
            return self.joint(graph, part, plane, source);
        }
        best_block(graph, (part, source.piece()), &kernel.with(source)?, plane, kernel.home(source))
    }

    /// All operations of a Part that are joined, one after the other; the block is the first one's. What lies in a box of
    /// fewer rows or columns is met by some of the stripes alone: it costs its share of them.
    fn joint(&mut self, graph: &CascaderGraph, part: PartId, plane: [i64; 2], source: Source) -> Option<Cost> {
        let whole = graph.region(part, None);
        let kernel = graph.kernel(part)?;
        let mut sum = Cost { cycles: 0, constants: 0, beside_copies: 0, block: [0; 3] };
        for piece in kernel.pieces() {
            let region = graph.region(part, Some(piece));
            let source = if source == Source::Staged { kernel.copied(Some(piece)) } else { Source::Piece(piece) };
            if region == whole {
                let cost = self.stripe(graph, part, plane, source)?;
                sum = added(sum, [cost.cycles, cost.constants, cost.beside_copies], cost.block);
                continue;
            }
            let (mut total, mut block) = ([0; 3], [0; 3]);
            for (plane, times) in met(whole, region, plane) {
                let cost = self.stripe(graph, part, plane, source)?;
                block = cost.block;
                for (total, of) in total.iter_mut().zip([cost.cycles, cost.constants, cost.beside_copies]) {
                    *total += of * times;
                }
            }
            let stripes: i64 = (0..2).map(|axis| count(whole, plane, axis)).product();
            sum = added(sum, total.map(|total: u64| total.div_ceil(stripes as u64)), block);
        }
        Some(sum)
    }

    /// Cycles of a whole program in its place; operators elsewhere take no time.
    pub fn program(&mut self, graph: &CascaderGraph, program: &Program, placement: &Placement) -> u64 {
        match &graph.device.unit {
            Unit::EthosU(npu) => stream::cycles(graph, npu, program, placement, &mut self.programs),
            Unit::Described(unit) => described_device::cycles(graph, unit, program, placement),
        }
    }
}

/// The command streams of a placed program, one for each run of an NPU; none where a device is described by data.
pub fn commands(graph: &CascaderGraph, program: &Program, placement: &Placement) -> Vec<Vec<Sent>> {
    match &graph.device.unit {
        Unit::EthosU(npu) => stream::commands(graph, npu, program, placement),
        Unit::Described(_) => Vec::new(),
    }
}

/// Cycles of a copy of a tensor of `bytes` from one pool to another; None on a device whose commands have no such copies.
pub fn tensor_copy_cycles(device: &Device, bytes: u64, from: PoolId, to: PoolId) -> Option<u64> {
    match &device.unit {
        Unit::EthosU(_) => None,
        Unit::Described(unit) => Some(described_device::tensor_copy_cycles(unit, bytes, from, to)),
    }
}

/// Cycles of a copy of `bytes` constants into the arena; none where operations carry it.
pub fn staging_cycles(device: &Device, bytes: u64) -> u64 {
    match &device.unit {
        Unit::EthosU(npu) => ethosu::copy_cost(npu, bytes, Memories::SCARCE).alone.ceil(),
        Unit::Described(unit) => described_device::copy_cycles(unit, bytes),
    }
}

/// Cycles of the copies of all constants of an operation, or of those that are joined.
pub fn all_staging_cycles(device: &Device, kernel: &NpuOperation) -> u64 {
    kernel.copies().map(|bytes| staging_cycles(device, bytes)).sum()
}

/// Cycles of a copy of a table of results to where they are looked up.
pub fn table_cycles(device: &Device, bytes: u64) -> u64 {
    match &device.unit {
        Unit::EthosU(npu) => ethosu::table_cost(npu, bytes).alone.ceil(),
        Unit::Described(_) => 0,
    }
}

/// How to encode the constants of a kernel: to be read in place, and to be staged; None if no block fits. `layouts` are
/// those of input and output; `known` has the bytes of constants by order, as far as they are encoded.
pub fn choose_encoding(
    device: &Device,
    kernel: &NpuOperation,
    plane: [i64; 2],
    layouts: [Layout; 2],
    known: &[(WeightOrder, u64)],
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
        pools: OperandPools::NEAR,
    };
    match &device.unit {
        Unit::EthosU(npu) => ethosu::choose_encoding(npu, &op, known),
        Unit::Described(unit) => described_device::best_block(unit, &op).map(|cost| [(cost.block[2], false); 2]),
    }
}

/// What an NPU Part costs at least in any schedule; None if it is opaque, no block fits, or the device is described by data.
pub fn floor(graph: &CascaderGraph, part: PartId) -> Option<LowerBound> {
    let (kernel, Unit::EthosU(npu)) = (graph.kernel(part)?, &graph.device.unit) else { return None };
    let region = graph.region(part, None);
    let of = |piece, kernel: &NpuOperation| {
        let fewest = kernel.constant_bytes.min(kernel.staged_bytes());
        let kernel = NpuOperation { constant_bytes: fewest, ..kernel.clone() };
        let of = graph.region(part, piece);
        ethosu::floor(npu, &operation(graph, (part, piece), &kernel, of, Home::Constants))
    };
    if kernel.joined.is_empty() {
        return of(None, kernel);
    }
    let mut sum = LowerBound::default();
    for (piece, joined) in kernel.pieces().zip(&kernel.joined) {
        let piece_floor = of(Some(piece), &joined.operation)?;
        sum.mac += piece_floor.mac;
        sum.in_one_piece += piece_floor.in_one_piece;
        // A part of the output may lie beside a smaller box: in proportion there is nothing to say of it.
        if graph.region(part, Some(piece)) == region {
            sum.dense += piece_floor.dense;
            sum.output += piece_floor.output;
        }
    }
    Some(sum)
}

/// A sum of costs with one more; the block is the first one's.
fn added(sum: Cost, [cycles, constants, beside_copies]: [u64; 3], block: Block) -> Cost {
    Cost {
        cycles: sum.cycles + cycles,
        constants: sum.constants + constants,
        beside_copies: sum.beside_copies + beside_copies,
        block: if sum.block[0] > 0 { sum.block } else { block },
    }
}

/// Stripes of `plane` pixels along an axis of a box.
fn count(whole: Region, plane: [i64; 2], axis: usize) -> i64 {
    (whole.spans[axis].len() + plane[axis] - 1) / plane[axis]
}

/// What the stripes of `plane` pixels of an output have of a box of it: extents, and how often.
fn met(whole: Region, region: Region, plane: [i64; 2]) -> Vec<([i64; 2], u64)> {
    let lengths = [0, 1].map(|axis| {
        let mut found: Vec<(i64, u64)> = Vec::new();
        for number in 0..count(whole, plane, axis) {
            let stripe = Span::new(number * plane[axis], (number + 1) * plane[axis]);
            match (stripe.meet(region.spans[axis]).len(), found.last_mut()) {
                (0, _) => {}
                (length, Some(last)) if last.0 == length => last.1 += 1,
                (length, _) => found.push((length, 1)),
            }
        }
        found
    });
    let [rows, columns] = &lengths;
    let pairs = rows
        .iter()
        .flat_map(|&(height, many)| columns.iter().map(move |&(width, times)| (height, width, many * times)));
    pairs.map(|(height, width, times)| ([height, width], times)).collect()
}

fn best_block(
    graph: &CascaderGraph,
    (part, piece): (PartId, Option<Piece>),
    kernel: &NpuOperation,
    plane: [i64; 2],
    constants: Home,
) -> Option<Cost> {
    let multiple = kernel.stripe_multiple();
    let of = graph.region(part, piece);
    let middle = [0, 1].map(|axis| {
        let start = of.spans[axis].start + (of.spans[axis].len() - plane[axis]) / 2 / multiple * multiple;
        Span::new(start, start + plane[axis])
    });
    let op = operation(graph, (part, piece), kernel, Region { spans: middle }, constants);
    match &graph.device.unit {
        Unit::EthosU(npu) => ethosu::best_block(npu, &op),
        Unit::Described(unit) => {
            let carried = described_device::carried_cycles(unit, &op, of.spans.map(Span::len));
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
        pixel_bytes: input.column_bytes(),
    };
    StripeOperation {
        kernel,
        input: read(&inputs[0]),
        second: inputs.get(1).map(read),
        output: Slab { plane: region.spans.map(Span::len), layout: output.layout, pixel_bytes: output.pixel_bytes },
        padding: graph.padding(part, piece, region),
        constants,
        pools: graph.pools(inputs),
    }
}
