//! Graphs for the tests of the scheduler: chains, residual networks and joins written down as tables.

use crate::cost::choose_encoding;
use crate::model::device::Device;
use crate::model::graph::{CascaderGraph, Input, Layout, Part, Tensor, Work};
use crate::model::ids::{BufferId, IdVec, PartId, TensorId};
use crate::model::memory::aligned;
use crate::model::memory::{Memories, Pool};
use crate::model::operation::{
    Element, Encoding, Function, JoinedOperation, LookUpTable, NpuOperation, OperationKind, Rounding, Scaling,
    SecondOperand, SlicedConstants, Upscale,
};
use crate::model::plan::{Plan, Proposal};
use crate::model::program::{Arrangement, Buffer, Placement, Program};
use crate::npu::timing::Port;
use crate::propagator::Propagator;
use crate::search::arrange;
use crate::search::uncascaded;

use crate::stripe::{Axis, Region, Span};

/// The map of an operation that reads exactly what it writes.
fn identity() -> Propagator {
    let row = |d: usize| std::array::from_fn(|column| i64::from(column == d));
    Propagator::new([0, 1, 2, 3].map(row), [0, 1, 2, 3].map(|d| std::array::from_fn(|at| i64::from(at == d))), [0; 4])
}

/// Everything in the scarce pool, `bytes` of it.
pub fn in_one_pool(bytes: u64, offsets: IdVec<BufferId, u64>) -> Placement {
    let pools = vec![Memories::SCARCE; offsets.len()].into();
    Placement { pool_bytes: vec![bytes].into(), pools, offsets }
}

/// An int8 operation on single pixels; a binary one reads two feature maps.
pub fn plain(kind: OperationKind, [ifm_depth, ofm_depth]: [i64; 2]) -> NpuOperation {
    let map = SecondOperand::Map { element: Element::INT8, broadcast: [false; 3] };
    NpuOperation {
        kind,
        kernel: [1; 2],
        stride: [1; 2],
        dilation: [1; 2],
        upscale: Upscale::None,
        ifm_depth,
        ofm_depth,
        ifm: Element::INT8,
        ofm: Element::INT8,
        second: if kind.is_binary() { map } else { SecondOperand::None },
        clamped: false,
        function: Function::Clamp,
        scaling: if kind.has_weights() { Scaling::PerChannel } else { Scaling::None },
        rounding: Rounding::Tfl,
        accumulator_bits: 32,
        part_kernel: false,
        block_depth: 8,
        constant_bytes: 0,
        staged: None,
        sliced: None,
        joined: Vec::new(),
        emitted: Default::default(),
    }
}

/// U55-256 with High_End_Embedded's memories.
pub fn device() -> Device {
    device_of("ethos-u55-256")
}

/// An accelerator with High_End_Embedded's memories.
pub fn device_of(accelerator: &str) -> Device {
    let port = |name: &str, bytes, read_latency, write_latency, burst_bytes| Port {
        name: name.into(),
        bytes_per_cycle: (bytes, 1),
        read_latency,
        write_latency,
        burst_bytes,
    };
    let (flash, sram) = (port("OffChipFlash", 1, 64, 0, 128), port("Sram", 8, 32, 32, 32));
    let pool = |port| Pool { port, limit_bytes: None };
    let memories =
        Memories::with_inputs(vec![pool(sram)], pool(flash.clone()), Some(pool(flash))).expect("two memories");
    Device::ethos_u(accelerator, memories).expect("there is such a device")
}

/// A window operation's propagator.
pub fn window(kernel: i64, stride: i64, before: i64, depth: i64) -> Propagator {
    let span = [0, stride, stride, 0, 0];
    let mut transform = [[1, 0, 0, 0, 0], [0; 5], [0; 5], [0, 0, 0, 0, depth]];
    transform[1] = [0, stride, 0, 0, kernel - stride];
    transform[2] = [0, 0, stride, 0, kernel - stride];
    let strides = [[1, 0, 0, 0], [0, span[1], 0, 0], [0, 0, span[2], 0], [0; 4]];
    Propagator::new(transform, strides, [0, -before, -before, 0])
}

