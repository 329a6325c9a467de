//! Feature maps in memory: where an element lies, and rows of them in and out. Owns layouts, tiles and element types.

use super::error::Fault;
use super::memory::Memory;

/// Type of the elements of a feature map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementType {
    /// 8, 16 or 32.
    pub bits: u32,
    /// Whether the elements are signed.
    pub signed: bool,
}

impl ElementType {
    /// Size of an element in bytes: 1, 2 or 4.
    pub fn bytes(self) -> usize {
        self.bits as usize / 8
    }

    /// Least value.
    pub fn min(self) -> i64 {
        if self.signed {
            -(1i64 << (self.bits - 1))
        } else {
            0
        }
    }

    /// Greatest value.
    pub fn max(self) -> i64 {
        (1i64 << (self.bits - u32::from(self.signed))) - 1
    }
}

/// How elements are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Channels of a pixel are contiguous; `stride_c` means nothing.
    Nhwc,
    /// Bricks of 16 channels; `stride_c` leads from brick to brick of a row.
    Nhcwb16,
}

/// A tensor as an operation sees it: shape, type, and four tiles with their addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureMap {
    /// Name for messages: `IFM`, `IFM2` or `OFM`.
    pub name: &'static str,
    /// Region index.
    pub region: usize,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// Channels.
    pub depth: u32,
    /// Element type.
    pub element: ElementType,
    /// Arrangement.
    pub layout: Layout,
    /// Zero point: subtracted on reading. Writing leaves it to the output stage.
    pub zero_point: i32,
    /// Byte offsets of the tiles in the region: top left, top right, bottom left, bottom right.
    pub bases: [i64; 4],
    /// Columns of tile 0 and 2.
    pub width0: u32,
    /// Rows of tile 0.
    pub height0: u32,
    /// Rows of tile 1.
    pub height1: u32,
    /// Bytes from column to column.
    pub stride_x: i64,
    /// Bytes from row to row.
    pub stride_y: i64,
    /// Bytes from 16-channel brick to brick.
    pub stride_c: i64,
}

/// Integer that rows are read into.
pub trait Value: Copy + Default {
    /// The low bits of `value`; the caller chose a type that holds it.
    fn narrow(value: i64) -> Self;
}

impl Value for i16 {
    #[inline(always)]
    fn narrow(value: i64) -> i16 {
        value as i16
    }
}

impl Value for i32 {
    #[inline(always)]
    fn narrow(value: i64) -> i32 {
        value as i32
    }
}

impl Value for i64 {
    #[inline(always)]
    fn narrow(value: i64) -> i64 {
        value
    }
}

/// Columns `[start, end)` of a row that lie in one tile; `address` is of channel 0 of column `start`.
struct Segment {
    start: usize,
    end: usize,
    address: i64,
}

/// Bytes of memory that hold `pixels` times `channels` elements, dense; they belong at `index` of a row.
struct Run {
    address: i64,
    column: usize,
    pixels: usize,
    channel: usize,
    channels: usize,
}

impl FeatureMap {
    /// Elements of one row, all channels.
    pub fn row_elements(&self) -> usize {
        self.width as usize * self.depth as usize
    }

    /// Byte offset in the region of element (y, x, c).
    pub fn address(&self, y: u32, x: u32, c: u32) -> i64 {
        let (tile, y, x) = self.tile(y, x);
        let (y, x, c, e) = (i64::from(y), i64::from(x), i64::from(c), self.element.bytes() as i64);
        let in_row = match self.layout {
            Layout::Nhwc => c.wrapping_mul(e),
            Layout::Nhcwb16 => (c / 16).wrapping_mul(self.stride_c).wrapping_add(c % 16 * e),
        };
        // Strides are 40-bit and coordinates 17-bit numbers at most: wrapping is for form only.
        self.bases[tile]
            .wrapping_add(y.wrapping_mul(self.stride_y))
            .wrapping_add(x.wrapping_mul(self.stride_x))
            .wrapping_add(in_row)
    }

    /// The tile of pixel (y, x) and its coordinates there.
    fn tile(&self, y: u32, x: u32) -> (usize, u32, u32) {
        if x >= self.width0 {
            if y >= self.height1 {
                (3, y - self.height1, x - self.width0)
            } else {
                (1, y, x - self.width0)
            }
        } else if y >= self.height0 {
            (2, y - self.height0, x)
        } else {
            (0, y, x)
        }
    }

