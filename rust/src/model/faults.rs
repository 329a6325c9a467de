//! What does not hold together in a graph: faults of single Parts, and of what they read and make.
//!
//! Owns the words and how each is found, given Parts and tensors. Which Part makes what is `graph`'s to follow.

use thiserror::Error;

use crate::model::ids::{IdVec, TensorId};
use crate::model::memory::Memories;
use crate::model::operation::{JoinedOperation, Layout, NpuOperation, SecondOperand, Upscale};
use crate::model::parts::{Input, Part, Tensor};
use crate::stripe::{Axis, Region, Span};

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
    /// An output that cannot take the place of what it updates.
    #[error("tensor '{tensor}' updates tensor {before}: {fault}")]
    Update {
        /// The output.
        tensor: String,
        /// What it updates.
        before: TensorId,
        /// Why not.
        fault: &'static str,
    },
    /// A tensor that cannot be external.
    #[error("tensor '{tensor}' cannot be external: {fault}")]
    External {
        /// The tensor.
        tensor: String,
        /// Why not.
        fault: &'static str,
    },
    /// A feed with inputs, without rows, or with another output than one tensor pixel by pixel.
    #[error("part '{part}' hands over {rows} rows at a time: it needs at least one, no input, and one output, pixel by pixel")]
    Feed {
        /// The Part.
        part: String,
        /// Rows of a feed.
        rows: i64,
    },
    /// A take of anything but one tensor, pixel by pixel, or with bytes left behind.
    #[error("part '{part}' takes {rows} rows at a time: it needs at least one, one input, pixel by pixel, and one output without bytes")]
    Take {
        /// The Part.
        part: String,
        /// Rows taken at once.
        rows: i64,
    },
    /// A plane or pixel of no extent.
    #[error("tensor '{tensor}' has an empty plane or pixel")]
    Empty {
        /// The tensor.
        tensor: String,
    },
}

/// An external input is nothing else, and the device has a memory for it.
pub(super) fn check_external(tensor: &Tensor, memories: &Memories) -> Result<(), GraphError> {
    match tensor.external {
        Some(number) if number as usize >= memories.inputs().len() => {
            Err(external_error(tensor, "the device has no memory for it"))
        }
        Some(_) if !tensor.is_input || tensor.is_output || tensor.is_state => {
            Err(external_error(tensor, "it is more than an input, or none"))
        }
        _ => Ok(()),
    }
}

pub(super) fn external_error(tensor: &Tensor, fault: &'static str) -> GraphError {
    GraphError::External { tensor: tensor.name.clone(), fault }
}

/// An NPU Part has one output and reads what its kernel reads, or all that the operations read which are joined.
pub(super) fn check_arity(part: &Part, kernel: &NpuOperation) -> Result<(), GraphError> {
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

/// A feed reads nothing and fills one tensor, row by row.
pub(super) fn check_feed(tensors: &IdVec<TensorId, Tensor>, part: &Part, rows: i64) -> Result<(), GraphError> {
    match part.outputs[..] {
        [output] if part.inputs.is_empty() && rows >= 1 && tensors[output].layout == Layout::Nhwc => Ok(()),
        _ => Err(GraphError::Feed { part: part.name.clone(), rows }),
    }
}

/// A take reads the rows of one tensor as they are made. Its output is as high and wide, without bytes.
pub(super) fn check_take(tensors: &IdVec<TensorId, Tensor>, part: &Part, rows: i64) -> Result<(), GraphError> {
    let taken = |input: &Input, output: TensorId| {
        let (tensor, output) = (&tensors[input.tensor], &tensors[output]);
        let is_empty = output.pixel_bytes == 0 && output.is_output && output.plane == tensor.plane;
        is_empty && tensor.layout == Layout::Nhwc && input.is_identity(tensor.plane, tensor.pixel_bytes)
    };
    match (&part.inputs[..], &part.outputs[..]) {
        ([input], &[output]) if rows >= 1 && taken(input, output) => Ok(()),
        _ => Err(GraphError::Take { part: part.name.clone(), rows }),
    }
}

/// What a Part reads and makes is what its operation's figures say, or those of the operations that are joined.
pub(super) fn check_part(
    tensors: &IdVec<TensorId, Tensor>,
    part: &Part,
    kernel: &NpuOperation,
) -> Result<(), GraphError> {
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
    for JoinedOperation { operation, region, .. } in &kernel.joined {
        let (own, others) = inputs.split_at(operation.inputs());
        check_operation(tensors, part, operation, (own, region.spans.map(Span::len)))?;
        inputs = others;
    }
    Ok(())
}

/// The boxes of operations that are joined lie in the output, apart, and cover it. Cuts of a constant operand are beyond
/// them.
fn check_boxes(output: &Tensor, part: &Part, kernel: &NpuOperation) -> Result<(), GraphError> {
    let fault = |fault: String| Err(GraphError::Operation { part: part.name.clone(), fault });
    let whole = Region::at([0; 2], output.plane);
    let of = |joined: &JoinedOperation| [joined.first_channel, joined.first_channel + joined.operation.ofm_depth];
    let mut elements = 0;
    for (index, joined) in kernel.joined.iter().enumerate() {
        let (operation, region, channels) = (&joined.operation, joined.region, of(joined));
        let bytes = (channels[1] * operation.ofm.bytes()) as u64;
        if region.meet(&whole) != Some(region) || channels[0] < 0 || bytes > output.pixel_bytes {
            return fault(format!("joins an operation that writes beyond '{}'", output.name));
        }
        let meets = |before: &&JoinedOperation| {
            let [first, end] = of(before);
            before.region.meet(&region).is_some() && first < channels[1] && channels[0] < end
        };
        if kernel.joined[..index].iter().any(|before| meets(&before)) {
            return fault(format!("joins operations that write one element of '{}' twice", output.name));
        }
        if !operation.joined.is_empty() {
            return fault("joins an operation that is itself joined".into());
        }
        let factor = operation.upscale.factor();
        if region.spans.iter().any(|span| span.start % factor != 0) {
            return fault("joins an operation that enlarges its input and begins inside a doubled pixel".into());
        }
        if matches!(operation.second, SecondOperand::Constant { .. }) {
            return fault("joins an operation that reads a constant operand".into());
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
        let (found, name) = (inputs[1].inside.spans.map(Span::len), &tensors[inputs[1].tensor].name);
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

/// An output takes the place of one input of as many bytes, and no other output does.
pub(super) fn check_update(tensors: &IdVec<TensorId, Tensor>, tensor: &Tensor) -> Result<(), GraphError> {
    let Some(before) = tensor.updates else { return Ok(()) };
    let fault = match tensors.iter_ids().find(|&(id, _)| id == before) {
        None => "it is not there",
        Some((_, input)) if !input.is_input || input.size_bytes() != tensor.size_bytes() => {
            "it is no input of as many bytes"
        }
        Some(_) if tensor.is_input || !tensor.is_output => "it does so without being an output that is made",
        Some(_) if tensors.iter().filter(|other| other.updates == Some(before)).count() > 1 => "so does another one",
        Some(_) => return Ok(()),
    };
    Err(GraphError::Update { tensor: tensor.name.clone(), before, fault })
}

/// A read sees all bytes of its tensor, as the tensor's maker left them or, where they lie pixel by pixel, in another shape.
pub(super) fn check_view(tensor: &Tensor, part: &Part, input: &Input) -> Result<(), GraphError> {
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

pub(super) fn order_error(tensor: &Tensor, part: &Part, fault: &'static str) -> GraphError {
    GraphError::Order { tensor: tensor.name.clone(), fault, part: part.name.clone() }
}
