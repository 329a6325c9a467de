//! Rows of the padded, enlarged IFM, as a sliding window needs them. Owns padding and upscaling; each stored row is
//! read once per pass down the OFM.

use super::error::Fault;
use super::feature_map::{FeatureMap, Value};
use super::memory::Memory;
use super::operation::{Kernel, Upscale, Window};

/// Elements that the rows in use may hold, so that no stream can ask for all of the host's memory.
const MAX_ELEMENTS: u64 = 1 << 26;

/// A ring of padded rows, zero point removed and padding 0.
pub struct Rows<'k, T> {
    ifm: &'k FeatureMap,
    window: &'k Window,
    /// Columns of a padded row.
    columns: usize,
    /// Padded rows of the whole IFM.
    rows: u32,
    /// Padded rows that one output row spans.
    span: u32,
    ring: Vec<T>,
    stored: Vec<T>,
    /// Rows below this one were loaded or skipped.
    next: u32,
}

impl<'k, T: Value> Rows<'k, T> {
    /// An empty ring for a kernel.
    ///
    /// # Errors
    /// [`Fault::TooLarge`] if the window's rows would not fit the simulator's memory.
    pub fn new(kernel: &'k Kernel) -> Result<Self, Fault> {
        let window = &kernel.window;
        let columns = window.padded_columns(kernel.ofm.width);
        let span = (window.height - 1) * window.dilation_y + 1;
        let row = u64::from(columns) * u64::from(kernel.ifm.depth);
        let amount = row.saturating_mul(u64::from(span));
        if amount > MAX_ELEMENTS {
            return Err(Fault::TooLarge { what: "IFM elements in a window's rows", amount, limit: MAX_ELEMENTS });
        }
        Ok(Rows {
            ifm: &kernel.ifm,
            window,
            columns: columns as usize,
            rows: window.padded_rows(kernel.ofm.height),
            span,
            ring: vec![T::default(); amount as usize],
            stored: Vec::new(),
            next: 0,
        })
    }

    fn row_elements(&self) -> usize {
        self.columns * self.ifm.depth as usize
    }

    /// Loads the rows that output row `y` needs; call it with ascending `y`, which every kernel's loop over rows does
    /// whatever the registers say.
    ///
    /// # Errors
    /// What reading the IFM refuses.
    pub fn advance(&mut self, memory: &mut Memory, y: u32) -> Result<(), Fault> {
        let first = y * self.window.stride_y;
        debug_assert!(self.next == 0 || first + self.span > self.next, "output row {y} after one that follows it");
        for row in self.next.max(first)..first + self.span {
            self.load(memory, row)?;
        }
        self.next = first + self.span;
        Ok(())
    }

    /// Padded row under kernel row `ky` for output row `y`: `[column][channel]`.
    pub fn row(&self, y: u32, ky: u32) -> &[T] {
        let slot = ((y * self.window.stride_y + ky * self.window.dilation_y) % self.span) as usize;
        &self.ring[slot * self.row_elements()..][..self.row_elements()]
    }

    fn load(&mut self, memory: &mut Memory, row: u32) -> Result<(), Fault> {
        let (window, depth, elements) = (self.window, self.ifm.depth as usize, self.row_elements());
        let out = &mut self.ring[(row % self.span) as usize * elements..][..elements];
        let data = window.pad_top..self.rows - window.pad_bottom;
        let zeros = window.upscale == Upscale::Zeros;
        if !data.contains(&row) || (zeros && (row - window.pad_top) % 2 == 1) {
            out.fill(T::default());
            return Ok(());
        }
        let y = (row - window.pad_top) / window.upscale.factor();
        let (left, right) = (window.pad_left as usize * depth, elements - window.pad_right as usize * depth);
        out[..left].fill(T::default());
        out[right..].fill(T::default());
        if window.upscale == Upscale::None {
            return self.ifm.read_row(memory, y, &mut out[left..right]);
        }
        self.stored.resize(self.ifm.row_elements(), T::default());
        self.ifm.read_row(memory, y, &mut self.stored)?;
        for (x, pixel) in out[left..right].chunks_exact_mut(depth).enumerate() {
            if zeros && x % 2 == 1 {
                pixel.fill(T::default());
            } else {
                pixel.copy_from_slice(&self.stored[x / 2 * depth..][..depth]);
            }
        }
        Ok(())
    }

    /// Range of kernel rows over data (not padding) for output row `y`.
    pub fn valid_rows(&self, y: u32) -> std::ops::Range<u32> {
        let w = self.window;
        valid(y * w.stride_y, w.height, w.dilation_y, w.pad_top..self.rows - w.pad_bottom)
    }

    /// Range of kernel columns over data (not padding) for output column `x`.
    pub fn valid_columns(&self, x: u32) -> std::ops::Range<u32> {
        let w = self.window;
        valid(x * w.stride_x, w.width, w.dilation_x, w.pad_left..self.columns as u32 - w.pad_right)
    }
}

/// Kernel positions `k` in `0..size` with `start + k * dilation` in `data`.
fn valid(start: u32, size: u32, dilation: u32, data: std::ops::Range<u32>) -> std::ops::Range<u32> {
    let first = data.start.saturating_sub(start).div_ceil(dilation).min(size);
    let end = data.end.saturating_sub(start).div_ceil(dilation).min(size);
    first..end.max(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_positions_over_data() {
        assert_eq!(valid(0, 3, 1, 1..10), 1..3);
        assert_eq!(valid(0, 3, 2, 1..10), 1..3);
        assert_eq!(valid(8, 3, 1, 1..10), 0..2);
        assert_eq!(valid(0, 3, 1, 0..10), 0..3);
        assert!(valid(12, 3, 1, 1..10).is_empty());
    }
}
