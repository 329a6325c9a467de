//! Feature maps of a placed program as the NPU addresses them: tiles, strides, and the bytes that boxes of them take.
//!
//! Owns these addresses and whether two boxes share a byte. What the registers make of them is `register_image`'s.

use smallvec::SmallVec;

use crate::model::operation::{Element, Layout};
use crate::model::program::{ByteRange, View};
use crate::stripe::Region;

/// Channels of a brick.
const BRICK: u64 = 16;

/// A feature map in up to four tiles, where a box wraps in its buffer: top left, top right, bottom left, bottom right.
#[derive(Clone, Copy, Debug)]
pub struct Surface {
    /// Rows, columns and channels.
    pub extent: [u64; 3],
    /// Rows of the first tile; of the second, 0 where no column wraps; columns of the first.
    pub tiles: [u64; 3],
    /// First byte of each tile, 0 where there is none.
    pub bases: [u64; 4],
    /// Bytes from row to row, from column to column, and from channel to channel or, in bricks, from brick to brick.
    pub strides: [u64; 3],
    /// How elements lie.
    pub layout: Layout,
    /// Bytes of an element.
    pub element_bytes: u64,
}

impl Surface {
    /// Channels `[first, end)` of a view of a buffer at `offset`; `pixel_bytes` are those of all channels.
    pub fn new(view: &View, offset: u64, pixel: (u64, Layout), element: Element, channels: [i64; 2]) -> Surface {
        Surface::within((view.region, view.origin, view.capacity), offset, pixel, element, channels)
    }

    /// All channels of a box of a map that lies whole at `offset`.
    pub fn of_whole(region: Region, plane: [i64; 2], offset: u64, pixel: (u64, Layout), element: Element) -> Surface {
        let depth = pixel.0 as i64 / element.bytes();
        Surface::within((region, [0; 2], plane), offset, pixel, element, [0, depth])
    }

    /// A box, of what begins at `origin` in a buffer of a given number of rows and columns.
    fn within(
        (region, origin, capacity): (Region, [i64; 2], [i64; 2]),
        offset: u64,
        (pixel_bytes, layout): (u64, Layout),
        element: Element,
        [first, end]: [i64; 2],
    ) -> Surface {
        let (bytes, depth) = (element.bytes() as u64, (end - first) as u64);
        let skipped = first as u64 * bytes;
        let extent = region.spans.map(|span| span.len() as u64);
        let corner =
            [0, 1].map(|axis| (region.spans[axis].start - origin[axis]).rem_euclid(capacity[axis].max(1)) as u64);
        let capacity = capacity.map(|extent| extent as u64);
        let row_bytes = capacity[1] * pixel_bytes;
        let (column_bytes, channel_bytes, offset) = match layout {
            Layout::Nhwc => (pixel_bytes, bytes, offset + skipped),
            Layout::Nhcwb16 => (BRICK * bytes, BRICK * bytes * capacity[1], offset + skipped * capacity[1]),
        };
        let [height, width] = [0, 1].map(|axis| extent[axis].min(capacity[axis] - corner[axis]));
        let (tall, wide) = (height < extent[0], width < extent[1]);
        let (row, column) = (offset + corner[0] * row_bytes, corner[1] * column_bytes);
        Surface {
            extent: [extent[0], extent[1], depth],
            tiles: [height, if wide { height } else { 0 }, width],
            bases: [
                row + column,
                if wide { row } else { 0 },
                if tall { offset + column } else { 0 },
                if wide && tall { offset } else { 0 },
            ],
            strides: [row_bytes, column_bytes, channel_bytes],
            layout,
            element_bytes: bytes,
        }
    }

    /// Channels `[first, end)` of a view of a buffer at `offset` that holds a tensor whole, whose rows and columns are
    /// seen at a given distance in bytes.
    pub fn strided(
        view: &View,
        offset: u64,
        [row_bytes, column_bytes]: [u64; 2],
        element: Element,
        [first, end]: [i64; 2],
    ) -> Surface {
        let bytes = element.bytes() as u64;
        let [height, width] = view.region.spans.map(|span| span.len() as u64);
        let [row, column] = view.region.spans.map(|span| span.start as u64);
        Surface {
            extent: [height, width, (end - first) as u64],
            tiles: [height, 0, width],
            bases: [offset + first as u64 * bytes + row * row_bytes + column * column_bytes, 0, 0, 0],
            strides: [row_bytes, column_bytes, bytes],
            layout: Layout::Nhwc,
            element_bytes: bytes,
        }
    }

