//! Bytes that a kernel moves through each memory: what it fetches, how often, and in which runs.

use smallvec::SmallVec;

use super::super::feature_map::{FeatureMap, Layout};
use super::super::operation::{Kernel, KernelKind};
use super::axis::{DepthSpan, Spans};
use super::engine::{ifm_depth_block, second_map};
use super::rules::Rules;
use super::system::{ByPort, Port, System};
use super::ticks::Ticks;

/// Bytes of one direction or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransferBytes {
    /// Bytes on the bus.
    pub bytes: u64,
    /// The same with what short runs waste of each burst.
    pub cost: u64,
}

impl TransferBytes {
    fn plus(self, other: TransferBytes) -> TransferBytes {
        TransferBytes { bytes: self.bytes.saturating_add(other.bytes), cost: self.cost.saturating_add(other.cost) }
    }

    /// `count` times as much.
    pub fn times(self, count: u64) -> TransferBytes {
        TransferBytes { bytes: self.bytes.saturating_mul(count), cost: self.cost.saturating_mul(count) }
    }
}

/// What one kernel or transfer does to one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Both, with what short runs waste.
    pub cost: u64,
}

impl Load {
    /// Adds a read.
    pub fn add_read(&mut self, moved: TransferBytes) {
        self.read = self.read.saturating_add(moved.bytes);
        self.cost = self.cost.saturating_add(moved.cost);
    }

    /// Adds a write.
    pub fn add_write(&mut self, moved: TransferBytes) {
        self.written = self.written.saturating_add(moved.bytes);
        self.cost = self.cost.saturating_add(moved.cost);
    }

    /// Time at full bandwidth.
    pub fn time(&self, port: &Port) -> Ticks {
        port.time(u128::from(self.cost))
    }

    /// Time at full bandwidth and the latencies of the directions in use.
    pub fn alone(&self, port: &Port) -> Ticks {
        let read = if self.read > 0 { port.read_latency } else { 0 };
        let write = if self.written > 0 { port.write_latency } else { 0 };
        self.time(port) + Ticks::cycles(u128::from(read) + u128::from(write))
    }
}

/// A part of the channels: channels, bricks of 16 they touch, number of such parts.
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    channels: u32,
    bricks: u32,
    count: u64,
}

impl From<&DepthSpan> for Slice {
    fn from(span: &DepthSpan) -> Slice {
        Slice { channels: span.channels, bricks: span.bricks, count: 1 }
    }
}

/// The parts in which a convolution or reduce-sum consumes its input channels, first part first.
pub fn input_slices(kernel: &Kernel) -> SmallVec<[Slice; 2]> {
    let (depth, block) = (kernel.ifm.depth, ifm_depth_block(kernel));
    let (whole, rest) = (depth / block, depth % block);
    let mut slices = SmallVec::new();
    if whole > 0 {
        slices.push(Slice { channels: block, bricks: block.div_ceil(16), count: u64::from(whole) });
    }
    if rest > 0 {
        slices.push(Slice { channels: rest, bricks: rest.div_ceil(16), count: 1 });
    }
    slices
}

/// How a feature map's rows lie in a memory.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    map: &'a FeatureMap,
    port: &'a Port,
    bursts: bool,
    /// Bytes of a bus beat; 1 if runs need not fill beats.
    beat: u64,
    /// Whether these are writes, which leave in bricks of 16 channels whatever the layout.
    write: bool,
}

impl<'a> Rows<'a> {
    /// Reads of an input or writes of the output. The bus is 8 bytes wide, on U65 16.
    pub fn new(map: &'a FeatureMap, system: &'a System, is_u65: bool, write: bool, rules: &Rules) -> Rows<'a> {
        let beat = match (rules.whole_beats, is_u65) {
            (false, _) => 1,
            (true, false) => 8,
            (true, true) => 16,
        };
        Rows { map, port: system.port(map.region), bursts: rules.bursts, beat, write }
    }

    /// One row of `columns` columns of the channels in `slice`, all its parts.
    pub fn row(&self, columns: u32, slice: &Slice) -> TransferBytes {
        let element = self.map.element.bytes() as u64;
        let (columns, channels) = (u64::from(columns), u64::from(slice.channels));
        if columns == 0 {
            return TransferBytes::default();
        }
        if self.map.layout == Layout::Nhcwb16 {
            return self.runs(columns * 16 * element, u64::from(slice.bricks) * slice.count);
        }
        let pixel = channels * element;
        let whole = slice.channels == self.map.depth && self.map.stride_x == pixel as i64;
        if whole && (!self.write || channels <= 16) {
            return self.runs(columns * pixel, slice.count);
        }
        if self.write && channels > 16 {
            let bricks = self.runs(16 * element, channels / 16 * columns * slice.count);
            let rest = channels % 16 * element;
            return if rest > 0 { bricks.plus(self.runs(rest, columns * slice.count)) } else { bricks };
        }
        self.runs(pixel, columns * slice.count)
    }

    /// `count` contiguous runs of `run` bytes.
    fn runs(&self, run: u64, count: u64) -> TransferBytes {
        let beat = if self.map.layout == Layout::Nhwc { self.beat } else { 1 };
        let bytes = run.next_multiple_of(beat);
        let cost = if self.bursts { self.port.burst_cost(bytes, run) } else { bytes };
        TransferBytes { bytes, cost }.times(count)
    }

    /// One row of each sub-kernel's columns.
    pub fn row_of(&self, columns: &[(u32, u32)], slices: &[Slice]) -> TransferBytes {
        let mut moved = TransferBytes::default();
        for slice in slices {
            for &(extent, times) in columns {
                moved = moved.plus(self.row(extent, slice).times(u64::from(times)));
            }
        }
        moved
    }
}

