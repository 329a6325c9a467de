//! Programs: steps in order, over buffers, and where these lie.
//!
//! Owns the types between interleaving, lifetimes, placement and the checker. Decides and computes nothing.

use smallvec::SmallVec;

use crate::model::graph::CascaderGraph;
use crate::model::ids::{BufferId, IdVec, PartId, Piece, PoolId, TensorId};
use crate::model::memory::Candidates;
use crate::model::operation::{Cost, Home, LookUpTable, NpuOperation, Slab, Source, StripeOperation};
use crate::stripe::{Axis, Region};

/// Bytes `[start, end)`.
pub type ByteRange = (u64, u64);

/// Why a buffer exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A whole tensor.
    Tensor(TensorId),
    /// The live part of a tensor inside a cascade, and the axis along which it rolls.
    Rolling(TensorId, Axis),
    /// Staged weights and scales of a Part.
    Constants(PartId),
    /// Scratch of an opaque Part.
    Workspace(PartId),
}

/// Bytes `[low, high)` of a buffer, possibly none, are in use in steps `[first_step, last_step)`, and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveWindow {
    /// First step.
    pub first_step: u32,
    /// One past the last step.
    pub last_step: u32,
    /// First live byte.
    pub low: u64,
    /// One past the last live byte.
    pub high: u64,
}

/// Bytes that need a place. `capacity` is rows and columns of pixels for tensors, zero otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// What it holds.
    pub content: Content,
    /// Rows and columns it holds.
    pub capacity: [i64; 2],
    /// Bytes.
    pub size_bytes: u64,
    /// Pools that may hold it, the preferred one first.
    pub pools: Candidates,
    /// First step that touches it.
    pub first_step: u32,
    /// One past the last step that touches it.
    pub last_step: u32,
    /// Which bytes are in use when, in order of time and without a break over its lifetime; empty if all are all the
    /// time.
    pub windows: Vec<LiveWindow>,
}

/// A box of a tensor in a buffer; pixel `origin` lies at the buffer's start, rows and columns wrap at its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The buffer.
    pub buffer: BufferId,
    /// The box, in the coordinates of the plane as the Part sees it.
    pub region: Region,
    /// Row and column stored first.
    pub origin: [i64; 2],
    /// Rows and columns of the buffer as the Part sees it.
    pub capacity: [i64; 2],
    /// The box lies in rows of the buffer of its own, not anywhere in it.
    pub in_rows: bool,
}

impl View {
    /// Rows and columns of the box.
    pub fn plane(&self) -> [i64; 2] {
        self.region.spans.map(|span| span.len())
    }
}

/// One NPU operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// The Part.
    pub part: PartId,
    /// Boxes read.
    pub inputs: SmallVec<[View; 2]>,
    /// Box written.
    pub output: View,
    /// Padding rows and columns that the windows touch: top, left, bottom, right.
    pub padding: [i64; 4],
    /// Buffer of the staged constants, None if they are read in place.
    pub constants: Option<BufferId>,
    /// The piece of the output that is made, None for all of it.
    pub piece: Option<Piece>,
    /// What it costs as far as its extents tell, with the OFM block chosen for it.
    pub cost: Cost,
}

impl Stripe {
    /// The stripe as an operation with `kernel`, its Part's with the constants that it uses.
    pub fn operation<'k>(&self, graph: &CascaderGraph, kernel: &'k NpuOperation) -> StripeOperation<'k> {
        let reads = graph.reads(self.part, self.piece);
        let read = |index: usize| Slab {
            plane: self.inputs[index].plane(),
            layout: graph.tensors[reads[index].tensor].layout,
            pixel_bytes: reads[index].column_bytes(),
        };
        let made = &graph.tensors[graph.output(self.part)];
        StripeOperation {
            kernel,
            input: read(0),
            second: (self.inputs.len() > 1).then(|| read(1)),
            output: Slab { plane: self.output.plane(), layout: made.layout, pixel_bytes: made.pixel_bytes },
            padding: self.padding,
            constants: if self.constants.is_some() { Home::Arena } else { Home::Constants },
            pools: graph.pools(reads),
        }
    }

    /// Which constants of its Part's `kernel` it uses, and from where.
    pub fn source(&self, kernel: &NpuOperation) -> Source {
        match (self.constants, self.piece) {
            (None, None) => Source::InPlace,
            (None, Some(piece)) => Source::Piece(piece),
            (Some(_), piece) => kernel.copied(piece),
        }
    }
}

