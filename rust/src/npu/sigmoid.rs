//! The NPU's built-in tanh and logistic function on 16-bit values. Owns their table and interpolation.

use std::sync::OnceLock;

/// Samples of `65536 * logistic(i / 24)`, `i` in `0..256`. The logistic of a negative number is one minus that.
///
/// A straight line between two points of the curve lies below it; each sample is raised by half of the greatest error,
/// which spreads it over both sides. The last sample is the greatest 16-bit number.
fn table() -> &'static [i64; 256] {
    static TABLE: OnceLock<[i64; 256]> = OnceLock::new();
    let curve = |x: f64| 65536.0 / (1.0 + (-x / 24.0).exp());
    TABLE.get_or_init(|| {
        let mut samples = std::array::from_fn(|i| {
            let x = i as f64;
            let sag = curve(x + 0.5) - (curve(x) + curve(x + 1.0)) / 2.0;
            (curve(x) + sag / 2.0).round() as i64
        });
        samples[255] = 65535;
        samples
    })
}

/// `2^(16 + fraction_bits) * logistic` of a magnitude in steps of `1 / (24 << fraction_bits)`; `None` beyond the table.
fn interpolate(magnitude: i64, fraction_bits: u32) -> Option<i64> {
    let index = usize::try_from(magnitude >> fraction_bits).ok().filter(|&i| i < 255)?;
    let (here, next) = (table()[index], table()[index + 1]);
    let fraction = magnitude & ((1 << fraction_bits) - 1);
    Some((here << fraction_bits) + fraction * (next - here))
}

/// Logistic function: input in units of 1/12288, output in units of 1/32768 (Q0.15).
pub fn logistic(input: i64) -> i32 {
    let input = input.clamp(-(1 << 40), 1 << 40);
    let upper = interpolate(input.abs(), 9).unwrap_or(0x7FFF << 10);
    let value = if input >= 0 { upper + 512 } else { (1 << 25) - upper + 511 };
    (value >> 10) as i32
}

/// Hyperbolic tangent: input in units of 1/12288, output in units of 1/32768. Uses tanh(x) = 2 logistic(2x) - 1.
pub fn tanh(input: i64) -> i32 {
    let input = input.clamp(-(1 << 40), 1 << 40);
    let upper = interpolate(input.abs(), 8).unwrap_or(0xFFFF << 8) - (1 << 23);
    let value = if input >= 0 { upper + 128 } else { -upper + 127 };
    (value >> 8) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors() {
        let rows = [
            (0, 0, 16384),
            (1, 3, 16385),
            (-1, -3, 16383),
            (100, 267, 16451),
            (-100, -267, 16317),
            (4096, 10536, 19090),
            (-4096, -10536, 13678),
            (12288, 24956, 23956),
            (-12288, -24956, 8812),
            (50000, 32749, 32217),
            (-50000, -32749, 551),
            (98304, 32767, 32757),
            (-98304, -32767, 11),
            (200000, 32767, 32767),
        ];
        for (input, t, s) in rows {
            assert_eq!((tanh(input), logistic(input)), (t, s), "{input}");
        }
        assert_eq!((tanh(i64::MIN), logistic(i64::MIN)), (-32767, 1));
    }
}
