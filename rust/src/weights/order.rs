//! The order in which an Ethos-U wants the weights of an operation. Owns the traversal of blocks, sub-kernels and
//! micro-blocks, and the codes that weights have in a stream; nothing of their compression.

use std::ops::Range;

use super::error::WeightError;
use crate::util::interrupt;

/// The largest magnitude of a weight.
pub const LARGEST_WEIGHT: i32 = 255;
/// Codes that weights can have: the magnitude above a bit for the sign.
pub const CODES: usize = 2 * (LARGEST_WEIGHT as usize + 1);
/// Input channels of a micro-block, on every Ethos-U.
const INPUT_MICRO_DEPTH: usize = 8;
/// The largest side of a sub-kernel, in rows or columns of the input.
const SUB_KERNEL: usize = 8;

/// Everything that the order of a stream depends on. Counts of channels, rows and columns; the kernel is not dilated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Output channels, kernel rows, kernel columns, input channels; of a depthwise kernel one input channel.
    pub shape: [usize; 4],
    /// Output channels of a block, of all cores together.
    pub block_depth: usize,
    /// Output channels of a micro-block.
    pub micro_depth: usize,
    /// Whether each kernel weighs one channel.
    pub depthwise: bool,
    /// Part-kernel-first in place of depth-first.
    pub part_kernel: bool,
    /// Whether the feature map that is weighed has elements of 16 bits.
    pub wide_input: bool,
    /// From row to row and from column to column of the kernel.
    pub dilation: [usize; 2],
    /// Whose stream it is, of how many cores: a core has every so-manieth output channel.
    pub core: [usize; 2],
}

/// Weights as a file has them, less the zero point that they are stored with.
#[derive(Debug, Clone, Copy)]
pub struct Volume<'a> {
    /// In the order of [`Order::shape`].
    pub elements: Elements<'a>,
    /// What stands for 0.
    pub zero_point: i32,
}

/// Elements of a volume by their type.
#[derive(Debug, Clone, Copy)]
pub enum Elements<'a> {
    /// Bytes without a sign.
    Unsigned(&'a [u8]),
    /// Bytes with a sign, in two's complement.
    Signed(&'a [u8]),
    /// Pairs of bytes with a sign, the lower one first.
    Wide(&'a [u8]),
}

impl Volume<'_> {
    fn len(&self) -> usize {
        match self.elements {
            Elements::Unsigned(bytes) | Elements::Signed(bytes) => bytes.len(),
            Elements::Wide(bytes) => bytes.len() / 2,
        }
    }

    /// Whether all weights are in range.
    fn check(&self) -> Result<(), WeightError> {
        let of = |least: i32, most: i32| {
            let mut weights = [least, most].into_iter().map(|value| value.saturating_sub(self.zero_point));
            let beyond = weights.find(|weight| !(-LARGEST_WEIGHT..=LARGEST_WEIGHT).contains(weight));
            beyond.map_or(Ok(()), |weight| Err(WeightError::Weight { weight }))
        };
        match self.elements {
            Elements::Unsigned(bytes) => of(0, 255).or_else(|_| extremes(bytes.iter().map(|&b| b.into()), of)),
            Elements::Signed(bytes) => of(-128, 127).or_else(|_| extremes(bytes.iter().map(|&b| (b as i8).into()), of)),
            Elements::Wide(bytes) => extremes(bytes.chunks_exact(2).map(|pair| wide(pair).into()), of),
        }
    }
}

/// What `of` says of the least and the most of some values.
fn extremes(
    values: impl Iterator<Item = i32> + Clone,
    of: impl Fn(i32, i32) -> Result<(), WeightError>,
) -> Result<(), WeightError> {
    values.clone().min().zip(values.max()).map_or(Ok(()), |(least, most)| of(least, most))
}

#[inline(always)]
fn wide(pair: &[u8]) -> i16 {
    i16::from_le_bytes([pair[0], pair[1]])
}

/// The code of a weight that is in range once the zero point is taken off.
#[inline(always)]
fn code_of(value: i16, zero_point: i16) -> u16 {
    let weight = value.wrapping_sub(zero_point);
    weight.unsigned_abs() << 1 | u16::from(weight < 0)
}

/// A sub-kernel: first row and column, columns, and elements with and without those that fill it up.
struct SubKernel {
    corner: [usize; 2],
    width: usize,
    elements: usize,
    filled: usize,
}

impl Order {
    /// Whether there is such an order, and the volume is one for it.
    ///
    /// # Errors
    /// [`WeightError`] otherwise.
    pub fn check(&self, volume: &Volume<'_>) -> Result<(), WeightError> {
        let ([_, _, _, inputs], found) = (self.shape, volume.len());
        let [core, cores] = self.core;
        let is_order = self.block_depth > 0
            && self.micro_depth > 0
            && self.dilation.iter().all(|step| (1..=2).contains(step))
            && !(self.depthwise && (self.part_kernel || inputs != 1))
            && core < cores;
        if !is_order {
            return Err(WeightError::Order);
        }
        match self.shape.iter().try_fold(1usize, |all, &side| all.checked_mul(side)) {
            Some(all) if all == found => volume.check(),
            _ => Err(WeightError::Volume { shape: self.shape, found }),
        }
    }

    fn input_block(&self) -> usize {
        if self.part_kernel || self.wide_input {
            16
        } else {
            32
        }
    }

    /// Sub-kernels, row by row.
    fn sub_kernels(&self) -> Vec<SubKernel> {
        let [_, height, width, _] = self.shape;
        let [down, across] = self.dilation.map(|step| SUB_KERNEL / step);
        let filled_to = match (self.part_kernel, self.wide_input, self.depthwise) {
            (true, true, _) => 2,
            (true, false, _) | (false, _, true) => 4,
            (false, _, false) => 1,
        };
        let mut found = Vec::new();
        for y in (0..height).step_by(down) {
            for x in (0..width).step_by(across) {
                let width = across.min(width - x);
                let elements = down.min(height - y) * width;
                found.push(SubKernel { corner: [y, x], width, elements, filled: elements.next_multiple_of(filled_to) });
            }
        }
        found
    }

    /// Output channels of this core, and of its blocks.
    fn own_depths(&self) -> [usize; 2] {
        let [core, cores] = self.core;
        [self.shape[0], self.block_depth].map(|depth| (depth + cores - 1 - core) / cores)
    }

    /// First output channels of blocks, and their number: each block holds about `weights` weights.
    pub fn pieces(&self, weights: usize) -> Vec<[usize; 2]> {
        let [outputs, block] = self.own_depths();
        let of_block = block * self.shape[1..].iter().product::<usize>();
        let depth = block * (weights / of_block.max(1)).max(1);
        (0..outputs).step_by(depth.max(1)).map(|first| [first, depth.min(outputs - first)]).collect()
    }

    /// Codes of the weights of a piece in the order of the stream; what fills up is zero.
    ///
    /// Precondition: the order has been checked with the volume.
    pub fn codes(&self, volume: &Volume<'_>, [first, count]: [usize; 2]) -> Vec<u16> {
        let (sub_kernels, [outputs, block]) = (self.sub_kernels(), self.own_depths());
        let volume = self.channels(volume, first..first + count);
        let codes = Vec::with_capacity(volume.len());
        let mut stream = Stream { order: self, volume, first, outputs, codes };
        for output in (first..first + count).step_by(block.max(1)) {
            let depth = block.min(outputs - output);
            for input in (0..self.shape[3]).step_by(self.input_block()) {
                interrupt::ask();
                for sub in &sub_kernels {
                    stream.sub_kernel([output, depth], input, sub);
                }
            }
        }
        stream.codes
    }

    /// Codes of some of this core's output channels, in the order of the volume.
    fn channels(&self, volume: &Volume<'_>, own: Range<usize>) -> Vec<u16> {
        let ([core, cores], length) = (self.core, self.shape[1..].iter().product::<usize>());
        let zero_point = volume.zero_point as i16;
        let mut codes = Vec::with_capacity(own.len() * length);
        for channel in own.map(|channel| channel * cores + core) {
            let span = channel * length..(channel + 1) * length;
            match volume.elements {
                Elements::Unsigned(bytes) => {
                    codes.extend(bytes[span].iter().map(|&byte| code_of(byte.into(), zero_point)));
                }
                Elements::Signed(bytes) => {
                    codes.extend(bytes[span].iter().map(|&byte| code_of((byte as i8).into(), zero_point)));
                }
                Elements::Wide(bytes) => {
                    let pairs = bytes[2 * span.start..2 * span.end].chunks_exact(2);
                    codes.extend(pairs.map(|pair| code_of(wide(pair), zero_point)));
                }
            }
        }
        codes
    }
}

/// A stream in the making.
struct Stream<'a> {
    order: &'a Order,
    /// Codes of the output channels from `first` on, one channel after the other.
    volume: Vec<u16>,
    first: usize,
    outputs: usize,
    codes: Vec<u16>,
}

