//! Convolution and pooling against their definitions, with weights in stream order as the format's description loops.

use proptest::prelude::*;

use super::super::arithmetic::reciprocal;
use super::super::feature_map::FeatureMap;
use super::super::memory::Memory;
use super::*;

pub(super) fn set_window(stream: &mut Stream, case: &Case) {
    let [sy, sx] = case.stride.map(|s| i64::from(s - 1));
    let [dy, dx] = case.dilation.map(|d| i64::from(d - 1));
    let order = i64::from(case.part_kernel && case.kind == 0);
    let stride = sx & 1 | (sy & 1) << 1 | order << 2 | dx << 3 | dy << 4 | sx >> 1 << 6 | sy >> 1 << 9;
    for (register, value) in [
        (KERNEL_STRIDE, stride),
        (KERNEL_HEIGHT_M1, i64::from((case.kernel[0] - 1) * case.dilation[0])),
        (KERNEL_WIDTH_M1, i64::from((case.kernel[1] - 1) * case.dilation[1])),
        (IFM_PAD_TOP, i64::from(case.pad[0])),
        (IFM_PAD_LEFT, i64::from(case.pad[1])),
        (IFM_PAD_BOTTOM, i64::from(case.pad[2])),
        (IFM_PAD_RIGHT, i64::from(case.pad[3])),
        (IFM_UPSCALE, i64::from(case.upscale)),
    ] {
        stream.set(register, value);
    }
}

/// Weights in fixed-width slices, the simplest stream there is.
fn encode(weights: &[i16]) -> Vec<u8> {
    let (mut bytes, mut used) = (Vec::new(), 0);
    let mut put = |value: u32, count: u32| {
        for i in 0..count {
            if used % 8 == 0 {
                bytes.push(0u8);
            }
            *bytes.last_mut().unwrap() |= ((value >> i & 1) as u8) << (used % 8);
            used += 1;
        }
    };
    for slice in weights.chunks(1000) {
        for (value, count) in [(6, 3), (slice.len() as u32 - 1, 15), (7, 3), (0, 1), (1, 1), (0, 5), (0, 5), (7, 3)] {
            put(value, count);
        }
        for &weight in slice {
            put(u32::from(weight.unsigned_abs()) << 1 | u32::from(weight < 0), 9);
        }
    }
    put(7, 3);
    bytes.resize(bytes.len().next_multiple_of(16), 0xFF);
    bytes
}

