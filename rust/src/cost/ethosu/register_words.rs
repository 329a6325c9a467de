//! How many words set a kernel's registers: only those whose value changes from kernel to kernel are sent.
//!
//! Owns the prediction of a stream's length. Values that the planner does not know (scales) are taken to change with
//! the Part; no value here is ever sent to a device.

use smallvec::SmallVec;

use crate::model::ids::{PartId, Piece};
use crate::model::operation::{Layout, NpuOperation, Primitive};
use crate::model::program::{Stripe, View};

/// A feature map's registers: up to four tiles where a box wraps in its buffer.
#[derive(Clone, Copy, Debug)]
pub struct Surface {
    /// Rows of the first tile, of the second, and columns of the first.
    tiles: [u64; 3],
    extent: [u64; 2],
    bases: [u64; 4],
    row_bytes: u64,
    pixel_bytes: u64,
    depth: u64,
    layout: Layout,
}

impl Surface {
    /// Channels `[first, end)` of a view of a buffer at `offset`; `pixel_bytes` are those of all channels.
    pub fn new(view: &View, offset: u64, pixel_bytes: u64, layout: Layout, [first, end]: [i64; 2]) -> Surface {
        let (skipped, depth) = (first as u64, (end - first) as u64);
        let extent = view.region.spans.map(|span| span.len() as u64);
        let capacity = view.capacity.map(|extent| extent as u64);
        let corner = [0, 1].map(|axis| {
            (view.region.spans[axis].start - view.origin[axis]).rem_euclid(view.capacity[axis].max(1)) as u64
        });
        let row_bytes = capacity[1] * pixel_bytes;
        let offset = offset
            + match layout {
                Layout::Nhwc => skipped,
                Layout::Nhcwb16 => skipped * capacity[1],
            };
        let [height, width] = [0, 1].map(|axis| extent[axis].min(capacity[axis] - corner[axis]));
        let (tall, wide) = (height < extent[0], width < extent[1]);
        let (row, column) = (offset + corner[0] * row_bytes, corner[1] * pixel_bytes);
        Surface {
            tiles: [height, if wide { height } else { 0 }, width],
            extent,
            bases: [
                row + column,
                if wide { row } else { 0 },
                if tall { offset + column } else { 0 },
                if wide && tall { offset } else { 0 },
            ],
            row_bytes,
            pixel_bytes,
            depth,
            layout,
        }
    }

    /// From the first to the last byte of each tile.
    pub fn ranges(&self) -> SmallVec<[(u64, u64); 4]> {
        let rows = [self.tiles[0], self.extent[0] - self.tiles[0]];
        let columns = [self.tiles[2], self.extent[1] - self.tiles[2]];
        let run = |width: u64| match self.layout {
            Layout::Nhwc => (width - 1) * self.pixel_bytes + self.depth,
            Layout::Nhcwb16 => width * self.depth,
        };
        let mut found = SmallVec::new();
        for (tile, &base) in self.bases.iter().enumerate() {
            let (height, width) = (rows[tile / 2], columns[tile % 2]);
            if height > 0 && width > 0 {
                found.push((base, base + (height - 1) * self.row_bytes + run(width)));
            }
        }
        found
    }
}

/// Where each group of registers begins.
const IFM: usize = 0;
const OFM: usize = IFM + SURFACE;
const IFM2: usize = OFM + SURFACE;
const SHAPE: usize = IFM2 + SURFACE;
const WINDOW: usize = SHAPE + 13;
const CONSTANTS: usize = WINDOW + 5;
const SCALES: usize = CONSTANTS + 6;
const COPY: usize = SCALES + 3;
const OFFSETS: usize = COPY + 4;
const COUNT: usize = OFFSETS + 5;
/// Registers of a feature map.
const SURFACE: usize = 11;
/// Words of what a kernel sets and all kernels set alike: regions, activation, accumulators, enlargement.
const STEADY_WORDS: u64 = 5;

/// What the registers hold.
#[derive(Debug)]
pub struct Image {
    values: [u64; COUNT],
    words: u64,
}

impl Default for Image {
    fn default() -> Image {
        Image { values: [u64::MAX; COUNT], words: 0 }
    }
}

impl Image {
    /// Set the registers of a kernel; returns the words that takes. `staged` is where its constants were copied to,
    /// `banks` the parts of the shared buffer that its block takes.
    pub fn kernel(
        &mut self,
        kernel: &NpuOperation,
        stripe: &Stripe,
        (inputs, output): (&[Surface], &Surface),
        staged: Option<u64>,
        banks: [u32; 2],
        blockdep: u32,
    ) -> u64 {
        self.words = 0;
        let Some(kernel) = &kernel.with(stripe.source()) else { return 0 };
        self.surface(IFM, &inputs[0]);
        self.surface(OFM, output);
        if let Some(second) = inputs.get(1) {
            self.surface(IFM2, second);
        }
        let [rows, columns] = output.extent;
        let block = stripe.cost.block.map(|extent| extent as u64);
        let padding = stripe.padding.map(|rows| rows as u64);
        let precision = u64::from(kernel.primitive.has_weights());
        let shape = [rows, columns, kernel.ifm_depth as u64, kernel.ofm_depth as u64, precision, u64::from(blockdep)];
        for (slot, value) in shape.into_iter().chain(block).chain(padding).enumerate() {
            self.set(SHAPE + slot, value, 1);
        }
        for (slot, &offset) in kernel.offsets.iter().enumerate() {
            if slot != 2 || inputs.len() > 1 {
                self.set(OFFSETS + slot, offset as u64, 1);
            }
        }
        self.window(kernel, banks);
        self.constants(kernel, stripe, staged);
        self.words
    }

