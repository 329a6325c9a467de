//! Elementwise kernels. Owns the functions, operand scaling and broadcast; rows are read before they are written,
//! so that a result may lie in place of an operand.

use super::arithmetic::{round, scale_round, Rounding, Scale, OUTPUT_FIRST_STAGE};
use super::context::Context;
use super::error::Fault;
use super::feature_map::FeatureMap;
use super::operation::{Elementwise, Kernel, Operand2, OperandScaling};
use super::output::OutputStage;
use crate::util::interrupt;

/// Left shift and first rounding stage of operand scaling, by IFM bits.
fn operand_precision(bits: u32) -> (u32, u32) {
    if bits == 8 {
        (19, 11)
    } else {
        (14, 16)
    }
}

/// Everything that one element's arithmetic depends on.
struct Function<'k> {
    function: Elementwise,
    operands: OperandScaling,
    scale: Option<Scale>,
    rounding: Rounding,
    bits: u32,
    kernel: &'k Kernel,
}

/// Runs an elementwise kernel.
///
/// # Errors
/// Faults of memory and the output stage; shifts by less than 0 or more than 63 are faults too.
pub fn execute(kernel: &Kernel, function: Elementwise, context: &mut Context) -> Result<(), Fault> {
    let mut stage = OutputStage::new(kernel, context.memory, context.accelerator)?;
    let arithmetic = Function {
        function,
        operands: kernel.operands,
        scale: kernel.scale,
        rounding: kernel.rounding,
        bits: kernel.ifm.element.bits,
        kernel,
    };
    let mut first = vec![0i64; kernel.ofm.row_elements()];
    let mut second = Second::new(kernel);
    let mut out = vec![0i32; kernel.ofm.row_elements()];
    for y in 0..kernel.ofm.height {
        interrupt::ask();
        kernel.ifm.read_row(context.memory, y, &mut first)?;
        second.load(context, y)?;
        arithmetic.row(&first, &second, &mut stage, &mut out)?;
        kernel.ofm.write_row(context.memory, y, &out)?;
    }
    if stage.saturated {
        context.findings.saturation();
    }
    Ok(())
}

/// The second operand, one row of it, as an index into `values` for every column and channel.
struct Second<'k> {
    map: Option<&'k FeatureMap>,
    values: Vec<i64>,
    column_step: usize,
    channel_step: usize,
}

impl<'k> Second<'k> {
    fn new(kernel: &'k Kernel) -> Second<'k> {
        match &kernel.ifm2 {
            None => Second { map: None, values: vec![0], column_step: 0, channel_step: 0 },
            Some(Operand2::Scalar(value)) => {
                Second { map: None, values: vec![*value], column_step: 0, channel_step: 0 }
            }
            Some(Operand2::Map(map)) => Second {
                map: Some(map),
                values: vec![0; map.row_elements()],
                column_step: if map.width == kernel.ofm.width { map.depth as usize } else { 0 },
                channel_step: usize::from(map.depth == kernel.ofm.depth),
            },
        }
    }

    /// Reads the row that output row `y` needs.
    fn load(&mut self, context: &mut Context, y: u32) -> Result<(), Fault> {
        match self.map {
            Some(map) if y < map.height => map.read_row(context.memory, y, &mut self.values),
            _ => Ok(()),
        }
    }
}

impl Function<'_> {
    fn row(&self, first: &[i64], second: &Second, stage: &mut OutputStage, out: &mut [i32]) -> Result<(), Fault> {
        let depth = self.kernel.ofm.depth as usize;
        let pixels = out.chunks_exact_mut(depth).zip(first.chunks_exact(depth));
        for (x, (out, first)) in pixels.enumerate() {
            for (c, (o, a)) in out.iter_mut().zip(first).enumerate() {
                let b = second.values[x * second.column_step + c * second.channel_step];
                let (a, b) = if self.kernel.swap_operands { (b, *a) } else { (*a, b) };
                *o = stage.finish(self.apply(a, b)?);
            }
        }
        Ok(())
    }

    /// One element, scaled.
    #[inline(always)]
    fn apply(&self, a: i64, b: i64) -> Result<i64, Fault> {
        Ok(match self.function {
            Elementwise::Mul if self.bits == 32 => {
                // Two 33-bit operands: the product of extreme ones needs more than 64 bits.
                let shift = self.scale.map_or(0, |s| s.shift);
                round(i128::from(a) * i128::from(b), shift, OUTPUT_FIRST_STAGE, self.rounding)
            }
            Elementwise::Mul => self.output_scale(a * b),
            Elementwise::Add => self.add(a, b, 1),
            Elementwise::Sub => self.add(a, b, -1),
            Elementwise::Min => a.min(b),
            Elementwise::Max => a.max(b),
            Elementwise::LeakyRelu if a >= 0 => a,
            Elementwise::LeakyRelu => self.output_scale(a),
            Elementwise::Abs => self.output_scale(a.abs()),
            Elementwise::Clz => i64::from((a as u32).leading_zeros()),
            Elementwise::Shl if b >= 32 => 0,
            Elementwise::Shl => i64::from((a as i32).wrapping_shl(amount(b)?)),
            Elementwise::Shr => {
                scale_round(a, Scale { scale: 1, shift: amount(b)? }, OUTPUT_FIRST_STAGE, self.rounding)
            }
        })
    }

    /// The output scale; of 32-bit operands only the shift counts.
    #[inline(always)]
    fn output_scale(&self, value: i64) -> i64 {
        match self.scale {
            None => value,
            Some(scale) if self.bits == 32 => {
                scale_round(value, Scale { scale: 1, ..scale }, OUTPUT_FIRST_STAGE, self.rounding)
            }
            Some(scale) => scale_round(value, scale, OUTPUT_FIRST_STAGE, self.rounding),
        }
    }

    #[inline(always)]
    fn add(&self, a: i64, b: i64, sign: i64) -> i64 {
        let (up, first_stage) = operand_precision(self.bits);
        let (x, y) = match self.operands {
            OperandScaling::None => (a, b),
            OperandScaling::Both(first, second) => (a * i64::from(first), b * i64::from(second)),
            OperandScaling::First(scale, rounding) => (scale_round(a, scale, first_stage, rounding), b << up),
            OperandScaling::Second(scale, rounding) => (a << up, scale_round(b, scale, first_stage, rounding)),
        };
        // Operands have 17 bits before scaling by less than 2^32 (33 bits if unscaled), so no sum overflows.
        self.output_scale(x + sign * y)
    }
}

fn amount(b: i64) -> Result<u32, Fault> {
    if (0..64).contains(&b) {
        Ok(b as u32)
    } else {
        Err(Fault::Unsupported { what: "a shift by less than 0 or more than 63" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_have_a_range() {
        assert_eq!(amount(63), Ok(63));
        assert!(amount(64).is_err() && amount(-1).is_err());
    }
}
