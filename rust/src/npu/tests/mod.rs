//! Whole streams through the machine: random kernels against element-by-element definitions, and damaged streams.

use proptest::prelude::*;

use super::arithmetic::{round, Rounding, OUTPUT_FIRST_STAGE};
use super::feature_map::{ElementType, FeatureMap, Layout};
use super::memory::Memory;
use super::registers::Register::{self, *};
use super::{Accelerator, Machine};

mod damage;
mod elementwise;
mod windowed;

const ARENA: usize = 0x80000;
const IFM_AT: i64 = 0;
const IFM2_AT: i64 = 0x40000;
const OFM_AT: i64 = 0x60000;

/// Register settings and operations as words, wrapped into a payload.
#[derive(Default, Clone)]
struct Stream {
    words: Vec<u32>,
}

impl Stream {
    fn set(&mut self, register: Register, value: i64) -> &mut Self {
        let code = (0..1024).find(|&c| Register::from_code(u32::from(register.is_wide()), c) == Some(register));
        let code = code.unwrap();
        if register.is_wide() {
            self.words.push(code | 0x4000 | ((value >> 32) as u32) << 16);
            self.words.push(value as u32);
        } else {
            self.words.push(code | (value as u32) << 16);
        }
        self
    }

    fn payload(&self, accelerator: &Accelerator, operation: u32) -> Vec<u8> {
        let mut stream = self.words.clone();
        stream.extend([operation, 0xFFFF_0000]);
        let length = stream.len() as u32;
        let action = 2 | (length >> 16) << 8 | (length & 0xFFFF) << 16;
        let head = [0x3150_4F43, 0x0010_0001, accelerator.config_word, 0x1006_0000, 5, 5, 5, action];
        head.iter().chain(&stream).flat_map(|w| w.to_le_bytes()).collect()
    }
}

/// Everything random about a windowed kernel.
#[derive(Debug, Clone)]
struct Case {
    accelerator: usize,
    kind: u32,
    bits: u32,
    signed: bool,
    bricks: [bool; 3],
    ofm: [u32; 3],
    ifm_depth: u32,
    kernel: [u32; 2],
    stride: [u32; 2],
    dilation: [u32; 2],
    pad: [u32; 4],
    upscale: u32,
    part_kernel: bool,
    parallel: bool,
    split: [u32; 3],
    zero: [i32; 3],
    rounding: u32,
    seed: u64,
}

prop_compose! {
    fn case()(
        accelerator in 0usize..6, kind in 0u32..5, bits in prop_oneof![Just(8u32), Just(16)], signed: bool, bricks: [bool; 3],
        ofm in [1u32..6, 1u32..6, 1u32..35], ifm_depth in 1u32..35, kernel in [1u32..5, 1u32..5], stride in [1u32..4, 1u32..4],
        dilation in [1u32..3, 1u32..3], pad in [0u32..3, 0u32..3, 0u32..3, 0u32..3], upscale in 0u32..3,
        flags: [bool; 2], split in [1u32..6, 1u32..6, 1u32..6], zero in [-20i32..20, -20i32..20, -20i32..20],
        rounding in 0u32..3, seed: u64,
    ) -> Case {
        let zero = if signed { zero } else { zero.map(i32::abs) };
        Case { accelerator, kind, bits, signed, bricks, ofm, ifm_depth, kernel, stride, dilation, pad, upscale,
               part_kernel: flags[0], parallel: flags[1], split, zero, rounding, seed }
    }
}

/// A cheap generator of deterministic numbers.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A feature map with four tiles at `at`, each with room for the whole map.
fn map(name: &'static str, case: &Case, which: usize, shape: [u32; 3], at: i64) -> FeatureMap {
    let [height, width, depth] = shape;
    let element = ElementType { bits: case.bits, signed: case.signed };
    let e = element.bytes() as i64;
    let bricks = i64::from(depth.next_multiple_of(16)) * e;
    let nhwc = !case.bricks[which];
    let (stride_x, stride_c) = if nhwc { (i64::from(depth) * e, 0) } else { (16 * e, 16 * e * i64::from(width)) };
    let stride_y = bricks * i64::from(width);
    let tile = stride_y * i64::from(height);
    FeatureMap {
        name,
        region: 1,
        height,
        width,
        depth,
        element,
        layout: if nhwc { Layout::Nhwc } else { Layout::Nhcwb16 },
        zero_point: case.zero[which],
        bases: [at, at + tile, at + 2 * tile, at + 3 * tile],
        width0: case.split[0],
        height0: case.split[1],
        height1: case.split[2],
        stride_x,
        stride_y,
        stride_c,
    }
}

/// `extra` are further bits of the precision register.
fn set_map(stream: &mut Stream, map: &FeatureMap, registers: [Register; 12], extra: i64) {
    let precision_shift = if map.name == "OFM" { 1 } else { 2 };
    let precision = i64::from(map.element.signed)
        | i64::from(map.element.bits / 16) << precision_shift
        | if map.layout == Layout::Nhcwb16 { 1 << 6 } else { 0 }
        | extra;
    let values = [
        map.region as i64,
        i64::from(map.zero_point),
        map.bases[0],
        map.bases[1],
        map.bases[2],
        map.bases[3],
        map.stride_y,
        map.stride_x,
        map.stride_c,
        i64::from(map.width0) - 1,
        i64::from(map.height0) - 1,
        i64::from(map.height1) - 1,
    ];
    for (register, value) in registers.into_iter().zip(values) {
        stream.set(register, value);
    }
    match map.name {
        "IFM" => stream.set(IFM_PRECISION, precision),
        "IFM2" => stream.set(IFM2_PRECISION, precision),
        _ => stream.set(OFM_PRECISION, precision),
    };
}

