//! What the registers hold while a command stream runs: only those whose value changes are sent.
//!
//! Owns the registers that stripes, places and constants change, and the count of words; all others come with the problem.

use super::addresses::offset_of;
use super::described::scale_bytes;
use super::surface::Surface;
use crate::model::operation::{Block, NpuOperation, OperationKind, SecondOperand};
use crate::npu::operation::ShramLayout;
use crate::npu::registers::{Register, REGISTER_COUNT};
use crate::npu::timing::system::CONSTANTS_REGION;

/// Registers of a feature map: bases of its tiles, rows and columns of these, strides of row, column and channel.
type MapRegisters = ([Register; 4], [Register; 3], [Register; 3]);

const IFM: MapRegisters = {
    use Register::*;
    (
        [IFM_BASE0, IFM_BASE1, IFM_BASE2, IFM_BASE3],
        [IFM_HEIGHT0_M1, IFM_HEIGHT1_M1, IFM_WIDTH0_M1],
        [IFM_STRIDE_Y, IFM_STRIDE_X, IFM_STRIDE_C],
    )
};
const IFM2: MapRegisters = {
    use Register::*;
    (
        [IFM2_BASE0, IFM2_BASE1, IFM2_BASE2, IFM2_BASE3],
        [IFM2_HEIGHT0_M1, IFM2_HEIGHT1_M1, IFM2_WIDTH0_M1],
        [IFM2_STRIDE_Y, IFM2_STRIDE_X, IFM2_STRIDE_C],
    )
};
const OFM: MapRegisters = {
    use Register::*;
    (
        [OFM_BASE0, OFM_BASE1, OFM_BASE2, OFM_BASE3],
        [OFM_HEIGHT0_M1, OFM_HEIGHT1_M1, OFM_WIDTH0_M1],
        [OFM_STRIDE_Y, OFM_STRIDE_X, OFM_STRIDE_C],
    )
};

/// Registers of a kernel that are set stripe by stripe, besides those of feature maps.
const OF_STRIPES: [Register; 25] = {
    use Register::*;
    [
        OFM_HEIGHT_M1,
        OFM_WIDTH_M1,
        OFM_DEPTH_M1,
        IFM_PAD_TOP,
        IFM_PAD_LEFT,
        IFM_PAD_BOTTOM,
        IFM_PAD_RIGHT,
        OFM_BLK_HEIGHT_M1,
        OFM_BLK_WIDTH_M1,
        OFM_BLK_DEPTH_M1,
        IFM_IB_END,
        AB_START,
        IFM2_IB_START,
        IFM_REGION,
        IFM2_REGION,
        OFM_REGION,
        KERNEL_STRIDE,
        WEIGHT_REGION,
        WEIGHT_BASE,
        WEIGHT_LENGTH,
        SCALE_REGION,
        SCALE_BASE,
        SCALE_LENGTH,
        BLOCKDEP,
        PARALLEL_MODE,
    ]
};

/// Bits of ACTIVATION that say in which slot a table begins.
const SLOT_BITS: u64 = 0x7;
/// Bits of IFM2_BROADCAST for height, width and depth.
const AXIS_BITS: u64 = 0x7;

/// Registers that take two words.
const WIDE: u128 = {
    let (mut mask, mut index) = (0, 0);
    while index < REGISTER_COUNT {
        if Register::ALL[index].is_wide() {
            mask |= 1 << index;
        }
        index += 1;
    }
    mask
};

/// Whether a register keeps its value whatever the stripe.
pub fn is_steady(register: Register) -> bool {
    let of_map = |(bases, tiles, strides): MapRegisters| {
        bases.contains(&register) || tiles.contains(&register) || strides.contains(&register)
    };
    !OF_STRIPES.contains(&register) && ![IFM, IFM2, OFM].into_iter().any(of_map)
}

