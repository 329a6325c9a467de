//! Cycle model of one NPU operation on one stripe, and the choice of its OFM block.
//!
//! Owns what an operation costs: MAC engine, output stage, block pipeline, bytes over each memory. The rules are those of
//! Arm's estimators as far as they agree (see `docs/cost-model.md`); all arithmetic is exact. Knows nothing of Plans.

/// What an operation does, as far as its cost depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Primitive {
    /// Full convolution.
    Convolution,
    /// One filter per channel.
    Depthwise,
    /// Average pool, also the rescaling identity.
    AveragePool,
    /// Max pool.
    MaxPool,
    /// Binary addition.
    Add,
}

impl Primitive {
    fn has_weights(self) -> bool {
        matches!(self, Primitive::Convolution | Primitive::Depthwise)
    }
}

/// How the elements of a feature map lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Pixel by pixel, all channels of a pixel together.
    Nhwc,
    /// Row by row, and within a row in bricks of 16 channels of every pixel; channels are a multiple of 16.
    Nhcwb16,
}

/// One NPU operation on a whole feature map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Kind of operation.
    pub primitive: Primitive,
    /// Kernel height and width, undilated.
    pub kernel: [i64; 2],
    /// Strides in height and width.
    pub stride: [i64; 2],
    /// Dilations in height and width.
    pub dilation: [i64; 2],
    /// Channels read.
    pub ifm_depth: i64,
    /// Channels written.
    pub ofm_depth: i64,
    /// How its inputs lie in memory; `Nhwc` where they differ.
    pub ifm_layout: Layout,
    /// How its output lies in memory.
    pub ofm_layout: Layout,
    /// The output is clamped tighter than its type, which costs the output stage time.
    pub clamped: bool,
    /// Weights are ordered part-kernel-first.
    pub part_kernel: bool,
    /// OFM block depth that the weights are encoded for.
    pub block_depth: i64,
    /// Encoded weights plus scales, bytes.
    pub constant_bytes: u64,
    /// The same constants encoded in slices of output channels, if that was done.
    pub sliced: Option<Sliced>,
}

/// Constants encoded for several operations, each of which makes some of the output channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sliced {
    /// Output channels of a slice; the last may have fewer.
    pub depth: i64,
    /// OFM block depth that the slices are encoded for.
    pub block_depth: i64,
    /// Weights are ordered part-kernel-first.
    pub part_kernel: bool,
    /// Encoded weights plus scales of each slice, bytes.
    pub bytes: Vec<u64>,
}

impl Kernel {
    /// The operation that makes slice `index` of the output channels; None where the constants are not sliced so.
    pub fn slice(&self, index: usize) -> Option<Kernel> {
        let sliced = self.sliced.as_ref()?;
        let first = index as i64 * sliced.depth;
        Some(Kernel {
            ofm_depth: sliced.depth.min(self.ofm_depth - first),
            block_depth: sliced.block_depth,
            part_kernel: sliced.part_kernel,
            constant_bytes: *sliced.bytes.get(index)?,
            sliced: None,
            ..self.clone()
        })
    }

    fn dilated(&self, axis: usize) -> i64 {
        (self.kernel[axis] - 1) * self.dilation[axis] + 1
    }
}

/// A memory as the NPU sees it: rate as an exact fraction of bytes per cycle, latency in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes per cycle, numerator.
    pub bytes: u64,
    /// Bytes per cycle, denominator.
    pub per_cycles: u64,
    /// Cycles before the first byte read arrives.
    pub read_latency: u64,
    /// Cycles before a write is done.
    pub write_latency: u64,
    /// Bytes of a burst; shorter runs waste the rest of it.
    pub burst_bytes: u64,
}

impl Memory {
    /// Bytes that the memory is busy for when `bytes` come in runs of `run_bytes`; runs below 16 bytes count as 16.
    fn traffic(&self, bytes: u64, run_bytes: u64) -> u64 {
        let run = run_bytes.max(SHORTEST_RUN);
        if run < self.burst_bytes {
            bytes * self.burst_bytes / run
        } else {
            bytes
        }
    }

    /// Cycles to move `bytes`, without latency, rounded up.
    pub fn cycles(&self, bytes: u64) -> u64 {
        (bytes * self.per_cycles).div_ceil(self.bytes)
    }
}

