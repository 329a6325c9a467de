//! The ways to code weights and runs of zeros, and what each costs. Owns these formulas; chooses nothing.

use wide::{i16x16, u8x16, CmpEq};

use super::codes::CodeSet;
use super::format::{DIVISORS, LARGEST_INDEX, LARGEST_QUOTIENT, LARGEST_TRUNCATED, SYMBOLS, ZERO_DIVISORS};
use super::order::CODES;
use super::palette::Palette;

/// Ways to code the index of a weight, filled up with the last one so that costs of all are added at once.
pub const LANES: usize = 16;
/// The first lane of indices that are not compressed.
pub const UNCOMPRESSED: usize = 12;
/// Weights whose bits are added up in bytes: every coding with the largest divisor takes fewer than `TOO_MANY` for them.
pub const CELL: usize = 8;
/// Weights that are added up without a look at how many there are.
pub const TOGETHER: usize = CELL / 2;
/// The cost of a cell that cannot be coded, or takes `TOO_MANY` bits: more than to change to another palette, to code 32
/// weights with the largest divisor, or 64 as they are with a palette without entries, and to change back. With the bits of
/// runs, a header and a palette it still is a `Tagged` number of the trellis.
pub const NEVER: i16 = 1250;
const TOO_MANY: u8 = u8::MAX;

/// Rows of tables by symbol: a power of two, so that no row needs a look whether it is there.
const ROWS: usize = SYMBOLS.next_power_of_two();

/// How the index of a weight is coded: a quotient in unary and a remainder of `divisor` bits, or the index itself.
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
            UNCOMPRESSED.. => Coding::Uncompressed,
            _ => Coding::Rice { divisor: lane as u32 % DIVISORS, truncated: lane as u32 >= DIVISORS },
        }
    }

    /// Bits of a weight's index, None if it cannot be coded.
    pub fn bits(self, index: u16, palette: &Palette) -> Option<u32> {
        match self {
            Coding::Rice { divisor, truncated } => rice_bits(divisor, truncated, index),
            Coding::Uncompressed => palette.holds_uncompressed(index).then(|| palette.uncompressed_bits()),
        }
    }
}

/// Bits of an index as a quotient and a remainder of `divisor` bits, None if the quotient is too large.
const fn rice_bits(divisor: u32, truncated: bool, index: u16) -> Option<u32> {
    let quotient = index >> divisor;
    let largest = if truncated { LARGEST_TRUNCATED } else { LARGEST_QUOTIENT };
    let unary = if truncated && quotient > 0 { 2 } else { quotient + 1 };
    if quotient <= largest {
        Some(unary as u32 + divisor)
    } else {
        None
    }
}

/// By index its bits in each lane; none that is not compressed.
static RICE: [[u8; LANES]; LARGEST_INDEX as usize + 1] = {
    let mut rows = [[TOO_MANY; LANES]; LARGEST_INDEX as usize + 1];
    let mut index = 0;
    while index < rows.len() {
        let mut lane = 0;
        while lane < UNCOMPRESSED {
            let (divisor, truncated) = (lane as u32 % DIVISORS, lane as u32 >= DIVISORS);
            if let Some(bits) = rice_bits(divisor, truncated, index as u16) {
                rows[index][lane] = bits as u8;
            }
            lane += 1;
        }
        index += 1;
    }
    rows
};

/// By symbol, what runs of zeros take for it, a byte for each of their divisors: a weight has a run behind it, the quotient
/// of a run grows at each so-manieth zero.
static RUNS: [u32; ROWS] = {
    let mut rows = [0; ROWS];
    let mut symbol = 1;
    while symbol < SYMBOLS {
        let mut divisor = 0;
        while divisor < ZERO_DIVISORS {
            let bits =
                if symbol < CODES { 1 + divisor } else { ((symbol - CODES + 1).trailing_zeros() >= divisor) as u32 };
            rows[symbol] |= bits << (8 * divisor);
            divisor += 1;
        }
        symbol += 1;
    }
    rows
};

/// What runs of zeros take in some cells, by their divisor.
#[inline(always)]
pub fn run_bits(symbols: &[u16]) -> [i16; ZERO_DIVISORS as usize] {
    let mut bits = [0; ZERO_DIVISORS as usize];
    let mut add = |cell: &[u16]| {
        let sum: u32 = cell.iter().map(|&symbol| RUNS[usize::from(symbol) % ROWS]).fold(0, u32::wrapping_add);
        bits.iter_mut().zip(sum.to_le_bytes()).for_each(|(bits, more)| *bits += i16::from(more));
    };
    let cells = symbols.chunks_exact(CELL);
    let rest = cells.remainder();
    cells.for_each(&mut add);
    add(rest);
    bits
}

/// What each symbol costs in each lane of a palette; runs of zeros are left out.
pub struct Costs {
    rows: Box<[u8x16; ROWS]>,
    /// What a zero costs in each lane, and what one costs that cannot be coded.
    zero: i16x16,
    no_zero: i16x16,
}

impl Costs {
    /// Of the codes `present`; symbols of other codes must not be asked for.
    pub fn of(palette: &Palette, present: &CodeSet) -> Costs {
        let indices = palette.indices();
        let mut rows: Box<[u8x16; ROWS]> = Box::new([u8x16::ZERO; ROWS]);
        for code in present.iter() {
            let index = indices[usize::from(code)];
            let mut row = RICE.get(usize::from(index)).copied().unwrap_or([TOO_MANY; LANES]);
            if palette.holds_uncompressed(index) {
                row[UNCOMPRESSED..].fill(palette.uncompressed_bits() as u8);
            }
            rows[usize::from(code)] = u8x16::new(row);
        }
        let zero = if palette.zero_runs { u8x16::ZERO } else { rows[0] };
        rows[CODES..SYMBOLS].fill(zero);
        let bits = i16x16::from(zero);
        let uncodable = bits.cmp_eq(i16x16::splat(TOO_MANY.into()));
        Costs { rows, zero: bits & !uncodable, no_zero: uncodable & i16x16::splat(NEVER) }
    }

    /// What a symbol costs in a lane.
    pub fn bits(&self, symbol: u16, lane: usize) -> i32 {
        i32::from(self.rows[usize::from(symbol)].as_array_ref()[lane])
    }

    /// Costs of up to 64 weights, by lane, up to [`NEVER`]: of symbols filled up to a multiple of [`TOGETHER`], and of zeros
    /// beside these.
    #[inline(always)]
    pub fn sum(&self, symbols: &[u16], zeros: i16) -> i16x16 {
        let (never, too_many) = (i16x16::splat(NEVER), i16x16::splat(TOO_MANY.into()));
        let mut sum = i16x16::ZERO;
        for few in symbols.chunks(CELL) {
            let mut bits = u8x16::ZERO;
            for some in few.chunks_exact(TOGETHER) {
                let add = |bits: u8x16, &symbol: &u16| bits.saturating_add(self.rows[usize::from(symbol) % ROWS]);
                bits = some.iter().fold(bits, add);
            }
            let bits = i16x16::from(bits);
            sum += bits.cmp_eq(too_many).blend(never, bits);
        }
        if zeros > 0 {
            sum += self.zero * i16x16::splat(zeros) + self.no_zero;
        }
        sum.min(never)
    }
}
