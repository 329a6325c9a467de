//! The ways to code weights and runs of zeros, and what each costs. Owns these formulas; chooses nothing.

use super::format::{code_of, DIVISORS, LARGEST_INDEX, LARGEST_QUOTIENT, LARGEST_TRUNCATED};
use super::order::CODES;
use super::palette::Palette;

/// Ways to code the index of a weight.
pub const CODINGS: usize = 13;
/// Ways, filled up so that costs of all are added at once.
pub const LANES: usize = 16;
/// The lane of indices that are not compressed.
pub const UNCOMPRESSED: usize = 12;
/// The cost of what cannot be coded: more than any coding takes for a weight and all that follows it.
pub const NEVER: i16 = 900;

/// How the index of a weight is coded: a quotient in unary and a remainder of `divisor` bits, or as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Golomb-Rice codes; truncated ones have quotients up to 2 and need no end for that.
    Rice { divisor: u32, truncated: bool },
    /// As many bits as the palette says.
    Uncompressed,
}

impl Coding {
    /// The coding of a lane.
    pub fn of(lane: usize) -> Coding {
        match lane {
            UNCOMPRESSED => Coding::Uncompressed,
            _ => Coding::Rice { divisor: lane as u32 % DIVISORS, truncated: lane as u32 >= DIVISORS },
        }
    }

    /// Bits of a weight's index, None if it cannot be coded.
    pub fn bits(self, index: u16, palette: &Palette) -> Option<u32> {
        match self {
            Coding::Rice { divisor, truncated } => {
                let quotient = index >> divisor;
                let largest = if truncated { LARGEST_TRUNCATED } else { LARGEST_QUOTIENT };
                let unary = if truncated { (quotient + 1).min(2) } else { quotient + 1 };
                (quotient <= largest).then_some(u32::from(unary) + divisor)
            }
            Coding::Uncompressed => palette.holds_uncompressed(index).then(|| palette.uncompressed_bits()),
        }
    }
}

/// Bits that a run's zero adds to it, for a symbol that is one; its quotient grows at each so-manieth.
fn run_bits(symbol: u16, divisor: u32) -> i16 {
    let zeros = symbol - CODES as u16 + 1;
    i16::from(zeros.trailing_zeros() >= divisor)
}

/// What each symbol costs in each lane, of a palette and, with runs of zeros, their divisor. Symbols are numbers in a list.
pub struct Costs {
    rows: Vec<[i16; LANES]>,
}

impl Costs {
    /// Of the symbols `used`, in their order.
    pub fn of(palette: &Palette, zero_divisor: u32, used: &[u16]) -> Costs {
        let codings: [Coding; CODINGS] = std::array::from_fn(Coding::of);
        let indices = palette.indices();
        // Behind each weight there is a run.
        let run = if palette.zero_runs { 1 + zero_divisor as i16 } else { 0 };
        let row = |&symbol: &u16| {
            let mut row = [NEVER; LANES];
            if palette.zero_runs && code_of(symbol) == 0 {
                return [run_bits(symbol, zero_divisor); LANES];
            }
            let index = indices[usize::from(code_of(symbol))];
            if index <= LARGEST_INDEX {
                for (lane, coding) in row.iter_mut().zip(codings) {
                    *lane = coding.bits(index, palette).map_or(NEVER, |bits| bits as i16 + run);
                }
            }
            row
        };
        Costs { rows: used.iter().map(row).collect() }
    }

    /// What a symbol costs, by lane.
    #[inline(always)]
    pub fn row(&self, symbol: u16) -> &[i16; LANES] {
        &self.rows[usize::from(symbol)]
    }

    /// Costs of some symbols together, by lane. They are at most 32, so that sums stay in range.
    #[inline(always)]
    pub fn sum(&self, symbols: &[u16]) -> [i16; LANES] {
        let mut sum = [0i16; LANES];
        for &symbol in symbols {
            let row = self.row(symbol);
            for lane in 0..LANES {
                sum[lane] = sum[lane].wrapping_add(row[lane]);
            }
        }
        sum
    }
}
