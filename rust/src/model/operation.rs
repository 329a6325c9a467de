//! NPU operations as the planner sees them: on whole feature maps, on one stripe, and what they cost.
//!
//! Owns these descriptions, which every room of the planner shares. Computes no cost: that is asked of `cost`, whatever the
//! device is.

use std::sync::Arc;

use crate::model::ids::{Id, Piece, TableId};
use crate::npu::registers::Register;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// Full convolution.
    Convolution,
    /// One filter per channel.
    Depthwise,
    /// Average pool; of one element, a copy that may rescale.
    AveragePool,
    /// Max pool.
    MaxPool,
    /// Sum of all channels of a pixel.
    SumOverDepth,
    /// Element-wise product.
    Mul,
    /// Element-wise sum.
    Add,
    /// Element-wise difference.
    Sub,
    /// The lesser of two elements.
    Minimum,
    /// The greater of two elements.
    Maximum,
    /// An element, scaled if it is negative.
    LeakyRelu,
    /// Absolute value.
    Abs,
    /// Leading zeros.
    Clz,
    /// Element-wise shift to the right.
    Shr,
    /// Element-wise shift to the left.
    Shl,
}

impl OperationKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [OperationKind; OperationKind::COUNT] = {
        use OperationKind::*;
        [
            Convolution,
            Depthwise,
            AveragePool,
            MaxPool,
            SumOverDepth,
            Mul,
            Add,
            Sub,
            Minimum,
            Maximum,
            LeakyRelu,
            Abs,
            Clz,
            Shr,
            Shl,
        ]
    };

    /// How many there are.
    pub const COUNT: usize = 15;

    /// The name by which lowering and descriptions of devices call it.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Convolution => "convolution",
            OperationKind::Depthwise => "depthwise",
            OperationKind::AveragePool => "average_pool",
            OperationKind::MaxPool => "max_pool",
            OperationKind::SumOverDepth => "sum_over_depth",
            OperationKind::Mul => "mul",
            OperationKind::Add => "add",
            OperationKind::Sub => "sub",
            OperationKind::Minimum => "minimum",
            OperationKind::Maximum => "maximum",
            OperationKind::LeakyRelu => "leaky_relu",
            OperationKind::Abs => "abs",
            OperationKind::Clz => "clz",
            OperationKind::Shr => "shr",
            OperationKind::Shl => "shl",
        }
    }

    /// Whether it has weights and scales.
    pub fn has_weights(self) -> bool {
        matches!(self, OperationKind::Convolution | OperationKind::Depthwise)
    }

    /// Whether every output channel depends on all input channels.
    pub fn reads_whole_depth(self) -> bool {
        matches!(self, OperationKind::Convolution | OperationKind::SumOverDepth)
    }

    /// Whether it looks at one element of each operand.
    pub fn is_elementwise(self) -> bool {
        self as usize >= OperationKind::Mul as usize
    }

    /// Whether it has a second operand, a feature map or a scalar.
    pub fn is_binary(self) -> bool {
        self.is_elementwise() && !matches!(self, OperationKind::LeakyRelu | OperationKind::Abs | OperationKind::Clz)
    }
}

/// Elements of a feature map: 8, 16 or 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Element {
    /// Bits.
    pub bits: u32,
    /// Whether there are negative ones.
    pub signed: bool,
}

impl Element {
    /// What most networks consist of.
    pub const INT8: Element = Element { bits: 8, signed: true };

    /// Bytes of one.
    pub fn bytes(self) -> i64 {
        i64::from(self.bits / 8)
    }
}

/// The second operand of a binary operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecondOperand {
    /// There is none.
    None,
    /// One number for all elements.
    Scalar(Element),
    /// A feature map.
    Map {
        /// Its elements.
        element: Element,
        /// Whether its only row, column or channel stands for all of the first operand's.
        broadcast: [bool; 3],
    },
}

/// How an input is enlarged before the window sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Upscale {
    /// Not at all.
    None,
    /// Every pixel becomes 2x2 of them.
    Nearest,
    /// A row and a column of zeros follow every one.
    Zeros,
}

impl Upscale {
    /// Rows and columns that stand for one.
    pub fn factor(self) -> i64 {
        if self == Upscale::None {
            1
        } else {
            2
        }
    }
}

/// What happens to results before they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// They are clamped.
    Clamp,
    /// Hyperbolic tangent.
    Tanh,
    /// Logistic function.
    Sigmoid,
    /// They are looked up.
    Table(LookUpTable),
}

/// A table of results; equal ones have equal ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LookUpTable {
    /// Its number.
    pub id: TableId,
    /// Its size.
    pub bytes: u64,
}

/// Where the factors come from by which results are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scaling {
    /// There are none but what the kind implies.
    None,
    /// One for all results.
    Global,
    /// Records beside the weights, one a channel.
    PerChannel,
    /// For the operands too.
    Operands,
}

/// How results are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// As TFLite does, twice.
    Tfl,
    /// Half up.
    Natural,
    /// Towards zero.
    Truncate,
}

