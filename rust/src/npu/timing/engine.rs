//! Cycles of the MAC engine and of the output stage for one OFM block.
//!
//! Both of Arm's estimators agree on everything here unless a comment says otherwise (docs/timing.md, "MAC engine" and
//! "Output stage").

use super::super::accelerator::Accelerator;
use super::super::feature_map::ElementType;
use super::super::operation::{Elementwise, Function, Kernel, KernelKind, Operand2};
use super::axis::Counted;
use super::rules::Rules;
use super::ticks::Ticks;

/// Cycles per element are kept in units of 1/32.
const ELEMENT_UNITS: u32 = 32;

/// Cycles per element of the output stage, in 1/32 cycles, by what feeds it.
struct OutputRates {
    unary32: u32,
    binary32: u32,
    multiply32: u32,
    multiply: u32,
    add: u32,
    max_pool: u32,
    other: u32,
    /// Table, sigmoid and tanh.
    function: u32,
    /// Clamp narrower than the type.
    clamp: u32,
}

const fn rates(output: [u32; 7], activation: [u32; 2]) -> OutputRates {
    let [unary32, binary32, multiply32, multiply, add, max_pool, other] = output;
    let [function, clamp] = activation;
    OutputRates { unary32, binary32, multiply32, multiply, add, max_pool, other, function, clamp }
}

const RATES_32: OutputRates = rates([64, 96, 96, 96, 192, 32, 64], [32, 32]);
const RATES_64: OutputRates = rates([32, 48, 48, 48, 96, 16, 32], [32, 32]);
const RATES_128: OutputRates = rates([24, 40, 24, 24, 48, 8, 16], [32, 16]);
const RATES_256: OutputRates = rates([20, 36, 16, 12, 24, 4, 8], [32, 8]);

/// What a kernel's blocks have in common.
#[derive(Debug, Clone)]
pub struct Engine {
    kind: KernelKind,
    part_kernel: bool,
    wide: bool,
    forty_bit: bool,
    macs: u32,
    /// Cores that share the kernel.
    cores: u32,
    micro_block: [u32; 3],
    /// Elements of sub-kernels, and how many sub-kernels have this number.
    sub_kernels: Counted,
    /// IFM depth blocks (convolution and reduce-sum; otherwise 1).
    depth_blocks: u32,
    /// Groups of 8 IFM channels over all depth blocks, as part-kernel-first traverses them.
    depth_groups: u32,
    /// 1/32 cycles per output element, activation included.
    output_rate: u32,
    output_cores: u32,
    elementwise_depth: u32,
    /// Latency of the scales' memory, if there are scales.
    scale_latency: u32,
}

impl Engine {
    /// The engine as a kernel sets it up. `sub_kernels` are heights and widths with their numbers.
    pub fn new(
        kernel: &Kernel,
        accelerator: &Accelerator,
        parallel: bool,
        sub_kernels: [&[(u32, u32)]; 2],
        scale_latency: u32,
        rules: &Rules,
    ) -> Engine {
        let cores = if parallel { accelerator.cores } else { 1 };
        let block = ifm_depth_block(kernel);
        let depth = kernel.ifm.depth;
        let deep = matches!(kernel.kind, KernelKind::Conv | KernelKind::ReduceSum);
        let whole_groups = depth.div_ceil(block) * block.min(depth.next_multiple_of(8)).div_ceil(8);
        let elementwise = matches!(kernel.kind, KernelKind::Elementwise(_));
        Engine {
            kind: kernel.kind,
            part_kernel: kernel.part_kernel,
            wide: kernel.ifm.element.bits == 16,
            forty_bit: kernel.accumulator_bits == 40,
            macs: accelerator.macs,
            cores,
            micro_block: micro_block(kernel, accelerator),
            sub_kernels: products(sub_kernels),
            depth_blocks: if deep { depth.div_ceil(block) } else { 1 },
            depth_groups: if rules.partial_ifm_depth { depth.div_ceil(8) } else { whole_groups },
            output_rate: output_rate(kernel, accelerator),
            output_cores: cores,
            elementwise_depth: if elementwise { rules.elementwise_depth } else { 1 },
            scale_latency: if kernel.scales.is_empty() { 0 } else { scale_latency },
        }
    }

