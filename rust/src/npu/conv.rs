//! Convolution and depthwise convolution. Owns the sums of products; exact, and fast where the operands are 16 bits
//! after the zero point: plain loops over `i16 * i16 -> i32` that compilers turn into multiply-add vectors.

use std::sync::Arc;

use super::context::Context;
use super::error::Fault;
use super::feature_map::Value;
use super::operation::{Kernel, KernelKind};
use super::output::OutputStage;
use super::weight_order::WeightGeometry;
use super::weights::{scale_record, ChannelScale, SCALE_RECORD_BYTES};
use super::window::Rows;
use crate::util::interrupt;

/// Greatest magnitude of a weight.
const WEIGHT_MAX: u64 = 255;
/// IFM elements gathered at a time for convolution, so that they stay in the first-level cache.
const PATCH_ELEMENTS: usize = 1 << 14;

/// IFM element after the zero point.
trait Operand: Value {
    fn widen(self) -> i32;
}

impl Operand for i16 {
    #[inline(always)]
    fn widen(self) -> i32 {
        i32::from(self)
    }
}

impl Operand for i32 {
    #[inline(always)]
    fn widen(self) -> i32 {
        self
    }
}

/// Weights of the output channels `first`, `first + step`, ...: one core's share.
struct Part {
    weights: Arc<Vec<i16>>,
    first: usize,
    step: usize,
    count: usize,
}

/// Greatest magnitude of the IFM's values after the zero point, and whether they fit 16 bits.
fn magnitude(kernel: &Kernel) -> (u64, bool) {
    let zero = i64::from(kernel.ifm.zero_point);
    let (low, high) = (kernel.ifm.element.min() - zero, kernel.ifm.element.max() - zero);
    let narrow = low >= i64::from(i16::MIN) && high <= i64::from(i16::MAX);
    (low.unsigned_abs().max(high.unsigned_abs()), narrow)
}

/// Runs a convolution or depthwise convolution.
///
/// # Errors
/// Faults of memory, weights, scales and the output stage.
pub fn execute(kernel: &Kernel, context: &mut Context) -> Result<(), Fault> {
    let depth = kernel.ofm.depth as usize;
    let parts = read_weights(kernel, context)?;
    let scales = read_scales(kernel, context)?;
    let (magnitude, narrow) = magnitude(kernel);
    let mut finisher = Finisher {
        stage: OutputStage::new(kernel, context.memory, context.accelerator)?,
        scales,
        accumulator_bits: kernel.accumulator_bits,
        overflow: false,
        row: vec![0; kernel.ofm.row_elements()],
    };
    // Sums of this many products fit 32 bits.
    let exact = ((i32::MAX as u64) / (magnitude.max(1) * WEIGHT_MAX)) as usize;
    if kernel.kind == KernelKind::Conv {
        if narrow {
            convolve::<i16>(kernel, context, &parts, exact, &mut finisher)?;
        } else {
            convolve::<i32>(kernel, context, &parts, exact, &mut finisher)?;
        }
    } else {
        let taps = (kernel.window.height * kernel.window.width) as usize;
        let weights = merge_depthwise(&parts, taps, depth);
        if narrow && taps <= exact {
            depthwise::<i16, i32>(kernel, context, &weights, &mut finisher)?;
        } else {
            depthwise::<i32, i64>(kernel, context, &weights, &mut finisher)?;
        }
    }
    finisher.report(kernel, context);
    Ok(())
}

/// Channels of core `core` out of `cores`.
fn core_channels(depth: usize, core: usize, cores: usize) -> usize {
    (depth + cores - 1 - core) / cores
}

