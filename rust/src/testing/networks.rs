//! Graphs for the tests of the scheduler: chains, residual networks and joins written down as tables.

use crate::cost::{choose_encoding, Costs};
use crate::model::device::Device;
use crate::model::graph::{aligned, CascaderGraph, Input, Layout, Part, Tensor, Work};
use crate::model::ids::{IdVec, PartId, TensorId};
use crate::model::operation::{Encoding, NpuOperation, Primitive, Sliced};
use crate::model::plan::{Plan, Proposal};
use crate::model::program::{Buffer, Content, Placement, Program};
use crate::npu::timing::Port;
use crate::plans::live_bytes::{LiveBytes, Share};
use crate::propagator::Propagator;
use crate::proposals::placing::arranged;

use crate::schedule::stripe_order::wanted;
use crate::stripe::Span;

/// U55-256 with High_End_Embedded's memories.
pub fn device() -> Device {
    let port = |name: &str, bytes, read_latency, write_latency, burst_bytes| Port {
        name: name.into(),
        bytes_per_cycle: (bytes, 1),
        read_latency,
        write_latency,
        burst_bytes,
    };
    let (flash, sram) = (port("OffChipFlash", 1, 64, 0, 128), port("Sram", 8, 32, 32, 32));
    Device::ethos_u("ethos-u55-256", flash, sram).expect("there is such a device")
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
        };
        Network { tensors: vec![input].into(), parts: IdVec::default() }
    }

    /// Add a convolution, depthwise convolution or pool.
    pub fn window(&mut self, from: TensorId, primitive: Primitive, kernel: i64, stride: i64, depth: i64) -> TensorId {
        let seen = self.tensors[from].plane;
        self.window_over((from, seen), primitive, kernel, stride, depth)
    }

    /// As `window`, with the input seen as another plane of as many pixels.
    pub fn window_over(
        &mut self,
        (from, seen): (TensorId, [i64; 2]),
        primitive: Primitive,
        kernel: i64,
        stride: i64,
        depth: i64,
    ) -> TensorId {
        let pixel_bytes = self.tensors[from].pixel_bytes;
        let ifm_depth = pixel_bytes as i64;
        let plane = seen.map(|extent| (extent + stride - 1) / stride);
        let total = ((plane[0] - 1) * stride + kernel - seen[0]).max(0);
        let propagator = window(kernel, stride, total / 2, ifm_depth);
        let input = Input { tensor: from, propagator, plane: seen, pixel_bytes, first_channel: 0 };
        let weights = kernel * kernel * if primitive == Primitive::Convolution { ifm_depth * depth } else { depth };
        self.push(plane, depth, vec![input], primitive, [kernel, stride, ifm_depth, weights])
    }

    /// Add two tensors.
    pub fn add(&mut self, a: TensorId, b: TensorId) -> TensorId {
        let plane = self.tensors[a].plane;
        let depth = self.tensors[a].pixel_bytes as i64;
        let (pixel_bytes, first_channel) = (depth as u64, 0);
        let read = |tensor| Input { tensor, propagator: Propagator::identity(), plane, pixel_bytes, first_channel };
        let inputs = [a, b].map(read);
        self.push(plane, depth, inputs.to_vec(), Primitive::Add, [1, 1, depth, 0])
    }

    /// Put the channels of tensors one behind the other.
    pub fn join(&mut self, from: &[TensorId]) -> TensorId {
        let plane = self.tensors[from[0]].plane;
        let depths: Vec<u64> = from.iter().map(|&tensor| self.tensors[tensor].pixel_bytes).collect();
        let read = |(&tensor, &pixel_bytes)| Input {
            tensor,
            propagator: Propagator::identity(),
            plane,
            pixel_bytes,
            first_channel: 0,
        };
        let inputs = from.iter().zip(&depths).map(read).collect();
        let depth = depths.iter().sum::<u64>() as i64;
        let id = self.push(plane, depth, inputs, Primitive::AveragePool, [1, 1, depth, 0]);
        if let Some(Work::Npu(kernel)) = self.parts.last_mut().map(|part| &mut part.work) {
            let copy = |&depth: &u64| {
                let copy = NpuOperation { ifm_depth: depth as i64, ofm_depth: depth as i64, ..(**kernel).clone() };
                let found = choose_encoding(&device(), &copy, plane, [Layout::Nhwc; 2]).expect("a block fits");
                NpuOperation { block_depth: found[0].0, ..copy }
            };
            kernel.joined = depths.iter().map(copy).collect();
        }
        id
    }

    fn push(
        &mut self,
        plane: [i64; 2],
        depth: i64,
        inputs: Vec<Input>,
        primitive: Primitive,
        [kernel, stride, ifm_depth, weights]: [i64; 4],
    ) -> TensorId {
        let name = format!("t{}", self.tensors.len());
        let id = self.tensors.push(Tensor {
            name,
            plane,
            pixel_bytes: depth as u64,
            layout: Layout::Nhwc,
            is_input: false,
            is_output: false,
        });
        let mut kernel = NpuOperation {
            primitive,
            kernel: [kernel; 2],
            stride: [stride; 2],
            dilation: [1; 2],
            ifm_depth,
            ofm_depth: depth,
            clamped: true,
            part_kernel: false,
            block_depth: 8,
            constant_bytes: weights as u64 + if weights > 0 { 10 * depth as u64 } else { 0 },
            staged: None,
            sliced: None,
            joined: Vec::new(),
            emitted: Default::default(),
        };
        let [in_place, (block_depth, part_kernel)] =
            choose_encoding(&device(), &kernel, plane, [Layout::Nhwc; 2]).expect("a block fits");
        (kernel.block_depth, kernel.part_kernel) = in_place;
        kernel.staged =
            (kernel.constant_bytes > 0).then_some(Encoding { block_depth, part_kernel, bytes: kernel.constant_bytes });
        if primitive == Primitive::Convolution && depth >= 32 {
            let part = NpuOperation {
                ofm_depth: 16,
                constant_bytes: kernel.constant_bytes * 16 / depth as u64,
                ..kernel.clone()
            };
            let [_, (block_depth, part_kernel)] =
                choose_encoding(&device(), &part, plane, [Layout::Nhwc; 2]).expect("a block fits");
            let bytes = vec![part.constant_bytes; (depth as usize).div_ceil(16)];
            kernel.sliced = Some(Sliced { depth: 16, block_depth, part_kernel, bytes });
        }
        let work = Work::Npu(Box::new(kernel));
        self.parts.push(Part { name: format!("p{id}"), inputs, outputs: vec![id], work });
        id
    }

    /// Finish, with `output` as the network's output.
    pub fn finish(mut self, output: TensorId) -> CascaderGraph {
        self.tensors[output].is_output = true;
        CascaderGraph::new(self.tensors, self.parts, device()).expect("a sample graph is right")
    }
}

