//! Reads one kernel from the registers, with every rule about ranges and alignment checked.
//! Owns the meaning of registers apart from feature maps, which `operand` reads.

use super::accelerator::Accelerator;
use super::arithmetic::{Rounding, Scale};
use super::error::Fault;
use super::feature_map::{ElementType, FeatureMap, Layout};
use super::operation::{
    Activation, Block, Elementwise, Function, Kernel, KernelKind, Operand2, OperandScaling, ShramLayout, Stream,
    Upscale, Window,
};
use super::registers::{Register, RegisterFile};

/// One axis of the OFM block: its register, its name for the size that the register holds minus one, and its limit.
struct BlockAxis {
    register: Register,
    name: &'static str,
    limit: u32,
    allowed: &'static str,
}

/// Height, width, depth.
const BLOCK_AXES: [BlockAxis; 3] = [
    BlockAxis {
        register: Register::OFM_BLK_HEIGHT_M1,
        name: "OFM_BLK_HEIGHT_M1 + 1",
        limit: 32,
        allowed: "at most 32 rows",
    },
    BlockAxis {
        register: Register::OFM_BLK_WIDTH_M1,
        name: "OFM_BLK_WIDTH_M1 + 1",
        limit: 64,
        allowed: "at most 64 columns",
    },
    BlockAxis {
        register: Register::OFM_BLK_DEPTH_M1,
        name: "OFM_BLK_DEPTH_M1 + 1",
        limit: 128,
        allowed: "at most 128 channels",
    },
];

/// Reads registers with the rules of one kernel.
pub(super) struct Reader<'a> {
    pub(super) registers: &'a RegisterFile,
    pub(super) accelerator: &'a Accelerator,
}

/// Reads the kernel that an operation starts.
///
/// # Errors
/// [`Fault::NotSet`] for registers that the kernel needs and the stream never set; [`Fault::Range`],
/// [`Fault::Misaligned`] and [`Fault::Invalid`] for values that the hardware does not define.
pub fn read_kernel(registers: &RegisterFile, accelerator: &Accelerator, kind: KernelKind) -> Result<Kernel, Fault> {
    Reader { registers, accelerator }.kernel(kind)
}

