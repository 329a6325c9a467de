//! How often each weight stands in a part of a stream, and which palette is good for that. Owns the rules of palettes.

use std::cmp::Reverse;

use super::format::{
    DIVISORS, LARGEST_INDEX, LARGEST_QUOTIENT, LARGEST_TRUNCATED, MOST_ENTRIES, SYMBOLS, ZERO_DIVISORS,
};
use super::order::CODES;
use super::palette::Palette;

/// Sizes that are tried beside all codes, as far as these fit.
const SIZES: [usize; 12] = [0, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32];

/// How often each code stands in a part of a stream, and how often each length of run adds to its quotient.
#[derive(Debug, Clone)]
pub struct Counts {
    /// By symbol.
    pub of: Vec<u32>,
}

impl Counts {
    /// Of a part of a stream.
    pub fn new(symbols: &[u16]) -> Counts {
        let mut of = vec![0; SYMBOLS];
        for &symbol in symbols {
            of[usize::from(symbol)] += 1;
        }
        Counts { of }
    }

    /// Of this part and another one.
    pub fn and(&self, other: &Counts) -> Counts {
        Counts { of: self.of.iter().zip(&other.of).map(|(a, b)| a + b).collect() }
    }

    /// How many zeros there are.
    pub fn zeros(&self) -> u64 {
        self.of[CODES..].iter().map(|&count| u64::from(count)).sum()
    }

    /// How many symbols there are.
    pub fn all(&self) -> u64 {
        self.of.iter().map(|&count| u64::from(count)).sum()
    }

    /// Codes and their counts, ascending, zero among them only if it is a weight.
    pub fn codes(&self, zero_runs: bool) -> Vec<(u16, u64)> {
        let zeros = if zero_runs { 0 } else { self.zeros() };
        let zero = (zeros > 0).then_some((0, zeros));
        let others = (1..CODES as u16).map(|code| (code, u64::from(self.of[usize::from(code)])));
        zero.into_iter().chain(others.filter(|&(_, count)| count > 0)).collect()
    }

    /// The divisor for runs of zeros that makes them smallest, and their bits.
    pub fn runs(&self) -> (u32, u64) {
        let weights = self.all() - self.zeros();
        let bits = |divisor: u32| {
            let steps = (1 << divisor..=8).step_by(1 << divisor);
            weights * u64::from(1 + divisor) + steps.map(|zeros| u64::from(self.of[CODES + zeros - 1])).sum::<u64>()
        };
        (0..ZERO_DIVISORS).map(|divisor| (divisor, bits(divisor))).min_by_key(|&(_, bits)| bits).unwrap_or_default()
    }
}

/// Bits of weights in the best single coding; `counts` are by index. None if there is none.
fn weight_bits(palette: &Palette, counts: &mut [u64]) -> Option<u64> {
    let largest = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
    // From counts to how many indices are so large or larger: a quotient grows by one at each multiple of its divisor.
    let tails = &mut counts[..=largest];
    for index in (0..largest).rev() {
        tails[index] += tails[index + 1];
    }
    let mut found = None::<u64>;
    let mut take = |bits: u64| found = Some(found.map_or(bits, |least| least.min(bits)));
    for divisor in 0..DIVISORS {
        let least = tails[0] * (1 + u64::from(divisor));
        let quotient = (largest >> divisor) as u16;
        if quotient <= LARGEST_QUOTIENT {
            take(least + tails.iter().skip(1 << divisor).step_by(1 << divisor).sum::<u64>());
        }
        if quotient <= LARGEST_TRUNCATED {
            take(least + tails.get(1 << divisor).copied().unwrap_or(0));
        }
    }
    if palette.holds_uncompressed(largest as u16) {
        take(tails[0] * u64::from(palette.uncompressed_bits()));
    }
    found
}

/// Bits of weights and runs in the best single coding for a palette; None if there is none.
pub fn bits(palette: &Palette, indices: &[u16], counts: &Counts) -> Option<u64> {
    let mut by_index = [0; LARGEST_INDEX as usize + 1];
    for (code, count) in counts.codes(palette.zero_runs) {
        *by_index.get_mut(usize::from(indices[usize::from(code)]))? += count;
    }
    let runs = if palette.zero_runs { counts.runs().1 } else { 0 };
    Some(weight_bits(palette, &mut by_index)? + runs)
}

/// The palette without entries for these counts; None if there are no weights.
pub fn plain(counts: &Counts, zero_runs: bool) -> Option<Palette> {
    let codes = counts.codes(zero_runs);
    Palette::new(Vec::new(), Some([codes.first()?.0, codes.last()?.0]), zero_runs)
}

/// The palette that makes these counts smallest in one coding, and all their bits with those of the palette;
/// None if there are no weights.
pub fn best(counts: &Counts, zero_runs: bool) -> Option<(u64, Palette)> {
    let codes = counts.codes(zero_runs);
    if codes.is_empty() {
        return None;
    }
    let mut frequent = codes.clone();
    frequent.sort_unstable_by_key(by_count);
    let mut found: Option<(u64, Palette)> = None;
    let mut by_index = [0; LARGEST_INDEX as usize + 1];
    let mut consider = |entries: &[(u16, u64)], others: Option<[u16; 2]>| {
        let entered = entries.iter().map(|&(code, _)| code).collect();
        let Some(palette) = Palette::new(entered, others, zero_runs) else { return };
        let behind = palette.entries.len();
        let end = others.map_or(behind, |[_, highest]| behind + usize::from(highest - palette.offset) + 1);
        let by_index = &mut by_index[..end];
        by_index.fill(0);
        let slot = |code: u16| code.checked_sub(palette.offset).map(|code| usize::from(code) + behind);
        for &(code, count) in &codes {
            if let Some(slot) = slot(code).and_then(|slot| by_index.get_mut(slot)) {
                *slot = count;
            }
        }
        for (index, &(code, count)) in entries.iter().enumerate() {
            if let Some(slot) = slot(code).and_then(|slot| by_index.get_mut(slot)) {
                *slot = 0;
            }
            by_index[index] = count;
        }
        let Some(bits) = weight_bits(&palette, by_index) else { return };
        let bits = bits + palette.header_bits() as u64;
        if found.as_ref().is_none_or(|(least, _)| bits < *least) {
            found = Some((bits, palette));
        }
    };
    let mut taken = [false; CODES];
    let mut others = 0..codes.len();
    let mut size_before = 0;
    let sizes = SIZES.into_iter().take_while(|&size| size < codes.len());
    for size in sizes.chain([codes.len().min(MOST_ENTRIES)]) {
        frequent[size_before..size].iter().for_each(|&(code, _)| taken[usize::from(code)] = true);
        size_before = size;
        let is_taken = |at: usize| taken[usize::from(codes[at].0)];
        others.start += others.clone().take_while(|&at| is_taken(at)).count();
        others.end -= others.clone().rev().take_while(|&at| is_taken(at)).count();
        let left = (!others.is_empty()).then(|| [codes[others.start].0, codes[others.end - 1].0]);
        consider(&frequent[..size], left);
        if others.start < size && size < codes.len() {
            let mut entries = codes[..size].to_vec();
            entries.sort_unstable_by_key(by_count);
            consider(&entries, Some([codes[size].0, codes[codes.len() - 1].0]));
        }
    }
    let runs = if zero_runs { counts.runs().1 } else { 0 };
    found.map(|(bits, palette)| (bits + runs, palette))
}

/// Sorts codes with their counts by these, the most frequent first.
fn by_count(&(code, count): &(u16, u64)) -> (Reverse<u64>, u16) {
    (Reverse(count), code)
}
