//! A stream as cells of a few symbols, put so that all codings of a cell are quickly charged for. Owns that form; what a
//! symbol costs is `coding`'s.

use super::coding::{run_bits, TOGETHER};
use super::counts::Counts;
use super::format::{SYMBOLS, ZERO_DIVISORS};
use super::order::CODES;

/// What fills up: a symbol that costs nothing.
const NOTHING: u16 = SYMBOLS as u16;
/// Zeros are counted apart where more than one weight in this number is zero.
const FEW_ZEROS: u64 = 4;

/// A few symbols that are coded alike.
#[derive(Clone, Copy)]
pub struct Cell<'a> {
    /// All of them, or those that are not zero; filled up to a multiple of [`TOGETHER`].
    pub symbols: &'a [u16],
    /// How many zeros there are beside these.
    pub zeros: i16,
    /// Bits of runs of zeros, by their divisor; 0 if not asked for.
    pub runs: [i16; ZERO_DIVISORS as usize],
}

/// A stream's cells.
pub struct Cells {
    symbols: Vec<u16>,
    /// By cell where its symbols end, and what else it has.
    cells: Vec<(u32, i16, [i16; ZERO_DIVISORS as usize])>,
}

impl Cells {
    /// Of counted symbols; `runs` tells whether runs of zeros will be asked for.
    pub fn new(symbols: &[u16], counts: &Counts, length: usize, runs: bool) -> Cells {
        let sparse = counts.zeros() * FEW_ZEROS > counts.all();
        let mut found = Cells {
            symbols: Vec::with_capacity(symbols.len() + TOGETHER * symbols.len().div_ceil(length)),
            cells: Vec::with_capacity(symbols.len().div_ceil(length)),
        };
        for cell in symbols.chunks(length) {
            let first = found.symbols.len();
            found.symbols.extend_from_slice(cell);
            let mut zeros = 0;
            if sparse {
                let mut end = first;
                for &symbol in cell {
                    found.symbols[end] = symbol;
                    end += usize::from(symbol < CODES as u16);
                }
                zeros = first + cell.len() - end;
                found.symbols.truncate(end);
            }
            let filled = first + (found.symbols.len() - first).next_multiple_of(TOGETHER);
            found.symbols.resize(filled, NOTHING);
            let taken = if runs { run_bits(cell) } else { [0; ZERO_DIVISORS as usize] };
            found.cells.push((filled as u32, zeros as i16, taken));
        }
        found
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// All in order.
    pub fn iter(&self) -> impl Iterator<Item = Cell<'_>> + '_ {
        let mut first = 0;
        self.cells.iter().map(move |&(end, zeros, runs)| {
            let symbols = &self.symbols[first..end as usize];
            first = end as usize;
            Cell { symbols, zeros, runs }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::weights::coding::{Costs, LANES, NEVER};
    use crate::weights::format;
    use crate::weights::sums::{plain, Sums};

    proptest! {
        #[test]
        fn a_cell_costs_what_its_symbols_do(
            codes in (prop_oneof![Just(3u16), Just(40), Just(512)], 1u32..9)
                .prop_flat_map(|(most, few)| prop::collection::vec(prop_oneof![1 => 0..most, few => Just(0)], 1..300)),
            length in prop_oneof![Just(8usize), Just(32), Just(64)],
            (is_plain, zero_runs) in any::<(bool, bool)>(),
        ) {
            let symbols = format::symbols(&codes);
            let sums = Sums::of(Counts::new(&symbols));
            let best = sums.best(zero_runs).map(|(_, palette)| palette);
            let Some(palette) = (if is_plain { plain(sums.counts(), zero_runs) } else { best }) else { return Ok(()) };
            let costs = Costs::of(&palette, &sums.counts().codes(zero_runs));
            let cells = Cells::new(&symbols, sums.counts(), length, true);
            prop_assert_eq!(cells.len(), codes.len().div_ceil(length));
            for (cell, symbols) in cells.iter().zip(symbols.chunks(length)) {
                prop_assert_eq!(cell.runs, run_bits(symbols));
                for (lane, &bits) in costs.sum(cell.symbols, cell.zeros).as_array_ref().iter().enumerate().take(LANES) {
                    let of = |&symbol: &u16| costs.bits(symbol, lane);
                    let sum: i32 = symbols.iter().map(of).sum();
                    let is_coded = symbols.iter().all(|symbol| of(symbol) < 255);
                    // Eight symbols of 255 bits and more are as if they could not be coded.
                    let wanted = if is_coded && (sum < 255 || bits < NEVER) { sum as i16 } else { NEVER };
                    prop_assert_eq!(bits, wanted.min(NEVER));
                }
            }
        }
    }
}