/// A kernel on a stripe, as far as registers tell.
pub struct Setting<'a> {
    /// Its Part's operation, with the constants that it uses.
    pub kernel: &'a NpuOperation,
    /// What it reads.
    pub inputs: &'a [Surface],
    /// What it writes.
    pub output: &'a Surface,
    /// Padding rows and columns: top, left, bottom, right.
    pub padding: [i64; 4],
    /// OFM block.
    pub block: Block,
    /// Where its buffers lie in the shared memory.
    pub shram: ShramLayout,
    /// Region of its constants, and the first bytes of weights and scales.
    pub constants: (usize, [u64; 2]),
    /// Regions of inputs and output.
    pub regions: ([usize; 2], usize),
    /// Where the table begins that it looks results up in.
    pub slot: Option<u32>,
}

impl Setting<'_> {
    /// The value of a steady register with the bits that stripes change: which table, and along which axes the second
    /// operand is shorter than the first.
    fn altered(&self, register: Register, value: u64) -> u64 {
        match (register, self.slot, self.inputs) {
            (Register::ACTIVATION, Some(slot), _) => value & !SLOT_BITS | u64::from(slot),
            (Register::IFM2_BROADCAST, _, [first, second]) => {
                let axes = (0..3).filter(|&axis| first.extent[axis] != second.extent[axis]);
                value & !AXIS_BITS | axes.map(|axis| 1 << axis).sum::<u64>()
            }
            _ => value,
        }
    }
}

/// What the registers hold, and which of them were sent since the last command.
#[derive(Clone, Debug)]
pub struct Image {
    values: [u64; REGISTER_COUNT],
    sent: u128,
}

impl Default for Image {
    fn default() -> Image {
        Image { values: [u64::MAX; REGISTER_COUNT], sent: 0 }
    }
}

impl Image {
    /// Set a register; it is sent where its value changes.
    #[inline]
    pub fn set(&mut self, register: Register, value: u64) {
        let index = register as usize;
        if self.values[index] != value {
            self.values[index] = value;
            self.sent |= 1 << index;
        }
    }

    /// Words that take what was sent since the last command.
    pub fn words(&self) -> u64 {
        u64::from(self.sent.count_ones() + (self.sent & WIDE).count_ones())
    }

    /// What is sent from now on belongs to the next command.
    pub fn end_command(&mut self) {
        self.sent = 0;
    }