    /// From the first to the last byte of each tile.
    pub fn ranges(&self) -> SmallVec<[ByteRange; 4]> {
        self.tiles_of(&self.whole()).map(|tile| tile.bounds()).collect()
    }

    /// From the first byte to the last.
    pub fn bounds(&self) -> ByteRange {
        let hull = |a: ByteRange, b: ByteRange| (a.0.min(b.0), a.1.max(b.1));
        self.tiles_of(&self.whole()).map(|tile| tile.bounds()).reduce(hull).unwrap_or((0, 0))
    }

    fn whole(&self) -> Bounds {
        let [rows, columns, depth] = self.extent;
        Bounds { rows: [0, rows], columns: [0, columns], channels: [0, depth] }
    }

    /// The bytes of a box, tile by tile: the finest unit is a whole pixel or a whole brick.
    fn tiles_of<'a>(&'a self, bounds: &'a Bounds) -> impl Iterator<Item = Rectangle> + 'a {
        let [height, width] = [self.tiles[0], self.tiles[2]];
        // What does not wrap has one tile.
        let across = if bounds.columns[1] > width { 2 } else { 1 };
        let down = if bounds.rows[1] > height { 2 } else { 1 };
        (0..down).flat_map(move |below| (0..across).map(move |right| (below == 1, right == 1))).filter_map(
            move |(below, right)| {
                let (rows, columns) = (cut(bounds.rows, height, below), cut(bounds.columns, width, right));
                let base = self.bases[2 * usize::from(below) + usize::from(right)];
                (rows[0] < rows[1] && columns[0] < columns[1])
                    .then(|| self.rectangle(base, rows, columns, bounds.channels))
            },
        )
    }

    /// The bytes of rows and columns of the tile that begins at `base`.
    fn rectangle(&self, base: u64, rows: [u64; 2], columns: [u64; 2], channels: [u64; 2]) -> Rectangle {
        let ([stride, column_bytes, brick_bytes], depth) = (self.strides, self.extent[2]);
        let start = base + rows[0] * stride + columns[0] * column_bytes;
        // From the first pixel of a row to its last.
        let across = (columns[1] - columns[0] - 1) * column_bytes;
        // Rows that all are one are the same bytes again.
        let rows = if stride == 0 { 1 } else { rows[1] - rows[0] };
        match self.layout {
            Layout::Nhwc => {
                let bytes = across + depth * self.element_bytes;
                Rectangle { start, rows, stride, runs: 1, pitch: 0, bytes, last_bytes: bytes }
            }
            Layout::Nhcwb16 => {
                let (low, high) = (channels[0] / BRICK, channels[1].min(depth).div_ceil(BRICK));
                let bytes = across + BRICK * self.element_bytes;
                let missing = (high * BRICK).saturating_sub(depth) * self.element_bytes;
                let (start, runs) = (start + low * brick_bytes, high.saturating_sub(low));
                Rectangle { start, rows, stride, runs, pitch: brick_bytes, bytes, last_bytes: bytes - missing }
            }
        }
    }

    /// Whether a box of this one and a box of another may share a byte. Within equal pixels boxes
    /// are distinguished by their channels, where rows are whole pixels apart.
    pub fn meets(&self, bounds: &Bounds, other: &Surface, others: &Bounds) -> bool {
        if self.layout == Layout::Nhwc && other.layout == Layout::Nhwc {
            let phase = |surface: &Surface| {
                let [row, pixel, _] = surface.strides;
                // Columns that all are one have no pixels of their own.
                (row.checked_rem(pixel) == Some(0)).then(|| (surface.bases[0] % pixel, pixel))
            };
            let apart = bounds.channels[1] <= others.channels[0] || others.channels[1] <= bounds.channels[0];
            if apart && phase(self).is_some() && phase(self) == phase(other) {
                return false;
            }
        }
        self.tiles_of(bounds).any(|a| other.tiles_of(others).any(|b| a.meets(&b)))
    }
}

