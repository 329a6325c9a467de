//! Maximum, average and depth-sum pooling. Owns the sums and maxima over windows.

use super::arithmetic::{reciprocal, scale_round, Scale, OUTPUT_FIRST_STAGE};
use super::context::Context;
use super::error::Fault;
use super::operation::{Kernel, KernelKind};
use super::output::OutputStage;
use super::window::Rows;
use crate::util::interrupt;

/// Runs a pooling kernel.
///
/// # Errors
/// Faults of memory and the output stage; [`Fault::Invalid`] for a window that lies in the padding altogether.
pub fn execute(kernel: &Kernel, context: &mut Context) -> Result<(), Fault> {
    let mut stage = OutputStage::new(kernel, context.memory, context.accelerator)?;
    if kernel.kind == KernelKind::ReduceSum {
        reduce_sum(kernel, context, &mut stage)?;
    } else {
        pool(kernel, context, &mut stage)?;
    }
    if stage.saturated {
        context.findings.saturation();
    }
    Ok(())
}

fn pool(kernel: &Kernel, context: &mut Context, stage: &mut OutputStage) -> Result<(), Fault> {
    let (depth, width) = (kernel.ofm.depth as usize, kernel.ofm.width);
    let maximum = kernel.kind == KernelKind::MaxPool;
    // With padding the hardware divides each window by its own number of elements, whatever scale is set.
    let global = kernel.scale.filter(|_| !kernel.window.is_padded());
    let mut rows = Rows::<i32>::new(kernel)?;
    let mut values = vec![0i64; depth];
    let mut out = vec![0i32; kernel.ofm.row_elements()];
    for y in 0..kernel.ofm.height {
        rows.advance(context.memory, y)?;
        for x in 0..width {
            interrupt::ask();
            values.fill(if maximum { i64::MIN } else { 0 });
            let count = window(kernel, &rows, y, x, &mut values);
            if count == 0 {
                return Err(Fault::Invalid { what: "a pooling window covers nothing but padding" });
            }
            let scale = if maximum { Scale::UNIT } else { global.unwrap_or_else(|| reciprocal(count)) };
            let out = &mut out[x as usize * depth..][..depth];
            for (o, value) in out.iter_mut().zip(&values) {
                *o = stage.finish(scale_round(*value, scale, OUTPUT_FIRST_STAGE, stage.rounding));
            }
        }
        kernel.ofm.write_row(context.memory, y, &out)?;
    }
    Ok(())
}

/// Folds the data of the window of output pixel (y, x) into `values` per channel; returns the number of elements.
fn window(kernel: &Kernel, rows: &Rows<i32>, y: u32, x: u32, values: &mut [i64]) -> u32 {
    let (w, depth) = (&kernel.window, values.len());
    let (valid_rows, valid_columns) = (rows.valid_rows(y), rows.valid_columns(x));
    for ky in valid_rows.clone() {
        let row = rows.row(y, ky);
        for kx in valid_columns.clone() {
            let column = (x * w.stride_x + kx * w.dilation_x) as usize;
            let pixel = &row[column * depth..][..depth];
            if kernel.kind == KernelKind::MaxPool {
                values.iter_mut().zip(pixel).for_each(|(v, p)| *v = (*v).max(i64::from(*p)));
            } else {
                values.iter_mut().zip(pixel).for_each(|(v, p)| *v += i64::from(*p));
            }
        }
    }
    (valid_rows.len() * valid_columns.len()) as u32
}

fn reduce_sum(kernel: &Kernel, context: &mut Context, stage: &mut OutputStage) -> Result<(), Fault> {
    let (w, depth) = (&kernel.window, kernel.ifm.depth as usize);
    let scale = kernel.scale.unwrap_or(Scale::UNIT);
    let mut overflow = false;
    let mut rows = Rows::<i64>::new(kernel)?;
    let mut out = vec![0i32; kernel.ofm.row_elements()];
    for y in 0..kernel.ofm.height {
        rows.advance(context.memory, y)?;
        for (x, o) in out.iter_mut().enumerate() {
            interrupt::ask();
            let mut sum = 0i64;
            for ky in 0..w.height {
                for kx in 0..w.width {
                    let column = x * w.stride_x as usize + (kx * w.dilation_x) as usize;
                    sum += rows.row(y, ky)[column * depth..][..depth].iter().sum::<i64>();
                }
            }
            *o = stage.scaled(sum, scale);
            overflow |= stage.depends_on_overflow(sum, scale, kernel.accumulator_bits);
        }
        kernel.ofm.write_row(context.memory, y, &out)?;
    }
    if overflow {
        context.findings.accumulator_overflow(kernel.accumulator_bits);
    }
    Ok(())
}
