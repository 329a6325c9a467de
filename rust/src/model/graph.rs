//! The CascaderGraph: Parts and Tensors by dense id, in the order in which Parts may run.
//!
//! Owns the problem that the search works on and its verification. Holds no weights and no activations.

use thiserror::Error;

use crate::model::device::Device;
use crate::model::ids::{Id, IdVec, PartId, Piece, TensorId};
pub use crate::model::operation::Layout;
use crate::model::operation::{Joined, NpuOperation, SecondOperand, Upscale};
use crate::propagator::Propagator;
use crate::stripe::{Axis, Region, Span};

/// A feature map that some Part or the caller provides.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name for people.
    pub name: String,
    /// Height and width in pixels, as its producer writes it.
    pub plane: [i64; 2],
    /// Bytes of one pixel: channels times element size.
    pub pixel_bytes: u64,
    /// How its elements lie in memory. Rows follow each other in either layout.
    pub layout: Layout,
    /// Provided by the caller before the first Part runs.
    pub is_input: bool,
    /// Read by the caller after the last Part has run.
    pub is_output: bool,
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
}

/// One read of a Part.
#[derive(Clone, Debug)]
pub struct Input {
    /// The tensor read.
    pub tensor: TensorId,
    /// Output stripe to input stripe.
    pub propagator: Propagator,
    /// The plane as this Part sees it. Another one than the tensor's own is another shape of the same bytes: stripes of
    /// the tensor's maker do not pass, and the tensor is read where it lies whole, pixel by pixel.
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
}

impl Input {
    /// A read of a Part that makes all of its output by one operation, from the first channel on.
    pub fn new(tensor: TensorId, propagator: Propagator, plane: [i64; 2], pixel_bytes: u64) -> Input {
        let inside = Region::at([0; 2], plane);
        Input { tensor, propagator, plane, pixel_bytes, first_channel: 0, strides: None, region: Region::ALL, inside }
    }

    /// Bytes from a column to the next.
    pub fn column_bytes(&self) -> u64 {
        self.strides.map_or(self.pixel_bytes, |strides| strides[1])
    }

    /// What of an output span belongs to the operation that reads it, counted from that one's first row or column.
    #[inline]
    fn own(&self, axis: Axis, out: Span) -> Span {
        out.within(self.region.span(axis))
    }
}

