//! What an NPU operation does to elements: its kind, operands, types, scaling and function, as the planner tells them apart.
//!
//! Owns these choices and their names. How large an operation is and what it costs is `operation`'s to describe.

use crate::model::ids::TableId;

/// The kinds in the order of their numbers, each with the name by which lowering and descriptions of devices call it.
macro_rules! operation_kinds {
    ($($(#[$meaning:meta])* $kind:ident = $name:literal,)*) => {
        /// What an operation does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum OperationKind {
            $($(#[$meaning])* $kind,)*
        }

        impl OperationKind {
            /// All of them, in the order of their numbers.
            pub const ALL: [OperationKind; OperationKind::COUNT] = [$(OperationKind::$kind),*];

            /// How many there are.
            pub const COUNT: usize = [$($name),*].len();

            /// The name by which lowering and descriptions of devices call it.
            pub fn name(self) -> &'static str {
                match self {
                    $(OperationKind::$kind => $name,)*
                }
            }
        }
    };
}

operation_kinds! {
    /// Full convolution.
    Convolution = "convolution",
    /// One filter per channel.
    Depthwise = "depthwise",
    /// Average pool; of one element, a copy that may rescale.
    AveragePool = "average_pool",
    /// Max pool.
    MaxPool = "max_pool",
    /// Sum of all channels of a pixel.
    SumOverDepth = "sum_over_depth",
    /// Element-wise product.
    Mul = "mul",
    /// Element-wise sum.
    Add = "add",
    /// Element-wise difference.
    Sub = "sub",
    /// The lesser of two elements.
    Minimum = "minimum",
    /// The greater of two elements.
    Maximum = "maximum",
    /// An element, scaled if it is negative.
    LeakyRelu = "leaky_relu",
    /// Absolute value.
    Abs = "abs",
    /// Leading zeros.
    Clz = "clz",
    /// Element-wise shift to the right.
    Shr = "shr",
    /// Element-wise shift to the left.
    Shl = "shl",
}

impl OperationKind {
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
    /// A constant feature map: the operation's constants, as weights are another's.
    Constant {
        /// Its elements.
        element: Element,
        /// Whether its only row, column or channel stands for all of the first operand's.
        broadcast: [bool; 3],
        /// How its elements lie.
        layout: Layout,
    },
}

/// How the elements of a feature map lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Pixel by pixel, all channels of a pixel together.
    Nhwc,
    /// Row by row, and within a row in bricks of 16 channels of every pixel; channels are a multiple of 16.
    Nhcwb16,
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
