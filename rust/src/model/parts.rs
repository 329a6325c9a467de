//! What a graph is made of: tensors, and the Parts that read and make them.
//!
//! Owns these as data. Whether they hold together is `faults`' to say, how they are linked `graph`'s.

use crate::model::ids::TensorId;
use crate::model::operation::{Layout, NpuOperation};
use crate::propagator::Propagator;
use crate::stripe::{Axis, Region, Span};

/// A feature map that some Part or the caller provides.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name for people.
    pub name: String,
    /// Height and width in pixels, as its producer writes it.
    pub plane: [i64; 2],
    /// Bytes of one pixel: channels times element size. None for what the caller has taken.
    pub pixel_bytes: u64,
    /// How its elements lie in memory. Rows follow each other in either layout.
    pub layout: Layout,
    /// Provided by the caller before the first Part runs.
    pub is_input: bool,
    /// Read by the caller after the last Part has run.
    pub is_output: bool,
    /// Of an output: the input that it is before the next run. Both lie in one place if the input is read for the last
    /// time before the output is begun.
    pub updates: Option<TensorId>,
    /// Whether an input holds state. Once a run has ended, the next run's state lies in its place.
    pub is_state: bool,
    /// The number of an external input among these. The caller keeps it in a memory of its own, where it is read as often
    /// as wanted and takes no bytes of other tensors.
    pub external: Option<u32>,
}

impl Tensor {
    /// Bytes of the whole tensor.
    pub fn size_bytes(&self) -> u64 {
        (self.plane[0] * self.plane[1]) as u64 * self.pixel_bytes
    }

    /// Whether a read finds the tensor's own rows and columns.
    pub fn is_seen_as_made(&self, input: &Input) -> bool {
        input.plane == self.plane && input.strides.is_none()
    }

    /// Whether a read finds the tensor's own rows, whatever columns it sees in them.
    pub fn is_seen_in_rows(&self, input: &Input) -> bool {
        input.plane[0] == self.plane[0] && input.strides.is_none()
    }
}

/// One read of a Part.
#[derive(Clone, Debug)]
pub struct Input {
    /// The tensor read.
    pub tensor: TensorId,
    /// Output stripe to input stripe.
    pub propagator: Propagator,
    /// The plane as this Part sees it. Another one than the tensor's own is another shape of the same bytes: the tensor is
    /// read where it lies pixel by pixel, in whole rows if it has as many of them, else whole.
    pub plane: [i64; 2],
    /// Bytes of a pixel as this Part sees it, channels that it leaves out included.
    pub pixel_bytes: u64,
    /// First channel read. As many follow as the kernel reads.
    pub first_channel: i64,
    /// Bytes from row to row and from column to column where the plane's pixels do not follow each other: then the tensor
    /// is read where it lies whole, and `pixel_bytes` are all from the last pixel's first byte on.
    pub strides: Option<[u64; 2]>,
    /// Rows and columns of the Part's output that the operation makes which reads it: all of them, or the box of one of
    /// several that are joined. The propagator counts from its first row and column.
    pub region: Region,
    /// Rows and columns that there are to its windows, of the plane as the Part sees it: beyond them lies padding.
    pub inside: Region,
    /// Rows beyond those it reads, for which there must be a place: those of the feed on its way.
    pub rows_ahead: i64,
}

impl Input {
    /// A read of a Part that makes all of its output by one operation, from the first channel on.
    pub fn new(tensor: TensorId, propagator: Propagator, plane: [i64; 2], pixel_bytes: u64) -> Input {
        let inside = Region::at([0; 2], plane);
        Input {
            tensor,
            propagator,
            plane,
            pixel_bytes,
            first_channel: 0,
            strides: None,
            region: Region::ALL,
            inside,
            rows_ahead: 0,
        }
    }

    /// Bytes from a column to the next.
    pub fn column_bytes(&self) -> u64 {
        self.strides.map_or(self.pixel_bytes, |strides| strides[1])
    }

