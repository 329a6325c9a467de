//! One operation on a described unit: its blocks, their work, what they move, and the best of them.
//!
//! Owns the cost of one operation. Which operations there are, and what runs beside them, is others' business.

use smallvec::SmallVec;

use super::traffic::{at_rate, burst, Places, Traffic, FOREVER};
use crate::model::device::{DescribedUnit, Engine};
use crate::model::ids::Id;
use crate::model::operation::{Block, Cost, Element, Layout, Slab, StripeOperation};

/// Channels of a brick.
const BRICK: i64 = 16;
/// Most cycles of one operation, so that no sum of a program's overflows: more than a minute of any such device.
const MAX_OPERATION_CYCLES: u64 = 1 << 36;

/// Extents of an operation's tiles along one axis.
type Extents = SmallVec<[i64; 16]>;

/// An operation carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EngineRun {
    /// Cycles, alone.
    pub cycles: u64,
    /// The engine that does it, by index.
    pub engine: usize,
    /// What it moves.
    pub traffic: Traffic,
}

/// The cheapest block; None if no engine does it, no block fits the buffer, or it takes more than 2^36 cycles with each.
/// Ties go to the larger block.
pub fn best_block(unit: &DescribedUnit, op: &StripeOperation) -> Option<Cost> {
    let mut best: Option<(i64, Cost)> = None;
    let depth = op.kernel.ofm_depth;
    let [height, width] = op.output.plane;
    let candidates = if unit.buffer_bytes.is_none() { vec![[height, width, depth]] } else { blocks(unit, op) };
    for block in candidates {
        let tiles = Tiles::new(op, block);
        if unit.buffer_bytes.is_some_and(|limit| tiles.largest_bytes(op) > limit) {
            continue;
        }
        let done = perform_tiles(unit, op, &tiles, Places::near(unit, op.constants));
        let Some(done) = done.filter(|done| done.cycles <= MAX_OPERATION_CYCLES) else { continue };
        let size = -block.iter().product::<i64>();
        if best.is_none_or(|(known, cost)| (done.cycles, size) < (cost.cycles, known)) {
            let constants = done.traffic.busy(unit)[unit.memories.memory(unit.memories.constants()).index()];
            best = Some((size, Cost { cycles: done.cycles, constants, beside_copies: done.cycles, block }));
        }
    }
    best.map(|(_, cost)| cost)
}

/// Blocks worth trying on any engine that does the operation.
fn blocks(unit: &DescribedUnit, op: &StripeOperation) -> Vec<Block> {
    let mut found = Vec::new();
    for engine in unit.engines.iter().filter(|engine| engine.rates[op.kernel.kind as usize].is_some()) {
        let depths = extents(op.kernel.ofm_depth, engine.granule[3]);
        let widths = extents(op.output.plane[1], engine.granule[1]);
        for height in extents(op.output.plane[0], engine.granule[0]) {
            for &width in &widths {
                found.extend(depths.iter().map(|&depth| [height, width, depth]));
            }
        }
    }
    found
}

/// Block extents worth trying along an axis: even divisions, rounded up to granules, down to one granule.
fn extents(extent: i64, granule: i64) -> Extents {
    let mut found: Extents =
        [1, 2, 3, 4, 6, 8, 16, 32, 64, extent].iter().map(|&n| round_up(div_ceil(extent, n), granule)).collect();
    found.dedup();
    found
}

/// An operation with a given block, on the engine that is quickest at it; None if none does it.
pub(super) fn perform(unit: &DescribedUnit, op: &StripeOperation, block: Block, places: Places) -> Option<EngineRun> {
    perform_tiles(unit, op, &Tiles::new(op, block), places)
}

