//! What a command reads and writes: byte ranges of buffers and of SHRAM. Owns the translation from kernels and transfers;
//! ranges are made only on demand, because most pairs of commands differ in their bounds already.

use super::jobs;
use super::ranges::{box_pieces, Ranges, Region3};
use crate::npu::accelerator::{Accelerator, LUT_BYTES};
use crate::npu::dma::{Dma, End};
use crate::npu::feature_map::FeatureMap;
use crate::npu::memory::Memory;
use crate::npu::operation::{Function, Kernel, Operand2};
use crate::npu::shram;

/// Most rows of a strided transfer with a range of their own.
const MAX_TRANSFER_ROWS: u64 = 1 << 20;

/// The memory that an access is in. Regions that share a buffer are one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A buffer of [`Memory`].
    Buffer(usize),
    /// The NPU's own memory.
    Shram,
}

#[derive(Debug, Clone)]
enum Shape {
    /// The bounds are the access.
    Dense,
    /// A box of a feature map; the bytes are in region coordinates.
    Box(Box<FeatureMap>, Region3),
    /// Rows of a strided transfer.
    Rows(Vec<(i64, i64)>),
}

/// One operand's bytes.
#[derive(Debug, Clone)]
pub struct Access {
    /// Name for messages: `IFM`, `weights`, `DMA source`, ...
    pub what: &'static str,
    /// Region that the command names; `None` is SHRAM.
    pub region: Option<usize>,
    /// Where the bytes lie.
    pub place: Place,
    /// Offset of the region in its buffer.
    pub offset: i64,
    /// Bounds in the buffer.
    bounds: (i64, i64),
    shape: Shape,
}

impl Access {
    fn new(what: &'static str, region: usize, bounds: (i64, i64), shape: Shape, memory: &Memory) -> Option<Access> {
        let (buffer, offset, _) = memory.window(region)?;
        let offset = offset as i64;
        let bounds = (bounds.0.saturating_add(offset), bounds.1.saturating_add(offset));
        Some(Access { what, region: Some(region), place: Place::Buffer(buffer), offset, bounds, shape })
    }

    fn shram(what: &'static str, start: i64, end: i64) -> Access {
        Access { what, region: None, place: Place::Shram, offset: 0, bounds: (start, end), shape: Shape::Dense }
    }

    /// Whether the bounds of both overlap; only then can their bytes.
    pub fn may_meet(&self, other: &Access) -> bool {
        self.place == other.place && self.bounds.0 < other.bounds.1 && other.bounds.0 < self.bounds.1
    }

    /// From the lowest byte to one past the highest, in the buffer.
    pub fn bounds(&self) -> (i64, i64) {
        self.bounds
    }

    /// The bytes, in the buffer.
    pub fn ranges(&self) -> Ranges {
        match &self.shape {
            Shape::Dense => Ranges::union(vec![self.bounds]),
            Shape::Box(map, part) => shifted(box_pieces(map, *part), self.offset),
            Shape::Rows(rows) => shifted(rows.clone(), self.offset),
        }
    }

    /// A box of a feature map.
    pub fn part(map: &FeatureMap, part: Region3, memory: &Memory) -> Option<Access> {
        Access::new(map.name, map.region, map.extent(), Shape::Box(Box::new(map.clone()), part.within(map)), memory)
    }
}

fn shifted(mut pieces: Vec<(i64, i64)>, offset: i64) -> Ranges {
    for (start, end) in &mut pieces {
        *start = start.saturating_add(offset);
        *end = end.saturating_add(offset);
    }
    Ranges::union(pieces)
}

/// What one command reads and writes.
#[derive(Debug, Clone, Default)]
pub struct Accesses {
    /// Reads.
    pub reads: Vec<Access>,
    /// Writes.
    pub writes: Vec<Access>,
}

/// Accesses of a kernel: operands, constants, table, and SHRAM where its buffers lie over the tables' area.
pub fn of_kernel(kernel: &Kernel, accelerator: &Accelerator, memory: &Memory) -> Accesses {
    let mut accesses = Accesses::default();
    for part in jobs::rows_read(kernel) {
        accesses.reads.extend(Access::part(&kernel.ifm, part, memory));
    }
    if let Some(Operand2::Map(map)) = &kernel.ifm2 {
        accesses.reads.extend(Access::part(map, Region3::whole(map), memory));
    }
    for (what, streams) in [("weights", &kernel.weights), ("scales", &kernel.scales)] {
        for stream in streams {
            let end = stream.base.saturating_add(stream.length as i64);
            accesses.reads.extend(Access::new(what, stream.region, (stream.base, end), Shape::Dense, memory));
        }
    }
    accesses.writes.extend(Access::part(&kernel.ofm, Region3::whole(&kernel.ofm), memory));
    let (base, end) = (accelerator.lut_base() as i64, accelerator.shram_bytes() as i64);
    if let Function::Table(slot) = kernel.activation.function {
        let start = base + i64::from(slot) * 256;
        let length = match kernel.ofm.element.bits {
            8 => 256,
            16 => LUT_BYTES as i64,
            _ => 1024,
        };
        accesses.reads.push(Access::shram("a look-up table", start, start + length));
    }
    let used = i64::from(shram::used_end(kernel, accelerator)) * i64::from(shram::BANK_BYTES);
    if used > base {
        accesses.writes.push(Access::shram("the kernel's SHRAM buffers", base, used.min(end)));
    }
    accesses
}

/// Accesses of a transfer.
pub fn of_dma(dma: &Dma, memory: &Memory) -> Accesses {
    let end = |what, end: &End| {
        let rows = transfer_rows(dma, end);
        let low = rows.iter().map(|r| r.0).min().unwrap_or(0);
        let high = rows.iter().map(|r| r.1).max().unwrap_or(0);
        match end.region {
            Some(region) => Access::new(what, region, (low, high), Shape::Rows(rows), memory),
            None => Some(Access::shram(what, low, high)),
        }
    };
    Accesses {
        reads: end("DMA source", &dma.source).into_iter().collect(),
        writes: end("DMA destination", &dma.destination).into_iter().collect(),
    }
}

fn transfer_rows(dma: &Dma, end: &End) -> Vec<(i64, i64)> {
    let count = u64::from(dma.rows).saturating_mul(u64::from(dma.planes));
    let length = dma.length as i64;
    if end.strided == 0 || count > MAX_TRANSFER_ROWS {
        let bytes = length.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX));
        return vec![(end.address, end.address.saturating_add(bytes))];
    }
    let mut rows = Vec::new();
    for plane in 0..i64::from(dma.planes) {
        for row in 0..i64::from(dma.rows) {
            let start = dma.row_address(end, plane, row);
            rows.push((start, start.saturating_add(length)));
        }
    }
    rows
}