/// One NPU operation on a whole feature map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpuOperation {
    /// What it does.
    pub kind: OperationKind,
    /// Window height and width, undilated.
    pub kernel: [i64; 2],
    /// Strides in height and width.
    pub stride: [i64; 2],
    /// Dilations in height and width.
    pub dilation: [i64; 2],
    /// How the input is enlarged.
    pub upscale: Upscale,
    /// Channels read.
    pub ifm_depth: i64,
    /// Channels written.
    pub ofm_depth: i64,
    /// Elements read.
    pub ifm: Element,
    /// Elements written.
    pub ofm: Element,
    /// The second operand.
    pub second: SecondOperand,
    /// The output is clamped tighter than its type, which costs the output stage time.
    pub clamped: bool,
    /// What happens to results.
    pub function: Function,
    /// Where their factors come from.
    pub scaling: Scaling,
    /// How they are rounded.
    pub rounding: Rounding,
    /// Bits of the accumulators, 32 or 40.
    pub accumulator_bits: u32,
    /// Weights are ordered part-kernel-first.
    pub part_kernel: bool,
    /// OFM block depth that the weights are encoded for.
    pub block_depth: i64,
    /// Encoded weights plus scales, bytes.
    pub constant_bytes: u64,
    /// The same constants encoded for being copied as a whole, where another encoding is better then.
    pub staged: Option<Encoding>,
    /// The same constants encoded in slices of output channels, if that was done.
    pub sliced: Option<Sliced>,
    /// Of a Part that joins its inputs: for each input, the operation that copies it into its channels of the output.
    /// They make the Part's pieces.
    pub joined: Vec<NpuOperation>,
    /// What command streams will say of it.
    pub emitted: Arc<Emitted>,
}

/// What command streams say of an operation whatever its stripe, so that they are predicted word for word; nothing where
/// none are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emitted {
    /// Registers and their values: where a stripe touches no padding, and where it does.
    pub registers: [Vec<(Register, u64)>; 2],
    /// Which bytes its constants are, equal numbers for equal bytes: in place, staged, and of each slice.
    pub contents: Vec<u32>,
}

/// What weights are encoded for: OFM block depth, and whether they come part-kernel-first.
pub type WeightOrder = (i64, bool);

/// How constants are encoded, and what that comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// OFM block depth that the weights are encoded for.
    pub block_depth: i64,
    /// Weights are ordered part-kernel-first.
    pub part_kernel: bool,
    /// Encoded weights plus scales, bytes.
    pub bytes: u64,
}

/// Constants encoded for several operations, each of which makes some of the output channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sliced {
    /// Output channels of a slice; the last may have fewer.
    pub depth: i64,
    /// OFM block depth that the slices are encoded for.
    pub block_depth: i64,
    /// Weights are ordered part-kernel-first.
    pub part_kernel: bool,
    /// Encoded weights plus scales of each slice, bytes.
    pub bytes: Vec<u64>,
}

impl NpuOperation {
    /// The constants that an operation uses from where they are; None where they are not sliced so.
    pub fn encoding(&self, source: Source) -> Option<Encoding> {
        let in_place =
            Encoding { block_depth: self.block_depth, part_kernel: self.part_kernel, bytes: self.constant_bytes };
        match source {
            Source::InPlace => Some(in_place),
            Source::Staged => Some(self.staged.unwrap_or(in_place)),
            Source::Piece(piece) => {
                let sliced = self.sliced.as_ref()?;
                let bytes = *sliced.bytes.get(piece.index())?;
                Some(Encoding { block_depth: sliced.block_depth, part_kernel: sliced.part_kernel, bytes })
            }
        }
    }

    /// Bytes of a copy of all constants.
    pub fn staged_bytes(&self) -> u64 {
        self.staged.map_or(self.constant_bytes, |staged| staged.bytes)
    }

    /// The operation with these constants and no others, or that joins one input; None where there is no such slice.
    pub fn with(&self, source: Source) -> Option<NpuOperation> {
        let piece = source.piece();
        if let Some(copy) = piece.and_then(|piece| self.joined.get(piece.index())) {
            return Some(copy.clone());
        }
        let Encoding { block_depth, part_kernel, bytes } = self.encoding(source)?;
        let [first, end] = self.channels(piece);
        let (staged, sliced, joined) = (None, None, Vec::new());
        Some(NpuOperation {
            ofm_depth: end - first,
            block_depth,
            part_kernel,
            constant_bytes: bytes,
            staged,
            sliced,
            joined,
            emitted: Arc::clone(&self.emitted),
            ..*self
        })
    }

    /// Output channels `[first, end)` of a piece; all of them for None.
    pub fn channels(&self, piece: Option<Piece>) -> [i64; 2] {
        if let Some(index) = piece.map(Piece::index).filter(|&index| index < self.joined.len()) {
            let first = self.joined[..index].iter().map(|before| before.ofm_depth).sum();
            return [first, first + self.joined[index].ofm_depth];
        }
        match (&self.sliced, piece) {
            (Some(sliced), Some(piece)) => {
                let first = i64::from(piece.0) * sliced.depth;
                [first, (first + sliced.depth).min(self.ofm_depth)]
            }
            _ => [0, self.ofm_depth],
        }
    }