/// Rows or columns of a box in the first tile, or in the one behind its `size`, counted from the tile's own corner.
fn cut([start, end]: [u64; 2], size: u64, behind: bool) -> [u64; 2] {
    if behind {
        [start.max(size) - size, end.max(size) - size]
    } else {
        [start.min(size), end.min(size)]
    }
}

/// A box of a surface, half-open.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Rows.
    pub rows: [u64; 2],
    /// Columns.
    pub columns: [u64; 2],
    /// Channels; they may reach beyond the surface's own.
    pub channels: [u64; 2],
}

/// Rows of bytes, each of runs that are equally long except for the last one.
#[derive(Debug)]
struct Rectangle {
    /// First byte.
    start: u64,
    rows: u64,
    /// Bytes from row to row.
    stride: u64,
    /// Runs of a row: one, or one of each brick.
    runs: u64,
    /// Bytes from run to run.
    pitch: u64,
    /// Bytes of a run, and of the last one.
    bytes: u64,
    last_bytes: u64,
}

impl Rectangle {
    /// A run of the first row.
    fn run(&self, index: u64) -> ByteRange {
        let begin = self.start + index * self.pitch;
        (begin, begin + if index + 1 == self.runs { self.last_bytes } else { self.bytes })
    }

    /// From the first byte to the last.
    fn bounds(&self) -> ByteRange {
        match self.runs.checked_sub(1) {
            Some(last) => (self.start, self.run(last).1 + (self.rows - 1) * self.stride),
            None => (self.start, self.start),
        }
    }

    fn meets(&self, other: &Rectangle) -> bool {
        let ((start, end), (from, to)) = (self.bounds(), other.bounds());
        if end <= from || to <= start {
            return false;
        }
        let pairs = || {
            (0..self.runs).flat_map(|a| (0..other.runs).map(move |b| (a, b))).map(|(a, b)| (self.run(a), other.run(b)))
        };
        if self.stride == other.stride {
            return pairs().any(|(a, b)| rows_meet(a, self.rows, b, other.rows, self.stride));
        }
        (0..self.rows)
            .map(|row| row * self.stride)
            .any(|down| pairs().any(|(a, b)| rows_meet((a.0 + down, a.1 + down), 1, b, other.rows, other.stride)))
    }
}