fn read_weights(kernel: &Kernel, context: &mut Context) -> Result<Vec<Part>, Fault> {
    let cores = kernel.weights.len();
    let depthwise = kernel.kind == KernelKind::Depthwise;
    let mut parts = Vec::with_capacity(cores);
    for (core, stream) in kernel.weights.iter().enumerate() {
        let count = core_channels(kernel.ofm.depth as usize, core, cores);
        let geometry = WeightGeometry {
            ofm_depth: count as u32,
            ifm_depth: if depthwise { 1 } else { kernel.ifm.depth },
            kernel_height: kernel.window.height,
            kernel_width: kernel.window.width,
            dilation_y: kernel.window.dilation_y,
            dilation_x: kernel.window.dilation_x,
            block_depth: core_channels(kernel.block.depth as usize, core, cores) as u32,
            ofm_micro_depth: context.accelerator.micro_block[2],
            ifm_micro_depth: context.accelerator.ifm_micro_depth,
            depthwise,
            part_kernel: kernel.part_kernel,
            ifm_16bit: kernel.ifm.element.bits == 16,
            sub_kernel: if kernel.small_sub_kernels { 4 } else { 8 },
        };
        let encoded = context.memory.read("weights", stream.region, stream.base, stream.length)?;
        let weights = context.weights.weights(geometry, encoded)?;
        parts.push(Part { weights, first: core, step: cores, count });
    }
    Ok(parts)
}

fn read_scales(kernel: &Kernel, context: &mut Context) -> Result<Vec<ChannelScale>, Fault> {
    let (depth, cores) = (kernel.ofm.depth as usize, kernel.scales.len());
    let unset = ChannelScale { bias: 0, scale: super::arithmetic::Scale::UNIT };
    let mut scales = vec![unset; depth];
    for (core, stream) in kernel.scales.iter().enumerate() {
        let count = core_channels(depth, core, cores);
        let needed = (count * SCALE_RECORD_BYTES).next_multiple_of(16);
        if stream.length < needed {
            let (value, allowed) = (stream.length as i64, "10 bytes per output channel, rounded up to 16");
            return Err(Fault::Range { register: "SCALE_LENGTH", value, allowed });
        }
        let bytes = context.memory.read("scales", stream.region, stream.base, count * SCALE_RECORD_BYTES)?;
        for (i, record) in bytes.chunks_exact(SCALE_RECORD_BYTES).enumerate() {
            let mut fixed = [0; SCALE_RECORD_BYTES];
            fixed.copy_from_slice(record);
            scales[core + i * cores] = scale_record(&fixed)?;
        }
        context.memory.touch("scales", stream.region, stream.base, stream.length)?;
    }
    Ok(scales)
}

/// Adds biases, scales and stores rows; remembers whether an output depends on what an accumulator cannot hold.
struct Finisher {
    stage: OutputStage,
    scales: Vec<ChannelScale>,
    accumulator_bits: u32,
    overflow: bool,
    row: Vec<i32>,
}

impl Finisher {
    /// Finishes the sums of whole pixels, the first one at column `column`.
    fn pixels<A: Copy + Into<i64>>(&mut self, column: usize, sums: &[A]) {
        let depth = self.scales.len();
        for (i, pixel) in sums.chunks_exact(depth).enumerate() {
            let out = &mut self.row[(column + i) * depth..][..depth];
            for ((o, sum), scale) in out.iter_mut().zip(pixel).zip(&self.scales) {
                let acc: i64 = (*sum).into() + scale.bias;
                *o = self.stage.scaled(acc, scale.scale);
                self.overflow |= self.stage.depends_on_overflow(acc, scale.scale, self.accumulator_bits);
            }
        }
    }

    fn report(&self, kernel: &Kernel, context: &mut Context) {
        if self.overflow {
            context.findings.accumulator_overflow(kernel.accumulator_bits);
        }
        if self.stage.saturated {
            context.findings.saturation();
        }
    }
}

