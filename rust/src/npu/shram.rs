//! Judges whether a kernel's block fits the SHRAM layout that its registers set. Owns the bank arithmetic only:
//! nothing is computed in this SHRAM, so a functional model would not notice a violation.

use super::accelerator::Accelerator;
use super::error::Fault;
use super::operation::{Kernel, KernelKind, Operand2, ShramLayout, Upscale};

/// Bytes of a bank.
pub(super) const BANK_BYTES: u32 = 1024;
/// Banks at the start that hold output buffers.
const OUTPUT_BANKS: u32 = 2;
const SUB_KERNEL: u32 = 8;

/// Checks the layout of a kernel.
///
/// # Errors
/// [`Fault::Shram`] with the rule that does not hold and both its sides in banks.
pub fn check(kernel: &Kernel, accelerator: &Accelerator) -> Result<(), Fault> {
    let end = end_bank(kernel, accelerator);
    let ifm_banks = ifm_banks(kernel, accelerator);
    let layout = &kernel.shram;
    let fits = |what, needed: u32, available: u32| {
        if needed <= available {
            Ok(())
        } else {
            Err(Fault::Shram { what, needed, available })
        }
    };
    fits("the IFM buffers end beyond IFM_IB_END", OUTPUT_BANKS + ifm_banks, layout.ifm_end)?;
    if matches!(kernel.kind, KernelKind::Elementwise(_)) {
        fits("IFM_IB_END is beyond the banks in use", layout.ifm_end, end)?;
        if let (Some(start), Some(Operand2::Map(_))) = (layout.ifm2_start, &kernel.ifm2) {
            fits("IFM2_IB_START lies in the IFM buffers", OUTPUT_BANKS + ifm_banks, start)?;
            fits("the IFM2 buffers end beyond the banks in use", start.saturating_add(ifm_banks), end)?;
        }
        return Ok(());
    }
    fits("IFM_IB_END is beyond AB_START", layout.ifm_end, layout.accumulator_start)?;
    let accumulators = layout.accumulator_start.saturating_add(accumulator_banks(kernel, accelerator));
    fits("the accumulators end beyond the banks in use", accumulators, end)
}

/// Banks that the buffers of a kernel take: of the first operand, and of the accumulators or the second operand.
pub fn banks(kernel: &Kernel, accelerator: &Accelerator) -> [u32; 2] {
    let ifm = ifm_banks(kernel, accelerator);
    let rest = match (&kernel.ifm2, kernel.kind) {
        (Some(Operand2::Map(_)), _) => ifm,
        (_, KernelKind::Elementwise(_)) => 0,
        _ => accumulator_banks(kernel, accelerator),
    };
    [ifm, rest]
}

/// The layout that writers of command streams give a kernel whose buffers fit: operands from the start, accumulators up to
/// the end.
pub fn layout(kernel: &Kernel, accelerator: &Accelerator) -> ShramLayout {
    let (operand, end) = (OUTPUT_BANKS + ifm_banks(kernel, accelerator), end_bank(kernel, accelerator));
    if matches!(kernel.kind, KernelKind::Elementwise(_)) {
        return ShramLayout { ifm_end: end, accumulator_start: end, ifm2_start: Some(operand) };
    }
    let accumulator_start = end.saturating_sub(accumulator_banks(kernel, accelerator));
    ShramLayout { ifm_end: operand, accumulator_start, ifm2_start: None }
}

/// Whether some layout holds the buffers of the kernel with its block; its own layout is not looked at.
pub fn fits(kernel: &Kernel, accelerator: &Accelerator) -> bool {
    OUTPUT_BANKS + banks(kernel, accelerator).iter().sum::<u32>() <= end_bank(kernel, accelerator)
}

/// One past the last bank that holds buffers of the kernel.
pub(super) fn used_end(kernel: &Kernel, accelerator: &Accelerator) -> u32 {
    let layout = &kernel.shram;
    if matches!(kernel.kind, KernelKind::Elementwise(_)) {
        let first = OUTPUT_BANKS.saturating_add(ifm_banks(kernel, accelerator));
        return layout.ifm2_start.map_or(first, |start| start.saturating_add(ifm_banks(kernel, accelerator)));
    }
    layout.accumulator_start.saturating_add(accumulator_banks(kernel, accelerator))
}

/// First bank that the kernel may not use for buffers.
fn end_bank(kernel: &Kernel, accelerator: &Accelerator) -> u32 {
    let table = if kernel.uses_table() { 2 } else { 0 };
    accelerator.banks - accelerator.reserved_banks.max(table)
}

/// Banks of the double-buffered IFM block.
fn ifm_banks(kernel: &Kernel, accelerator: &Accelerator) -> u32 {
    let bits = kernel.ifm.element.bits;
    let elementwise = matches!(kernel.kind, KernelKind::Elementwise(_));
    let [micro_height, micro_width, _] = accelerator.micro_block;
    let window = &kernel.window;
    let nearest = u32::from(window.upscale == Upscale::Nearest);
    let side = |block: u32, stride: u32, kernel: u32, dilation: u32, micro: u32| {
        let dilated = ((kernel - 1) * dilation + 1).min(SUB_KERNEL);
        let rows = (block - 1) * stride + dilated + nearest;
        rows.div_ceil(window.upscale.factor()).next_multiple_of(micro)
    };
    let block = &kernel.block;
    let height = side(block.height, window.stride_y, window.height, window.dilation_y, micro_height);
    let width = side(block.width, window.stride_x, window.width, window.dilation_x, micro_width);
    let depth = match kernel.kind {
        KernelKind::Conv | KernelKind::ReduceSum if bits == 16 => kernel.ifm.depth.min(16).next_multiple_of(4),
        KernelKind::Conv | KernelKind::ReduceSum => {
            kernel.ifm.depth.min(if kernel.part_kernel { 16 } else { 32 }).next_multiple_of(8)
        }
        _ => block.depth,
    };
    let granules = &accelerator.granules;
    let granule = match (bits, elementwise) {
        (8, false) => granules.ifm8,
        (16, false) => granules.ifm16,
        (8, true) => granules.elementwise8,
        (16, true) => granules.elementwise16,
        _ => granules.word32,
    };
    let bytes = height * width * (depth * bits / 8).next_multiple_of(8);
    (2 * bytes.div_ceil(BANK_BYTES)).next_multiple_of(granule)
}

/// Banks of the double-buffered accumulators.
fn accumulator_banks(kernel: &Kernel, accelerator: &Accelerator) -> u32 {
    let block = &kernel.block;
    // A single output row fills micro-blocks of 1x4 instead of 2x2, so its accumulators take one row.
    let single_row = kernel.ofm.height == 1 && kernel.window.height == 1 && accelerator.micro_block[0] == 2;
    let height = if single_row { 1 } else { block.height };
    let elements = height * block.width * block.depth.next_multiple_of(8);
    let bytes = elements * kernel.accumulator_bits / 8;
    let granule = if kernel.accumulator_bits == 40 { accelerator.granules.acc40 } else { accelerator.granules.acc32 };
    (2 * bytes.div_ceil(BANK_BYTES)).next_multiple_of(granule)
}
