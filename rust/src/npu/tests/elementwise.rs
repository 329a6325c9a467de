//! Elementwise functions against their definitions.

use proptest::prelude::*;

use super::*;

/// What is random about an elementwise kernel beside its feature maps.
struct Settings {
    function: u32,
    broadcast: u32,
    scalar: Option<i64>,
    swap: bool,
    /// Operand scaling mode of add and sub.
    mode: i64,
    scale: (u32, u32),
    opa: (u32, u32),
    opb: u32,
}

impl Settings {
    fn new(case: &Case, function: u32, broadcast: u32, scalar: bool, random: &mut Random) -> Settings {
        let shifts = is_shift(function);
        let limit = if shifts { 20 } else { 100 };
        Settings {
            function,
            broadcast,
            scalar: scalar.then(|| random.next(limit) as i64),
            swap: case.part_kernel && !shifts,
            mode: if matches!(function, 1 | 2) { random.next(3) as i64 } else { 0 },
            scale: (random.next(1 << 30) as u32 | 1 << 30, 40 + random.next(10) as u32),
            opa: (random.next(1 << 30) as u32 | 1 << 30, 10 + random.next(10) as u32),
            opb: random.next(1 << 16) as u32,
        }
    }

    fn set(&self, stream: &mut Stream, accelerator: &Accelerator) {
        let end = i64::from(accelerator.banks - accelerator.reserved_banks);
        let flags = i64::from(self.swap) << 6 | i64::from(self.scalar.is_some()) << 7;
        let wide = |(scale, shift): (u32, u32)| i64::from(shift) << 32 | i64::from(scale);
        for (register, value) in [
            (IFM_IB_END, end),
            (IFM2_IB_START, end / 2 / 8 * 8),
            (IFM2_BROADCAST, i64::from(self.broadcast) | flags),
            (IFM2_SCALAR, self.scalar.unwrap_or(0)),
            (OFM_SCALE, wide(self.scale)),
            (OPA_SCALE, wide(self.opa)),
            (OPB_SCALE, i64::from(self.opb)),
        ] {
            stream.set(register, value);
        }
    }

    /// The scaled result for two operands without zero points.
    fn expected(&self, case: &Case, a: i64, b: i64) -> i64 {
        let (a, b) = if self.swap && !matches!(self.function, 5..=7) { (b, a) } else { (a, b) };
        let rounded = |value: i64, (scale, shift): (u32, u32), first: u32| {
            round(i128::from(value) * i128::from(scale), shift, first, rounding(case))
        };
        let scaled = |value: i64| rounded(value, self.scale, OUTPUT_FIRST_STAGE);
        let (up, first) = if case.bits == 8 { (19, 11) } else { (14, 16) };
        let (p, q) = match self.mode {
            0 => (a * i64::from(self.opa.0 & 0xFFFF), b * i64::from(self.opb)),
            1 => (rounded(a, self.opa, first), b << up),
            _ => (a << up, rounded(b, self.opa, first)),
        };
        match self.function {
            0 => scaled(a * b),
            1 => scaled(p + q),
            2 => scaled(p - q),
            3 => a.min(b),
            4 => a.max(b),
            5 if a >= 0 => a,
            5 => scaled(a),
            6 => scaled(a.abs()),
            7 => i64::from((a as i32).leading_zeros()),
            8 => rounded(a, (1, b as u32), OUTPUT_FIRST_STAGE),
            _ => i64::from((a as i32) << b),
        }
    }
}

fn is_shift(function: u32) -> bool {
    function == 8 || function == 9
}

/// Shift amounts must be small: overwrites a map with such.
fn fill_amounts(memory: &mut Memory, map: &FeatureMap, random: &mut Random) {
    for (y, x, c) in positions(map) {
        let (at, amount) = (map.address(y, x, c), random.next(20) as u8);
        let bytes = memory.write("test", 1, at, map.element.bytes()).unwrap();
        bytes.fill(0);
        bytes[0] = amount;
    }
}

/// Runs an elementwise kernel and compares each output element with its definition.
fn check_elementwise(mut case: Case, function: u32, broadcast: u32, scalar: bool) -> Result<(), TestCaseError> {
    if is_shift(function) {
        case.zero = [0; 3];
    }
    let mut random = Random(case.seed);
    let settings = Settings::new(&case, function, broadcast, scalar, &mut random);
    let ifm = map("IFM", &case, 0, case.ofm, IFM_AT);
    let ofm = map("OFM", &case, 1, case.ofm, OFM_AT);
    let size = |axis: usize| if broadcast >> axis & 1 == 1 { 1 } else { case.ofm[axis] };
    let ifm2 = map("IFM2", &case, 2, [size(0), size(1), size(2)], IFM2_AT);
    let mut stream = Stream::default();
    set_map(&mut stream, &ifm, IFM_REGISTERS, settings.mode << 8 | i64::from(case.rounding) << 14);
    set_map(&mut stream, &ifm2, IFM2_REGISTERS, 0);
    set_map(&mut stream, &ofm, OFM_REGISTERS, i64::from(case.rounding) << 14 | 1 << 8);
    common(&mut stream, &case, &ofm);
    settings.set(&mut stream, case.accelerator());
    let mut machine = machine(&case, Vec::new());
    fill(&mut machine.memory, &ifm, &mut random);
    fill(&mut machine.memory, &ifm2, &mut random);
    if is_shift(function) {
        fill_amounts(&mut machine.memory, &ifm2, &mut random);
    }
    let before = machine.memory.clone();
    let report = match machine.run(&stream.payload(case.accelerator(), 6 | function << 16)) {
        Ok(report) => report,
        Err(error) => {
            prop_assert!(error.to_string().contains("SHRAM"), "{}", error);
            return Ok(());
        }
    };
    prop_assert_eq!(&report.warnings, &vec![]);
    for (y, x, c) in positions(&ofm) {
        let a = element(&before, &ifm, y, x, c);
        let at = [y.min(ifm2.height - 1), x.min(ifm2.width - 1), c.min(ifm2.depth - 1)];
        let b = settings.scalar.unwrap_or_else(|| element(&before, &ifm2, at[0], at[1], at[2]));
        let value = settings.expected(&case, a - i64::from(ifm.zero_point), b - i64::from(ifm2.zero_point));
        let want = (value + i64::from(case.zero[1])).clamp(ofm.element.min(), ofm.element.max());
        prop_assert_eq!(element(&machine.memory, &ofm, y, x, c), want, "at {:?}", (y, x, c));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn elementwise_kernels_do_what_they_are_defined_to(
        case in case(), function in 0u32..10, broadcast in 0u32..8, scalar: bool,
    ) {
        check_elementwise(case, function, broadcast, scalar)?;
    }
}