/// The only input of a [`Network`].
pub const INPUT: TensorId = TensorId(0);

/// A network under construction; every operation pads "SAME".
pub struct Network {
    tensors: IdVec<TensorId, Tensor>,
    parts: IdVec<PartId, Part>,
}

impl Network {
    /// A network with one int8 input.
    pub fn new(size: [i64; 2], depth: u64) -> Network {
        let input = Tensor {
            name: "input".into(),
            plane: size,
            pixel_bytes: depth,
            layout: Layout::Nhwc,
            is_input: true,
            is_output: false,
            updates: None,
            is_state: false,
            external: None,
        };
        Network { tensors: vec![input].into(), parts: IdVec::default() }
    }

    /// Add a convolution, depthwise convolution or pool.
    pub fn window(&mut self, from: TensorId, kind: OperationKind, kernel: i64, stride: i64, depth: i64) -> TensorId {
        let seen = self.tensors[from].plane;
        self.window_over((from, seen), kind, kernel, stride, depth)
    }

    /// As `window`, with the input seen as another plane of as many bytes.
    pub fn window_over(
        &mut self,
        (from, seen): (TensorId, [i64; 2]),
        kind: OperationKind,
        kernel: i64,
        stride: i64,
        depth: i64,
    ) -> TensorId {
        let pixel_bytes = self.tensors[from].size_bytes() / seen.iter().product::<i64>() as u64;
        let ifm_depth = pixel_bytes as i64;
        let plane = seen.map(|extent| (extent + stride - 1) / stride);
        let total = ((plane[0] - 1) * stride + kernel - seen[0]).max(0);
        let propagator = window(kernel, stride, total / 2, ifm_depth);
        let input = Input::new(from, propagator, seen, pixel_bytes);
        let weights = kernel * kernel * if kind == OperationKind::Convolution { ifm_depth * depth } else { depth };
        self.push(plane, depth, vec![input], kind, [kernel, stride, ifm_depth, weights])
    }

    /// Add a pool of single pixels that makes rows of columns, of a tensor that lies whole.
    pub fn turned(&mut self, from: TensorId) -> TensorId {
        let Tensor { plane: [height, width], pixel_bytes, .. } = self.tensors[from];
        let (plane, depth) = ([width, height], pixel_bytes as i64);
        let strides = Some([pixel_bytes, width as u64 * pixel_bytes]);
        let input = Input { strides, ..Input::new(from, identity(), plane, pixel_bytes) };
        self.push(plane, depth, vec![input], OperationKind::AveragePool, [1, 1, depth, 0])
    }

    /// Add two tensors.
    pub fn add(&mut self, a: TensorId, b: TensorId) -> TensorId {
        let plane = self.tensors[a].plane;
        let depth = self.tensors[a].pixel_bytes as i64;
        let read = |tensor| Input::new(tensor, identity(), plane, depth as u64);
        let inputs = [a, b].map(read);
        self.push(plane, depth, inputs.to_vec(), OperationKind::Add, [1, 1, depth, 0])
    }

    /// Add an element-wise operation, a pool of single pixels or a sum over depth that makes elements of `bits`, of a
    /// tensor and, where the kind is binary, a second one, or a scalar; what the second has one of stands for all.
    pub fn pointwise(&mut self, kind: OperationKind, from: TensorId, second: Option<TensorId>, bits: u32) -> TensorId {
        let plane = self.tensors[from].plane;
        let (ifm, ifm_depth) = self.element(from);
        let mut inputs = vec![self.read(from, [false; 2])];
        let ofm_depth = if kind == OperationKind::SumOverDepth { 1 } else { ifm_depth };
        let mut operation =
            NpuOperation { ifm, ofm: Element { bits, signed: true }, ..plain(kind, [ifm_depth, ofm_depth]) };
        operation.second = match second {
            Some(tensor) => {
                let ([height, width], (element, depth)) = (self.tensors[tensor].plane, self.element(tensor));
                let broadcast = [height != plane[0], width != plane[1], depth != ifm_depth];
                inputs.push(self.read(tensor, [broadcast[0], broadcast[1]]));
                SecondOperand::Map { element, broadcast }
            }
            None if kind.is_binary() => SecondOperand::Scalar(ifm),
            None => SecondOperand::None,
        };
        self.run(plane, inputs, operation)
    }