/// The NPU and its memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// MACs per cycle: 32, 64, 128 or 256.
    pub macs: i64,
    /// Micro-block height, width, OFM depth.
    pub micro_block: [i64; 3],
    /// SHRAM banks of 1 KiB.
    pub shram_banks: i64,
    /// Where weights and scales lie.
    pub constants: Memory,
    /// Where feature maps and staged weights lie.
    pub arena: Memory,
}

/// OFM block: height, width, depth.
pub type Block = [i64; 3];

/// Cost of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Cycles from its first fetch to its last write.
    pub cycles: u64,
    /// The block that gives them.
    pub block: Block,
}

/// Banks the hardware keeps for output buffers.
const OUTPUT_BANKS: i64 = 2;
const BANK_BYTES: i64 = 1024;
const IFM_MICRO_DEPTH: i64 = 8;
/// Largest OFM block (ETHOS-U TRM): height, width, depth.
const MAX_BLOCK: Block = [32, 64, 128];
/// Depths that split an OFM are multiples of this.
const SPLIT_DEPTH: i64 = 16;
/// Kernels beyond this are run as several sub-kernels.
const SUB_KERNEL: i64 = 8;
/// Register words a stripe typically re-sends, times four bytes.
const COMMAND_BYTES: u64 = 80;
/// Runs below this many bytes cost as much.
const SHORTEST_RUN: u64 = 16;
/// Channels of a brick, which is also all that the output stage writes of a pixel in one run.
const BRICK: i64 = 16;
/// Blocks in flight between fetch and write.
const BLOCKS_IN_FLIGHT: u64 = 4;

/// SHRAM granules in banks: 8-bit IFM, 32-bit accumulators.
fn granules(device: &Device) -> (i64, i64) {
    match device.macs {
        32 | 64 => (2, 4),
        128 => (4, 8),
        _ => (8, 16),
    }
}

fn div_ceil(value: i64, by: i64) -> i64 {
    (value + by - 1) / by
}

fn round_up(value: i64, to: i64) -> i64 {
    div_ceil(value, to) * to
}

/// Whether the buffers of `block` fit into SHRAM for an output of height `ofm_height` (ETHOS-U TRM, shared buffer).
pub fn fits_shram(device: &Device, kernel: &Kernel, ofm_height: i64, block: Block) -> bool {
    let [bh, bw, bd] = block;
    let [uh, uw, _] = device.micro_block;
    let area = |blk: i64, axis: usize, micro: i64| {
        round_up((blk - 1) * kernel.stride[axis] + kernel.dilated(axis).min(SUB_KERNEL), micro)
    };
    let ifm_block_depth = match kernel.primitive {
        Primitive::Convolution => round_up(kernel.ifm_depth.min(ifm_depth_step(kernel)), IFM_MICRO_DEPTH),
        _ => bd,
    };
    let (ifm_granule, acc_granule) = granules(device);
    let ifm_bytes = area(bh, 0, uh) * area(bw, 1, uw) * round_up(ifm_block_depth, 8);
    let ifm_banks = round_up(2 * (ifm_bytes + BANK_BYTES - 1).div_euclid(BANK_BYTES), ifm_granule);
    let end = device.shram_banks - if device.shram_banks > 16 { 2 } else { 0 };
    if kernel.primitive == Primitive::Add {
        return OUTPUT_BANKS + 2 * ifm_banks <= end;
    }
    let acc_height = if ofm_height == 1 && kernel.kernel[0] == 1 && uh == 2 { 1 } else { bh };
    let acc_bytes = acc_height * bw * round_up(bd, 8) * 4;
    let acc_banks = round_up(2 * (acc_bytes + BANK_BYTES - 1).div_euclid(BANK_BYTES), acc_granule);
    OUTPUT_BANKS + ifm_banks + acc_banks <= end
}

fn ifm_depth_step(kernel: &Kernel) -> i64 {
    if kernel.part_kernel {
        16
    } else {
        32
    }
}