impl Case {
    /// Core `core` of `cores`: the weights of its channels in stream order, as the format's description loops.
    fn stream_order(&self, weight: &dyn Fn(u32, u32, u32, u32) -> i16, core: u32, cores: u32) -> Vec<i16> {
        let mut out = Vec::new();
        let (oub, iub) = (self.accelerator().micro_block[2], 8);
        let part = self.part_kernel && !self.depthwise();
        let od = (self.ofm[2] + cores - 1 - core) / cores;
        let id = if self.depthwise() { 1 } else { self.ifm_depth };
        let obd = (16 + cores - 1 - core) / cores;
        let ibd = if part || self.bits == 16 { 16 } else { 32 };
        let rnd = if part {
            if self.bits == 16 {
                2
            } else {
                4
            }
        } else if self.depthwise() {
            4
        } else {
            1
        };
        let [dh, dw] = self.dilation.map(|d| 8 / d);
        for ob in (0..od).step_by(obd as usize) {
            for ib in (0..id).step_by(ibd as usize) {
                let cib = if self.depthwise() {
                    iub
                } else if part {
                    ibd.min(id - ib)
                } else {
                    ibd
                };
                for sy in (0..self.kernel[0]).step_by(dh as usize) {
                    for sx in (0..self.kernel[1]).step_by(dw as usize) {
                        let (sh, sw) = (dh.min(self.kernel[0] - sy), dw.min(self.kernel[1] - sx));
                        for io in (0..if part { cib } else { 1 }).step_by(iub as usize) {
                            for ou in (0..obd.min(od - ob)).step_by(oub as usize) {
                                for e in 0..(sw * sh).next_multiple_of(rnd) {
                                    for ii in (0..if part { 1 } else { cib }).step_by(iub as usize) {
                                        for oz in 0..oub {
                                            for iz in 0..if self.depthwise() { 1 } else { iub } {
                                                let (o, i) = (ob + ou + oz, ib + io + ii + iz);
                                                let inside = o < od && i < id && e / sw < sh;
                                                let o = o * cores + core;
                                                out.push(if inside {
                                                    weight(o, sy + e / sw, sx + e % sw, i)
                                                } else {
                                                    0
                                                });
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        out
    }
}

/// The IFM's element under padded, enlarged coordinates, zero point removed; `None` in the padding.
fn padded(case: &Case, memory: &Memory, ifm: &FeatureMap, at: [u32; 2], c: u32) -> Option<i64> {
    let mut stored = [0; 2];
    let mut hole = false;
    for axis in 0..2 {
        let need = (case.ofm[axis] - 1) * case.stride[axis] + (case.kernel[axis] - 1) * case.dilation[axis] + 1;
        if at[axis] < case.pad[axis] || at[axis] >= need - case.pad[axis + 2] {
            return None;
        }
        let inside = at[axis] - case.pad[axis];
        stored[axis] = if case.upscale == 0 { inside } else { inside / 2 };
        hole |= case.upscale == 2 && inside % 2 == 1;
    }
    Some(if hole { 0 } else { element(memory, ifm, stored[0], stored[1], c) - i64::from(ifm.zero_point) })
}

/// Random weights `[output][ky][kx][input]`, biases and scales of a case.
struct Constants {
    weights: Vec<i16>,
    scales: Vec<(i64, u32, u32)>,
    global: (u32, u32),
}

impl Constants {
    fn new(case: &Case, random: &mut Random) -> Constants {
        let count = case.ofm[2] * case.kernel[0] * case.kernel[1] * case.ifm_depth;
        let weight = |random: &mut Random| if random.next(3) == 0 { 0 } else { random.next(511) as i16 - 255 };
        let bias = |random: &mut Random| random.next(1 << 20) as i64 - (1 << 19);
        Constants {
            weights: (0..count).map(|_| weight(random)).collect(),
            scales: (0..case.ofm[2])
                .map(|_| (bias(random), random.next(1 << 31) as u32, 30 + random.next(18) as u32))
                .collect(),
            global: (random.next(1 << 30) as u32 | 1 << 30, 30 + random.next(10) as u32),
        }
    }

    fn weight(&self, case: &Case, [o, ky, kx, i]: [u32; 4]) -> i16 {
        self.weights[(((o * case.kernel[0] + ky) * case.kernel[1] + kx) * case.ifm_depth + i) as usize]
    }
}

/// The output element (y, x, c) by definition, before zero point and clamp.
fn expected(case: &Case, constants: &Constants, memory: &Memory, ifm: &FeatureMap, at: (u32, u32, u32)) -> i64 {
    let (y, x, c) = at;
    let (mut sum, mut best, mut count) = (0, i64::MIN, 0);
    for ky in 0..case.kernel[0] {
        for kx in 0..case.kernel[1] {
            let at = [y * case.stride[0] + ky * case.dilation[0], x * case.stride[1] + kx * case.dilation[1]];
            for i in if matches!(case.kind, 0 | 4) { 0..case.ifm_depth } else { c..c + 1 } {
                let Some(value) = padded(case, memory, ifm, at, i) else { continue };
                count += 1;
                best = best.max(value);
                sum += match case.kind {
                    0 => value * i64::from(constants.weight(case, [c, ky, kx, i])),
                    1 => value * i64::from(constants.weight(case, [c, ky, kx, 0])),
                    _ => value,
                };
            }
        }
    }
    let (acc, scale, shift) = match case.kind {
        0 | 1 => {
            let (bias, scale, shift) = constants.scales[c as usize];
            (sum + bias, scale, shift)
        }
        2 => (best, 1, 0),
        3 if case.pad.iter().any(|&p| p > 0) => (sum, reciprocal(count).scale, reciprocal(count).shift),
        _ => (sum, constants.global.0, constants.global.1),
    };
    round(i128::from(acc) * i128::from(scale), shift, OUTPUT_FIRST_STAGE, rounding(case))
}

/// Runs a windowed kernel and compares each output element with its definition.
fn check_window(mut case: Case) -> Result<(), TestCaseError> {
    if case.kind == 4 {
        case.ofm[2] = 1;
    }
    if !matches!(case.kind, 0 | 4) {
        case.ifm_depth = case.ofm[2];
    }
    let (Some(height), Some(width)) = (case.stored(0), case.stored(1)) else { return Ok(()) };
    let mut random = Random(case.seed);
    let constants = Constants::new(&case, &mut random);
    let ifm = map("IFM", &case, 0, [height, width, case.ifm_depth], IFM_AT);
    let ofm = map("OFM", &case, 1, case.ofm, OFM_AT);
    let mut stream = Stream::default();
    set_map(&mut stream, &ifm, IFM_REGISTERS, 0);
    set_map(&mut stream, &ofm, OFM_REGISTERS, i64::from(case.rounding) << 14 | i64::from(case.kind > 2) << 8);
    common(&mut stream, &case, &ofm);
    set_window(&mut stream, &case);
    let (scale, shift) = constants.global;
    stream.set(IFM_DEPTH_M1, i64::from(case.ifm_depth) - 1).set(OFM_SCALE, i64::from(shift) << 32 | i64::from(scale));
    let mut bytes = Vec::new();
    if case.weighted() {
        add_constants(&mut stream, &case, &constants, &mut bytes);
    }
    let mut machine = machine(&case, bytes);
    fill(&mut machine.memory, &ifm, &mut random);
    let operation = [2, 3, 5, 5 | 1 << 16, 5 | 2 << 16][case.kind as usize];
    let before = machine.memory.clone();
    let report = match machine.run(&stream.payload(case.accelerator(), operation)) {
        Ok(report) => report,
        Err(error) => {
            let text = error.to_string();
            prop_assert!(text.contains("SHRAM") || text.contains("nothing but padding"), "{}", text);
            return Ok(());
        }
    };
    prop_assert_eq!(&report.warnings, &vec![]);
    for (y, x, c) in positions(&ofm) {
        let scaled = expected(&case, &constants, &before, &ifm, (y, x, c));
        let want = (scaled + i64::from(case.zero[1])).clamp(ofm.element.min(), ofm.element.max());
        prop_assert_eq!(element(&machine.memory, &ofm, y, x, c), want, "at {:?}", (y, x, c));
    }
    Ok(())
}

/// Encodes weights and scales of every core in use and points the registers at them.
fn add_constants(stream: &mut Stream, case: &Case, values: &Constants, constants: &mut Vec<u8>) {
    let cores = if case.parallel { case.accelerator().cores } else { 1 };
    stream.set(WEIGHT_REGION, 0).set(SCALE_REGION, 0);
    let registers = [
        (WEIGHT_BASE, WEIGHT_LENGTH, SCALE_BASE, SCALE_LENGTH),
        (WEIGHT1_BASE, WEIGHT1_LENGTH, SCALE1_BASE, SCALE1_LENGTH),
    ];
    for core in 0..cores {
        let weight = |o: u32, ky: u32, kx: u32, i: u32| values.weight(case, [o, ky, kx, i]);
        let encoded = encode(&case.stream_order(&weight, core, cores));
        let mut records = Vec::new();
        for &(bias, scale, shift) in values.scales.iter().skip(core as usize).step_by(cores as usize) {
            records.extend(&bias.to_le_bytes()[..5]);
            records.extend(scale.to_le_bytes());
            records.push(shift as u8);
        }
        records.resize(records.len().next_multiple_of(16), 0);
        let (base, length, scale_base, scale_length) = registers[core as usize];
        stream.set(base, constants.len() as i64).set(length, encoded.len() as i64);
        constants.extend(encoded);
        stream.set(scale_base, constants.len() as i64).set(scale_length, records.len() as i64);
        constants.extend(records);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn windowed_kernels_do_what_they_are_defined_to(case in case()) {
        check_window(case)?;
    }
}