/// What a copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopySource {
    /// Constants of a Part, those of a piece or all, from where the device keeps constants.
    Constants(PartId, Option<Piece>),
    /// A whole tensor from another buffer.
    Tensor {
        /// The tensor.
        tensor: TensorId,
        /// Where it is read.
        from: BufferId,
    },
}

/// One step of a program. Nearly all steps are stripes, so that their size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Copy something into a buffer, from one pool to another.
    Copy {
        /// What, and from where.
        moved: CopySource,
        /// Destination.
        buffer: BufferId,
        /// Modelled cycles.
        cycles: u64,
    },
    /// Copy a table to where results are looked up in it.
    LoadTable {
        /// The Part that does so next.
        part: PartId,
        /// Which of the operations that it joins does, if it joins any.
        piece: Option<Piece>,
        /// The table.
        table: LookUpTable,
        /// Its first slot.
        slot: u32,
        /// How many kernels before the one that looks up in it have no use for what lies there.
        ahead: u32,
        /// Modelled cycles.
        cycles: u64,
    },
    /// Run the NPU on a stripe.
    Stripe(Stripe),
    /// Let the caller hand over the next rows of an input. What runs before ends there.
    Feed {
        /// The Part.
        part: PartId,
        /// Where the rows lie.
        output: View,
    },
    /// Let the caller take the next rows of an output. What runs before ends there.
    Take {
        /// The Part.
        part: PartId,
        /// Where the rows lie.
        input: View,
    },
    /// Run an opaque Part.
    Call {
        /// The Part.
        part: PartId,
        /// Its workspace, if any.
        workspace: Option<BufferId>,
    },
}

/// Steps in order, over buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// What to do.
    pub steps: Vec<Step>,
    /// Where.
    pub buffers: IdVec<BufferId, Buffer>,
    /// Buffer of each whole tensor.
    pub tensor_buffers: IdVec<TensorId, Option<BufferId>>,
}

/// Where a copy is issued, and from which slot on its buffer is kept free for it. Slot `s` lies right before step `s` of
/// those that are neither copies of constants nor loads of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssueSlot {
    /// The slot of the copy.
    pub slot: usize,
    /// The first slot at which its buffer is its own, at most `slot`.
    pub reserved: usize,
}

/// Where the copies of constants and the loads of tables of a program are issued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssueOrder {
    /// Of each copy, in the order of the program; slots ascend.
    pub copies: Vec<IssueSlot>,
    /// The copy that each load of a table stands right before; None if it stands right before its user.
    pub tables: Vec<Option<usize>>,
}

/// Where the buffers of a program lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Bytes of each pool up to the last one that a buffer may lie in; the scarce pool comes first.
    pub pool_bytes: IdVec<PoolId, u64>,
    /// Pool of each buffer.
    pub pools: IdVec<BufferId, PoolId>,
    /// First byte of each buffer in its pool.
    pub offsets: IdVec<BufferId, u64>,
}

impl Placement {
    /// Bytes of the scarce pool.
    pub fn bytes(&self) -> u64 {
        self.pool_bytes.first().copied().unwrap_or(0)
    }
}

/// A program in its place.
#[derive(Clone, Debug)]
pub struct Arrangement {
    /// What to do, over which buffers.
    pub program: Program,
    /// Where these lie.
    pub placement: Placement,
}