impl Reader<'_> {
    fn kernel(&self, kind: KernelKind) -> Result<Kernel, Fault> {
        let elementwise = matches!(kind, KernelKind::Elementwise(_));
        let ofm = self.ofm()?;
        let window = if elementwise { Window::UNIT } else { self.window(kind)? };
        let ifm = self.ifm(kind, &ofm, &window)?;
        let ifm2 = match kind {
            KernelKind::Elementwise(function) if !function.is_unary() => Some(self.ifm2(&ifm, &ofm)?),
            _ => None,
        };
        let weighted = matches!(kind, KernelKind::Conv | KernelKind::Depthwise);
        let stride = if elementwise { 0 } else { self.registers.get(Register::KERNEL_STRIDE)? };
        let (rounding, scale) = self.ofm_scale(weighted || kind == KernelKind::MaxPool)?;
        let has_map2 = matches!(ifm2, Some(Operand2::Map(_)));
        Ok(Kernel {
            kind,
            swap_operands: ifm2.is_some() && self.registers.get(Register::IFM2_BROADCAST)? >> 6 & 1 == 1,
            operands: self.operand_scaling(kind, &ifm, scale.is_some())?,
            block: self.block(&ofm)?,
            part_kernel: kind == KernelKind::Conv && stride >> 2 & 1 == 1,
            small_sub_kernels: stride >> 5 & 1 == 1,
            weights: if weighted { self.weight_streams()? } else { Vec::new() },
            scales: if weighted { self.scale_streams()? } else { Vec::new() },
            activation: self.activation(&ofm)?,
            accumulator_bits: if elementwise { 32 } else { self.accumulator_bits()? },
            shram: self.shram_layout(has_map2)?,
            blockdep: self.in_range(Register::BLOCKDEP, 0, 3, "0..=3")?,
            scale,
            rounding,
            ifm,
            ifm2,
            ofm,
            window,
        })
    }

    /// A register whose value must be in `low..=high`.
    pub(super) fn in_range(
        &self,
        register: Register,
        low: u32,
        high: u32,
        allowed: &'static str,
    ) -> Result<u32, Fault> {
        let value = self.registers.get(register)?;
        if (low..=high).contains(&value) {
            Ok(value)
        } else {
            Err(Fault::Range { register: register.name(), value: i64::from(value), allowed })
        }
    }

    fn window(&self, kind: KernelKind) -> Result<Window, Fault> {
        let stride = self.registers.get(Register::KERNEL_STRIDE)?;
        let (stride_x, stride_y) = ((stride & 1 | stride >> 5 & 0xE) + 1, (stride >> 1 & 1 | stride >> 8 & 0xE) + 1);
        if stride_x > 3 || stride_y > 3 {
            let value = i64::from(stride_x.max(stride_y));
            return Err(Fault::Range { register: "KERNEL_STRIDE stride", value, allowed: "1..=3" });
        }
        let (dilation_x, dilation_y) = ((stride >> 3 & 1) + 1, (stride >> 4 & 1) + 1);
        let undilated = |register: Register, dilation: u32| {
            let dilated = self.registers.get(register)?;
            if dilated % dilation == 0 {
                Ok(dilated / dilation + 1)
            } else {
                let value = i64::from(dilated);
                Err(Fault::Range { register: register.name(), value, allowed: "a multiple of the dilation" })
            }
        };
        let height = undilated(Register::KERNEL_HEIGHT_M1, dilation_y)?;
        let width = undilated(Register::KERNEL_WIDTH_M1, dilation_x)?;
        check_kernel_size(kind, height, width)?;
        let pad_top = self.in_range(Register::IFM_PAD_TOP, 0, 127, "0..=127")?;
        let pad_left = self.in_range(Register::IFM_PAD_LEFT, 0, 127, "0..=127")?;
        let pad_right = self.in_range(Register::IFM_PAD_RIGHT, 0, 255, "0..=255")?;
        let pad_bottom = self.in_range(Register::IFM_PAD_BOTTOM, 0, 255, "0..=255")?;
        let upscale = match self.in_range(Register::IFM_UPSCALE, 0, 2, "0..=2")? {
            0 => Upscale::None,
            1 => Upscale::Nearest,
            _ => Upscale::Zeros,
        };
        let window = Window {
            height,
            width,
            stride_y,
            stride_x,
            dilation_y,
            dilation_x,
            pad_top,
            pad_left,
            pad_bottom,
            pad_right,
            upscale,
        };
        let padded_average = kind == KernelKind::AveragePool && window.is_padded();
        if padded_average && (height > 8 || width > 8) {
            return Err(Fault::Invalid { what: "a padded average pool is larger than 8x8" });
        }
        Ok(window)
    }

    fn block(&self, ofm: &FeatureMap) -> Result<Block, Fault> {
        let size = |axis: &BlockAxis| {
            let value = self.registers.size(axis.register)?;
            if value <= axis.limit {
                return Ok(value);
            }
            Err(Fault::Range { register: axis.name, value: i64::from(value), allowed: axis.allowed })
        };
        let [height, width, depth] = [size(&BLOCK_AXES[0])?, size(&BLOCK_AXES[1])?, size(&BLOCK_AXES[2])?];
        // A row-shaped OFM may use blocks of the transposed micro-block (1x4 on 2x2 parts).
        let row_shaped = ofm.height == 1 && self.accelerator.micro_block[0] == 2 && height == 1;
        let sizes = [height, width, depth];
        for (index, axis) in BLOCK_AXES.iter().enumerate() {
            let (value, alignment) = (sizes[index], self.accelerator.micro_block[index]);
            if value % alignment != 0 && !(index == 0 && row_shaped) {
                return Err(Fault::Misaligned { register: axis.name, value: i64::from(value), alignment });
            }
        }
        let block = Block { height, width, depth };
        Ok(block)
    }

    /// Rounding and, where the kernel uses one, the global scale.
    fn ofm_scale(&self, unscaled: bool) -> Result<(Rounding, Option<Scale>), Fault> {
        let precision = self.registers.get(Register::OFM_PRECISION)?;
        let rounding = rounding(precision >> 14 & 3, "OFM_PRECISION rounding")?;
        if unscaled || precision >> 8 & 1 == 0 {
            return Ok((rounding, None));
        }
        let value = self.registers.value(Register::OFM_SCALE)?;
        Ok((rounding, Some(Scale { scale: value.low, shift: u32::from(value.high & 0x3F) })))
    }

    fn operand_scaling(&self, kind: KernelKind, ifm: &FeatureMap, global: bool) -> Result<OperandScaling, Fault> {
        let adds = matches!(kind, KernelKind::Elementwise(Elementwise::Add | Elementwise::Sub));
        if !adds || !global || ifm.element.bits == 32 {
            return Ok(OperandScaling::None);
        }
        let precision = self.registers.get(Register::IFM_PRECISION)?;
        let rounding = rounding(precision >> 14 & 3, "IFM_PRECISION rounding")?;
        let first = self.registers.value(Register::OPA_SCALE)?;
        let scale = Scale { scale: first.low, shift: u32::from(first.high & 0x3F) };
        match precision >> 8 & 3 {
            0 => {
                let second = self.registers.get(Register::OPB_SCALE)?;
                Ok(OperandScaling::Both(first.low & 0xFFFF, second & 0xFFFF))
            }
            1 => Ok(OperandScaling::First(scale, rounding)),
            2 => Ok(OperandScaling::Second(scale, rounding)),
            mode => {
                let value = i64::from(mode);
                Err(Fault::Range { register: "IFM_PRECISION scale mode", value, allowed: "0..=2" })
            }
        }
    }

    fn accumulator_bits(&self) -> Result<u32, Fault> {
        match self.in_range(Register::ACC_FORMAT, 0, 2, "0..=2")? {
            0 => Ok(32),
            1 => Ok(40),
            _ => Err(Fault::Unsupported { what: "16-bit floating point accumulators" }),
        }
    }

    fn activation(&self, ofm: &FeatureMap) -> Result<Activation, Fault> {
        let value = self.registers.get(Register::ACTIVATION)?;
        let function = match value & 0x1F {
            0 => Function::Clamp,
            3 => Function::Tanh,
            4 => Function::Sigmoid,
            n @ 16..=23 => Function::Table(n - 16),
            n => {
                let allowed = "0, 3, 4 or 16..=23";
                return Err(Fault::Range { register: "ACTIVATION function", value: i64::from(n), allowed });
            }
        };
        let forced_range = match value >> 12 & 7 {
            0 => None,
            2 => Some(ElementType { bits: 8, signed: false }),
            3 => Some(ElementType { bits: 8, signed: true }),
            5 => Some(ElementType { bits: 16, signed: true }),
            n => {
                let allowed = "0, 2, 3 or 5";
                return Err(Fault::Range { register: "ACTIVATION clip range", value: i64::from(n), allowed });
            }
        };
        let limit = |register| -> Result<i64, Fault> {
            Ok(if ofm.element.signed {
                i64::from(self.registers.signed16(register)?)
            } else {
                i64::from(self.registers.get(register)?)
            })
        };
        let (min, max) = (limit(Register::ACTIVATION_MIN)?, limit(Register::ACTIVATION_MAX)?);
        if min > max {
            return Err(Fault::Invalid { what: "ACTIVATION_MIN is greater than ACTIVATION_MAX" });
        }
        Ok(Activation { function, forced_range, min, max })
    }

    fn shram_layout(&self, second_map: bool) -> Result<ShramLayout, Fault> {
        let start2 = if second_map { Some(self.registers.get(Register::IFM2_IB_START)?) } else { None };
        Ok(ShramLayout {
            ifm_end: self.registers.get(Register::IFM_IB_END)?,
            accumulator_start: self.registers.get(Register::AB_START)?,
            ifm2_start: start2,
        })
    }

    fn dual_core(&self) -> Result<bool, Fault> {
        if self.accelerator.cores < 2 {
            return Ok(false);
        }
        Ok(self.in_range(Register::PARALLEL_MODE, 0, 1, "0 or 1")? == 1)
    }

    fn stream(&self, region: Register, base: Register, length: Register) -> Result<Stream, Fault> {
        let region = self.in_range(region, 0, 7, "0..=7")? as usize;
        let len = self.registers.get(length)?;
        // A core without channels has nothing to read, and Vela does not set its base then.
        let start = if len == 0 { 0 } else { self.registers.address(base)? };
        for (register, value) in [(base, start), (length, i64::from(len))] {
            if value % 16 != 0 {
                return Err(Fault::Misaligned { register: register.name(), value, alignment: 16 });
            }
        }
        Ok(Stream { region, base: start, length: len as usize })
    }

    fn weight_streams(&self) -> Result<Vec<Stream>, Fault> {
        use Register::*;
        let mut streams = vec![self.stream(WEIGHT_REGION, WEIGHT_BASE, WEIGHT_LENGTH)?];
        if self.dual_core()? {
            streams.push(self.stream(WEIGHT_REGION, WEIGHT1_BASE, WEIGHT1_LENGTH)?);
        }
        Ok(streams)
    }

    fn scale_streams(&self) -> Result<Vec<Stream>, Fault> {
        use Register::*;
        let mut streams = vec![self.stream(SCALE_REGION, SCALE_BASE, SCALE_LENGTH)?];
        if self.dual_core()? {
            streams.push(self.stream(SCALE_REGION, SCALE1_BASE, SCALE1_LENGTH)?);
        }
        Ok(streams)
    }
}