    /// Add an element-wise operation of a tensor and a constant, of which one row, column or channel may stand for all;
    /// it lies in bricks where it can.
    pub fn with_constant(&mut self, kind: OperationKind, from: TensorId, broadcast: [bool; 3], bits: u32) -> TensorId {
        let plane = self.tensors[from].plane;
        let (ifm, depth) = self.element(from);
        let whole = !broadcast[2] && depth % 16 == 0;
        let layout = if whole && ifm.bits == 8 { Layout::Nhcwb16 } else { Layout::Nhwc };
        let second = SecondOperand::Constant { element: ifm, broadcast, layout };
        let operation = NpuOperation { ifm, ofm: Element { bits, signed: true }, second, ..plain(kind, [depth; 2]) };
        let map = operation.constant_map(plane).expect("a constant operand");
        let bytes = map.plane.iter().product::<i64>() as u64 * map.pixel_bytes;
        let operation = NpuOperation { constant_bytes: aligned(bytes), ..operation };
        let inputs = vec![self.read(from, [false; 2])];
        self.run(plane, inputs, operation)
    }

    /// Look every element of an 8-bit tensor up in a table.
    pub fn look_up(&mut self, from: TensorId, table: LookUpTable) -> TensorId {
        let (plane, depth) = (self.tensors[from].plane, self.element(from).1);
        let inputs = vec![self.read(from, [false; 2])];
        let function = Function::Table(table);
        self.run(plane, inputs, NpuOperation { function, ..plain(OperationKind::AveragePool, [depth; 2]) })
    }

    /// Add a window over a tensor of doubled rows and columns; the last row and column are left out where `is_odd`.
    pub fn doubled(
        &mut self,
        from: TensorId,
        (kind, upscale): (OperationKind, Upscale),
        (kernel, before): (i64, i64),
        is_odd: bool,
    ) -> TensorId {
        let plane = self.tensors[from].plane.map(|extent| 2 * extent - i64::from(is_odd));
        let (ifm, depth) = self.element(from);
        let mut read = self.read(from, [false; 2]);
        read.propagator = window(kernel, 1, before, depth).divided_by([1, 2, 2, 1]);
        let weights = if kind == OperationKind::Convolution { kernel * kernel * depth * depth } else { 0 };
        let operation = NpuOperation {
            kernel: [kernel; 2],
            upscale,
            ifm,
            ofm: ifm,
            constant_bytes: weights as u64 + if weights > 0 { 10 * depth as u64 } else { 0 },
            ..plain(kind, [depth; 2])
        };
        self.run(plane, vec![read], operation)
    }

