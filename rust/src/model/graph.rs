//! The CascaderGraph: Parts and Tensors by dense id, in the order in which Parts may run.
//!
//! Owns the problem that the search works on and its links. Holds no weights and no activations. `parts` says what Parts and
//! tensors are, `faults` what cannot be.

use crate::model::device::Device;
pub use crate::model::faults::GraphError;
use crate::model::faults::{
    check_arity, check_external, check_feed, check_part, check_take, check_update, check_view, external_error,
    order_error,
};
use crate::model::ids::{Id, IdVec, PartId, Piece, PoolId, TensorId};
use crate::model::memory::Memories;
pub use crate::model::operation::Layout;
use crate::model::operation::{NpuOperation, OperandPools, Upscale};
pub use crate::model::parts::{Input, Overlay, Part, Tensor, Work};
use crate::stripe::{Axis, Region, Span};

/// The tensor whose rows arrive while the device works, and the rows of a feed.
fn arrives_ahead(part: &Part) -> Option<(TensorId, i64)> {
    match part.work {
        Work::Feed { rows, is_ahead: true } => part.outputs.first().map(|&tensor| (tensor, rows)),
        _ => None,
    }
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
    /// Parts that read each tensor, ascending, each once: one that joins pieces may read it hundreds of times.
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
            if tensor.plane.iter().any(|&extent| extent < 1) {
                return Err(GraphError::Empty { tensor: tensor.name.clone() });
            }
            check_update(&tensors, tensor)?;
            check_external(tensor, device.memories())?;
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
                if matches!(part.work, Work::Opaque { .. }) && tensors[t].external.is_some() {
                    return Err(external_error(&tensors[t], "something other than the device reads it"));
                }
                if consumers[t].last() != Some(&id) {
                    consumers[t].push(id);
                }
            }
            for &tensor in &part.outputs {
                if producer[tensor].is_some() || tensors[tensor].is_input {
                    return Err(order_error(&tensors[tensor], part, "made again"));
                }
                producer[tensor] = Some(id);
            }
        }
        let ahead: Vec<(TensorId, i64)> = parts.iter().filter_map(arrives_ahead).collect();
        for part in &mut parts {
            for input in &mut part.inputs {
                input.rows_ahead =
                    ahead.iter().find(|(tensor, _)| *tensor == input.tensor).map_or(0, |(_, rows)| *rows);
            }
            match part.work {
                Work::Feed { rows, .. } => check_feed(&tensors, part, rows)?,
                Work::Take { rows } => check_take(&tensors, part, rows)?,
                Work::Npu(_) | Work::Opaque { .. } => {}
            }
            let Work::Npu(kernel) = &part.work else { continue };
            check_part(&tensors, part, kernel)?;
            let reads = kernel.joined.iter().flat_map(|joined| vec![joined.region; joined.operation.inputs()]);
            for (input, region) in part.inputs.iter_mut().zip(reads) {
                input.region = region;
            }
            let mut first = 0;
            let all = kernel.joined.iter().map(|joined| &joined.operation);
            for operation in kernel.joined.is_empty().then_some(&**kernel).into_iter().chain(all) {
                if operation.upscale == Upscale::Zeros {
                    part.inputs[first].propagator = part.inputs[first].propagator.clone().past_zeros();
                }
                first += operation.inputs();
            }
        }
        let is_taken = |id: TensorId| producer[id].is_some_and(|part| matches!(parts[part].work, Work::Take { .. }));
        let empty = |&(id, tensor): &(TensorId, &Tensor)| {
            tensor.pixel_bytes == 0 && !(is_taken(id) && consumers[id].is_empty())
        };
        if let Some((_, tensor)) = tensors.iter_ids().find(empty) {
            return Err(GraphError::Empty { tensor: tensor.name.clone() });
        }
        Ok(CascaderGraph { tensors, parts, device, producer, consumers })
    }

    /// The pool of an external input; None of all other tensors.
    pub fn external_pool(&self, tensor: TensorId) -> Option<PoolId> {
        let number = self.tensors[tensor].external?;
        self.device.memories().inputs().get(number as usize).copied()
    }

    /// The pools of an operation with these inputs before anything is placed: all but external inputs in the scarce one.
    pub fn pools(&self, inputs: &[Input]) -> OperandPools {
        let pool = |number: usize| inputs.get(number).and_then(|input| self.external_pool(input.tensor));
        OperandPools { inputs: [0, 1].map(|number| pool(number).unwrap_or(Memories::SCARCE)), ..OperandPools::NEAR }
    }

    /// The output of an NPU Part.
    pub fn output(&self, part: PartId) -> TensorId {
        self.parts[part].outputs[0]
    }

    /// Tensors that others than one run of the device touch: the caller, Parts that run elsewhere, several runs.
    pub fn interface(&self) -> IdVec<TensorId, bool> {
        // Runs are told apart by how many Parts of other kinds come before.
        let mut before = 0;
        let runs: Vec<Option<usize>> = self
            .parts
            .iter()
            .map(|part| match part.work {
                Work::Npu(_) => Some(before),
                Work::Feed { .. } | Work::Take { .. } | Work::Opaque { .. } => {
                    before += 1;
                    None
                }
            })
            .collect();
        let of = |(id, tensor): (TensorId, &Tensor)| {
            let made = self.producer[id].and_then(|part| runs[part.index()]);
            let is_read_elsewhere = || self.consumers[id].iter().any(|part| runs[part.index()] != made);
            tensor.is_input || tensor.is_output || made.is_none() || is_read_elsewhere()
        };
        self.tensors.iter_ids().map(of).collect::<Vec<_>>().into()
    }

    /// The kernel of an NPU Part, None for others.
    pub fn kernel(&self, part: PartId) -> Option<&NpuOperation> {
        match &self.parts[part].work {
            Work::Npu(kernel) => Some(kernel),
            Work::Feed { .. } | Work::Take { .. } | Work::Opaque { .. } => None,
        }
    }

    /// Rows of a feed or a take; None of any other Part.
    pub fn handed_rows(&self, part: PartId) -> Option<i64> {
        match self.parts[part].work {
            Work::Feed { rows, .. } | Work::Take { rows } => Some(rows),
            Work::Npu(_) | Work::Opaque { .. } => None,
        }
    }

    /// Whether a Part is a feed.
    pub fn is_feed(&self, part: PartId) -> bool {
        matches!(self.parts[part].work, Work::Feed { .. })
    }

    /// Whether a Part is a take.
    pub fn is_take(&self, part: PartId) -> bool {
        matches!(self.parts[part].work, Work::Take { .. })
    }

    /// Whether a Part's rows arrive while the device works on those before.
    pub fn arrives_ahead(&self, part: PartId) -> bool {
        matches!(self.parts[part].work, Work::Feed { is_ahead: true, .. })
    }

    /// Whether a group has a Part whose rows are handed over in order, each once.
    pub fn is_streamed(&self, mut parts: impl Iterator<Item = PartId>) -> bool {
        parts.any(|part| self.handed_rows(part).is_some())
    }

    /// Rows of a Part's stripes where nothing cuts it.
    pub fn uncut_rows(&self, part: PartId) -> i64 {
        match self.parts[part].work {
            Work::Npu(_) => self.tensors[self.output(part)].plane[0],
            Work::Feed { rows, .. } | Work::Take { rows } => rows,
            Work::Opaque { .. } => 1,
        }
    }

    /// Whether a Part runs whole, and elsewhere.
    pub fn is_opaque(&self, part: PartId) -> bool {
        matches!(self.parts[part].work, Work::Opaque { .. })
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

    /// Whether stripes along the axis can pass: the read sees its tensor's own rows, or rows and columns.
    #[inline]
    pub fn is_aligned(&self, input: &Input, axis: Axis) -> bool {
        let tensor = &self.tensors[input.tensor];
        match axis {
            Axis::Height => tensor.is_seen_in_rows(input),
            Axis::Width => tensor.is_seen_as_made(input),
        }
    }

    /// Span along `axis`, in the plane as the Part sees it, that its windows touch for the output span `out`, clamped;
    /// `NONE` where nothing of that is made from this input.
    #[inline]
    pub fn seen(&self, input: &Input, axis: Axis, out: Span) -> Span {
        let own = input.own(axis, out);
        if own.is_empty() {
            return own;
        }
        input.propagator.span(axis, own).clamp(input.inside.span(axis))
    }

    /// Span of its tensor along `axis` to be there, or on its way, for the output span `out`; all of it if unaligned.
    #[inline]
    pub fn needed(&self, input: &Input, axis: Axis, out: Span) -> Span {
        let seen = self.seen(input, axis, out);
        let end = self.tensors[input.tensor].plane[axis as usize];
        match (seen.is_empty(), self.is_aligned(input, axis), axis) {
            (true, ..) => seen,
            (false, false, _) => Span::new(0, end),
            (false, true, Axis::Width) => seen,
            (false, true, Axis::Height) => Span::new(seen.start, (seen.end + input.rows_ahead).min(end)),
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

    /// The first input over which a Part may make its output. Neither is state, and no later Part reads the input.
    pub fn overlay(&self, part: PartId) -> Option<Overlay> {
        let &[output] = &self.parts[part].outputs[..] else { return None };
        if self.kernel(part).is_some() && !self.device.writes_over_operands() {
            return None;
        }
        let may_share = |input: TensorId| {
            let [read, made] = [input, output].map(|tensor| &self.tensors[tensor]);
            let is_state = read.is_state || made.updates.is_some();
            !is_state && read.layout == made.layout && !self.outlives(input, part)
        };
        let overlays = self.parts[part].overlaid(&self.tensors[output]);
        let mut overlays = overlays.map(|(read, apart)| Overlay { input: read.tensor, output, apart });
        overlays.find(|overlay| may_share(overlay.input))
    }

    /// Whether a tensor is still wanted by anyone after Part `last`.
    pub fn outlives(&self, tensor: TensorId, last: PartId) -> bool {
        self.tensors[tensor].is_output || self.consumers[tensor].last().is_some_and(|&part| part > last)
    }

    /// How many Parts after `first` the one is that makes a tensor; None if it is made before `first` or is an input.
    pub fn made_since(&self, tensor: TensorId, first: PartId) -> Option<usize> {
        self.producer[tensor].filter(|&part| part >= first).map(|part| part.since(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::operation::{Element, OperationKind, SecondOperand};
    use crate::propagator::Propagator;
    use crate::testing::networks::{taken_in_rows, Network, INPUT};

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
    fn what_others_than_one_run_touch_is_told() {
        let mut net = Network::new([8, 8], 16);
        let mut tensors = vec![INPUT];
        for _ in 0..5 {
            tensors.push(net.window(tensors[tensors.len() - 1], OperationKind::Convolution, 1, 1, 16));
        }
        let beyond = net.add(tensors[1], tensors[5]);
        let CascaderGraph { tensors: all, mut parts, device, .. } = net.finish(beyond);
        // The third convolution runs elsewhere: its input and its output are handed over, and the first one's output waits.
        parts[PartId(2)].work = Work::Opaque { workspace_bytes: 0, overlay: None };
        let graph = CascaderGraph::new(all, parts, device).expect("it holds together");
        let told: Vec<bool> = tensors.iter().chain([&beyond]).map(|&tensor| graph.interface()[tensor]).collect();
        assert_eq!(told, [true, true, true, true, false, false, true]);
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
        let empty = fault(|tensors, _| tensors[1].plane[0] = 0);
        assert!(matches!(empty, Some(GraphError::Empty { .. })));
    }

    #[test]
    fn views_that_do_not_fit_their_tensor_are_named() {
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
    }

    #[test]
    fn operations_that_do_not_fit_their_part_are_named() {
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
    }

    #[test]
    fn takes_that_leave_bytes_or_pixels_are_named() {
        let graph = || {
            let mut net = Network::new([8, 8], 16);
            let t = net.window(INPUT, OperationKind::Convolution, 1, 1, 16);
            taken_in_rows(&net.finish(t), 3)
        };
        let found = |change: fn(&mut [Tensor], &mut Part)| {
            let CascaderGraph { mut tensors, mut parts, device, .. } = graph();
            change(&mut tensors, &mut parts[PartId(1)]);
            CascaderGraph::new(tensors, parts, device).err()
        };
        assert_eq!(found(|_, _| {}), None);
        let faults: [fn(&mut [Tensor], &mut Part); 4] = [
            |tensors, _| tensors[2].pixel_bytes = 16,
            |tensors, _| tensors[2].plane = [8, 7],
            |tensors, _| tensors[1].layout = Layout::Nhcwb16,
            |_, part| part.inputs[0].inside = Region::at([0; 2], [8, 7]),
        ];
        for change in faults {
            assert_eq!(found(change), Some(GraphError::Take { part: "take".into(), rows: 3 }));
        }
        let CascaderGraph { tensors, mut parts, device, .. } = graph();
        parts[PartId(1)].work = Work::Take { rows: 0 };
        assert!(matches!(CascaderGraph::new(tensors, parts, device), Err(GraphError::Take { rows: 0, .. })));
    }

    #[test]
    fn tensors_that_update_what_they_cannot_are_named() {
        let update = |change: fn(&mut [Tensor])| {
            let found = fault(move |tensors, _| change(tensors));
            let Some(GraphError::Update { fault, .. }) = found else { panic!("{found:?}") };
            fault
        };
        assert_eq!(update(|tensors| tensors[3].updates = Some(TensorId(9))), "it is not there");
        assert_eq!(update(|tensors| tensors[3].updates = Some(TensorId(1))), "it is no input of as many bytes");
        assert_eq!(update(|tensors| tensors[3].updates = Some(INPUT)), "it is no input of as many bytes");
        assert!(update(|tensors| tensors[1].updates = Some(INPUT)).contains("without being an output"));
        let both = |tensors: &mut [Tensor]| {
            tensors[1].is_output = true;
            tensors[2].is_output = true;
            tensors[1].updates = Some(INPUT);
        };
        assert_eq!(fault(move |tensors, _| both(tensors)), None);
        let twice = fault(move |tensors, _| {
            both(tensors);
            tensors[2].updates = Some(INPUT);
        });
        assert!(matches!(twice, Some(GraphError::Update { fault: "so does another one", .. })));
    }
}