    /// Set the registers of a copy of a Part's constants; returns the words that takes.
    pub fn copy(&mut self, (part, piece): (PartId, Option<Piece>), to: u64, bytes: u64) -> u64 {
        self.words = 0;
        self.set(COPY, identity(part, piece), 2);
        self.set(COPY + 1, to, 2);
        self.set(COPY + 2, bytes, 2);
        self.set(COPY + 3, 0, 2);
        self.words
    }

    fn window(&mut self, kernel: &NpuOperation, banks: [u32; 2]) {
        let order = u64::from(kernel.part_kernel) << 32 | (kernel.stride[0] << 16 | kernel.stride[1]) as u64;
        if kernel.primitive != Primitive::Add {
            self.set(WINDOW, kernel.dilated(0) as u64, 1);
            self.set(WINDOW + 1, kernel.dilated(1) as u64, 1);
            self.set(WINDOW + 2, order, 1);
        }
        self.set(WINDOW + 3, u64::from(banks[0]), 1);
        self.set(WINDOW + 4, u64::from(banks[1]), 1);
    }

    fn constants(&mut self, kernel: &NpuOperation, stripe: &Stripe, staged: Option<u64>) {
        self.set(SCALES, 0, STEADY_WORDS);
        let scale = u64::from(stripe.part.0);
        match kernel.primitive {
            Primitive::Convolution | Primitive::Depthwise => {
                let id = identity(stripe.part, stripe.piece);
                self.set(CONSTANTS, u64::from(staged.is_some()), 2);
                self.set(CONSTANTS + 1, staged.unwrap_or(id), 2);
                self.set(CONSTANTS + 2, staged.unwrap_or(id) + kernel.constant_bytes, 2);
                self.set(CONSTANTS + 3, kernel.constant_bytes, 2);
                self.set(CONSTANTS + 4, kernel.ofm_depth as u64, 2);
            }
            Primitive::AveragePool => self.set(SCALES + 1, scale, 2),
            Primitive::Add => {
                self.set(SCALES + 1, scale, 2);
                self.set(SCALES + 2, scale, 4);
            }
            Primitive::MaxPool => {}
        }
    }

    fn surface(&mut self, at: usize, surface: &Surface) {
        for (index, &base) in surface.bases.iter().enumerate() {
            self.set(at + index, base, 2);
        }
        for (index, &tile) in surface.tiles.iter().enumerate() {
            self.set(at + 4 + index, tile, 1);
        }
        self.set(at + 7, surface.row_bytes, 2);
        let (brick, pixel) = match surface.layout {
            Layout::Nhwc => (1, surface.pixel_bytes),
            Layout::Nhcwb16 => (surface.row_bytes, 16),
        };
        self.set(at + 8, pixel, 2);
        self.set(at + 9, brick, 2);
        self.set(at + 10, u64::from(surface.layout == Layout::Nhwc), 1);
    }

    fn set(&mut self, at: usize, value: u64, words: u64) {
        if self.values[at] != value {
            self.values[at] = value;
            self.words += words;
        }
    }
}

/// Stands for the address of constants that are read where they are.
fn identity(part: PartId, piece: Option<Piece>) -> u64 {
    1 << 60 | u64::from(part.0) << 24 | u64::from(piece.map_or(0, |piece| piece.0 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::BufferId;
    use crate::stripe::{Region, Span};

    fn surface(rows: (i64, i64), channels: [i64; 2]) -> Surface {
        let region = Region { spans: [Span::new(rows.0, rows.1), Span::new(0, 4)] };
        let view = View { buffer: BufferId(0), region, origin: [0, 0], capacity: [4, 4] };
        Surface::new(&view, 1000, 8, Layout::Nhwc, channels)
    }

    #[test]
    fn rows_that_wrap_lie_in_two_tiles() {
        assert_eq!(surface((0, 4), [0, 8]).ranges().as_slice(), [(1000, 1128)]);
        assert_eq!(surface((6, 9), [0, 8]).ranges().as_slice(), [(1064, 1128), (1000, 1032)]);
    }

    #[test]
    fn some_channels_begin_and_end_inside_a_pixel() {
        assert_eq!(surface((0, 4), [2, 5]).ranges().as_slice(), [(1002, 1125)]);
    }

    #[test]
    fn only_what_changes_is_sent() {
        let mut image = Image::default();
        let first = image.copy((PartId(0), None), 64, 32);
        assert_eq!((first, image.copy((PartId(0), None), 64, 32), image.copy((PartId(0), None), 128, 32)), (8, 0, 2));
    }
}