/// MobileNetV1 1.0/224 up to its last pointwise convolution.
pub fn mobilenet_v1() -> CascaderGraph {
    let mut net = Network::new([224, 224], 3);
    let mut t = net.window(INPUT, Primitive::Convolution, 3, 2, 32);
    let blocks = [(1, 64), (2, 128), (1, 128), (2, 256), (1, 256), (2, 512), (1, 512), (1, 512), (1, 512), (1, 512)];
    let mut depth = 32;
    for (stride, out) in blocks.into_iter().chain([(1, 512), (2, 1024), (1, 1024)]) {
        t = net.window(t, Primitive::Depthwise, 3, stride, depth);
        t = net.window(t, Primitive::Convolution, 1, 1, out);
        depth = out;
    }
    net.finish(t)
}

/// MobileNetV2 1.0/224 up to its last bottleneck.
pub fn mobilenet_v2() -> CascaderGraph {
    let mut net = Network::new([224, 224], 3);
    let mut t = net.window(INPUT, Primitive::Convolution, 3, 2, 32);
    let mut depth = 32;
    for (expand, out, repeat, first) in
        [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    {
        for i in 0..repeat {
            let stride = if i == 0 { first } else { 1 };
            let from = t;
            if expand > 1 {
                t = net.window(t, Primitive::Convolution, 1, 1, depth * expand);
            }
            t = net.window(t, Primitive::Depthwise, 3, stride, depth * expand);
            t = net.window(t, Primitive::Convolution, 1, 1, out);
            if stride == 1 && depth == out {
                t = net.add(from, t);
            }
            depth = out;
        }
    }
    net.finish(t)
}

/// Every buffer behind the one before, and the largest sum of bytes alive at once: what a perfect placement takes.
pub fn place(program: &Program) -> Placement {
    let alive = |step: u32| program.buffers.iter().map(|buffer| live_bytes(buffer, step)).sum();
    let bytes = (0..program.steps.len() as u32).map(alive).max().unwrap_or(0);
    let mut next = 0;
    let offsets = program.buffers.iter().map(|buffer| {
        next += aligned(buffer.size_bytes);
        next - aligned(buffer.size_bytes)
    });
    Placement { bytes, offsets: offsets.collect() }
}

/// The program of a Proposal and where everything lies.
pub fn realised(
    graph: &CascaderGraph,
    proposal: &Proposal,
    place: &mut dyn FnMut(&Program) -> Placement,
) -> (Program, Placement) {
    let Proposal { plans, prefetch_bytes, fill_bytes, .. } = proposal;
    arranged(graph, plans, *prefetch_bytes, *fill_bytes, &mut Costs::default(), place).expect("legal plans")
}

fn live_bytes(buffer: &Buffer, step: u32) -> u64 {
    if step < buffer.first_step || step >= buffer.last_step {
        return 0;
    }
    let window = buffer.windows.iter().find(|window| window.first_step <= step && step < window.last_step);
    window.map_or(buffer.size_bytes, |window| window.high - window.low)
}

/// Most bytes in the arena while a Plan of a program runs, as the search counts them before there is a program.
pub fn counted_bytes(graph: &CascaderGraph, plan: &Plan, program: &Program) -> u64 {
    let bytes_of = |content: Content| -> u64 {
        program.buffers.iter().filter(|b| b.content == content).map(|b| aligned(b.size_bytes)).sum()
    };
    let share = |part: PartId| Share {
        rolling: bytes_of(Content::Rolling(graph.output(part), plan.tiling.roll)),
        staged: bytes_of(Content::Constants(part)),
    };
    let occupancy = LiveBytes::new(graph, plan.first, plan.last, plan.tiling.roll);
    let shares: Vec<Share> = plan.parts().map(share).collect();
    if plan.tiling.tiles > 1 {
        return occupancy.whole_bytes() + shares.iter().map(|share| share.rolling + share.staged).sum::<u64>();
    }
    let ends: Vec<Span> = wanted(graph, plan, 0).iter().map(|wanted| wanted[0]).collect();
    occupancy.peak_bytes(&plan.stripes, &ends, &shares, (u64::MAX, 8)).expect("below the limit")
}