fn convolve<T: Operand>(
    kernel: &Kernel,
    context: &mut Context,
    parts: &[Part],
    exact: usize,
    finisher: &mut Finisher,
) -> Result<(), Fault> {
    let (window, depth) = (&kernel.window, kernel.ifm.depth as usize);
    let volume = (window.height * window.width) as usize * depth;
    let (width, channels) = (kernel.ofm.width as usize, kernel.ofm.depth as usize);
    let tile = (PATCH_ELEMENTS / volume).clamp(1, width);
    let direct = window.height == 1 && window.width == 1 && window.stride_x == 1;
    let mut rows = Rows::<T>::new(kernel)?;
    let mut patches = vec![T::default(); if direct { 0 } else { tile * volume }];
    let mut sums = vec![0i64; tile * channels];
    for y in 0..kernel.ofm.height {
        rows.advance(context.memory, y)?;
        for column in (0..width).step_by(tile) {
            interrupt::ask();
            let count = tile.min(width - column);
            let inputs = if direct {
                &rows.row(y, 0)[column * volume..][..count * volume]
            } else {
                gather(kernel, &rows, y, column, &mut patches[..count * volume]);
                &patches[..count * volume]
            };
            let sums = &mut sums[..count * channels];
            for part in parts {
                multiply(inputs, volume, part, exact, channels, sums);
            }
            finisher.pixels(column, sums);
        }
        kernel.ofm.write_row(context.memory, y, &finisher.row)?;
    }
    Ok(())
}

/// Copies the windows of consecutive output columns into dense patches `[ky][kx][channel]`.
fn gather<T: Operand>(kernel: &Kernel, rows: &Rows<T>, y: u32, column: usize, patches: &mut [T]) {
    let (window, depth) = (&kernel.window, kernel.ifm.depth as usize);
    let line = window.width as usize * depth;
    for ky in 0..window.height {
        let row = rows.row(y, ky);
        for (i, patch) in patches.chunks_exact_mut(window.height as usize * line).enumerate() {
            let start = (column + i) * window.stride_x as usize * depth;
            let out = &mut patch[ky as usize * line..][..line];
            if window.dilation_x == 1 {
                out.copy_from_slice(&row[start..start + line]);
            } else {
                for (kx, pixel) in out.chunks_exact_mut(depth).enumerate() {
                    pixel.copy_from_slice(&row[start + kx * window.dilation_x as usize * depth..][..depth]);
                }
            }
        }
    }
}

/// `sums[pixel][channel]` of one core: each patch times each channel's weights. `exact` products fit 32 bits.
fn multiply<T: Operand>(inputs: &[T], volume: usize, part: &Part, exact: usize, channels: usize, sums: &mut [i64]) {
    let mut rows = part.weights.chunks_exact(volume.max(1)).take(part.count);
    let mut channel = part.first;
    while let Some(first) = rows.next() {
        // Four channels at a time load every input once for four products; missing ones repeat the first.
        let mut four = [first; 4];
        let mut used = 1;
        for (slot, weights) in four[1..].iter_mut().zip(rows.by_ref().take(3)) {
            *slot = weights;
            used += 1;
        }
        for (patch, sums) in inputs.chunks_exact(volume).zip(sums.chunks_exact_mut(channels)) {
            let dots = if volume <= exact { dot4(patch, four).map(i64::from) } else { long_dot4(patch, four, exact) };
            for (i, dot) in dots.into_iter().take(used).enumerate() {
                sums[channel + i * part.step] = dot;
            }
        }
        channel += used * part.step;
    }
}

/// Four dot products in 32 bits, which the caller knows to be enough.
#[inline(always)]
fn dot4<T: Operand>(a: &[T], w: [&[i16]; 4]) -> [i32; 4] {
    let n = a.len();
    let [w0, w1, w2, w3] = w.map(|w| &w[..n]);
    let mut sums = [0i32; 4];
    for i in 0..n {
        let value = a[i].widen();
        sums[0] = sums[0].wrapping_add(value.wrapping_mul(i32::from(w0[i])));
        sums[1] = sums[1].wrapping_add(value.wrapping_mul(i32::from(w1[i])));
        sums[2] = sums[2].wrapping_add(value.wrapping_mul(i32::from(w2[i])));
        sums[3] = sums[3].wrapping_add(value.wrapping_mul(i32::from(w3[i])));
    }
    sums
}