    /// Add a pool over all rows, or columns, of an 8-bit tensor.
    pub fn squeezed(&mut self, from: TensorId, axis: usize) -> TensorId {
        let (mut plane, depth) = (self.tensors[from].plane, self.element(from).1);
        let mut kernel = [1; 2];
        (kernel[axis], plane[axis]) = (plane[axis], 1);
        let mut read = self.read(from, [false; 2]);
        let mut transform = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0]];
        transform[axis + 1][4] = kernel[axis] - 1;
        let strides = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]];
        read.propagator = Propagator::new(transform, strides, [0; 4]);
        self.run(plane, vec![read], NpuOperation { kernel, ..plain(OperationKind::AveragePool, [depth; 2]) })
    }

    /// Elements of a tensor, and how many a pixel has.
    fn element(&self, tensor: TensorId) -> (Element, i64) {
        let makes = |part: &&Part| part.outputs[0] == tensor;
        let element = match self.parts.iter().find(makes).map(|part| &part.work) {
            Some(Work::Npu(kernel)) => kernel.ofm,
            _ => Element::INT8,
        };
        (element, self.tensors[tensor].pixel_bytes as i64 / element.bytes())
    }

    /// A read of the pixel that is made, or of the only row or column.
    fn read(&self, tensor: TensorId, repeated: [bool; 2]) -> Input {
        let (mut transform, mut strides) = ([[0; 5]; 4], [[0; 4]; 4]);
        for dimension in 0..4 {
            let still = (1..3).contains(&dimension) && repeated[dimension - 1];
            transform[dimension][if still { 4 } else { dimension }] = 1;
            strides[dimension][dimension] = i64::from(!still);
        }
        let Tensor { plane, pixel_bytes, .. } = self.tensors[tensor];
        let propagator = Propagator::new(transform, strides, [0; 4]);
        Input::new(tensor, propagator, plane, pixel_bytes)
    }

    /// Put the channels of tensors one behind the other.
    pub fn join(&mut self, from: &[TensorId]) -> TensorId {
        self.join_along(2, from)
    }

    /// Put tensors one behind the other along an axis: rows, columns or channels.
    pub fn join_along(&mut self, axis: usize, from: &[TensorId]) -> TensorId {
        let shape = |tensor: &TensorId| {
            let Tensor { plane, pixel_bytes, .. } = self.tensors[*tensor];
            [plane[0], plane[1], pixel_bytes as i64]
        };
        let shapes: Vec<[i64; 3]> = from.iter().map(shape).collect();
        let read = |(&tensor, &[height, width, depth]): (&TensorId, &[i64; 3])| {
            Input::new(tensor, identity(), [height, width], depth as u64)
        };
        let inputs = from.iter().zip(&shapes).map(read).collect();
        let mut whole = shapes[0];
        whole[axis] = shapes.iter().map(|shape| shape[axis]).sum();
        let [height, width, depth] = whole;
        let id = self.push([height, width], depth, inputs, OperationKind::AveragePool, [1, 1, depth, 0]);
        if let Some(Work::Npu(kernel)) = self.parts.last_mut().map(|part| &mut part.work) {
            let mut first = [0; 3];
            let copy = |&[height, width, depth]: &[i64; 3]| {
                let copy = NpuOperation { ifm_depth: depth, ofm_depth: depth, ..(**kernel).clone() };
                let found = choose_encoding(&device(), &copy, [height, width], [Layout::Nhwc; 2], &[]);
                let operation = NpuOperation { block_depth: found.expect("a block fits")[0].0, ..copy };
                let region = Region::at([first[0], first[1]], [height, width]);
                let joined = JoinedOperation { operation, region, first_channel: first[2] };
                first[axis] += [height, width, depth][axis];
                joined
            };
            kernel.joined = shapes.iter().map(copy).collect();
        }
        id
    }

    fn push(
        &mut self,
        plane: [i64; 2],
        depth: i64,
        inputs: Vec<Input>,
        kind: OperationKind,
        [kernel, stride, ifm_depth, weights]: [i64; 4],
    ) -> TensorId {
        let operation = NpuOperation {
            kernel: [kernel; 2],
            stride: [stride; 2],
            clamped: true,
            constant_bytes: weights as u64 + if weights > 0 { 10 * depth as u64 } else { 0 },
            ..plain(kind, [ifm_depth, depth])
        };
        self.run(plane, inputs, operation)
    }

    /// Add an operation with its constants encoded as they are best.
    fn run(&mut self, plane: [i64; 2], inputs: Vec<Input>, mut kernel: NpuOperation) -> TensorId {
        let (kind, depth) = (kernel.kind, kernel.ofm_depth);
        let name = format!("t{}", self.tensors.len());
        let id = self.tensors.push(Tensor {
            name,
            plane,
            pixel_bytes: (depth * kernel.ofm.bytes()) as u64,
            layout: Layout::Nhwc,
            is_input: false,
            is_output: false,
            updates: None,
            is_state: false,
            external: None,
        });
        let [in_place, (block_depth, part_kernel)] =
            choose_encoding(&device(), &kernel, plane, [Layout::Nhwc; 2], &[]).expect("a block fits");
        (kernel.block_depth, kernel.part_kernel) = in_place;
        kernel.staged =
            (kernel.constant_bytes > 0).then_some(Encoding { block_depth, part_kernel, bytes: kernel.constant_bytes });
        if kind == OperationKind::Convolution && depth >= 32 {
            let part = NpuOperation {
                ofm_depth: 16,
                constant_bytes: kernel.constant_bytes * 16 / depth as u64,
                ..kernel.clone()
            };
            let [_, (block_depth, part_kernel)] =
                choose_encoding(&device(), &part, plane, [Layout::Nhwc; 2], &[]).expect("a block fits");
            let bytes = vec![part.constant_bytes; (depth as usize).div_ceil(16)];
            kernel.sliced = Some(SlicedConstants { depth: 16, block_depth, part_kernel, bytes });
        }
        let work = Work::Npu(Box::new(kernel));
        self.parts.push(Part { name: format!("p{id}"), inputs, outputs: vec![id], work });
        id
    }

    /// Finish, with `output` as the network's output.
    pub fn finish(self, output: TensorId) -> CascaderGraph {
        self.finish_on(output, device())
    }

    /// The same on another device.
    pub fn finish_on(mut self, output: TensorId, device: Device) -> CascaderGraph {
        self.tensors[output].is_output = true;
        CascaderGraph::new(self.tensors, self.parts, device).expect("a sample graph is right")
    }
}