impl Stream<'_> {
    fn sub_kernel(&mut self, [output, depth]: [usize; 2], input: usize, sub: &SubKernel) {
        let order = self.order;
        let channels = match (order.depthwise, order.part_kernel) {
            (true, _) => 1,
            (false, true) => order.input_block().min(order.shape[3] - input),
            (false, false) => order.input_block(),
        };
        // Part-kernel-first goes through the sub-kernel for each micro-block of inputs, depth-first for all of them.
        let step = if order.part_kernel { INPUT_MICRO_DEPTH } else { channels };
        for inner in (0..channels).step_by(step) {
            for outer in (0..depth).step_by(order.micro_depth) {
                for element in 0..sub.filled {
                    for micro in (inner..inner + step).step_by(INPUT_MICRO_DEPTH) {
                        self.micro_block(output + outer, input + micro, element, sub);
                    }
                }
            }
        }
    }

    /// All output channels of a micro-block, each with its input channels.
    fn micro_block(&mut self, output: usize, input: usize, element: usize, sub: &SubKernel) {
        let order = self.order;
        let [_, height, width, inputs] = order.shape;
        let across = if order.depthwise { 1 } else { INPUT_MICRO_DEPTH };
        let there = if element < sub.elements { across.min(inputs.saturating_sub(input)) } else { 0 };
        let (y, x) = (sub.corner[0] + element / sub.width, sub.corner[1] + element % sub.width);
        let own = self.outputs.min(output + order.micro_depth).saturating_sub(output);
        let place = |own: usize| (((output - self.first + own) * height + y) * width + x) * inputs + input;
        let end = self.codes.len() + order.micro_depth * across;
        match there {
            0 => {}
            // So many are known to be copied when this is compiled.
            INPUT_MICRO_DEPTH => {
                for start in (0..own).map(place) {
                    self.codes.extend_from_slice(&self.volume[start..start + INPUT_MICRO_DEPTH]);
                }
            }
            _ => {
                for start in (0..own).map(place) {
                    self.codes.extend_from_slice(&self.volume[start..start + there]);
                    self.codes.resize(self.codes.len() + across - there, 0);
                }
            }
        }
        self.codes.resize(end, 0);
    }
}