fn perform_tiles(unit: &DescribedUnit, op: &StripeOperation, tiles: &Tiles, places: Places) -> Option<EngineRun> {
    let mut best: Option<EngineRun> = None;
    for traffic in tiles.traversals(op).into_iter().map(|repeats| tiles.traffic(unit, op, places, repeats)) {
        let moves = traffic.cycles(unit);
        for (index, engine) in unit.engines.iter().enumerate() {
            let Some(rate) = engine.rates[op.kernel.kind as usize] else { continue };
            let instructions = tiles.count().saturating_mul(engine.instruction_cycles).min(FOREVER);
            let works = at_rate(tiles.work(op, engine), rate) + instructions;
            // A DMA engine loads and stores tiles behind the computation; without one, whoever computes does.
            let behind = match unit.dma {
                Some(_) => works.max(moves.iter().copied().max().unwrap_or(0)),
                None => works + moves.iter().sum::<u64>(),
            };
            let cycles = engine.operation_cycles + behind;
            if best.is_none_or(|known| cycles < known.cycles) {
                best = Some(EngineRun { cycles, engine: index, traffic });
            }
        }
    }
    best
}

/// An operation cut into blocks: extents of the tiles of output and inputs.
struct Tiles {
    output: [Extents; 2],
    depths: Extents,
    inputs: [[Extents; 2]; 2],
}

impl Tiles {
    fn new(op: &StripeOperation, [height, width, depth]: Block) -> Tiles {
        let [rows, columns] = op.output.plane;
        let read = |operand: usize, slab: &Slab| {
            [windows(op, (operand, slab), 0, height), windows(op, (operand, slab), 1, width)]
        };
        Tiles {
            output: [cut(rows, height), cut(columns, width)],
            depths: cut(op.kernel.ofm_depth, depth),
            inputs: [read(0, &op.input), second(op).map(|slab| read(1, &slab)).unwrap_or_default()],
        }
    }

    /// Blocks, each of them one instruction.
    fn count(&self) -> u64 {
        (self.output[0].len() * self.output[1].len() * self.depths.len()) as u64
    }

    /// Multiply-accumulates, or elements taken in, rounded up to the granules of an engine.
    fn work(&self, op: &StripeOperation, engine: &Engine) -> u128 {
        let rounded = |extents: &Extents, granule: i64| {
            extents.iter().map(|&extent| round_up(extent, granule)).sum::<i64>() as u128
        };
        let [height, width, reads, makes] = engine.granule;
        let outputs = rounded(&self.output[0], height) * rounded(&self.output[1], width) * rounded(&self.depths, makes);
        let per_output = if op.kernel.kind.reads_whole_depth() { round_up(op.kernel.ifm_depth, reads) } else { 1 };
        outputs * (per_output * op.kernel.kernel.iter().product::<i64>()) as u128
    }

    /// Bytes of the largest block's tiles together.
    fn largest_bytes(&self, op: &StripeOperation) -> u64 {
        let largest = |extents: &Extents| extents.iter().copied().max().unwrap_or(0);
        let depth = largest(&self.depths);
        let maps = |tile: &[Extents; 2], bytes| largest(&tile[0]) * largest(&tile[1]) * bytes;
        let read = |(operand, tile): (usize, &[Extents; 2])| {
            let (element, channels) = op.kernel.operand(operand);
            let cut = if op.kernel.kind.reads_whole_depth() { channels } else { channels.min(depth) };
            maps(tile, cut * element.bytes())
        };
        let read: i64 = self.inputs.iter().enumerate().map(read).sum();
        (read + maps(&self.output, depth * op.kernel.ofm.bytes())) as u64 + constant_bytes(op, depth)
    }

    /// How often inputs and constants are read: a convolution whose output channels are cut reads the input again for
    /// each of them, or the constants for each block of the plane.
    fn traversals(&self, op: &StripeOperation) -> SmallVec<[[u64; 2]; 2]> {
        let (plane, depths) = ((self.output[0].len() * self.output[1].len()) as u64, self.depths.len() as u64);
        if op.kernel.kind.reads_whole_depth() && depths > 1 && plane > 1 {
            SmallVec::from_slice(&[[depths, 1], [1, plane]])
        } else {
            SmallVec::from_slice(&[[1, 1]])
        }
    }