/// A network whose input lies in flash.
pub fn fed_from_flash(graph: &CascaderGraph) -> CascaderGraph {
    let CascaderGraph { mut tensors, parts, device, .. } = graph.clone();
    tensors[INPUT].external = Some(0);
    CascaderGraph::new(tensors, parts, device).expect("nothing but the device reads it")
}

/// A network whose input arrives in feeds of `rows` rows, before they are used or a feed ahead.
pub fn fed_in_rows(graph: &CascaderGraph, rows: i64, is_ahead: bool) -> CascaderGraph {
    let CascaderGraph { mut tensors, parts, device, .. } = graph.clone();
    tensors[INPUT].is_input = false;
    let feed =
        Part { name: "feed".into(), inputs: Vec::new(), outputs: vec![INPUT], work: Work::Feed { rows, is_ahead } };
    let parts: Vec<Part> = std::iter::once(feed).chain(parts.into_items()).collect();
    CascaderGraph::new(tensors, parts.into(), device).expect("a feed ahead of all")
}

/// A network whose output is taken in rows, `rows` at a time.
pub fn taken_in_rows(graph: &CascaderGraph, rows: i64) -> CascaderGraph {
    let CascaderGraph { mut tensors, mut parts, device, .. } = graph.clone();
    let output = tensors.ids().find(|&id| tensors[id].is_output).expect("an output");
    let Tensor { plane, pixel_bytes, .. } = tensors[output];
    tensors[output].is_output = false;
    let taken = Tensor { name: "taken".into(), pixel_bytes: 0, is_output: true, ..tensors[output].clone() };
    let inputs = vec![Input::new(output, identity(), plane, pixel_bytes)];
    let outputs = vec![tensors.push(taken)];
    parts.push(Part { name: "take".into(), inputs, outputs, work: Work::Take { rows } });
    CascaderGraph::new(tensors, parts, device).expect("a take behind all")
}

/// MobileNetV1 1.0/224 up to its last pointwise convolution.
pub fn mobilenet_v1() -> CascaderGraph {
    let mut net = Network::new([224, 224], 3);
    let mut t = net.window(INPUT, OperationKind::Convolution, 3, 2, 32);
    let blocks = [(1, 64), (2, 128), (1, 128), (2, 256), (1, 256), (2, 512), (1, 512), (1, 512), (1, 512), (1, 512)];
    let mut depth = 32;
    for (stride, out) in blocks.into_iter().chain([(1, 512), (2, 1024), (1, 1024)]) {
        t = net.window(t, OperationKind::Depthwise, 3, stride, depth);
        t = net.window(t, OperationKind::Convolution, 1, 1, out);
        depth = out;
    }
    net.finish(t)
}