/// What a Part is to the scheduler.
#[derive(Clone, Debug)]
pub enum Work {
    /// An NPU operation that may be striped.
    Npu(Box<NpuOperation>),
    /// Something that runs whole, elsewhere (a CPU operator), with workspace of its own in the arena.
    Opaque {
        /// Bytes of workspace while it runs.
        workspace_bytes: u64,
    },
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

/// A fault in a CascaderGraph.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GraphError {
    /// An id beyond the tensors there are.
    #[error("part '{part}' refers to tensor {tensor}, the graph has {count}")]
    NoSuchTensor {
        /// The Part.
        part: String,
        /// The id found.
        tensor: TensorId,
        /// Number of tensors.
        count: usize,
    },
    /// A tensor is read before it is made, or made twice.
    #[error("tensor '{tensor}' is {fault} by part '{part}'")]
    Order {
        /// The tensor.
        tensor: String,
        /// "read before it is made" or "made again".
        fault: &'static str,
        /// The Part.
        part: String,
    },
    /// An NPU Part without exactly one output.
    #[error("NPU part '{part}' has {count} outputs; it needs exactly one")]
    Outputs {
        /// The Part.
        part: String,
        /// Outputs found.
        count: usize,
    },
    /// An NPU Part without an input, or one that joins another number of inputs than it has.
    #[error("NPU part '{part}' has {count} inputs; its kernel reads {expected}")]
    Inputs {
        /// The Part.
        part: String,
        /// Inputs found.
        count: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A read that sees other bytes than the tensor's, or sees them in an order in which they do not lie.
    #[error("part '{part}' sees tensor '{tensor}' {fault}")]
    View {
        /// The tensor.
        tensor: String,
        /// The Part.
        part: String,
        /// How.
        fault: &'static str,
    },
    /// An operation that its own figures, or those of what it reads and makes, make impossible.
    #[error("NPU part '{part}' {fault}")]
    Operation {
        /// The Part.
        part: String,
        /// Why it is not.
        fault: String,
    },
    /// A plane or pixel of no extent.
    #[error("tensor '{tensor}' has an empty plane or pixel")]
    Empty {
        /// The tensor.
        tensor: String,
    },
}

/// Alignment of buffers in the arena, bytes.
pub const ALIGNMENT: u64 = 16;

/// Bytes rounded up to the arena's alignment.
pub fn aligned(bytes: u64) -> u64 {
    bytes.div_ceil(ALIGNMENT) * ALIGNMENT
}

/// Parts and tensors, verified, with the links between them.
#[derive(Clone, Debug)]
pub struct CascaderGraph {
    /// Tensors by id.
    pub tensors: IdVec<TensorId, Tensor>,
    /// Parts by id.
    pub parts: IdVec<PartId, Part>,
    /// The device they run on.
    pub device: Device,
    /// Part that makes each tensor; None for the caller's.
    pub producer: IdVec<TensorId, Option<PartId>>,
    /// Parts that read each tensor, ascending, one entry per read.
    pub consumers: IdVec<TensorId, Vec<PartId>>,
}

impl CascaderGraph {
    /// Link and verify.
    pub fn new(
        tensors: IdVec<TensorId, Tensor>,
        mut parts: IdVec<PartId, Part>,
        device: Device,
    ) -> Result<CascaderGraph, GraphError> {
        let mut producer = IdVec::from(vec![None; tensors.len()]);
        let mut consumers = IdVec::from(vec![Vec::new(); tensors.len()]);
        for tensor in &tensors {
            if tensor.plane.iter().any(|&extent| extent < 1) || tensor.pixel_bytes == 0 {
                return Err(GraphError::Empty { tensor: tensor.name.clone() });
            }
        }
        for (id, part) in parts.iter_ids() {
            if let Work::Npu(kernel) = &part.work {
                check_arity(part, kernel)?;
            }
            for tensor in part.inputs.iter().map(|input| input.tensor).chain(part.outputs.iter().copied()) {
                if tensor.index() >= tensors.len() {
                    return Err(GraphError::NoSuchTensor { part: part.name.clone(), tensor, count: tensors.len() });
                }
            }
            for input in &part.inputs {
                let t = input.tensor;
                if producer[t].is_none() && !tensors[t].is_input {
                    return Err(order_error(&tensors[t], part, "read before it is made"));
                }
                check_view(&tensors[t], part, input)?;
                consumers[t].push(id);
            }
            for &tensor in &part.outputs {
                if producer[tensor].is_some() || tensors[tensor].is_input {
                    return Err(order_error(&tensors[tensor], part, "made again"));
                }
                producer[tensor] = Some(id);
            }
        }
        for part in &mut parts {
            let Work::Npu(kernel) = &part.work else { continue };
            check_part(&tensors, part, kernel)?;
            let reads = kernel.joined.iter().flat_map(|joined| vec![joined.region; joined.operation.inputs()]);
            for (input, region) in part.inputs.iter_mut().zip(reads) {
                input.region = region;
            }
            if kernel.upscale == Upscale::Zeros {
                part.inputs[0].propagator = part.inputs[0].propagator.clone().past_zeros();
            }
        }
        Ok(CascaderGraph { tensors, parts, device, producer, consumers })
    }

    /// The output of an NPU Part.
    pub fn output(&self, part: PartId) -> TensorId {
        self.parts[part].outputs[0]
    }

    /// The kernel of an NPU Part, None for an opaque one.
    pub fn kernel(&self, part: PartId) -> Option<&NpuOperation> {
        match &self.parts[part].work {
            Work::Npu(kernel) => Some(kernel),
            Work::Opaque { .. } => None,
        }
    }

    /// Rows and columns of which the first of every stripe and band of a Part's output is a multiple.
    pub fn stripe_multiple(&self, part: PartId) -> i64 {
        self.kernel(part).map_or(1, NpuOperation::stripe_multiple)
    }

