//! NPU operations as the planner sees them: on whole feature maps, on one stripe, and what they cost.
//!
//! Owns these descriptions, which every room of the planner shares. Computes no cost: that is asked of `cost`, whatever the
//! device is.

use std::sync::Arc;

pub use super::kinds::{
    Element, Function, Layout, LookUpTable, OperationKind, Rounding, Scaling, SecondOperand, Upscale,
};
use crate::model::ids::{Id, Piece, PoolId};
use crate::model::memory::{aligned, Memories};
use crate::npu::registers::Register;
use crate::stripe::Region;

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
    /// Encoded weights plus scales, or a constant second operand, bytes.
    pub constant_bytes: u64,
    /// The same constants encoded for being copied as a whole, where another encoding is better then.
    pub staged: Option<Encoding>,
    /// The same constants encoded in slices of output channels, if that was done.
    pub sliced: Option<SlicedConstants>,
    /// Of a Part whose output several operations make: these, each with its box of the output. They make the Part's
    /// pieces.
    pub joined: Vec<JoinedOperation>,
    /// What command streams will say of it.
    pub emitted: Arc<StreamTemplate>,
}

/// One of several operations that together make an output: the boxes are apart and cover it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedOperation {
    /// The operation, whose own first row, column and channel are those of its box.
    pub operation: NpuOperation,
    /// Rows and columns that it makes.
    pub region: Region,
    /// The first channel that it makes; as many follow as it writes.
    pub first_channel: i64,
}

/// What command streams say of an operation whatever its stripe, so that they are predicted word for word; nothing where
/// none are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamTemplate {
    /// Registers and their values: where a stripe touches no padding, and where it does.
    pub registers: [Vec<(Register, u64)>; 2],
    /// Which bytes its weights and scales are, equal numbers for equal bytes: in place, staged, and of each slice.
    pub contents: Vec<[u32; 2]>,
}

/// What weights are encoded for: OFM block depth, and whether they come part-kernel-first.
pub type WeightOrder = (i64, bool);