/// Rounding from its code.
fn rounding(code: u32, register: &'static str) -> Result<Rounding, Fault> {
    match code {
        0 => Ok(Rounding::Double),
        1 => Ok(Rounding::Truncate),
        2 => Ok(Rounding::Natural),
        _ => Err(Fault::Range { register, value: i64::from(code), allowed: "0..=2" }),
    }
}

fn check_kernel_size(kind: KernelKind, height: u32, width: u32) -> Result<(), Fault> {
    let weighted = matches!(kind, KernelKind::Conv | KernelKind::Depthwise);
    if weighted && height > 64 {
        let value = i64::from(height);
        return Err(Fault::Range { register: "KERNEL_HEIGHT_M1 + 1", value, allowed: "at most 64 rows" });
    }
    let area = u64::from(height) * u64::from(width);
    if weighted && area > 4096 {
        return Err(Fault::Range { register: "kernel area", value: area as i64, allowed: "at most 4096 elements" });
    }
    if area > 65536 {
        return Err(Fault::Range { register: "kernel area", value: area as i64, allowed: "at most 65536 elements" });
    }
    Ok(())
}

/// Layout of the feature map that a precision register describes.
pub(super) fn layout(precision: u32, register: &'static str) -> Result<Layout, Fault> {
    match precision >> 6 & 3 {
        0 => Ok(Layout::Nhwc),
        1 => Ok(Layout::Nhcwb16),
        n => Err(Fault::Range { register, value: i64::from(n), allowed: "0 (NHWC) or 1 (NHCWB16)" }),
    }
}