/// MobileNetV2 1.0/224 up to its last bottleneck.
pub fn mobilenet_v2() -> CascaderGraph {
    let mut net = Network::new([224, 224], 3);
    let mut t = net.window(INPUT, OperationKind::Convolution, 3, 2, 32);
    let mut depth = 32;
    for (expand, out, repeat, first) in
        [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    {
        for i in 0..repeat {
            let stride = if i == 0 { first } else { 1 };
            let from = t;
            if expand > 1 {
                t = net.window(t, OperationKind::Convolution, 1, 1, depth * expand);
            }
            t = net.window(t, OperationKind::Depthwise, 3, stride, depth * expand);
            t = net.window(t, OperationKind::Convolution, 1, 1, out);
            if stride == 1 && depth == out {
                t = net.add(from, t);
            }
            depth = out;
        }
    }
    net.finish(t)
}

/// Every buffer behind the one before, and the largest sum of bytes alive at once: what a perfect placement takes.
pub fn stacked(program: &Program) -> Placement {
    let alive = |step: u32| program.buffers.iter().map(|buffer| live_bytes(buffer, step)).sum();
    let bytes = (0..program.steps.len() as u32).map(alive).max().unwrap_or(0);
    let mut next = 0;
    let offsets = program.buffers.iter().map(|buffer| {
        next += aligned(buffer.size_bytes);
        next - aligned(buffer.size_bytes)
    });
    in_one_pool(bytes, offsets.collect())
}

/// The program of a Proposal and where everything lies, made of its decisions.
pub fn realised(graph: &CascaderGraph, proposal: &Proposal) -> (Program, Placement) {
    let Proposal { plans, issue_order, placement, .. } = proposal;
    let made = arrange(graph, plans, issue_order.as_ref(), Some(placement));
    let Arrangement { program, placement } = made.expect("decisions that hold together");
    (program, placement)
}

fn live_bytes(buffer: &Buffer, step: u32) -> u64 {
    let is_external = !buffer.pools.contains(&Memories::SCARCE);
    if is_external || step < buffer.first_step || step >= buffer.last_step {
        return 0;
    }
    let window = buffer.windows.iter().find(|window| window.first_step <= step && step < window.last_step);
    window.map_or(buffer.size_bytes, |window| window.high - window.low)
}

/// A chain of 3x3 convolutions of 16x16 pixels and 16 channels.
pub fn chain(layers: usize) -> CascaderGraph {
    let mut net = Network::new([16, 16], 16);
    let t = (0..layers).fold(INPUT, |t, _| net.window(t, OperationKind::Convolution, 3, 1, 16));
    net.finish(t)
}

/// Every Part on its own, made piece by piece where `striped` says so.
pub fn pieces(graph: &CascaderGraph, striped: &[bool]) -> Vec<Plan> {
    let plan = |(plan, &striped): (Plan, &bool)| Plan { stripes: vec![if striped { 4 } else { 16 }], ..plan };
    uncascaded(graph).into_iter().zip(striped).map(plan).collect()
}

/// Which Plans run backwards.
pub fn directions(plans: &[Plan]) -> Vec<bool> {
    plans.iter().map(|plan| plan.backwards).collect()
}

/// Whether an operation leaves rows of its input unread, at an end or between its windows: those die before the search's
/// count says so.
pub fn skips_rows(graph: &CascaderGraph) -> bool {
    graph.parts.ids().any(|part| {
        let rows = graph.tensors[graph.output(part)].plane[0];
        graph.parts[part].inputs.iter().any(|input| {
            let count = graph.tensors[input.tensor].plane[0];
            let mut is_read = vec![false; count as usize];
            for row in 0..rows {
                let needed = graph.needed(input, Axis::Height, Span::new(row, row + 1));
                if !needed.is_empty() {
                    is_read[needed.start as usize..needed.end as usize].fill(true);
                }
            }
            is_read.contains(&false)
        })
    })
}