    /// Jobs of a block: IFM depth blocks times sub-kernels.
    pub fn jobs_per_block(&self) -> u64 {
        let sub_kernels: u64 = self.sub_kernels.iter().map(|&(_, times)| u64::from(times)).sum();
        u64::from(self.depth_blocks) * sub_kernels
    }

    /// Cycles of the MAC engine for a block of `[height, width, depth]`.
    pub fn mac(&self, shape: [u32; 3]) -> Ticks {
        if matches!(self.kind, KernelKind::Elementwise(_)) {
            return Ticks::ZERO;
        }
        let [rows, columns, deep] = [0, 1, 2].map(|axis| shape[axis].div_ceil(self.micro_block[axis]));
        let plane = u128::from(rows) * u128::from(columns);
        let cycles: u128 = self
            .sub_kernels
            .iter()
            .map(|&(elements, times)| u128::from(times) * self.sub_kernel([rows, columns, deep], plane, elements))
            .sum();
        // Both estimators halve the MAC cycles of a kernel that two cores share.
        Ticks::ratio(cycles, 1, u128::from(self.cores))
    }

    /// Height, width and depth of what the engine computes at once.
    pub fn micro_block(&self) -> [u32; 3] {
        self.micro_block
    }

    /// Cycles of one sub-kernel of `elements` elements, over all IFM depth blocks.
    fn sub_kernel(&self, micro: [u32; 3], plane: u128, elements: u32) -> u128 {
        let deep = u128::from(micro[2]);
        let elements = u128::from(elements);
        let weights = 32 * u128::from(self.micro_block[2]) / 8;
        let wide = if self.wide { 2 } else { 1 };
        let (steps, cycles, repeats) = match self.kind {
            KernelKind::MaxPool | KernelKind::AveragePool => {
                // Only the older estimator doubles 16-bit pooling (not on 32 MACs); the newer one multiplies by bits / 2.
                let factor = if self.macs == 32 { 1 } else { wide };
                return elements.max(4) * plane * deep * factor + self.start_up(micro, 1);
            }
            KernelKind::Depthwise => (elements.div_ceil(4), weights.max(4 * plane * wide), 1),
            KernelKind::Conv if self.part_kernel => {
                let steps = elements.div_ceil(if self.wide { 2 } else { 4 });
                (steps, weights.max(4 * plane), u128::from(self.depth_groups))
            }
            _ => (elements, weights.max(4 * plane), u128::from(self.depth_blocks)),
        };
        repeats * (cycles * steps * deep + self.start_up(micro, steps))
    }

    /// Start-up delay of the steps when a block is a single micro-block in the plane: its pipeline runs empty.
    fn start_up(&self, micro: [u32; 3], steps: u128) -> u128 {
        let [rows, columns, deep] = micro;
        let deep_steps = u128::from(deep);
        let delay = match (self.macs, self.forty_bit) {
            (32, true) => 7,
            (32, false) | (64 | 128, true) => 3,
            _ => 2,
        };
        let mut cycles = 0;
        if rows == 1 && columns == 1 {
            cycles = if deep == 1 { delay * steps } else { delay * (steps - 1) * deep_steps };
        }
        if self.macs == 32 && self.forty_bit && (rows == 1 || columns == 1) && deep > 1 {
            cycles += delay * deep_steps;
        }
        cycles
    }

    /// Cycles of the output stage for a block of `[height, width, depth]`: elements, and the scales that must arrive.
    pub fn output(&self, shape: [u32; 3]) -> Ticks {
        let [height, width, depth] = shape.map(u128::from);
        let elements = height * width * depth.next_multiple_of(u128::from(self.elementwise_depth));
        let elements =
            Ticks::ratio(elements, u128::from(self.output_rate), u128::from(ELEMENT_UNITS * self.output_cores));
        // 10 bytes of scale record per channel, 256 bytes in flight per latency.
        elements.max(Ticks::ratio(10 * depth, u128::from(self.scale_latency), 256))
    }
}