    fn segments(&self, y: u32) -> impl Iterator<Item = Segment> + '_ {
        let split = self.width0.min(self.width);
        [(0, split), (split, self.width)].into_iter().filter(|(start, end)| start < end).map(move |(start, end)| {
            Segment { start: start as usize, end: end as usize, address: self.address(y, start, 0) }
        })
    }

    /// Visits the dense pieces of row `y`, in memory order within each segment.
    fn for_each_run(&self, y: u32, mut visit: impl FnMut(Run) -> Result<(), Fault>) -> Result<(), Fault> {
        let e = self.element.bytes() as i64;
        let depth = self.depth as usize;
        let brick = if self.layout == Layout::Nhwc { depth } else { 16 };
        for segment in self.segments(y) {
            let (column, pixels) = (segment.start, segment.end - segment.start);
            for channel in (0..depth).step_by(brick) {
                let channels = brick.min(depth - channel);
                let skip = (channel as i64 / 16).wrapping_mul(self.stride_c);
                let address = if channel == 0 { segment.address } else { segment.address.wrapping_add(skip) };
                if self.stride_x == channels as i64 * e {
                    visit(Run { address, column, pixels, channel, channels })?;
                    continue;
                }
                for i in 0..pixels {
                    let address = address.wrapping_add((i as i64).wrapping_mul(self.stride_x));
                    visit(Run { address, column: column + i, pixels: 1, channel, channels })?;
                }
            }
        }
        Ok(())
    }

    /// Reads row `y` into `out` (`[column][channel]`, at least [`FeatureMap::row_elements`] long), zero point removed.
    ///
    /// # Errors
    /// What [`Memory::read`] refuses.
    pub fn read_row<T: Value>(&self, memory: &mut Memory, y: u32, out: &mut [T]) -> Result<(), Fault> {
        self.for_each_run(y, |run| {
            let len = run.pixels * run.channels * self.element.bytes();
            let bytes = memory.read(self.name, self.region, run.address, len)?;
            self.convert(bytes, &run, out);
            Ok(())
        })
    }

    fn convert<T: Value>(&self, bytes: &[u8], run: &Run, out: &mut [T]) {
        let zero = i64::from(self.zero_point);
        match (self.element.bits, self.element.signed) {
            (8, true) => self.spread(bytes, run, out, |b: [u8; 1]| i64::from(b[0] as i8) - zero),
            (8, false) => self.spread(bytes, run, out, |b: [u8; 1]| i64::from(b[0]) - zero),
            (16, true) => self.spread(bytes, run, out, |b| i64::from(i16::from_le_bytes(b)) - zero),
            (16, false) => self.spread(bytes, run, out, |b| i64::from(u16::from_le_bytes(b)) - zero),
            (_, true) => self.spread(bytes, run, out, |b| i64::from(i32::from_le_bytes(b)) - zero),
            (_, false) => self.spread(bytes, run, out, |b| i64::from(u32::from_le_bytes(b)) - zero),
        }
    }

    /// Decodes `N`-byte elements of a run into their places of a row.
    #[inline(always)]
    fn spread<T: Value, const N: usize>(
        &self,
        bytes: &[u8],
        run: &Run,
        out: &mut [T],
        decode: impl Fn([u8; N]) -> i64,
    ) {
        let depth = self.depth as usize;
        let decode_into = |out: &mut [T], bytes: &[u8]| {
            for (o, b) in out.iter_mut().zip(bytes.chunks_exact(N)) {
                let mut raw = [0; N];
                raw.copy_from_slice(b);
                *o = T::narrow(decode(raw));
            }
        };
        if run.channels == depth {
            let start = run.column * depth;
            decode_into(&mut out[start..start + run.pixels * depth], bytes);
        } else {
            for (i, pixel) in bytes.chunks_exact(run.channels * N).enumerate() {
                let start = (run.column + i) * depth + run.channel;
                decode_into(&mut out[start..start + run.channels], pixel);
            }
        }
    }

    /// Writes row `y` from `values` (`[column][channel]`), the low bits of each.
    ///
    /// # Errors
    /// What [`Memory::write`] refuses.
    pub fn write_row(&self, memory: &mut Memory, y: u32, values: &[i32]) -> Result<(), Fault> {
        let depth = self.depth as usize;
        self.for_each_run(y, |run| {
            let len = run.pixels * run.channels * self.element.bytes();
            let bytes = memory.write(self.name, self.region, run.address, len)?;
            if run.channels == depth {
                let start = run.column * depth;
                self.encode(&values[start..start + run.pixels * depth], bytes);
                return Ok(());
            }
            for (i, pixel) in bytes.chunks_exact_mut(run.channels * self.element.bytes()).enumerate() {
                let start = (run.column + i) * depth + run.channel;
                self.encode(&values[start..start + run.channels], pixel);
            }
            Ok(())
        })
    }

    fn encode(&self, values: &[i32], bytes: &mut [u8]) {
        match self.element.bits {
            8 => bytes.iter_mut().zip(values).for_each(|(b, v)| *b = *v as u8),
            16 => {
                for (b, v) in bytes.chunks_exact_mut(2).zip(values) {
                    b.copy_from_slice(&(*v as u16).to_le_bytes());
                }
            }
            _ => {
                for (b, v) in bytes.chunks_exact_mut(4).zip(values) {
                    b.copy_from_slice(&v.to_le_bytes());
                }
            }
        }
    }

    /// Bytes of the region from the lowest to one past the highest that the map may use, row by row exact in the tiles'
    /// corners.
    pub fn extent(&self) -> (i64, i64) {
        let e = self.element.bytes() as i64;
        let last = |n: u32| n.saturating_sub(1);
        let ys = [0, last(self.height0.min(self.height)), last(self.height1.min(self.height))];
        let ys = ys.into_iter().chain([self.height0, self.height1, last(self.height)]).filter(|&y| y < self.height);
        let xs = [0, last(self.width0.min(self.width)), self.width0, last(self.width)];
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for y in ys {
            for x in xs.into_iter().filter(|&x| x < self.width) {
                for c in [0, last(self.depth), last(self.depth) / 16 * 16, 15.min(last(self.depth))] {
                    let address = self.address(y, x, c);
                    low = low.min(address);
                    high = high.max(address.saturating_add(e));
                }
            }
        }
        (low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(layout: Layout, bits: u32, shape: [u32; 3], strides: [i64; 3]) -> FeatureMap {
        FeatureMap {
            name: "IFM",
            region: 1,
            height: shape[0],
            width: shape[1],
            depth: shape[2],
            element: ElementType { bits, signed: true },
            layout,
            zero_point: 0,
            bases: [0; 4],
            width0: shape[1],
            height0: shape[0],
            height1: shape[0],
            stride_y: strides[0],
            stride_x: strides[1],
            stride_c: strides[2],
        }
    }

    fn arena(size: usize) -> Memory {
        let mut memory = Memory::new(1024, true);
        let buffer = memory.add_buffer(vec![0; size], true, false);
        memory.set_region(1, buffer, 0, size).unwrap();
        memory
    }

    #[test]
    fn brick_format_example() {
        let fm = map(Layout::Nhcwb16, 8, [2, 3, 20], [96, 16, 48]);
        assert_eq!(fm.address(1, 2, 17), 177);
        assert_eq!(fm.extent(), (0, 180));
    }

    #[test]
    fn tiles_are_chosen_by_column_first() {
        let mut fm = map(Layout::Nhwc, 8, [4, 4, 1], [10, 1, 0]);
        (fm.width0, fm.height0, fm.height1) = (2, 3, 1);
        fm.bases = [0, 100, 200, 300];
        assert_eq!([fm.address(2, 1, 0), fm.address(0, 2, 0)], [21, 100]);
        assert_eq!([fm.address(3, 1, 0), fm.address(1, 3, 0)], [201, 301]);
    }

    #[test]
    fn rows_go_where_addresses_say() {
        for bits in [8, 16, 32] {
            let e = i64::from(bits / 8);
            let shapes = [
                map(Layout::Nhwc, bits, [3, 5, 20], [100 * e, 20 * e, 0]),
                map(Layout::Nhwc, bits, [3, 5, 20], [130 * e, 24 * e, 0]),
                map(Layout::Nhcwb16, bits, [3, 5, 20], [160 * e, 16 * e, 80 * e]),
                map(Layout::Nhcwb16, bits, [3, 5, 32], [160 * e, 16 * e, 80 * e]),
            ];
            for mut fm in shapes {
                (fm.width0, fm.height0, fm.height1) = (3, 2, 1);
                fm.bases = [0, 2000, 4000, 6000];
                let mut memory = arena(8192);
                for y in 0..3 {
                    let row: Vec<i32> = (0..fm.row_elements() as i32).map(|i| i + y * 10 - 60).collect();
                    fm.write_row(&mut memory, y as u32, &row).unwrap();
                    let mut back = vec![0i32; row.len()];
                    fm.read_row(&mut memory, y as u32, &mut back).unwrap();
                    let wrap = |v: i32| if bits == 8 { i32::from(v as i8) } else { v };
                    assert_eq!(back, row.iter().map(|&v| wrap(v)).collect::<Vec<_>>());
                    let at = fm.address(y as u32, 4, 17);
                    let byte = memory.read("IFM", 1, at, 1).unwrap()[0];
                    assert_eq!(byte, row[4 * fm.depth as usize + 17] as u8);
                }
                assert_eq!(memory.take_uninitialised(), None);
            }
        }
    }

    #[test]
    fn negative_strides_walk_backwards() {
        let mut fm = map(Layout::Nhwc, 8, [2, 3, 1], [-3, -1, 0]);
        fm.bases[0] = 5;
        let mut memory = arena(6);
        fm.write_row(&mut memory, 0, &[1, 2, 3]).unwrap();
        fm.write_row(&mut memory, 1, &[4, 5, 6]).unwrap();
        assert_eq!(memory.peek("OFM", 1, 0, 6).unwrap(), [6, 5, 4, 3, 2, 1]);
        assert_eq!(fm.extent(), (0, 6));
    }
}
