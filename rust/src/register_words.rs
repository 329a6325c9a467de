//! How many words set a kernel's registers: only those whose value changes from kernel to kernel are sent.
//!
//! Owns the prediction of a stream's length. Values that the planner does not know (zero points, scales) are taken to
//! stay as they are, or to change with the Part; no value here is ever sent to a device.

use smallvec::SmallVec;

use crate::performance::{Kernel, Primitive};
use crate::program::{Stripe, View};

/// A feature map's registers: up to four tiles where a box wraps in its buffer.
#[derive(Clone, Copy, Debug)]
pub struct Surface {
    /// Rows of the first tile, of the second, and columns of the first.
    tiles: [u64; 3],
    extent: [u64; 2],
    bases: [u64; 4],
    row_bytes: u64,
    pixel_bytes: u64,
}

impl Surface {
    /// A view of a buffer at `offset`.
    pub fn new(view: &View, offset: u64, pixel_bytes: u64) -> Surface {
        let extent = view.region.spans.map(|span| span.len() as u64);
        let capacity = view.capacity.map(|extent| extent as u64);
        let first = [0, 1].map(|axis| {
            (view.region.spans[axis].start - view.origin[axis]).rem_euclid(view.capacity[axis].max(1)) as u64
        });
        let row_bytes = capacity[1] * pixel_bytes;
        let [height, width] = [0, 1].map(|axis| extent[axis].min(capacity[axis] - first[axis]));
        let (tall, wide) = (height < extent[0], width < extent[1]);
        let (row, column) = (offset + first[0] * row_bytes, first[1] * pixel_bytes);
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
        }
    }

    /// From the first to the last byte of each tile.
    pub fn ranges(&self) -> SmallVec<[(u64, u64); 4]> {
        let rows = [self.tiles[0], self.extent[0] - self.tiles[0]];
        let columns = [self.tiles[2], self.extent[1] - self.tiles[2]];
        let mut found = SmallVec::new();
        for (tile, &base) in self.bases.iter().enumerate() {
            let (height, width) = (rows[tile / 2], columns[tile % 2]);
            if height > 0 && width > 0 {
                found.push((base, base + (height - 1) * self.row_bytes + width * self.pixel_bytes));
            }
        }
        found
    }
}

/// Registers by group; the groups of a kind lie one after the other.
const OFM: usize = SURFACE;
const SECOND: usize = 2 * SURFACE;
const SURFACE: usize = 12;
const REST: usize = 3 * SURFACE;
const COUNT: usize = REST + 26;

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
    /// Set the registers of a kernel; returns the words that takes. `constants` is where they are staged.
    pub fn kernel(
        &mut self,
        kernel: &Kernel,
        stripe: &Stripe,
        inputs: &[Surface],
        output: &Surface,
        constants: Option<u64>,
        blockdep: u32,
    ) -> u64 {
        self.words = 0;
        self.surface(0, &inputs[0], kernel.ifm_depth as u64);
        self.surface(OFM, output, stripe.slice.map_or(kernel.ofm_depth, |slice| -1 - i64::from(slice)) as u64);
        if let Some(second) = inputs.get(1) {
            self.surface(SECOND, second, 0);
        }
        let mut at = REST;
        let mut narrow = |image: &mut Image, values: &[i64]| {
            for &value in values {
                image.set(at, value as u64, 1);
                at += 1;
            }
        };
        narrow(self, &output.extent.map(|extent| extent as i64));
        narrow(self, &stripe.padding);
        narrow(self, &stripe.block);
        // Shared buffer: ends of the input's banks and start of the accumulators'.
        let shared = stripe.block[0] << 40 | stripe.block[1] << 20 | i64::from(stripe.part);
        narrow(self, &[shared, shared, i64::from(blockdep)]);
        let pooled = !kernel.primitive.has_weights();
        narrow(self, &[i64::from(pooled)]);
        if kernel.primitive != Primitive::Add {
            let order = i64::from(kernel.part_kernel) << 32 | kernel.stride[0] << 16 | kernel.stride[1];
            narrow(self, &[kernel.kernel[0], kernel.kernel[1], order]);
        }
        let at = COUNT - 7;
        if kernel.primitive.has_weights() {
            let home = constants.unwrap_or(1 << 48 | u64::from(stripe.part));
            self.set(at, u64::from(constants.is_some()), 2);
            self.set(at + 1, home, 4);
            let id = u64::from(stripe.part) << 16 | u64::from(stripe.slice.map_or(0, |slice| slice + 1));
            self.set(at + 2, id, 2);
            self.set(at + 3, u64::from(stripe.part), 2);
        } else if kernel.primitive != Primitive::MaxPool {
            self.set(at + 4, u64::from(stripe.part), 2);
        }
        if kernel.primitive.is_binary() {
            self.set(at + 5, u64::from(stripe.part), 4);
        }
        self.words
    }

    fn surface(&mut self, at: usize, surface: &Surface, depth: u64) {
        for (index, &base) in surface.bases.iter().enumerate() {
            self.set(at + index, base, 2);
        }
        for (index, &tile) in surface.tiles.iter().enumerate() {
            self.set(at + 4 + index, tile, 1);
        }
        self.set(at + 7, depth, 1);
        self.set(at + 8, surface.row_bytes, 2);
        self.set(at + 9, surface.pixel_bytes, 2);
    }

    fn set(&mut self, at: usize, value: u64, words: u64) {
        if self.values[at] != value {
            self.values[at] = value;
            self.words += words;
        }
    }
}
