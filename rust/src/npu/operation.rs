//! One kernel in self-contained form: what execution, SHRAM checks and timing take instead of registers.
//! Owns the types; [`super::kernel_reader`] fills them.

use super::arithmetic::{Rounding, Scale};
use super::feature_map::{ElementType, FeatureMap};

/// What a kernel computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelKind {
    /// Convolution over all input channels.
    Conv,
    /// One kernel per channel.
    Depthwise,
    /// Maximum of a window.
    MaxPool,
    /// Average of a window.
    AveragePool,
    /// Sum over input channels.
    ReduceSum,
    /// Elementwise function.
    Elementwise(Elementwise),
}

/// Elementwise functions in the order of their codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elementwise {
    /// a * b
    Mul,
    /// a + b
    Add,
    /// a - b
    Sub,
    /// min(a, b)
    Min,
    /// max(a, b)
    Max,
    /// a, or a scaled if it is negative
    LeakyRelu,
    /// |a|
    Abs,
    /// leading zeros of a
    Clz,
    /// a >> b, rounded
    Shr,
    /// a << b
    Shl,
}

impl Elementwise {
    /// The function with the given code.
    pub fn from_code(code: u16) -> Option<Elementwise> {
        use Elementwise::*;
        [Mul, Add, Sub, Min, Max, LeakyRelu, Abs, Clz, Shr, Shl].get(usize::from(code)).copied()
    }

    /// Whether there is only one operand.
    pub fn is_unary(self) -> bool {
        matches!(self, Elementwise::LeakyRelu | Elementwise::Abs | Elementwise::Clz)
    }
}

/// How the IFM is enlarged before the kernel sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upscale {
    /// Not at all.
    None,
    /// Every element becomes 2x2.
    Nearest,
    /// Zeros (after the zero point) between elements, as transposed convolution needs them.
    Zeros,
}

impl Upscale {
    /// Factor per axis: 1 or 2.
    pub fn factor(self) -> u32 {
        if self == Upscale::None {
            1
        } else {
            2
        }
    }
}

/// Geometry of a sliding window. Sizes in rows and columns; all zero padding and unit kernel for elementwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Kernel rows, undilated.
    pub height: u32,
    /// Kernel columns, undilated.
    pub width: u32,
    /// Vertical stride.
    pub stride_y: u32,
    /// Horizontal stride.
    pub stride_x: u32,
    /// Vertical dilation.
    pub dilation_y: u32,
    /// Horizontal dilation.
    pub dilation_x: u32,
    /// Padding rows above.
    pub pad_top: u32,
    /// Padding columns left.
    pub pad_left: u32,
    /// Padding rows below, exactly those that the kernel touches.
    pub pad_bottom: u32,
    /// Padding columns right, exactly those that the kernel touches.
    pub pad_right: u32,
    /// Enlargement of the IFM.
    pub upscale: Upscale,
}

impl Window {
    /// The window of an elementwise kernel.
    pub const UNIT: Window = Window {
        height: 1,
        width: 1,
        stride_y: 1,
        stride_x: 1,
        dilation_y: 1,
        dilation_x: 1,
        pad_top: 0,
        pad_left: 0,
        pad_bottom: 0,
        pad_right: 0,
        upscale: Upscale::None,
    };

    /// Rows of the padded, enlarged IFM that `ofm_rows` output rows need.
    pub fn padded_rows(&self, ofm_rows: u32) -> u32 {
        (ofm_rows - 1) * self.stride_y + (self.height - 1) * self.dilation_y + 1
    }

    /// Columns of the padded, enlarged IFM that `ofm_columns` output columns need.
    pub fn padded_columns(&self, ofm_columns: u32) -> u32 {
        (ofm_columns - 1) * self.stride_x + (self.width - 1) * self.dilation_x + 1
    }

    /// Whether any side is padded.
    pub fn is_padded(&self) -> bool {
        self.pad_top + self.pad_left + self.pad_bottom + self.pad_right > 0
    }
}

/// Bytes of constants for one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Region index.
    pub region: usize,
    /// First byte in the region.
    pub base: i64,
    /// Length in bytes.
    pub length: usize,
}

/// Second operand of an elementwise kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand2 {
    /// A constant, its zero point already subtracted.
    Scalar(i64),
    /// A feature map; broadcast dimensions have size 1.
    Map(FeatureMap),
}

/// Scaling of the operands of add and sub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperandScaling {
    /// Nothing is scaled.
    None,
    /// Both are multiplied by 16-bit factors: first operand, second operand.
    Both(u32, u32),
    /// Only the first operand is scaled, the other one shifted up.
    First(Scale, Rounding),
    /// Only the second operand is scaled, the other one shifted up.
    Second(Scale, Rounding),
}

/// The function after scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Clamp only.
    Clamp,
    /// Hyperbolic tangent.
    Tanh,
    /// Logistic function.
    Sigmoid,
    /// Look-up table `n`, at 256 * n bytes of the LUT area.
    Table(u32),
}

/// End of the output stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activation {
    /// What is applied.
    pub function: Function,
    /// Type whose range clips, if it is not the OFM's.
    pub forced_range: Option<ElementType>,
    /// Lower limit in output units.
    pub min: i64,
    /// Upper limit in output units.
    pub max: i64,
}

/// Size of an OFM block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// Channels.
    pub depth: u32,
}

/// Where buffers begin and end in SHRAM, in banks. Absent ones are not used by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShramLayout {
    /// End of the IFM buffers.
    pub ifm_end: u32,
    /// Start of the accumulators.
    pub accumulator_start: u32,
    /// Start of the second operand's buffers.
    pub ifm2_start: Option<u32>,
}

/// One kernel, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// What is computed.
    pub kind: KernelKind,
    /// First input; its shape is without padding and enlargement.
    pub ifm: FeatureMap,
    /// Second operand of binary elementwise kernels.
    pub ifm2: Option<Operand2>,
    /// Whether the second operand comes first in subtractions and shifts.
    pub swap_operands: bool,
    /// Output.
    pub ofm: FeatureMap,
    /// Sliding window.
    pub window: Window,
    /// OFM block.
    pub block: Block,
    /// Weight traversal: part-kernel-first instead of depth-first.
    pub part_kernel: bool,
    /// Sub-kernels of 4x4 instead of 8x8.
    pub small_sub_kernels: bool,
    /// Weight streams, one per core in use; empty without weights.
    pub weights: Vec<Stream>,
    /// Scale records, one stream per core in use; empty without weights.
    pub scales: Vec<Stream>,
    /// Global scale; `None` when the scale is per channel or there is none.
    pub scale: Option<Scale>,
    /// Rounding of the output scale.
    pub rounding: Rounding,
    /// Scaling of the operands.
    pub operands: OperandScaling,
    /// End of the output stage.
    pub activation: Activation,
    /// Accumulator bits: 32 or 40.
    pub accumulator_bits: u32,
    /// SHRAM buffers.
    pub shram: ShramLayout,
    /// How many jobs of the previous kernel may still run, 0..=3.
    pub blockdep: u32,
}

impl Kernel {
    /// Whether a look-up table is used.
    pub fn uses_table(&self) -> bool {
        matches!(self.activation.function, Function::Table(_))
    }
}