/// Whether one of `rows` repetitions of a range, `stride` bytes apart, shares a byte with one of another range.
fn rows_meet(a: ByteRange, rows: u64, b: ByteRange, others: u64, stride: u64) -> bool {
    let [start, end, from, to, stride] = [a.0, a.1, b.0, b.1, stride.max(1)].map(|bytes| bytes as i64);
    // The first row of `a`, counted from that of `b`, whose end is behind the beginning of `b`.
    let first = ((from - end).div_euclid(stride) + 1).max(1 - others as i64);
    first < rows as i64 && start + first * stride < to
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ids::BufferId;
    use crate::stripe::{Region, Span};

    fn surface(rows: (i64, i64), channels: [i64; 2]) -> Surface {
        let region = Region { spans: [Span::new(rows.0, rows.1), Span::new(0, 4)] };
        let view = View { buffer: BufferId(0), region, origin: [0, 0], capacity: [4, 4], in_rows: true };
        Surface::new(&view, 1000, (8, Layout::Nhwc), Element::INT8, channels)
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
    fn channels_that_begin_elsewhere_in_a_pixel_are_told_apart_in_bricks_alone() {
        let at = |layout, first| {
            let region = Region { spans: [Span::new(0, 1), Span::new(0, 1)] };
            let view = View { buffer: BufferId(0), region, origin: [0, 0], capacity: [1, 1], in_rows: true };
            Surface::new(&view, 0, (32, layout), Element::INT8, [first, first + 16])
        };
        let whole = Bounds { rows: [0, 1], columns: [0, 1], channels: [0, 16] };
        let meets = |a: Surface, b: Surface| a.meets(&whole, &b, &whole);
        assert!(meets(at(Layout::Nhwc, 0), at(Layout::Nhwc, 8)));
        assert!(!meets(at(Layout::Nhcwb16, 0), at(Layout::Nhcwb16, 16)));
        assert!(meets(at(Layout::Nhcwb16, 16), at(Layout::Nhcwb16, 16)));
    }

    #[test]
    fn what_is_read_again_and_again_is_met_where_it_lies() {
        let spans = [Span::new(0, 4), Span::new(0, 4)];
        let view =
            View { buffer: BufferId(0), region: Region { spans }, origin: [0, 0], capacity: [4, 4], in_rows: true };
        let repeated = |strides| Surface::strided(&view, 1000, strides, Element::INT8, [0, 8]);
        let all = Bounds { rows: [0, 4], columns: [0, 4], channels: [0, 8] };
        for (strides, end) in [([0, 0], 1008), ([0, 8], 1032), ([8, 0], 1032)] {
            assert_eq!(repeated(strides).ranges().as_slice(), [(1000, end)]);
            for place in 990..1040 {
                let one = Bounds { rows: [0, 1], columns: [0, 1], channels: [8, 9] };
                let written = Surface::strided(&view, place, [4, 1], Element::INT8, [0, 1]);
                let meets = (1000..end).contains(&place);
                assert_eq!(repeated(strides).meets(&all, &written, &one), meets, "{strides:?} {place}");
                assert_eq!(written.meets(&one, &repeated(strides), &all), meets, "{strides:?} {place}");
            }
        }
    }

    /// A view of a buffer of one of two shapes, its place, and a box of it.
    fn boxes() -> impl Strategy<Value = (Surface, Bounds)> {
        let view = ((1i64..6, 1i64..6), (0i64..9, 0i64..9), (1i64..9, 1i64..9), 0u64..200, any::<bool>());
        let inside = [0u64..8, 0..8, 0..40, 1..8, 1..8, 1..40];
        let bits = prop_oneof![Just(8u32), Just(16), Just(32)];
        (view, inside, bits).prop_map(|((capacity, start, size, offset, bricks), inside, bits)| {
            let element = Element { bits, signed: true };
            let spans = [(start.0, size.0.min(capacity.0)), (start.1, size.1.min(capacity.1))];
            let region = Region { spans: spans.map(|(start, len)| Span::new(start, start + len)) };
            let view =
                View { buffer: BufferId(0), region, origin: [0, 0], capacity: [capacity.0, capacity.1], in_rows: true };
            let layout = if bricks { Layout::Nhcwb16 } else { Layout::Nhwc };
            let surface = Surface::new(&view, offset, (32 * element.bytes() as u64, layout), element, [0, 32]);
            let [rows, columns, depth] = surface.extent;
            let within = |from: u64, len: u64, extent: u64| {
                let from = from.min(extent - 1);
                [from, (from + len).min(extent)]
            };
            let bounds = Bounds {
                rows: within(inside[0], inside[3], rows),
                columns: within(inside[1], inside[4], columns),
                channels: within(inside[2], inside[5], depth),
            };
            (surface, bounds)
        })
    }

    /// Every byte of a box.
    fn bytes((surface, bounds): &(Surface, Bounds)) -> std::collections::BTreeSet<u64> {
        let channels = match surface.layout {
            Layout::Nhwc => 0..surface.extent[2],
            Layout::Nhcwb16 => bounds.channels[0] / 16 * 16..bounds.channels[1].div_ceil(16) * 16,
        };
        let mut found = std::collections::BTreeSet::new();
        for row in bounds.rows[0]..bounds.rows[1] {
            for column in bounds.columns[0]..bounds.columns[1] {
                let (below, right) = (row >= surface.tiles[0], column >= surface.tiles[2]);
                let tile = 2 * usize::from(below) + usize::from(right);
                let y = row - if below { surface.tiles[0] } else { 0 };
                let x = column - if right { surface.tiles[2] } else { 0 };
                let pixel = surface.bases[tile] + y * surface.strides[0] + x * surface.strides[1];
                for channel in channels.clone() {
                    let element = match surface.layout {
                        Layout::Nhwc => pixel + channel * surface.element_bytes,
                        Layout::Nhcwb16 => {
                            pixel + channel / 16 * surface.strides[2] + channel % 16 * surface.element_bytes
                        }
                    };
                    found.extend(element..element + surface.element_bytes);
                }
            }
        }
        found
    }

    /// A tensor of `a` x `b` x `c` bytes that lies whole at 300, two of its axes seen as rows and columns; channels are the
    /// third one where that is the last, else one of them. And a box of it.
    fn turned() -> impl Strategy<Value = (Surface, Bounds)> {
        let orders = prop::sample::select(vec![[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 0, 1], [1, 2, 0], [2, 1, 0]]);
        let extents = [1i64..6, 1..6, 1..6];
        (extents, orders, [0i64..6, 0..6, 0..6], [1i64..6, 1..6, 1..6]).prop_map(|(extents, order, from, len)| {
            let [_, b, c] = extents;
            let strides = [b * c, c, 1];
            let [rows, columns, rest] = order;
            let first = from[2] % extents[rest];
            let channels = if rest == 2 { [0, c] } else { [first * strides[rest], first * strides[rest] + 1] };
            let plane = [extents[rows], extents[columns]];
            let region = Region { spans: plane.map(|extent| Span::new(0, extent)) };
            let view = View { buffer: BufferId(0), region, origin: [0, 0], capacity: plane, in_rows: false };
            let apart = [rows, columns].map(|axis| strides[axis] as u64);
            let surface = Surface::strided(&view, 300, apart, Element::INT8, channels);
            let [row, column, _] = [0, 1, 2].map(|axis| {
                let extent = surface.extent[axis] as i64;
                let start = from[axis] % extent;
                [start as u64, (start + len[axis]).min(extent) as u64]
            });
            (surface, Bounds { rows: row, columns: column, channels: [0, surface.extent[2]] })
        })
    }

    /// Bytes of the channels of a box that lies pixel by pixel in one tile.
    fn elements((surface, bounds): &(Surface, Bounds)) -> std::collections::BTreeSet<u64> {
        let [rows, columns, channels] = [bounds.rows, bounds.columns, bounds.channels].map(|[start, end]| start..end);
        let pixels = rows.flat_map(|row| columns.clone().map(move |column| (row, column)));
        pixels
            .flat_map(|(row, column)| {
                let first = surface.bases[0] + row * surface.strides[0] + column * surface.strides[1];
                channels.clone().map(move |channel| first + channel * surface.element_bytes)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn what_is_read_in_another_order_meets_all_that_it_shares_a_byte_with(
            a in turned(), b in turned(), shift in 0u64..20, some in [0u64..6, 1..6]
        ) {
            let (surface, mut bounds) = b;
            let bases = [surface.bases[0] + shift, 0, 0, 0];
            bounds.channels = [some[0].min(surface.extent[2] - 1), (some[0] + some[1]).min(surface.extent[2])];
            let b = (Surface { bases, ..surface }, bounds);
            if elements(&a).intersection(&elements(&b)).next().is_some() {
                prop_assert!(a.0.meets(&a.1, &b.0, &b.1));
                prop_assert!(b.0.meets(&b.1, &a.0, &a.1));
            }
            for (surface, bounds) in [&a, &b] {
                let (first, end) = surface.bounds();
                prop_assert!(elements(&(*surface, *bounds)).iter().all(|byte| (first..end).contains(byte)));
            }
        }

        #[test]
        fn boxes_meet_where_they_share_a_byte(a in boxes(), b in boxes()) {
            let same_pixels = a.0.layout == Layout::Nhwc
                && b.0.layout == Layout::Nhwc
                && a.0.strides[1] == b.0.strides[1]
                && a.0.bases[0] % a.0.strides[1] == b.0.bases[0] % b.0.strides[1]
                && (a.1.channels[1] <= b.1.channels[0] || b.1.channels[1] <= a.1.channels[0]);
            let shared = !same_pixels && bytes(&a).intersection(&bytes(&b)).next().is_some();
            // A row of pixels is taken whole, of bricks from the first column to the last: what lies between belongs to them.
            prop_assert_eq!(a.0.meets(&a.1, &b.0, &b.1), shared);
            prop_assert_eq!(b.0.meets(&b.1, &a.0, &a.1), shared);
        }
    }
}