    /// Whether it reads row by row and column by column what an output on `plane` has there, packed as that is.
    pub(super) fn is_identity(&self, plane: [i64; 2], pixel_bytes: u64) -> bool {
        let whole = Region::at([0; 2], plane);
        let same = |axis: Axis| {
            let (all, last) = (whole.span(axis), Span::new(whole.span(axis).end - 1, whole.span(axis).end));
            self.propagator.span(axis, all) == all && self.propagator.span(axis, last) == last
        };
        let is_packed = self.strides.is_none() && self.pixel_bytes == pixel_bytes && self.first_channel == 0;
        is_packed
            && self.plane == plane
            && self.inside == whole
            && self.region == Region::ALL
            && same(Axis::Height)
            && same(Axis::Width)
    }

    /// What of an output span belongs to the operation that reads it, counted from that one's first row or column.
    #[inline]
    pub(super) fn own(&self, axis: Axis, out: Span) -> Span {
        out.within(self.region.span(axis))
    }
}

/// What a Part is to the scheduler.
#[derive(Clone, Debug)]
pub enum Work {
    /// An NPU operation that may be striped.
    Npu(Box<NpuOperation>),
    /// The arrival of an input, whose rows its caller hands over in order, each once.
    Feed {
        /// Rows of one feed; the last one may have fewer.
        rows: i64,
        /// Whether they arrive while the device works, and are there at the next feed.
        is_ahead: bool,
    },
    /// The departure of an output, whose rows the caller takes in order, each once. What it makes takes no bytes.
    Take {
        /// Rows taken at once; the last ones may be fewer.
        rows: i64,
    },
    /// Something that runs whole, elsewhere (a CPU operator), with workspace of its own in the arena.
    Opaque {
        /// Bytes of workspace while it runs.
        workspace_bytes: u64,
        /// Least distance in bytes from its output's first byte to its input's, so that it may write over what it reads.
        /// None where it must not. A Part with an overlay has one input and one output.
        overlay: Option<u64>,
    },
}

/// Bytes beyond any distance in an arena.
const FAR: i64 = 1 << 59;

impl Part {
    /// The reads over whose tensors the Part may make `output`, its own, while it reads them.
    ///
    /// Each with the least and the largest offset of the output less the tensor's, in bytes.
    /// The NPU reads each block of an element-wise operation before it writes it, and writes blocks in order: so each element
    /// must lie exactly where its result does.
    pub(super) fn overlaid<'a>(&'a self, output: &'a Tensor) -> impl Iterator<Item = (&'a Input, [i64; 2])> + 'a {
        let opaque = match self.work {
            Work::Opaque { overlay, .. } => overlay.map(|least| [-FAR, -i64::try_from(least).unwrap_or(FAR).min(FAR)]),
            Work::Npu(_) | Work::Feed { .. } | Work::Take { .. } => None,
        };
        let exact = move |(index, input): (usize, &Input)| match &self.work {
            Work::Npu(kernel) => {
                let depth = output.pixel_bytes;
                (kernel.keeps_elements(index, depth) && input.is_identity(output.plane, depth)).then_some([0; 2])
            }
            Work::Opaque { .. } | Work::Feed { .. } | Work::Take { .. } => None,
        };
        self.inputs.iter().enumerate().filter_map(move |read| Some((read.1, opaque.or_else(|| exact(read))?)))
    }
}

/// A tensor that may be made over another one while that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// What is read, for the last time.
    pub input: TensorId,
    /// What is made.
    pub output: TensorId,
    /// Least and largest offset of the output less the input's, in bytes.
    pub apart: [i64; 2],
}

/// A group of operations that is always scheduled as one; here: one NPU operation or one CPU operator.
#[derive(Clone, Debug)]
pub struct Part {
    /// Name for people.
    pub name: String,
    /// Reads, in operand order.
    pub inputs: Vec<Input>,
    /// Tensors written; NPU Parts have exactly one.
    pub outputs: Vec<TensorId>,
    /// What it does.
    pub work: Work,
}