    /// Pieces that a Part's output may be, or is, made in.
    pub fn pieces(&self) -> impl DoubleEndedIterator<Item = Piece> + ExactSizeIterator {
        (0..self.sliced.as_ref().map_or(self.joined.len(), |sliced| sliced.bytes.len())).map(Piece::at)
    }

    /// The operation that makes a piece, as far as what it reads goes.
    pub fn piece(&self, piece: Option<Piece>) -> &NpuOperation {
        piece.and_then(|piece| self.joined.get(piece.index())).unwrap_or(self)
    }

    /// Rows and columns of which a stripe's first is a multiple: whoever enlarges its input repeats from there on.
    pub fn stripe_multiple(&self) -> i64 {
        self.upscale.factor()
    }

    /// The table that must be loaded before it runs.
    pub fn table(&self) -> Option<LookUpTable> {
        match self.function {
            Function::Table(table) => Some(table),
            Function::Clamp | Function::Tanh | Function::Sigmoid => None,
        }
    }

    /// The elements and channels that it reads of an input: the first one, or the second operand.
    pub fn operand(&self, index: usize) -> (Element, i64) {
        match self.second {
            SecondOperand::Map { element, broadcast } if index > 0 => {
                (element, if broadcast[2] { 1 } else { self.ifm_depth })
            }
            _ => (self.ifm, self.ifm_depth),
        }
    }

    /// Whether an input's only row or column stands for all.
    pub fn is_repeated(&self, index: usize, axis: usize) -> bool {
        index > 0 && matches!(self.second, SecondOperand::Map { broadcast, .. } if broadcast[axis])
    }

    /// Inputs that it reads from memory.
    pub fn inputs(&self) -> usize {
        match self.second {
            SecondOperand::Map { .. } => 2,
            SecondOperand::None | SecondOperand::Scalar(_) => 1,
        }
    }

    /// Extent of the dilated window along an axis.
    pub fn dilated(&self, axis: usize) -> i64 {
        (self.kernel[axis] - 1) * self.dilation[axis] + 1
    }
}

/// How the elements of a feature map lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Pixel by pixel, all channels of a pixel together.
    Nhwc,
    /// Row by row, and within a row in bricks of 16 channels of every pixel; channels are a multiple of 16.
    Nhcwb16,
}

/// OFM block: height, width, depth.
pub type Block = [i64; 3];

/// Cost of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Cycles from its first fetch to its last write, alone.
    pub cycles: u64,
    /// Of these, cycles that keep the memory of constants busy, which copies want too.
    pub constants: u64,
    /// Cycles while copies of constants run all the time and take their share of the arena's memory; at least `cycles`.
    pub beside_copies: u64,
    /// The block that gives them.
    pub block: Block,
}

/// What an operation costs at least in any schedule, in cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LowerBound {
    /// MAC engine, whatever the stripes, bands, slices and blocks.
    pub mac: u64,
    /// The same in proportion to the output: a part of the output takes at least that part.
    pub dense: u64,
    /// Output stage, in proportion to the output.
    pub output: u64,
    /// The whole operation, nothing else running, as one kernel: what no overlap hides of it.
    pub in_one_piece: u64,
    /// Of operations with weights, which are read again for each block of the plane: for each depth of OFM blocks the most
    /// pixels that one may have.
    pub planes: Vec<(i64, i64)>,
}

/// One side of an operation: a box of a feature map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slab {
    /// Rows and columns.
    pub plane: [i64; 2],
    /// How the whole map lies in memory.
    pub layout: Layout,
    /// Bytes of a pixel of the whole map.
    pub pixel_bytes: u64,
}

/// Where an operation's constants are when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// Where the device keeps constants.
    Constants,
    /// Copied into the arena.
    Arena,
}

/// Which constants an operation uses, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// All, from their home.
    InPlace,
    /// All, from the arena.
    Staged,
    /// Those of one slice of the output channels, from the arena; or none, of one joined input.
    Piece(Piece),
}

impl Source {
    /// Where that is.
    pub fn home(self) -> Home {
        match self {
            Source::InPlace => Home::Constants,
            Source::Staged | Source::Piece(_) => Home::Arena,
        }
    }

    /// Which piece of the output they make; None for all of it.
    pub fn piece(self) -> Option<Piece> {
        match self {
            Source::InPlace | Source::Staged => None,
            Source::Piece(piece) => Some(piece),
        }
    }

    /// What a copy of one slice, or of all, brings.
    pub fn copied(piece: Option<Piece>) -> Source {
        piece.map_or(Source::Staged, Source::Piece)
    }
}

/// A kernel on one stripe.
#[derive(Clone, Copy, Debug)]
pub struct StripeOperation<'a> {
    /// What it does; its depths are those of this operation.
    pub kernel: &'a NpuOperation,
    /// Rows and columns read, as far as they exist.
    pub input: Slab,
    /// The second box, of an operation with two feature maps.
    pub second: Option<Slab>,
    /// Rows and columns written.
    pub output: Slab,
    /// Padding rows and columns that the windows touch: top, left, bottom, right.
    pub padding: [i64; 4],
    /// Where its constants are.
    pub constants: Home,
}