/// How constants are encoded, and their size.
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
pub struct SlicedConstants {
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
            Source::Piece(piece) if !self.joined.is_empty() => {
                self.joined.get(piece.index())?.operation.encoding(Source::InPlace)
            }
            Source::StagedPiece(piece) => self.joined.get(piece.index())?.operation.encoding(Source::Staged),
            Source::Piece(piece) => {
                let sliced = self.sliced.as_ref()?;
                let bytes = *sliced.bytes.get(piece.index())?;
                Some(Encoding { block_depth: sliced.block_depth, part_kernel: sliced.part_kernel, bytes })
            }
        }
    }

    /// Where the constants are that an operation uses.
    pub fn home(&self, source: Source) -> Home {
        match source {
            Source::InPlace => Home::Constants,
            Source::Piece(_) if !self.joined.is_empty() => Home::Constants,
            Source::Staged | Source::Piece(_) | Source::StagedPiece(_) => Home::Arena,
        }
    }

    /// What a copy of constants brings: of one piece, or of all that an operation has.
    pub fn copied(&self, piece: Option<Piece>) -> Source {
        match piece {
            None => Source::Staged,
            Some(piece) if self.joined.is_empty() => Source::Piece(piece),
            Some(piece) => Source::StagedPiece(piece),
        }
    }

    /// Bytes of the copies of all constants: of one, or of one for each of the operations that are joined and have any.
    pub fn copies(&self) -> impl Iterator<Item = u64> + '_ {
        let all = |kernel: &NpuOperation| kernel.staged.map_or(kernel.constant_bytes, |staged| staged.bytes);
        let own = self.joined.is_empty().then(|| all(self));
        own.into_iter().chain(self.joined.iter().map(move |joined| all(&joined.operation))).filter(|&bytes| bytes > 0)
    }

    /// Bytes that copies of all constants take in the arena, each a buffer of its own.
    pub fn staged_bytes(&self) -> u64 {
        match self.joined.is_empty() {
            true => self.copies().sum(),
            false => self.copies().map(aligned).sum(),
        }
    }

    /// The operation with these constants and no others, or that joins one input; None where there is no such slice.
    pub fn with(&self, source: Source) -> Option<NpuOperation> {
        let piece = source.piece();
        if let Some(joined) = piece.and_then(|piece| self.joined.get(piece.index())) {
            let is_staged = matches!(source, Source::StagedPiece(_));
            return if is_staged { joined.operation.with(Source::Staged) } else { Some(joined.operation.clone()) };
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
        if let Some(joined) = piece.and_then(|piece| self.joined.get(piece.index())) {
            return [joined.first_channel, joined.first_channel + joined.operation.ofm_depth];
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
        piece.and_then(|piece| self.joined.get(piece.index())).map_or(self, |joined| &joined.operation)
    }

    /// Rows and columns of a Part's output in which a piece lies: all of them, unless operations are joined.
    pub fn region(&self, piece: Option<Piece>) -> Region {
        piece.and_then(|piece| self.joined.get(piece.index())).map_or(Region::ALL, |joined| joined.region)
    }

    /// Rows and columns of which a stripe's first is a multiple: an operation that enlarges its input repeats from there on.
    pub fn stripe_multiple(&self) -> i64 {
        let joined = self.joined.iter().map(|joined| joined.operation.upscale.factor());
        joined.max().unwrap_or_else(|| self.upscale.factor())
    }

    /// All tables that it looks results up in, or that the operations do which it joins.
    pub fn tables(&self) -> impl Iterator<Item = LookUpTable> + '_ {
        let own = self.table().filter(|_| self.joined.is_empty());
        own.into_iter().chain(self.joined.iter().filter_map(|joined| joined.operation.table()))
    }

    /// The table that must be loaded before it runs. Operations that are joined have one each.
    pub fn table(&self) -> Option<LookUpTable> {
        match self.function {
            Function::Table(table) => Some(table),
            Function::Clamp | Function::Tanh | Function::Sigmoid => None,
        }
    }

    /// The elements and channels that it reads of an operand, the first one or the second.
    pub fn operand(&self, index: usize) -> (Element, i64) {
        match self.second {
            SecondOperand::Map { element, broadcast } | SecondOperand::Constant { element, broadcast, .. }
                if index > 0 =>
            {
                (element, if broadcast[2] { 1 } else { self.ifm_depth })
            }
            _ => (self.ifm, self.ifm_depth),
        }
    }

    /// What it reads of a constant second operand for an output of `plane` pixels.
    pub fn constant_map(&self, plane: [i64; 2]) -> Option<Slab> {
        let SecondOperand::Constant { element, broadcast, layout } = self.second else { return None };
        let plane = [0, 1].map(|axis| if broadcast[axis] { 1 } else { plane[axis] });
        Some(Slab { plane, layout, pixel_bytes: (self.operand(1).1 * element.bytes()) as u64 })
    }

    /// Whether element `i` of an operand makes element `i` of the output, of as many bits.
    ///
    /// Pixels of both have `pixel_bytes`, and the operand's rows and columns are the output's.
    pub fn keeps_elements(&self, index: usize, pixel_bytes: u64) -> bool {
        let is_pool = matches!(self.kind, OperationKind::AveragePool | OperationKind::MaxPool);
        let is_single = [self.kernel, self.stride, self.dilation] == [[1; 2]; 3] && self.upscale == Upscale::None;
        let (element, depth) = self.operand(index);
        let is_all = (depth * element.bytes()) as u64 == pixel_bytes && depth == self.ofm_depth;
        let is_repeated = [0, 1].iter().any(|&axis| self.is_repeated(index, axis));
        self.joined.is_empty() && (is_pool && is_single || self.kind.is_elementwise()) && is_all && !is_repeated
    }

    /// Whether an operand's only row or column stands for all.
    pub fn is_repeated(&self, index: usize, axis: usize) -> bool {
        index > 0
            && matches!(
                self.second,
                SecondOperand::Map { broadcast, .. } | SecondOperand::Constant { broadcast, .. } if broadcast[axis]
            )
    }

    /// Feature maps that it reads, constants not among them.
    pub fn inputs(&self) -> usize {
        match self.second {
            SecondOperand::Map { .. } => 2,
            SecondOperand::None | SecondOperand::Scalar(_) | SecondOperand::Constant { .. } => 1,
        }
    }

    /// Extent of the dilated window along an axis.
    pub fn dilated(&self, axis: usize) -> i64 {
        (self.kernel[axis] - 1) * self.dilation[axis] + 1
    }
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
    /// Bytes of a pixel of the whole map, or from a column to the next where they are further apart.
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
    /// Those of one slice of the output channels, from the arena; or all that one of several joined operations has, from
    /// their home.
    Piece(Piece),
    /// All that one of several joined operations has, from the arena.
    StagedPiece(Piece),
}

impl Source {
    /// Which piece of the output they make; None for all of it.
    pub fn piece(self) -> Option<Piece> {
        match self {
            Source::InPlace | Source::Staged => None,
            Source::Piece(piece) | Source::StagedPiece(piece) => Some(piece),
        }
    }
}

/// In which pools an operation's bytes lie: inputs, output, and its constants, unless these are at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperandPools {
    /// Of each input.
    pub inputs: [PoolId; 2],
    /// Of the output.
    pub output: PoolId,
    /// Of constants that were copied.
    pub constants: PoolId,
}

impl OperandPools {
    /// All in the scarce pool.
    pub const NEAR: OperandPools =
        OperandPools { inputs: [Memories::SCARCE; 2], output: Memories::SCARCE, constants: Memories::SCARCE };
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
    /// Where all of it lies.
    pub pools: OperandPools,
}