/// As [`dot4`] for sums that need 64 bits: in pieces of `exact` products.
fn long_dot4<T: Operand>(a: &[T], w: [&[i16]; 4], exact: usize) -> [i64; 4] {
    let mut sums = [0i64; 4];
    let step = exact.max(1);
    for start in (0..a.len()).step_by(step) {
        let end = (start + step).min(a.len());
        let piece = dot4(&a[start..end], w.map(|w| &w[start..end]));
        for (sum, piece) in sums.iter_mut().zip(piece) {
            *sum += i64::from(piece);
        }
    }
    sums
}

/// Depthwise weights of all cores as `[tap][channel]`.
fn merge_depthwise(parts: &[Part], taps: usize, depth: usize) -> Arc<Vec<i16>> {
    if let [only] = parts {
        return Arc::clone(&only.weights);
    }
    let mut merged = vec![0; taps * depth];
    for part in parts.iter().filter(|part| part.count > 0) {
        for (tap, weights) in part.weights.chunks_exact(part.count).enumerate() {
            for (i, weight) in weights.iter().enumerate() {
                merged[tap * depth + part.first + i * part.step] = *weight;
            }
        }
    }
    Arc::new(merged)
}

/// Accumulator of depthwise sums.
trait Accumulator: Copy + Default + Into<i64> {
    fn add_product(&mut self, value: i32, weight: i16);
}

impl Accumulator for i32 {
    #[inline(always)]
    fn add_product(&mut self, value: i32, weight: i16) {
        *self = self.wrapping_add(value.wrapping_mul(i32::from(weight)));
    }
}

impl Accumulator for i64 {
    #[inline(always)]
    fn add_product(&mut self, value: i32, weight: i16) {
        *self = self.wrapping_add(i64::from(value) * i64::from(weight));
    }
}

fn depthwise<T: Operand, A: Accumulator>(
    kernel: &Kernel,
    context: &mut Context,
    weights: &[i16],
    finisher: &mut Finisher,
) -> Result<(), Fault> {
    let (window, depth) = (&kernel.window, kernel.ofm.depth as usize);
    let mut rows = Rows::<T>::new(kernel)?;
    let mut sums = vec![A::default(); depth];
    for y in 0..kernel.ofm.height {
        rows.advance(context.memory, y)?;
        for x in 0..kernel.ofm.width as usize {
            interrupt::ask();
            sums.fill(A::default());
            for (tap, weights) in weights.chunks_exact(depth).enumerate() {
                let (ky, kx) = (tap as u32 / window.width, tap as u32 % window.width);
                let column = x * window.stride_x as usize + (kx * window.dilation_x) as usize;
                let pixel = &rows.row(y, ky)[column * depth..][..depth];
                for ((sum, value), weight) in sums.iter_mut().zip(pixel).zip(weights) {
                    sum.add_product(value.widen(), *weight);
                }
            }
            finisher.pixels(x, &sums);
        }
        kernel.ofm.write_row(context.memory, y, &finisher.row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn four_dots_are_four_sums(a in proptest::collection::vec(-300i16..300, 1..70), exact in 1usize..80, seed: u32) {
            let weight = |i: usize| (seed.wrapping_mul(2_654_435_761).wrapping_add(i as u32 * 40503) >> 8) as i32 % 256;
            let rows: Vec<Vec<i16>> = (0..4).map(|r| (0..a.len()).map(|i| weight(i * 4 + r) as i16).collect()).collect();
            let four = [&rows[0][..], &rows[1], &rows[2], &rows[3]];
            let want = four.map(|w| w.iter().zip(&a).map(|(&w, &a)| i64::from(w) * i64::from(a)).sum::<i64>());
            prop_assert_eq!(dot4(&a, four).map(i64::from), want);
            prop_assert_eq!(long_dot4(&a, four, exact), want);
        }
    }

    #[test]
    fn cores_share_channels() {
        assert_eq!([core_channels(7, 0, 2), core_channels(7, 1, 2), core_channels(1, 1, 2)], [4, 3, 0]);
    }
}