/// MAC-engine cycles of a block of real extent `[h, w, d]`.
fn mac_cycles(device: &Device, kernel: &Kernel, plane: [i64; 2], extent: Block) -> u64 {
    let [uh, uw, ud] = device.micro_block;
    // A single-row convolution turns its 2x2 micro-block into 1x4 (both of Arm's estimators).
    let flat = plane[0] == 1 && kernel.kernel[0] == 1 && plane[1] % 2 == 0 && uh == 2;
    let (uh, uw) = if flat && kernel.primitive != Primitive::Add { (1, uh * uw) } else { (uh, uw) };
    let xy = (extent[0] + uh - 1) / uh * ((extent[1] + uw - 1) / uw);
    let z = (extent[2] + ud - 1) / ud;
    let weights = 32 * ud / 8;
    let limit = [SUB_KERNEL / kernel.dilation[0], SUB_KERNEL / kernel.dilation[1]];
    let mut total = 0;
    for y in (0..kernel.kernel[0]).step_by(limit[0] as usize) {
        for x in (0..kernel.kernel[1]).step_by(limit[1] as usize) {
            let e = limit[0].min(kernel.kernel[0] - y) * limit[1].min(kernel.kernel[1] - x);
            total += match kernel.primitive {
                Primitive::Convolution if kernel.part_kernel => {
                    weights.max(4 * xy) * ((e + 3) / 4) * z * ((kernel.ifm_depth + 7) / 8)
                }
                Primitive::Convolution => weights.max(4 * xy) * e * z * ((kernel.ifm_depth + 31) / 32),
                Primitive::Depthwise => weights.max(4 * xy) * ((e + 3) / 4) * z,
                Primitive::AveragePool | Primitive::MaxPool => e.max(4) * xy * z,
                Primitive::Add => 0,
            };
        }
    }
    // One micro-block in the plane cannot hide the start-up of each step.
    if xy == 1 && kernel.primitive != Primitive::Add {
        total += 2 * z;
    }
    total as u64
}

/// Output-stage cycles of a block, from eighths of a cycle per element (Arm's tables, equal in both estimators).
fn output_cycles(device: &Device, kernel: &Kernel, extent: Block) -> u64 {
    let (add, max_pool, rest, clamp) = match device.macs {
        32 => (48, 8, 16, 8),
        64 => (24, 4, 8, 8),
        128 => (12, 2, 4, 4),
        _ => (6, 1, 2, 2),
    };
    let stage = match kernel.primitive {
        Primitive::Add => add,
        Primitive::MaxPool => max_pool,
        _ => rest,
    };
    let eighths = if kernel.clamped { stage.max(clamp) } else { stage };
    let depth = if kernel.primitive == Primitive::Add { round_up(extent[2], 8) } else { extent[2] };
    div_ceil(extent[0] * extent[1] * depth * eighths, 8) as u64
}

/// Bytes of arena time that fetching the input of a block of real extent `[h, w, d]` takes.
fn ifm_bytes(device: &Device, kernel: &Kernel, extent: Block) -> u64 {
    let rows = (extent[0] - 1) * kernel.stride[0] + kernel.dilated(0);
    let columns = (extent[1] - 1) * kernel.stride[1] + kernel.dilated(1);
    let depth = match kernel.primitive {
        Primitive::Convolution => kernel.ifm_depth,
        _ => extent[2],
    };
    let operands = if kernel.primitive == Primitive::Add { 2 } else { 1 };
    if kernel.ifm_layout == Layout::Nhcwb16 {
        let bytes = rows * columns * round_up(depth, BRICK) * operands;
        return device.arena.traffic(bytes as u64, (columns * BRICK) as u64);
    }
    let bytes = (rows * columns * round_up(depth, 8) * operands) as u64;
    // Pixels are packed: a block with all channels reads whole lines, others read their channels pixel by pixel.
    let step = match kernel.primitive {
        Primitive::Convolution => kernel.ifm_depth.min(ifm_depth_step(kernel)),
        _ => extent[2],
    };
    let run = if step >= kernel.ifm_depth { kernel.ifm_depth * columns } else { step };
    device.arena.traffic(bytes, run as u64)
}

/// Bytes of arena time that writing the output of a block of real extent `[h, w, d]` takes.
fn ofm_bytes(device: &Device, kernel: &Kernel, [h, w, d]: Block) -> u64 {
    match kernel.ofm_layout {
        Layout::Nhwc => device.arena.traffic((h * w * d) as u64, BRICK.min(d) as u64),
        Layout::Nhcwb16 => device.arena.traffic((h * w * round_up(d, BRICK)) as u64, (w * BRICK) as u64),
    }
}