/// Channels of an IFM depth block of a convolution or reduce-sum: how the weights are ordered and the IFM is consumed.
pub fn ifm_depth_block(kernel: &Kernel) -> u32 {
    match kernel.ifm.element.bits {
        8 if kernel.part_kernel => 16,
        8 => 32,
        16 => 16,
        _ => 8,
    }
}

/// Micro-block, transposed to 1x4 for rows: on 2x2 parts, OFM and kernel one row high, OFM width even.
fn micro_block(kernel: &Kernel, accelerator: &Accelerator) -> [u32; 3] {
    let [height, width, depth] = accelerator.micro_block;
    let weighted = matches!(kernel.kind, KernelKind::Conv | KernelKind::Depthwise);
    let row = kernel.ofm.height == 1 && kernel.window.height == 1 && kernel.ofm.width % 2 == 0;
    if weighted && row && height == 2 {
        return [1, 2 * width, depth];
    }
    [height, width, depth]
}

/// Elements of the sub-kernels: every height with every width.
fn products([heights, widths]: [&[(u32, u32)]; 2]) -> Counted {
    let pairs = heights.iter().flat_map(|h| widths.iter().map(move |w| (h.0 * w.0, h.1 * w.1)));
    pairs.collect()
}

/// 1/32 cycles per output element on one core.
fn output_rate(kernel: &Kernel, accelerator: &Accelerator) -> u32 {
    let rates = match accelerator.macs {
        32 => &RATES_32,
        64 => &RATES_64,
        128 => &RATES_128,
        _ => &RATES_256,
    };
    let stage = match kernel.kind {
        KernelKind::Elementwise(function) => elementwise_rate(kernel, function, rates),
        _ if kernel.accumulator_bits == 40 => rates.multiply,
        KernelKind::MaxPool => rates.max_pool,
        _ => rates.other,
    };
    let activation = match kernel.activation.function {
        Function::Table(_) | Function::Tanh | Function::Sigmoid => rates.function,
        Function::Clamp if clamps(kernel) => rates.clamp,
        Function::Clamp => 0,
    };
    stage.max(activation)
}

fn elementwise_rate(kernel: &Kernel, function: Elementwise, rates: &OutputRates) -> u32 {
    if kernel.ifm.element.bits == 32 {
        // One estimator has these two exchanged, which would make unary operations the slower ones.
        return if function.is_unary() { rates.unary32 } else { rates.binary32 };
    }
    match function {
        Elementwise::Mul if kernel.ofm.element.bits == 32 => rates.multiply32,
        Elementwise::Mul => rates.multiply,
        // The table has a faster entry for adds without operand scaling that neither estimator uses.
        Elementwise::Add | Elementwise::Sub => rates.add,
        _ => rates.other,
    }
}

/// Whether the clamp is narrower than the output type. 32-bit outputs are not clamped without a forced range.
fn clamps(kernel: &Kernel) -> bool {
    let activation = &kernel.activation;
    let range: ElementType = activation.forced_range.unwrap_or(kernel.ofm.element);
    range.bits < 32 && (activation.min > range.min() || activation.max < range.max())
}

/// Multiply-accumulates of a whole kernel: outputs times window times, for convolution and reduce-sum, input channels.
pub fn multiply_accumulates(kernel: &Kernel) -> u64 {
    let product = |factors: &[u32]| factors.iter().fold(1u64, |all, &n| all.saturating_mul(u64::from(n)));
    let ofm = &kernel.ofm;
    let inputs = match kernel.kind {
        KernelKind::Elementwise(_) => return 0,
        KernelKind::Conv | KernelKind::ReduceSum => kernel.ifm.depth,
        _ => 1,
    };
    product(&[ofm.height, ofm.width, ofm.depth, kernel.window.height, kernel.window.width, inputs])
}

/// The second operand that is read from memory, if there is one.
pub fn second_map(kernel: &Kernel) -> Option<&super::super::feature_map::FeatureMap> {
    match &kernel.ifm2 {
        Some(Operand2::Map(map)) => Some(map),
        _ => None,
    }
}