const IFM_REGISTERS: [Register; 12] = [
    IFM_REGION,
    IFM_ZERO_POINT,
    IFM_BASE0,
    IFM_BASE1,
    IFM_BASE2,
    IFM_BASE3,
    IFM_STRIDE_Y,
    IFM_STRIDE_X,
    IFM_STRIDE_C,
    IFM_WIDTH0_M1,
    IFM_HEIGHT0_M1,
    IFM_HEIGHT1_M1,
];
const IFM2_REGISTERS: [Register; 12] = [
    IFM2_REGION,
    IFM2_ZERO_POINT,
    IFM2_BASE0,
    IFM2_BASE1,
    IFM2_BASE2,
    IFM2_BASE3,
    IFM2_STRIDE_Y,
    IFM2_STRIDE_X,
    IFM2_STRIDE_C,
    IFM2_WIDTH0_M1,
    IFM2_HEIGHT0_M1,
    IFM2_HEIGHT1_M1,
];
const OFM_REGISTERS: [Register; 12] = [
    OFM_REGION,
    OFM_ZERO_POINT,
    OFM_BASE0,
    OFM_BASE1,
    OFM_BASE2,
    OFM_BASE3,
    OFM_STRIDE_Y,
    OFM_STRIDE_X,
    OFM_STRIDE_C,
    OFM_WIDTH0_M1,
    OFM_HEIGHT0_M1,
    OFM_HEIGHT1_M1,
];

fn element(memory: &Memory, map: &FeatureMap, y: u32, x: u32, c: u32) -> i64 {
    let bytes = memory.peek("test", map.region, map.address(y, x, c), map.element.bytes()).unwrap();
    let mut wide = [0u8; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let shift = 64 - map.element.bits;
    let raw = i64::from_le_bytes(wide) << shift;
    if map.element.signed {
        raw >> shift
    } else {
        ((raw as u64) >> shift) as i64
    }
}

fn fill(memory: &mut Memory, map: &FeatureMap, random: &mut Random) {
    for y in 0..map.height {
        for x in 0..map.width {
            for c in 0..map.depth {
                let (at, len) = (map.address(y, x, c), map.element.bytes());
                for byte in memory.write("test", map.region, at, len).unwrap() {
                    *byte = random.next(256) as u8;
                }
            }
        }
    }
}

impl Case {
    fn depthwise(&self) -> bool {
        self.kind == 1
    }

    fn weighted(&self) -> bool {
        self.kind < 2
    }

    fn accelerator(&self) -> &'static Accelerator {
        &Accelerator::all()[self.accelerator]
    }

    /// Stored IFM size of one axis, or none if padding leaves nothing. Pooling windows must not be all padding.
    fn stored(&self, axis: usize) -> Option<u32> {
        let padded = (self.ofm[axis] - 1) * self.stride[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1;
        let padding = self.pad[axis] + self.pad[axis + 2];
        let data = padded.checked_sub(padding).filter(|&d| d > 0)?;
        Some(data.div_ceil(if self.upscale == 0 { 1 } else { 2 }))
    }
}

/// Registers that every kernel of these tests sets alike.
fn common(stream: &mut Stream, case: &Case, ofm: &FeatureMap) {
    let accelerator = case.accelerator();
    let block = [accelerator.micro_block[0], accelerator.micro_block[1], 16].map(|n| i64::from(n) - 1);
    let end = i64::from(accelerator.banks - accelerator.reserved_banks);
    let acc = end - i64::from(accelerator.granules.acc40.max(accelerator.granules.acc32));
    for (register, value) in [
        (OFM_HEIGHT_M1, i64::from(ofm.height) - 1),
        (OFM_WIDTH_M1, i64::from(ofm.width) - 1),
        (OFM_DEPTH_M1, i64::from(ofm.depth) - 1),
        (OFM_BLK_HEIGHT_M1, block[0]),
        (OFM_BLK_WIDTH_M1, block[1]),
        (OFM_BLK_DEPTH_M1, block[2]),
        (ACTIVATION, 0),
        (ACTIVATION_MIN, ofm.element.min()),
        (ACTIVATION_MAX, ofm.element.max()),
        (IFM_IB_END, acc),
        (AB_START, acc),
        (ACC_FORMAT, i64::from(case.bits == 16)),
        (BLOCKDEP, 0),
        (PARALLEL_MODE, i64::from(case.parallel)),
    ] {
        stream.set(register, value);
    }
}

/// The machine of a case: constants of `constants` bytes in region 0, the arena in region 1.
fn machine(case: &Case, constants: Vec<u8>) -> Machine {
    let mut machine = Machine::new(case.accelerator(), true);
    let size = constants.len();
    let buffer = machine.memory.add_buffer(constants, false, true);
    machine.memory.set_region(0, buffer, 0, size).unwrap();
    let arena = machine.memory.add_buffer(vec![0; ARENA], true, false);
    machine.memory.set_region(1, arena, 0, ARENA).unwrap();
    machine
}

fn rounding(case: &Case) -> Rounding {
    [Rounding::Double, Rounding::Truncate, Rounding::Natural][case.rounding as usize]
}

fn positions(ofm: &FeatureMap) -> impl Iterator<Item = (u32, u32, u32)> {
    let (height, width, depth) = (ofm.height, ofm.width, ofm.depth);
    (0..height).flat_map(move |y| (0..width).flat_map(move |x| (0..depth).map(move |c| (y, x, c))))
}
