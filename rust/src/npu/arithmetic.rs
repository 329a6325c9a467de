//! Rounding and scaling of exact integers. Owns the three rounding modes; knows nothing of tensors.

/// How a scaled value is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// TensorFlow Lite's two-step rounding.
    Double,
    /// Towards zero.
    Truncate,
    /// Half towards plus infinity.
    Natural,
}

/// Where the first step of [`Rounding::Double`] ends for output scaling: after 31 bits.
pub const OUTPUT_FIRST_STAGE: u32 = 31;

/// A multiplier `scale * 2^-shift`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Unsigned significand.
    pub scale: u32,
    /// Right shift, 0..=63.
    pub shift: u32,
}

impl Scale {
    /// Leaves a value unchanged.
    pub const UNIT: Scale = Scale { scale: 1, shift: 0 };
}

/// The operations of rounding for one integer width, so that narrow values can take the fast one.
macro_rules! rounding {
    ($name:ident, $half_up:ident, $half_away:ident, $int:ty) => {
        /// `p / 2^shift`, halves towards plus infinity. `shift` must be below the width of the type.
        #[inline(always)]
        fn $half_up(p: $int, shift: u32) -> $int {
            if shift == 0 {
                p
            } else {
                ((p >> (shift - 1)) + 1) >> 1
            }
        }

        /// `p / 2^shift`, halves away from zero.
        #[inline(always)]
        fn $half_away(p: $int, shift: u32) -> $int {
            if shift == 0 {
                return p;
            }
            // A negative value has its halves rounded down: taking one off before rounding half up does that.
            (((p - <$int>::from(p < 0)) >> (shift - 1)) + 1) >> 1
        }

        #[inline(always)]
        fn $name(p: $int, shift: u32, first_stage: u32, mode: Rounding) -> $int {
            match mode {
                Rounding::Natural => $half_up(p, shift),
                Rounding::Double if shift <= first_stage => $half_up(p, shift),
                Rounding::Double => $half_away($half_up(p, first_stage), shift - first_stage),
                // Division by a power of two as a shift; the remainder's sign decides.
                Rounding::Truncate => {
                    let floor = p >> shift;
                    floor + <$int>::from(p < 0 && (floor << shift) != p)
                }
            }
        }
    };
}

rounding!(round_narrow, half_up_narrow, half_away_narrow, i64);
rounding!(round_wide, half_up_wide, half_away_wide, i128);

/// `value / 2^shift` rounded by `mode`, saturated to 64 bits. `shift` is taken modulo 128.
///
/// Double rounding has its first step at `first_stage` bits (31 for the OFM, 11 / 16 for 8 / 16-bit operands):
/// half up there, half away from zero for the rest.
pub fn round(value: i128, shift: u32, first_stage: u32, mode: Rounding) -> i64 {
    let shift = shift & 127;
    let wide = round_wide(value, shift, first_stage, mode);
    wide.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// `value * scale / 2^shift` rounded by `mode`, saturated to 64 bits.
#[inline(always)]
pub fn scale_round(value: i64, scale: Scale, first_stage: u32, mode: Rounding) -> i64 {
    if value == i64::from(value as i32) {
        // 32 by 32 bits is exact in 64, and no shift of it by up to 63 can overflow.
        round_narrow(value * i64::from(scale.scale), scale.shift & 63, first_stage, mode)
    } else {
        round(i128::from(value) * i128::from(scale.scale), scale.shift, first_stage, mode)
    }
}

/// The reciprocal that an average over `count` elements uses: `(2^(31+k) + 2^k) / count`, `k = bits(count - 1)`.
/// The extra `2^k` makes exact ties go away from zero. `count` is 1..=65536.
pub fn reciprocal(count: u32) -> Scale {
    let k = 32 - (count.max(1) - 1).leading_zeros();
    let scale = ((1u64 << (31 + k)) + (1u64 << k)) / u64::from(count.max(1));
    Scale { scale: scale as u32, shift: 31 + k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use Rounding::*;

    #[test]
    fn vectors() {
        let rows = [
            (100, 1073741824u32, 38, 31, [0, 0, 0]),
            (-96, 1073741824, 37, 31, [-1, 0, -1]),
            (-100, 1518500250, 36, 31, [-2, -2, -2]),
            (12345, 1985229329, 40, 31, [22, 22, 22]),
            (-12345, 1985229329, 40, 31, [-22, -22, -22]),
            (3, 1073741824, 31, 31, [2, 1, 2]),
            (-3, 1073741824, 31, 31, [-1, -1, -1]),
            (-5, 3, 1, 31, [-7, -7, -7]),
            (77, 1431655765, 12, 11, [26913451, 26913450, 26913451]),
            (-77, 1431655765, 13, 11, [-13456725, -13456725, -13456725]),
            (-20001, 1288490189, 17, 16, [-196617831, -196617830, -196617830]),
            (-20001, 1288490189, 18, 16, [-98308915, -98308915, -98308915]),
            (-1, 1073741824, 32, 31, [0, 0, 0]),
            (1, 1073741824, 32, 31, [1, 0, 0]),
        ];
        for (acc, scale, shift, first, expected) in rows {
            for (mode, want) in [Double, Truncate, Natural].into_iter().zip(expected) {
                let got = scale_round(acc, Scale { scale, shift }, first, mode);
                assert_eq!(got, want, "{acc} * {scale} >> {shift} from {first} {mode:?}");
                assert_eq!(round(i128::from(acc) * i128::from(scale), shift, first, mode), want);
            }
        }
    }

    #[test]
    fn exact_quotients_stay_and_wide_ones_saturate() {
        for mode in [Double, Truncate, Natural] {
            assert_eq!((round(-8, 2, 31, mode), scale_round(-4, Scale { scale: 2, shift: 2 }, 31, mode)), (-2, -2));
            assert_eq!(round(i128::from(i64::MAX) + 1, 0, 31, mode), i64::MAX);
            assert_eq!(round(i128::from(i64::MIN) - 1, 0, 31, mode), i64::MIN);
            assert_eq!(round(1 << 100, 70, 31, mode), 1 << 30);
        }
    }

    #[test]
    fn padded_averages() {
        let rows = [(-174, 4, -44), (174, 4, 44), (-83, 2, -42), (7, 6, 1), (-9, 6, -2), (9, 6, 2), (5, 1, 5)];
        for (sum, count, want) in rows {
            for mode in [Double, Natural] {
                assert_eq!(scale_round(sum, reciprocal(count), OUTPUT_FIRST_STAGE, mode), want, "{sum}/{count}");
            }
        }
    }

    proptest! {
        #[test]
        fn narrow_and_wide_agree(value: i32, scale: u32, shift in 0u32..64, first in 1u32..32, mode in 0usize..3) {
            let mode = [Double, Truncate, Natural][mode];
            let narrow = scale_round(i64::from(value), Scale { scale, shift }, first, mode);
            prop_assert_eq!(narrow, round(i128::from(value) * i128::from(scale), shift, first, mode));
        }

        #[test]
        fn nothing_overflows(value: i64, scale: u32, shift in 0u32..64, mode in 0usize..3) {
            scale_round(value, Scale { scale, shift }, OUTPUT_FIRST_STAGE, [Double, Truncate, Natural][mode]);
        }
    }
}