/// Extents that a block size cuts an axis into: (extent, how often).
fn cuts(extent: i64, block: i64) -> [(i64, u64); 2] {
    [(block.min(extent), (extent / block) as u64), (extent % block, u64::from(extent % block != 0))]
}

/// Cost of one operation on an output of `plane` pixels with a given block; constants read from `constants`.
pub fn cost_with_block(device: &Device, kernel: &Kernel, plane: [i64; 2], block: Block, constants: &Memory) -> Cost {
    let (mut steps, mut hidden, mut arena) = (0u64, 0u64, 0u64);
    let (mut first_fetch, mut last_write) = (0, 0);
    let mut count = 0;
    for (h, many_h) in cuts(plane[0], block[0]) {
        for (w, many_w) in cuts(plane[1], block[1]) {
            for (d, many_d) in cuts(kernel.ofm_depth, block[2]) {
                let many = many_h * many_w * many_d;
                if many == 0 {
                    continue;
                }
                let extent = [h, w, d];
                let mac = mac_cycles(device, kernel, plane, extent);
                let output = output_cycles(device, kernel, extent);
                let fetch = ifm_bytes(device, kernel, extent);
                let write = ofm_bytes(device, kernel, extent);
                let trip = device.arena.cycles(fetch + write) + mac + output;
                if count == 0 {
                    first_fetch = fetch;
                    hidden = mac.min(output);
                }
                last_write = write;
                let issue = if many == 1 && count == 0 { 0 } else { trip / BLOCKS_IN_FLIGHT };
                steps += many * mac.max(output).max(issue);
                arena += many * (fetch + write);
                count += many;
            }
        }
    }
    let planes = (div_ceil(plane[0], block[0]) * div_ceil(plane[1], block[1])) as u64;
    let constant_bytes = if kernel.primitive.has_weights() { kernel.constant_bytes * planes } else { 0 };
    let shared = constants == &device.arena;
    let fill = device.arena.read_latency + device.arena.cycles(first_fetch / BLOCKS_IN_FLIGHT);
    let drain = device.arena.write_latency + device.arena.cycles(last_write / BLOCKS_IN_FLIGHT);
    let arena = arena + if shared { constant_bytes } else { 0 };
    let flash = COMMAND_BYTES + if shared { 0 } else { constant_bytes };
    let cycles = (fill + steps + hidden + drain)
        .max(device.arena.cycles(arena) + device.arena.read_latency)
        .max(device.constants.cycles(flash) + device.constants.read_latency);
    Cost { cycles, block }
}

/// Block extents worth trying along an axis: the whole, even divisions, and powers of two of the micro-block.
fn extents(plane: i64, micro: i64, limit: i64) -> Vec<i64> {
    let whole = round_up(plane, micro);
    let mut found: Vec<i64> = (1..=4).map(|n| round_up(div_ceil(plane, n), micro)).collect();
    let mut power = micro;
    while power < whole {
        found.push(power);
        power *= 2;
    }
    found.retain(|&extent| extent <= limit);
    found.sort_unstable();
    found.dedup();
    found
}

/// The cheapest block of the kernel's own depth for an output of `plane` pixels; None if no block fits SHRAM.
///
/// `staged` reads the constants from the arena instead of their home. Ties go to the larger block.
pub fn best_block(device: &Device, kernel: &Kernel, plane: [i64; 2], staged: bool) -> Option<Cost> {
    let constants = if staged { &device.arena } else { &device.constants };
    let mut best: Option<Cost> = None;
    for &h in &extents(plane[0], device.micro_block[0], MAX_BLOCK[0]) {
        for &w in &extents(plane[1], device.micro_block[1], MAX_BLOCK[1]) {
            let block = [h, w, kernel.block_depth];
            if !fits_shram(device, kernel, plane[0], block) {
                continue;
            }
            let cost = cost_with_block(device, kernel, plane, block, constants);
            if best.is_none_or(|known| (cost.cycles, -h * w) < (known.cycles, -known.block[0] * known.block[1])) {
                best = Some(cost);
            }
        }
    }
    best
}