    fn traffic(
        &self,
        unit: &DescribedUnit,
        op: &StripeOperation,
        places: Places,
        [inputs, constants]: [u64; 2],
    ) -> Traffic {
        let mut traffic = Traffic::default();
        let slabs = [Some(op.input), second(op)];
        let homes = [places.inputs[0], if op.second.is_none() { places.constants } else { places.inputs[1] }];
        for (operand, ((slab, tile), place)) in slabs.iter().zip(&self.inputs).zip(homes).enumerate() {
            let Some(slab) = slab else { continue };
            let (element, channels) = op.kernel.operand(operand);
            let whole: Extents = SmallVec::from_slice(&[channels]);
            let once = op.kernel.kind.reads_whole_depth() || channels != op.kernel.ifm_depth;
            let channels = bytes_of(if once { &whole } else { &self.depths }, element);
            traffic.read(place, inputs * moved(slab, tile, &channels, element, burst(unit, place)));
        }
        let round = burst(unit, places.constants);
        let once: u64 = self.depths.iter().map(|&depth| constant_bytes(op, depth).next_multiple_of(round)).sum();
        traffic.read(places.constants, constants * once);
        let made = bytes_of(&self.depths, op.kernel.ofm);
        traffic.write(places.output, moved(&op.output, &self.output, &made, op.kernel.ofm, burst(unit, places.output)));
        traffic
    }
}

/// What an operation reads of its second operand, a feature map or a constant.
fn second(op: &StripeOperation) -> Option<Slab> {
    op.second.or_else(|| op.kernel.constant_map(op.output.plane))
}

/// Bytes of the constants of `depth` output channels, but for a second operand, which is read as feature maps are.
fn constant_bytes(op: &StripeOperation, depth: i64) -> u64 {
    if op.kernel.constant_map(op.output.plane).is_some() {
        return 0;
    }
    (op.kernel.constant_bytes * depth as u64).div_ceil(op.kernel.ofm_depth as u64)
}

/// Bytes moved for all tiles of a feature map, each run of contiguous bytes rounded up to bursts.
///
/// In NHWC a run is the columns of a tile's row, or the channels of a pixel where a tile has not all of them; in bricks
/// it is the columns of a row of one brick. `depths` are in bytes.
fn moved(slab: &Slab, tile: &[Extents; 2], depths: &Extents, element: Element, burst: u64) -> u64 {
    let brick = BRICK * element.bytes();
    let [rows, columns] = tile;
    let run = |bytes: i64| (bytes as u64).next_multiple_of(burst);
    let line = |depth: i64| -> u64 {
        match slab.layout {
            Layout::Nhcwb16 => columns.iter().map(|&c| div_ceil(depth, brick) as u64 * run(c * brick)).sum(),
            Layout::Nhwc if depth as u64 == slab.pixel_bytes => columns.iter().map(|&c| run(c * depth)).sum(),
            Layout::Nhwc => columns.iter().map(|&c| c as u64 * run(depth)).sum(),
        }
    };
    rows.iter().sum::<i64>() as u64 * depths.iter().map(|&depth| line(depth)).sum::<u64>()
}

/// Channels in bytes.
fn bytes_of(depths: &Extents, element: Element) -> Extents {
    depths.iter().map(|&depth| depth * element.bytes()).collect()
}

/// An extent in pieces of `block`; the last may be shorter.
fn cut(extent: i64, block: i64) -> Extents {
    (0..div_ceil(extent, block)).map(|index| block.min(extent - index * block)).collect()
}

/// Rows or columns of an input that exist under the windows of each block.
fn windows(op: &StripeOperation, (operand, slab): (usize, &Slab), axis: usize, block: i64) -> Extents {
    let (stride, before, extent) = (op.kernel.stride[axis], op.padding[axis], slab.plane[axis]);
    let factor = op.kernel.upscale.factor();
    let out = op.output.plane[axis];
    let starts = (0..div_ceil(out, block)).map(|index| index * block);
    starts
        .map(|first| {
            if op.kernel.is_repeated(operand, axis) {
                return extent;
            }
            let last = ((first + block).min(out) - 1) * stride - before + op.kernel.dilated(axis) - 1;
            let low = (first * stride - before).div_euclid(factor).clamp(0, extent);
            (last.div_euclid(factor) + 1).clamp(low, extent) - low
        })
        .collect()
}

fn div_ceil(value: i64, by: i64) -> i64 {
    (value + by - 1) / by
}

fn round_up(value: i64, to: i64) -> i64 {
    div_ceil(value, to) * to
}