/// Loads of a kernel by memory: the whole kernel, all blocks.
pub fn kernel_loads(
    kernel: &Kernel,
    system: &System,
    is_u65: bool,
    (rows, columns, depths): (&Spans, &Spans, &[DepthSpan]),
    rules: &Rules,
) -> ByPort<Load> {
    let mut loads = system.by_port(Load::default());
    let spatial = rows.blocks() * columns.blocks();
    let deep = matches!(kernel.kind, KernelKind::Conv | KernelKind::ReduceSum);
    let ifm = Rows::new(&kernel.ifm, system, is_u65, false, rules);
    let fetched_rows: u64 = rows.classes.iter().map(|span| span.fetched_total() * span.count).sum();
    let depth_blocks: u64 = depths.iter().map(|span| span.count).sum();
    let mut per_row = TransferBytes::default();
    for span in &columns.classes {
        if deep {
            let repeats = if rules.ifm_per_depth_block { depth_blocks } else { 1 };
            per_row = per_row.plus(ifm.row_of(&span.fetched, &input_slices(kernel)).times(span.count * repeats));
        } else {
            for depth in depths {
                per_row = per_row.plus(ifm.row_of(&span.fetched, &[depth.into()]).times(span.count * depth.count));
            }
        }
    }
    loads[system.of_region(kernel.ifm.region)].add_read(per_row.times(fetched_rows));
    if let Some(map) = second_map(kernel) {
        let moved = operand(map, system, is_u65, (rows, columns, depths), rules, false);
        loads[system.of_region(map.region)].add_read(moved);
    }
    let written = operand(&kernel.ofm, system, is_u65, (rows, columns, depths), rules, true);
    loads[system.of_region(kernel.ofm.region)].add_write(written);
    let repeats = if rules.weights_per_spatial_block { spatial } else { 1 };
    for stream in kernel.weights.iter().chain(&kernel.scales) {
        let bytes = stream.length as u64;
        loads[system.of_region(stream.region)].add_read(TransferBytes { bytes, cost: bytes }.times(repeats));
    }
    loads
}

/// A map of the OFM's shape, block by block; dimensions of size 1 against a larger OFM are broadcast and move once per block.
fn operand(
    map: &FeatureMap,
    system: &System,
    is_u65: bool,
    (rows, columns, depths): (&Spans, &Spans, &[DepthSpan]),
    rules: &Rules,
    write: bool,
) -> TransferBytes {
    let lines = Rows::new(map, system, is_u65, write, rules);
    let height: u64 = rows.classes.iter().map(|span| u64::from(span.out.min(map.height)) * span.count).sum();
    let mut per_row = TransferBytes::default();
    for span in &columns.classes {
        for depth in depths {
            let moved = lines.row(span.out.min(map.width), &slice_of(map, depth));
            per_row = per_row.plus(moved.times(span.count * depth.count));
        }
    }
    per_row.times(height)
}

/// The channels of `map` that an OFM depth block needs.
fn slice_of(map: &FeatureMap, depth: &DepthSpan) -> Slice {
    if map.depth == 1 {
        return Slice { channels: 1, bricks: 1, count: 1 };
    }
    depth.into()
}

/// Bytes of one job's fetch and of one block's write, as the issue rule, filling and draining see them: only the
/// channels that exist, as both of Arm's estimators count them, or (`Rules::whole_bricks`) whole bricks.
pub fn block_moved(lines: &Rows<'_>, rows: u32, columns: u32, slice: &Slice, rules: &Rules) -> TransferBytes {
    if rules.whole_bricks || lines.map.layout == Layout::Nhwc {
        return lines.row(columns, slice).times(u64::from(rows));
    }
    let (element, columns) = (lines.map.element.bytes() as u64, u64::from(columns));
    let bytes = u64::from(rows) * columns * u64::from(slice.channels) * element;
    let cost = if lines.bursts { lines.port.burst_cost(bytes, columns * 16 * element) } else { bytes };
    TransferBytes { bytes, cost }
}
