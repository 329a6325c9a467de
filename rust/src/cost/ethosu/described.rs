//! Operations on one stripe in the simulator's terms, as the registers will describe them.
//!
//! Owns this translation. Knows no cost and chooses nothing.

use crate::model::device::timed_region;
use crate::model::operation::{
    self as model, Block, Element, Home, Layout, NpuOperation, OperationKind, SecondOperand, Slab, StripeOperation,
};
use crate::npu::arithmetic::Rounding;
use crate::npu::feature_map::{self, ElementType, FeatureMap};
use crate::npu::operation::{
    self, Activation, Elementwise, Function, KernelKind, Operand2, OperandScaling, ShramLayout, Stream, Upscale, Window,
};
use crate::npu::timing::system::CONSTANTS_REGION;

/// Bytes of a channel's scale record.
const SCALE_BYTES: u64 = 10;
/// Scale records are padded to this number of bytes.
const SCALE_ALIGNMENT: u64 = 16;

/// An operation in the simulator's terms. Addresses, zero points and scales have no part in its cost; regions are those of
/// the timing model.
pub fn described(op: &StripeOperation, block: Block) -> operation::Kernel {
    let pools = op.pools;
    let kernel = op.kernel;
    let constants_region = match op.constants {
        Home::Constants => CONSTANTS_REGION,
        Home::Arena => timed_region(pools.constants),
    };
    let stream = |length: u64| Stream { region: constants_region, base: 0, length: length as usize };
    let input =
        |number: usize, name, slab: &Slab| map(name, slab, kernel.operand(number), timed_region(pools.inputs[number]));
    let scale_bytes = scale_bytes(kernel);
    let weighted = kernel.kind.has_weights();
    operation::Kernel {
        kind: kind(kernel.kind),
        ifm: input(0, "IFM", &op.input),
        ifm2: match (kernel.second, &op.second) {
            (SecondOperand::Scalar(_), _) => Some(Operand2::Scalar(0)),
            (SecondOperand::Constant { .. }, _) => kernel
                .constant_map(op.output.plane)
                .map(|slab| Operand2::Map(map("IFM2", &slab, kernel.operand(1), constants_region))),
            (_, Some(slab)) => Some(Operand2::Map(input(1, "IFM2", slab))),
            (_, None) => None,
        },
        swap_operands: false,
        ofm: map("OFM", &op.output, (kernel.ofm, kernel.ofm_depth), timed_region(pools.output)),
        window: window(op),
        block: block_of(block),
        part_kernel: kernel.part_kernel,
        small_sub_kernels: false,
        weights: if weighted { vec![stream(kernel.constant_bytes - scale_bytes)] } else { Vec::new() },
        scales: if weighted { vec![stream(scale_bytes)] } else { Vec::new() },
        scale: None,
        rounding: match kernel.rounding {
            model::Rounding::Tfl => Rounding::Double,
            model::Rounding::Natural => Rounding::Natural,
            model::Rounding::Truncate => Rounding::Truncate,
        },
        operands: OperandScaling::None,
        activation: Activation {
            function: match kernel.function {
                model::Function::Clamp => Function::Clamp,
                model::Function::Tanh => Function::Tanh,
                model::Function::Sigmoid => Function::Sigmoid,
                model::Function::Table(_) => Function::Table(0),
            },
            forced_range: None,
            min: element(kernel.ofm).min() + i64::from(kernel.clamped),
            max: element(kernel.ofm).max(),
        },
        accumulator_bits: if kernel.kind.is_elementwise() { 32 } else { kernel.accumulator_bits },
        shram: ShramLayout { ifm_end: 0, accumulator_start: 0, ifm2_start: None },
        blockdep: 0,
    }
}

fn kind(kind: OperationKind) -> KernelKind {
    match kind {
        OperationKind::Convolution => KernelKind::Conv,
        OperationKind::Depthwise => KernelKind::Depthwise,
        OperationKind::AveragePool => KernelKind::AveragePool,
        OperationKind::MaxPool => KernelKind::MaxPool,
        OperationKind::SumOverDepth => KernelKind::ReduceSum,
        OperationKind::Mul => KernelKind::Elementwise(Elementwise::Mul),
        OperationKind::Add => KernelKind::Elementwise(Elementwise::Add),
        OperationKind::Sub => KernelKind::Elementwise(Elementwise::Sub),
        OperationKind::Minimum => KernelKind::Elementwise(Elementwise::Min),
        OperationKind::Maximum => KernelKind::Elementwise(Elementwise::Max),
        OperationKind::LeakyRelu => KernelKind::Elementwise(Elementwise::LeakyRelu),
        OperationKind::Abs => KernelKind::Elementwise(Elementwise::Abs),
        OperationKind::Clz => KernelKind::Elementwise(Elementwise::Clz),
        OperationKind::Shr => KernelKind::Elementwise(Elementwise::Shr),
        OperationKind::Shl => KernelKind::Elementwise(Elementwise::Shl),
    }
}

fn element(Element { bits, signed }: Element) -> ElementType {
    ElementType { bits, signed }
}

/// Bytes of an operation's scale records, which lie behind its weights.
pub fn scale_bytes(kernel: &NpuOperation) -> u64 {
    (SCALE_BYTES * kernel.ofm_depth as u64).next_multiple_of(SCALE_ALIGNMENT).min(kernel.constant_bytes)
}

fn map(name: &'static str, slab: &Slab, (of, depth): (Element, i64), region: usize) -> FeatureMap {
    let [height, width] = slab.plane.map(|extent| extent as u32);
    let (layout, stride_x) = match slab.layout {
        Layout::Nhwc => (feature_map::Layout::Nhwc, slab.pixel_bytes as i64),
        Layout::Nhcwb16 => (feature_map::Layout::Nhcwb16, 16 * of.bytes()),
    };
    FeatureMap {
        name,
        region,
        height,
        width,
        depth: depth as u32,
        element: element(of),
        layout,
        zero_point: 0,
        bases: [0; 4],
        width0: width,
        height0: height,
        height1: height,
        stride_x,
        stride_y: 0,
        stride_c: 0,
    }
}

fn window(op: &StripeOperation) -> Window {
    let kernel = op.kernel;
    if kernel.kind.is_elementwise() {
        return Window::UNIT;
    }
    let [height, width] = kernel.kernel.map(|extent| extent as u32);
    let [stride_y, stride_x] = kernel.stride.map(|stride| stride as u32);
    let [dilation_y, dilation_x] = kernel.dilation.map(|dilation| dilation as u32);
    let [pad_top, pad_left, pad_bottom, pad_right] = op.padding.map(|rows| rows as u32);
    Window {
        height,
        width,
        stride_y,
        stride_x,
        dilation_y,
        dilation_x,
        pad_top,
        pad_left,
        pad_bottom,
        pad_right,
        upscale: match kernel.upscale {
            model::Upscale::None => Upscale::None,
            model::Upscale::Nearest => Upscale::Nearest,
            model::Upscale::Zeros => Upscale::Zeros,
        },
    }
}

/// A block in the simulator's terms.
pub fn block_of(block: Block) -> operation::Block {
    let [height, width, depth] = block.map(|extent| extent as u32);
    operation::Block { height, width, depth }
}