    /// What the operation reads that makes a piece of a Part's output: of one whose operations are joined, its own inputs.
    pub fn reads(&self, part: PartId, piece: Option<Piece>) -> &[Input] {
        let inputs = &self.parts[part].inputs;
        let joined = self.kernel(part).map_or(&[][..], |kernel| &kernel.joined);
        match piece.map(Piece::index).filter(|&index| index < joined.len()) {
            Some(index) => {
                let first: usize = joined[..index].iter().map(|before| before.operation.inputs()).sum();
                &inputs[first..first + joined[index].operation.inputs()]
            }
            None => inputs,
        }
    }

    /// Rows and columns of a Part's output in which a piece lies.
    pub fn region(&self, part: PartId, piece: Option<Piece>) -> Region {
        let whole = Region::at([0; 2], self.tensors[self.output(part)].plane);
        let piece = self.kernel(part).map_or(Region::ALL, |kernel| kernel.region(piece));
        piece.meet(&whole).unwrap_or(whole)
    }

    /// Whether the read sees its tensor with the tensor's own rows and columns, so that stripes can pass.
    pub fn is_aligned(&self, input: &Input) -> bool {
        self.tensors[input.tensor].is_seen_as_made(input)
    }

    /// Span along `axis`, in the plane as the Part sees it, that its windows touch for the output span `out`, clamped;
    /// `NONE` where nothing of that is made from this input.
    pub fn seen(&self, input: &Input, axis: Axis, out: Span) -> Span {
        let own = input.own(axis, out);
        if own.is_empty() {
            return own;
        }
        input.propagator.span(axis, own).clamp(input.inside.span(axis))
    }

    /// Span of its tensor along `axis` that must be there for the output span `out`; all of it where unaligned.
    pub fn needed(&self, input: &Input, axis: Axis, out: Span) -> Span {
        let seen = self.seen(input, axis, out);
        if seen.is_empty() || self.is_aligned(input) {
            seen
        } else {
            Span::new(0, self.tensors[input.tensor].plane[axis as usize])
        }
    }

    /// Padding rows and columns (top, left, bottom, right) that the windows of a Part touch on a box of its output: those
    /// around its input as it is enlarged. A zero between two rows that a stripe begins with is one of them.
    pub fn padding(&self, part: PartId, piece: Option<Piece>, region: Region) -> [i64; 4] {
        let input = &self.reads(part, piece)[0];
        let upscale = self.kernel(part).map_or(Upscale::None, |kernel| kernel.piece(piece).upscale);
        let (factor, zeros) = (upscale.factor(), i64::from(upscale == Upscale::Zeros));
        let [height, width] = [Axis::Height, Axis::Width].map(|axis| {
            let touched = input.propagator.along(axis).dividends(input.own(axis, region.span(axis)));
            let inside = input.inside.span(axis);
            let (first, end) = (touched.start - zeros - inside.start * factor, inside.end * factor);
            let before = if first > 0 { first.rem_euclid(factor) * zeros } else { -first };
            (before, (touched.end - end).max(0))
        });
        [height.0, width.0, height.1, width.1]
    }