    /// Registers that were sent since the last command, with their values.
    pub fn sent(&self) -> impl Iterator<Item = (Register, u64)> + '_ {
        let sent = |register: &&Register| self.sent >> **register as usize & 1 == 1;
        Register::ALL.iter().filter(sent).map(|&register| (register, self.values[register as usize]))
    }

    /// Set the registers of a copy of constants to a region and place there.
    pub fn copy(&mut self, from: u64, (region, to): (usize, u64), bytes: u64) {
        self.set(Register::DMA0_SRC_REGION, CONSTANTS_REGION as u64);
        self.set(Register::DMA0_SRC, from);
        self.set(Register::DMA0_DST_REGION, region as u64);
        self.set(Register::DMA0_DST, offset_of(to));
        self.set(Register::DMA0_LEN, bytes);
    }

    /// Set the registers of a kernel.
    pub fn kernel(&mut self, setting: &Setting) {
        use Register::*;
        let &Setting { kernel, inputs, output, padding, block, shram, constants, regions, .. } = setting;
        let padded = padding.iter().any(|&rows| rows > 0);
        for &(register, value) in &kernel.emitted.registers[usize::from(padded)] {
            self.set(register, setting.altered(register, value));
        }
        self.map(&IFM, &inputs[0]);
        self.map(&OFM, output);
        self.set(IFM_REGION, regions.0[0] as u64);
        self.set(OFM_REGION, regions.1 as u64);
        let extents = [OFM_HEIGHT_M1, OFM_WIDTH_M1, OFM_DEPTH_M1].into_iter().zip(output.extent);
        let blocks = [OFM_BLK_HEIGHT_M1, OFM_BLK_WIDTH_M1, OFM_BLK_DEPTH_M1].into_iter().zip(block);
        extents.for_each(|(register, extent)| self.set(register, less_one(extent)));
        blocks.for_each(|(register, extent)| self.set(register, less_one(extent as u64)));
        let pads = [IFM_PAD_TOP, IFM_PAD_LEFT, IFM_PAD_BOTTOM, IFM_PAD_RIGHT].into_iter().zip(padding);
        pads.for_each(|(register, rows)| self.set(register, rows as u64));
        self.set(IFM_IB_END, u64::from(shram.ifm_end));
        self.set(AB_START, u64::from(shram.accumulator_start));
        if let Some(second) = inputs.get(1) {
            self.map(&IFM2, second);
            self.set(IFM2_IB_START, shram.ifm2_start.map_or(0, u64::from));
            let is_constant = matches!(kernel.second, SecondOperand::Constant { .. });
            self.set(IFM2_REGION, if is_constant { constants.0 } else { regions.0[1] } as u64);
        }
        if !kernel.kind.is_elementwise() {
            self.set(KERNEL_STRIDE, kernel_stride(kernel));
        }
        if kernel.kind.has_weights() {
            self.constants(kernel, constants);
        }
    }

    fn constants(&mut self, kernel: &NpuOperation, (region, [weights_base, scales_base]): (usize, [u64; 2])) {
        use Register::*;
        let scales = scale_bytes(kernel);
        let weights = kernel.constant_bytes - scales;
        let bases = [weights_base, scales_base].map(offset_of);
        let values = [region as u64, bases[0], weights, region as u64, bases[1], scales];
        let registers = [WEIGHT_REGION, WEIGHT_BASE, WEIGHT_LENGTH, SCALE_REGION, SCALE_BASE, SCALE_LENGTH];
        registers.into_iter().zip(values).for_each(|(register, value)| self.set(register, value));
    }

    fn map(&mut self, (bases, tiles, strides): &MapRegisters, surface: &Surface) {
        bases.iter().zip(surface.bases).for_each(|(&register, base)| self.set(register, offset_of(base)));
        tiles.iter().zip(surface.tiles).for_each(|(&register, extent)| self.set(register, less_one(extent)));
        strides.iter().zip(surface.strides).for_each(|(&register, bytes)| self.set(register, bytes));
    }
}

/// An extent as registers of one word have it.
fn less_one(extent: u64) -> u64 {
    extent.wrapping_sub(1) & 0xFFFF
}

/// KERNEL_STRIDE: strides of one or two bits each, dilations, weight order.
fn kernel_stride(kernel: &NpuOperation) -> u64 {
    let [y, x] = kernel.stride.map(|stride| stride as u64 - 1);
    let [dilation_y, dilation_x] = kernel.dilation.map(|dilation| dilation as u64 - 1);
    let order = u64::from(kernel.part_kernel && kernel.kind == OperationKind::Convolution);
    (x & 1) | (y & 1) << 1 | order << 2 | dilation_x << 3 | dilation_y << 4 | (x >> 1) << 6 | (y >> 1) << 9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_is_sent() {
        let mut image = Image::default();
        let mut copy = |from, to| {
            image.copy(from, (1, to), 32);
            let sent = (image.words(), image.sent().count());
            image.end_command();
            sent
        };
        assert_eq!((copy(0, 64), copy(0, 64), copy(0, 128)), ((8, 5), (0, 0), (2, 1)));
    }

    #[test]
    fn registers_that_stripes_set_are_not_steady() {
        use Register::*;
        assert!([IFM_ZERO_POINT, OFM_SCALE, ACTIVATION_MIN, IFM_DEPTH_M1, OFM_PRECISION].into_iter().all(is_steady));
        assert!(![IFM_BASE2, OFM_STRIDE_C, IFM2_WIDTH0_M1, IFM2_REGION, BLOCKDEP, OFM_DEPTH_M1]
            .into_iter()
            .any(is_steady));
    }
}
