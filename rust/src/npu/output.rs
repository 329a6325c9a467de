//! The end of every kernel: scale, zero point, clamp, function or table, and the value that is stored.
//! Owns tables once they are in SHRAM; which scale an accumulator takes is the kernels' business.

use super::accelerator::{Accelerator, LUT_BYTES};
use super::arithmetic::{scale_round, Rounding, Scale, OUTPUT_FIRST_STAGE};
use super::error::Fault;
use super::memory::Memory;
use super::operation::{Function, Kernel};
use super::sigmoid;

/// What happens after scaling.
enum Finish {
    /// Zero point and clamp.
    Clamp,
    /// 32 bits as they are.
    Raw,
    /// Hyperbolic tangent of the unclamped value, then clamp: the legacy core's LSTM narrows its gates that way.
    Tanh,
    /// Logistic function of the unclamped value, then clamp.
    Sigmoid,
    /// Clamp, then one entry per value from the lowest of the range.
    Table(Vec<i32>),
    /// Clamp, then base and slope for every 128 values from -32768.
    Slopes(Vec<(i32, i32)>),
}

/// The output stage of one kernel.
pub struct OutputStage {
    /// Rounding that kernels scale with.
    pub rounding: Rounding,
    /// Whether a value did not fit 32 bits.
    pub saturated: bool,
    zero_point: i64,
    low: i64,
    high: i64,
    index_base: i64,
    finish: Finish,
}

impl OutputStage {
    /// Prepares the stage: reads the table from SHRAM if there is one.
    ///
    /// # Errors
    /// [`Fault::Invalid`] or [`Fault::Unsupported`] for combinations of type, function and range without a meaning.
    pub fn new(kernel: &Kernel, memory: &mut Memory, accelerator: &Accelerator) -> Result<OutputStage, Fault> {
        let (ofm, activation) = (&kernel.ofm, &kernel.activation);
        let range = activation.forced_range.unwrap_or(ofm.element);
        let (low, high) = (range.min().max(activation.min), range.max().min(activation.max));
        if low > high {
            return Err(Fault::Invalid { what: "no value is in the activation range and the range of the OFM's type" });
        }
        let sixteen = ofm.element.bits == 16 && ofm.element.signed;
        let finish = match activation.function {
            Function::Clamp if ofm.element.bits == 32 && activation.forced_range.is_none() => Finish::Raw,
            Function::Clamp => Finish::Clamp,
            Function::Tanh if sixteen => Finish::Tanh,
            Function::Sigmoid if sixteen => Finish::Sigmoid,
            Function::Tanh | Function::Sigmoid => {
                return Err(Fault::Unsupported { what: "tanh and sigmoid functions with an OFM other than int16" });
            }
            Function::Table(slot) => table(kernel, range.bits, slot, memory, accelerator)?,
        };
        Ok(OutputStage {
            rounding: kernel.rounding,
            saturated: false,
            zero_point: i64::from(ofm.zero_point),
            low,
            high,
            index_base: range.min(),
            finish,
        })
    }

    /// The value to store for an accumulator that is scaled by `scale`.
    #[inline(always)]
    pub fn scaled(&mut self, accumulator: i64, scale: Scale) -> i32 {
        self.finish(scale_round(accumulator, scale, OUTPUT_FIRST_STAGE, self.rounding))
    }

    /// Whether the stored value depends on what becomes of a sum that `bits` cannot hold: kept, wrapped or saturated.
    ///
    /// No document says which it is. A channel that its scale or its clamp makes constant does not depend on it.
    #[inline(always)]
    pub fn depends_on_overflow(&mut self, sum: i64, scale: Scale, bits: u32) -> bool {
        let limit = 1i64 << (bits - 1);
        (sum < -limit || sum >= limit) && self.overflow_shows(sum, scale, limit)
    }

    #[cold]
    fn overflow_shows(&mut self, sum: i64, scale: Scale, limit: i64) -> bool {
        let saturated = self.saturated;
        let kept = self.scaled(sum, scale);
        let wrapped = self.scaled((sum + limit).rem_euclid(2 * limit) - limit, scale);
        let clamped = self.scaled(sum.clamp(-limit, limit - 1), scale);
        self.saturated = saturated;
        kept != wrapped || kept != clamped
    }

    /// The value to store for a scaled accumulator.
    #[inline(always)]
    pub fn finish(&mut self, scaled: i64) -> i32 {
        match &self.finish {
            Finish::Clamp => self.clamp(scaled) as i32,
            Finish::Raw => {
                let value = scaled.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
                self.saturated |= value != scaled;
                value as i32
            }
            Finish::Tanh => self.narrow(sigmoid::tanh(scaled)),
            Finish::Sigmoid => self.narrow(sigmoid::logistic(scaled)),
            Finish::Table(entries) => entries[(self.clamp(scaled) - self.index_base) as usize],
            Finish::Slopes(entries) => {
                let value = self.clamp(scaled) + 32768;
                let (base, slope) = entries[(value >> 7) as usize];
                base + ((slope * (value & 127) as i32 + 64) >> 7)
            }
        }
    }

    fn narrow(&self, value: i32) -> i32 {
        i64::from(value).clamp(self.low, self.high) as i32
    }

    #[inline(always)]
    fn clamp(&self, scaled: i64) -> i64 {
        scaled.saturating_add(self.zero_point).clamp(self.low, self.high)
    }
}

/// Reads table `slot` for the kernel's OFM type. `index_bits` is the width of the values that look it up.
fn table(
    kernel: &Kernel,
    index_bits: u32,
    slot: u32,
    memory: &mut Memory,
    accelerator: &Accelerator,
) -> Result<Finish, Fault> {
    let (entry_bytes, entries) = match (kernel.ofm.element.bits, index_bits) {
        (8, 8) => (1, 256),
        (16, 16) if kernel.ofm.element.signed => (4, 512),
        (32, 8) => (4, 256),
        _ => return Err(Fault::Unsupported { what: "a look-up table for this OFM type and clip range" }),
    };
    let (offset, len) = (slot as usize * 256, entry_bytes * entries);
    if offset + len > LUT_BYTES {
        return Err(Fault::Invalid { what: "the look-up table does not end in the LUT area" });
    }
    let bytes = memory.read_shram("a look-up table", (accelerator.lut_base() + offset) as i64, len)?;
    let words = || bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    Ok(match (entry_bytes, entries) {
        (1, _) => Finish::Table(bytes.iter().map(|&b| i32::from(b)).collect()),
        (_, 512) => Finish::Slopes(words().map(|w| (i32::from(w as i16), w >> 16)).collect()),
        _ => Finish::Table(words().collect()),
    })
}