    /// Whether a tensor is still wanted by anyone after Part `last`.
    pub fn outlives(&self, tensor: TensorId, last: PartId) -> bool {
        self.tensors[tensor].is_output || self.consumers[tensor].last().is_some_and(|&part| part > last)
    }
}

/// An NPU Part has one output and reads what its kernel reads, or all that the operations read which are joined.
fn check_arity(part: &Part, kernel: &NpuOperation) -> Result<(), GraphError> {
    if part.outputs.len() != 1 {
        return Err(GraphError::Outputs { part: part.name.clone(), count: part.outputs.len() });
    }
    let joined = kernel.joined.iter().map(|joined| joined.operation.inputs()).sum();
    let (count, expected) = (part.inputs.len(), if kernel.joined.is_empty() { kernel.inputs() } else { joined });
    if count != expected {
        return Err(GraphError::Inputs { part: part.name.clone(), count, expected });
    }
    Ok(())
}

/// What a Part reads and makes is what its operation's figures say, or those of the operations that are joined.
fn check_part(tensors: &IdVec<TensorId, Tensor>, part: &Part, kernel: &NpuOperation) -> Result<(), GraphError> {
    let output = &tensors[part.outputs[0]];
    if (kernel.ofm_depth * kernel.ofm.bytes()) as u64 > output.pixel_bytes {
        let fault = format!(
            "writes {} channels of {} bits to '{}', whose pixels have {} bytes",
            kernel.ofm_depth, kernel.ofm.bits, output.name, output.pixel_bytes
        );
        return Err(GraphError::Operation { part: part.name.clone(), fault });
    }
    if kernel.joined.is_empty() {
        return check_operation(tensors, part, kernel, (&part.inputs, output.plane));
    }
    check_boxes(output, part, kernel)?;
    let mut inputs = &part.inputs[..];
    for Joined { operation, region, .. } in &kernel.joined {
        let (own, others) = inputs.split_at(operation.inputs());
        check_operation(tensors, part, operation, (own, region.spans.map(Span::len)))?;
        inputs = others;
    }
    Ok(())
}

/// The boxes of operations that are joined lie in the output, apart, and cover it. What is copied or looked up once for a
/// whole Part, and cuts of a doubled input, are beyond them.
fn check_boxes(output: &Tensor, part: &Part, kernel: &NpuOperation) -> Result<(), GraphError> {
    let fault = |fault: String| Err(GraphError::Operation { part: part.name.clone(), fault });
    let whole = Region::at([0; 2], output.plane);
    let of = |joined: &Joined| [joined.first_channel, joined.first_channel + joined.operation.ofm_depth];
    let mut elements = 0;
    for (index, joined) in kernel.joined.iter().enumerate() {
        let (operation, region, channels) = (&joined.operation, joined.region, of(joined));
        let bytes = (channels[1] * operation.ofm.bytes()) as u64;
        if region.meet(&whole) != Some(region) || channels[0] < 0 || bytes > output.pixel_bytes {
            return fault(format!("joins an operation that writes beyond '{}'", output.name));
        }
        let meets = |before: &&Joined| {
            let [first, end] = of(before);
            before.region.meet(&region).is_some() && first < channels[1] && channels[0] < end
        };
        if kernel.joined[..index].iter().any(|before| meets(&before)) {
            return fault(format!("joins operations that write one element of '{}' twice", output.name));
        }
        if operation.table().is_some() || operation.upscale != Upscale::None || !operation.joined.is_empty() {
            return fault("joins an operation that looks results up, enlarges its input or is itself joined".into());
        }
        let [height, width] = region.spans.map(Span::len);
        elements += (height * width) as u64 * (operation.ofm_depth * operation.ofm.bytes()) as u64;
    }
    if elements != output.size_bytes() {
        return fault(format!("joins operations that write {elements} bytes of '{}'", output.name));
    }
    Ok(())
}

/// What an operation reads and makes, `plane` pixels, is what its figures say.
fn check_operation(
    tensors: &IdVec<TensorId, Tensor>,
    part: &Part,
    kernel: &NpuOperation,
    (inputs, plane): (&[Input], [i64; 2]),
) -> Result<(), GraphError> {
    let fault = |fault: String| Err(GraphError::Operation { part: part.name.clone(), fault });
    let factor = kernel.upscale.factor();
    for (index, input) in inputs.iter().enumerate() {
        let (element, depth) = kernel.operand(index);
        let name = &tensors[input.tensor].name;
        if ((input.first_channel + depth) * element.bytes()) as u64 > input.pixel_bytes {
            return fault(format!(
                "reads channels {} to {} of {} bits of '{name}', whose pixels have {} bytes",
                input.first_channel,
                input.first_channel + depth,
                element.bits,
                input.pixel_bytes
            ));
        }
        let by = if index == 0 { factor } else { 1 };
        if input.propagator.denominators() != [by; 2] {
            let found = input.propagator.denominators();
            return fault(format!("divides rows and columns of '{name}' by {found:?} and not by {by}"));
        }
    }
    if let Some(map) = kernel.constant_map(plane) {
        let bytes = map.plane.iter().product::<i64>() as u64 * map.pixel_bytes;
        if kernel.constant_bytes.min(kernel.staged_bytes()) < bytes {
            let (found, plane) = (kernel.constant_bytes.min(kernel.staged_bytes()), map.plane);
            return fault(format!("reads a constant of {plane:?} pixels, {bytes} bytes, and has {found} of constants"));
        }
    }
    if let SecondOperand::Map { broadcast, .. } = kernel.second {
        let (found, name) = (inputs[1].plane, &tensors[inputs[1].tensor].name);
        if (0..2).any(|axis| found[axis] != if broadcast[axis] { 1 } else { plane[axis] }) {
            return fault(format!(
                "reads a second operand '{name}' of {found:?} for {plane:?}, repeated {broadcast:?}"
            ));
        }
    }
    // A stripe's first row is a multiple of the factor, and so is its window's in the enlarged input.
    let first = |axis| inputs[0].propagator.along(axis).dividends(Span::new(0, 0)).start;
    let uneven = [Axis::Height, Axis::Width].into_iter().find(|&axis| first(axis).rem_euclid(factor) != 0);
    match uneven {
        Some(axis) if kernel.upscale == Upscale::Nearest => {
            fault(format!("begins {} pixels before its doubled input; that is even", -first(axis)))
        }
        _ => Ok(()),
    }
}

/// A read sees all bytes of its tensor, as the tensor's maker left them or, where they lie pixel by pixel, in another shape.
fn check_view(tensor: &Tensor, part: &Part, input: &Input) -> Result<(), GraphError> {
    let [height, width] = input.plane.map(|extent| u64::try_from(extent).unwrap_or(0));
    let packed = || Some([width.checked_mul(input.pixel_bytes)?, input.pixel_bytes]);
    let bytes = input.strides.or_else(packed).and_then(|[row, column]| {
        let rows = height.checked_sub(1)?.checked_mul(row)?;
        let columns = width.checked_sub(1)?.checked_mul(column)?;
        rows.checked_add(columns)?.checked_add(input.pixel_bytes)
    });
    let fault = if bytes != Some(tensor.size_bytes()) {
        "as another number of bytes"
    } else if !tensor.is_seen_as_made(input) && tensor.layout != Layout::Nhwc {
        "in another shape, though it lies in bricks"
    } else if !input.propagator.is_separable() {
        "with rows that depend on columns"
    } else if input.inside.meet(&Region::at([0; 2], input.plane)) != Some(input.inside) {
        "beyond its rows and columns"
    } else {
        return Ok(());
    };
    Err(GraphError::View { tensor: tensor.name.clone(), part: part.name.clone(), fault })
}

fn order_error(tensor: &Tensor, part: &Part, fault: &'static str) -> GraphError {
    GraphError::Order { tensor: tensor.name.clone(), fault, part: part.name.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::operation::{Element, OperationKind};
    use crate::testing::networks::{Network, INPUT};

    /// Two convolutions whose outputs are joined, with something changed.
    fn fault(change: impl FnOnce(&mut [Tensor], &mut [Part])) -> Option<GraphError> {
        let mut net = Network::new([8, 8], 16);
        let branches = [3, 1].map(|kernel| net.window(INPUT, OperationKind::Convolution, kernel, 1, 16));
        let end = net.join(&branches);
        let CascaderGraph { mut tensors, mut parts, device, .. } = net.finish(end);
        change(&mut tensors, &mut parts);
        CascaderGraph::new(tensors, parts, device).err()
    }

    #[test]
    fn what_does_not_hold_together_is_named() {
        assert_eq!(fault(|_, _| {}), None);
        let count = fault(|_, parts| parts[0].outputs.clear());
        assert!(matches!(count, Some(GraphError::Outputs { count: 0, .. })));
        let none = fault(|_, parts| parts[0].inputs.clear());
        assert!(matches!(none, Some(GraphError::Inputs { count: 0, expected: 1, .. })));
        let fewer = fault(|_, parts| parts[2].inputs.truncate(1));
        assert!(matches!(fewer, Some(GraphError::Inputs { count: 1, expected: 2, .. })));
        let beyond = fault(|tensors, parts| parts[1].inputs[0].tensor = TensorId::at(tensors.len()));
        assert!(matches!(beyond, Some(GraphError::NoSuchTensor { .. })));
        let early = fault(|_, parts| parts.swap(1, 2));
        assert!(matches!(early, Some(GraphError::Order { fault: "read before it is made", .. })));
        let again = fault(|_, parts| parts[1].outputs = parts[0].outputs.clone());
        assert!(matches!(again, Some(GraphError::Order { fault: "made again", .. })));
        let bytes = fault(|_, parts| parts[0].inputs[0].plane = [8, 7]);
        assert!(matches!(bytes, Some(GraphError::View { fault: "as another number of bytes", .. })));
        let reshaped = |layout| {
            move |tensors: &mut [Tensor], parts: &mut [Part]| {
                tensors[1].layout = layout;
                parts[2].inputs[0].plane = [4, 16];
                parts[2].inputs[0].inside = Region::at([0; 2], [4, 16]);
            }
        };
        assert_eq!(fault(reshaped(Layout::Nhwc)), None);
        let bricks = fault(reshaped(Layout::Nhcwb16));
        assert!(matches!(bricks, Some(GraphError::View { fault: "in another shape, though it lies in bricks", .. })));
        let strided = |strides, layout| {
            fault(move |tensors: &mut [Tensor], parts: &mut [Part]| {
                tensors[1].layout = layout;
                parts[2].inputs[0].strides = Some(strides);
            })
        };
        assert_eq!(strided([16, 128], Layout::Nhwc), None);
        let beyond = strided([16, 129], Layout::Nhwc);
        assert!(matches!(beyond, Some(GraphError::View { fault: "as another number of bytes", .. })));
        let bricks = strided([16, 128], Layout::Nhcwb16);
        assert!(matches!(bricks, Some(GraphError::View { fault: "in another shape, though it lies in bricks", .. })));
        let transposed = fault(|_, parts| {
            let (mut transform, mut strides) = ([[0; 5]; 4], [[0; 4]; 4]);
            for (dimension, from) in [0, 2, 1, 3].into_iter().enumerate() {
                (transform[dimension][from], strides[dimension][from]) = (1, 1);
            }
            parts[0].inputs[0].propagator = Propagator::new(transform, strides, [0; 4]);
        });
        assert!(matches!(transposed, Some(GraphError::View { fault: "with rows that depend on columns", .. })));
        let operation = |change: fn(&mut NpuOperation)| {
            let found = fault(|_, parts| {
                let Work::Npu(kernel) = &mut parts[0].work else { unreachable!() };
                change(kernel);
            });
            let Some(GraphError::Operation { fault, .. }) = found else { panic!("{found:?}") };
            fault
        };
        assert!(operation(|kernel| kernel.ofm.bits = 16).contains("16 channels of 16 bits"));
        assert!(operation(|kernel| kernel.ifm.bits = 32).contains("channels 0 to 16 of 32 bits"));
        assert!(operation(|kernel| kernel.upscale = Upscale::Nearest).contains("by [1, 1] and not by 2"));
        let uneven = fault(|_, parts| {
            let Work::Npu(kernel) = &mut parts[0].work else { unreachable!() };
            kernel.upscale = Upscale::Nearest;
            let read = &mut parts[0].inputs[0].propagator;
            *read = read.clone().divided_by([1, 2, 2, 1]);
        });
        assert!(
            matches!(uneven, Some(GraphError::Operation { fault, .. }) if fault.contains("begins 1 pixels before"))
        );
        let repeated = fault(|_, parts| {
            let Work::Npu(kernel) = &mut parts[2].work else { unreachable!() };
            kernel.joined.clear();
            kernel.second = SecondOperand::Map { element: Element::INT8, broadcast: [true, false, true] };
            kernel.ifm_depth = 16;
        });
        assert!(matches!(repeated, Some(GraphError::Operation { fault, .. }) if fault.contains("second operand 't2'")));
        let short = fault(|_, parts| {
            let Work::Npu(kernel) = &mut parts[2].work else { unreachable!() };
            kernel.joined.clear();
            let broadcast = [true, false, false];
            kernel.second = SecondOperand::Constant { element: Element::INT8, broadcast, layout: Layout::Nhwc };
            kernel.ifm_depth = 16;
            kernel.constant_bytes = 8 * 16 - 1;
            parts[2].inputs.truncate(1);
        });
        assert!(
            matches!(short, Some(GraphError::Operation { fault, .. }) if fault.contains("[1, 8] pixels, 128 bytes"))
        );
        let empty = fault(|tensors, _| tensors[1].plane[0] = 0);
        assert!(matches!(empty, Some(GraphError::Empty { .. })));
    }
}