/// Weight order and OFM block depth for a kernel whose constants are not encoded yet.
///
/// `constant_bytes` of `kernel` is an estimate (the raw weights). Returns (block depth, part-kernel-first) of the
/// cheapest unstriped operation, constants read in place or copied into the arena behind other work; None if nothing
/// fits SHRAM.
pub fn choose_encoding(device: &Device, kernel: &Kernel, plane: [i64; 2]) -> Option<(i64, bool)> {
    let orders: &[bool] = if kernel.primitive == Primitive::Convolution { &[false, true] } else { &[false] };
    let micro = device.micro_block[2];
    let whole = round_up(kernel.ofm_depth, micro);
    let mut best: Option<(u64, i64, bool)> = None;
    for &part_kernel in orders {
        for depth in [8, 16, 32, 48, 64, 96, 128, whole] {
            let splits = depth < whole;
            if depth > whole || depth > MAX_BLOCK[2] || depth % micro != 0 || (splits && depth % SPLIT_DEPTH != 0) {
                continue;
            }
            let candidate = Kernel { block_depth: depth, part_kernel, ..kernel.clone() };
            let Some(in_place) = best_block(device, &candidate, plane, false) else { continue };
            let staged = best_block(device, &candidate, plane, true).map_or(u64::MAX, |cost| cost.cycles);
            let cost = in_place.cycles.min(staged.max(staging_cycles(device, kernel.constant_bytes)));
            if best.is_none_or(|(cycles, ..)| cost < cycles) {
                best = Some((cost, depth, part_kernel));
            }
        }
    }
    best.map(|(_, depth, part_kernel)| (depth, part_kernel))
}

/// Cycles of a DMA of `bytes` constants into the arena.
pub fn staging_cycles(device: &Device, bytes: u64) -> u64 {
    device.constants.read_latency
        + device.arena.write_latency
        + device.constants.cycles(bytes).max(device.arena.cycles(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::device;

    fn pointwise(ifm_depth: i64, ofm_depth: i64) -> Kernel {
        Kernel {
            primitive: Primitive::Convolution,
            kernel: [1, 1],
            stride: [1, 1],
            dilation: [1, 1],
            ifm_depth,
            ofm_depth,
            ifm_layout: Layout::Nhwc,
            ofm_layout: Layout::Nhwc,
            clamped: true,
            part_kernel: false,
            block_depth: 64,
            constant_bytes: (ifm_depth * ofm_depth) as u64,
            sliced: None,
        }
    }

    #[test]
    fn pointwise_convolution_runs_at_the_mac_rate() {
        // 28x28x128 -> 64: 6.4 MMAC / 256 per cycle = 25,088 cycles.
        assert_eq!(mac_cycles(&device(), &pointwise(128, 64), [28, 28], [28, 28, 64]), 25_088);
    }

    #[test]
    fn a_single_row_wastes_half_of_a_two_row_micro_block() {
        let depthwise = Kernel { primitive: Primitive::Depthwise, kernel: [3, 3], ..pointwise(64, 64) };
        let one = mac_cycles(&device(), &depthwise, [1, 32], [1, 32, 64]);
        let two = mac_cycles(&device(), &depthwise, [2, 32], [2, 32, 64]);
        assert_eq!(one, two);
    }

    #[test]
    fn blocks_that_overflow_shram_are_refused() {
        // 8 banks of IFM, 32 of accumulators, 2 of output, 2 reserved: 44 of 48.
        assert!(fits_shram(&device(), &pointwise(128, 128), 56, [8, 8, 64]));
        assert!(!fits_shram(&device(), &pointwise(128, 128), 56, [32, 64, 128]));
    }

    #[test]
    fn bricks_write_whole_bursts() {
        let pixels = pointwise(64, 64);
        let bricks = Kernel { ofm_layout: Layout::Nhcwb16, ..pixels.clone() };
        assert_eq!(ofm_bytes(&device(), &pixels, [4, 8, 64]), 2 * 4 * 8 * 64);
        assert_eq!(ofm_bytes(&device(), &bricks, [4, 8, 64]), 4 * 8 * 64);
        // Half a brick is moved whole; a single column is half a burst.
        assert_eq!(ofm_bytes(&device(), &bricks, [4, 8, 8]), 4 * 8 * 16);
        assert_eq!(ofm_bytes(&device(), &bricks, [4, 1, 64]), 2 * 4 * 64);
    }

    #[test]
    fn weights_read_in_place_cost_flash_time_for_each_spatial_block() {
        let kernel = pointwise(512, 512);
        let in_place = cost_with_block(&device(), &kernel, [14, 14], [8, 8, 64], &device().constants);
        assert!(in_place.cycles >= 4 * kernel.constant_bytes);
    }
}
