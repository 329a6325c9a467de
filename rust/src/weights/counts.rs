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
    of: [u32; SYMBOLS],
    zeros: u64,
    all: u64,
    /// Codes that are there, ascending, without 0.
    present: Vec<u16>,
}

/// A code and how often it stands there.
type Counted = (u16, u64);

impl Counts {
    /// Of a part of a stream.
    pub fn new(symbols: &[u16]) -> Counts {
        let mut of = [0; SYMBOLS];
        for &symbol in symbols {
            of[usize::from(symbol)] += 1;
        }
        Counts::from(of)
    }

    fn from(of: [u32; SYMBOLS]) -> Counts {
        let sum = |of: &[u32]| of.iter().map(|&count| u64::from(count)).sum::<u64>();
        let present = (1..CODES as u16).filter(|&code| of[usize::from(code)] > 0).collect();
        Counts { zeros: sum(&of[CODES..]), all: sum(&of), present, of }
    }

    /// Of this part and another one.
    pub fn and(&self, other: &Counts) -> Counts {
        let mut of = self.of;
        of.iter_mut().zip(&other.of).for_each(|(count, more)| *count += more);
        Counts::from(of)
    }

    /// How many zeros there are.
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// How many symbols there are.
    pub fn all(&self) -> u64 {
        self.all
    }

    /// Codes that are there, ascending, zero among them only if it is a weight.
    pub fn codes(&self, zero_runs: bool) -> impl DoubleEndedIterator<Item = u16> + '_ {
        let zero = (!zero_runs && self.zeros > 0).then_some(0);
        zero.into_iter().chain(self.present.iter().copied())
    }

    fn count(&self, code: u16) -> u64 {
        match code {
            0 => self.zeros,
            _ => u64::from(self.of[usize::from(code)]),
        }
    }

    /// How many weights there are.
    fn weights(&self, zero_runs: bool) -> u64 {
        self.all - if zero_runs { self.zeros } else { 0 }
    }

    /// The divisor for runs of zeros that makes them smallest, and their bits.
    pub fn runs(&self) -> (u32, u64) {
        let weights = self.weights(true);
        let bits = |divisor: u32| {
            let steps = (1 << divisor..=8).step_by(1 << divisor);
            weights * u64::from(1 + divisor) + steps.map(|zeros| u64::from(self.of[CODES + zeros - 1])).sum::<u64>()
        };
        (0..ZERO_DIVISORS).map(|divisor| (divisor, bits(divisor))).min_by_key(|&(_, bits)| bits).unwrap_or_default()
    }
}

/// Sums over counts that tell what any palette makes of them, without a look at each code.
pub struct Sums<'a> {
    counts: &'a Counts,
    /// How many weights have a code so large or larger, of codes from 1 on.
    from: Vec<u64>,
    /// By divisor, the sum of `from` at a code and at each multiple of the divisor behind it.
    steps: [Vec<u64>; DIVISORS as usize],
}

/// A palette that is looked at, as far as it matters for bits.
struct Sketch<'a> {
    entries: &'a [Counted],
    /// How many entries the palette has.
    size: usize,
    offset: u16,
    /// The largest of the codes that are no entries.
    highest: Option<u16>,
    /// Bits of an entry, or of an index where there is none.
    width: u32,
    zero_runs: bool,
}

impl Sketch<'_> {
    /// The largest index of a weight that is there.
    fn largest(&self) -> usize {
        match self.highest {
            Some(highest) => self.size + usize::from(highest - self.offset),
            None => self.entries.iter().rposition(|&(_, count)| count > 0).unwrap_or(0),
        }
    }
}

impl<'a> Sums<'a> {
    /// Of these counts.
    pub fn of(counts: &'a Counts) -> Sums<'a> {
        // Codes are asked for up to a divisor beyond the largest offset.
        let end = counts.present.last().map_or(0, |&code| usize::from(code)) + 1;
        let mut from = vec![0; end.max(MOST_ENTRIES) + (1 << DIVISORS)];
        for code in (1..end).rev() {
            from[code] = from[code + 1] + u64::from(counts.of[code]);
        }
        let steps = std::array::from_fn(|divisor| {
            let mut sums = from.clone();
            for code in (0..end).rev() {
                sums[code] += sums[code + (1 << divisor)];
            }
            sums
        });
        Sums { counts, from, steps }
    }

    /// Bits of weights in the best single coding, without runs of zeros; None if there is none.
    fn bits(&self, sketch: &Sketch<'_>) -> Option<u64> {
        let &Sketch { entries, size, offset, zero_runs, .. } = sketch;
        let largest = sketch.largest();
        let weights = self.counts.weights(zero_runs);
        let mut quotients = [0i64; DIVISORS as usize];
        for (index, &(code, count)) in entries.iter().enumerate() {
            // What stands behind the entries is summed with all codes: an entry's share of that is taken back.
            let behind =
                if sketch.highest.is_some() { (size + usize::from(code)).saturating_sub(offset.into()) } else { 0 };
            let behind = if code < offset { 0 } else { behind };
            for (divisor, sum) in quotients.iter_mut().enumerate() {
                *sum += count as i64 * ((index >> divisor) as i64 - (behind >> divisor) as i64);
            }
        }
        let all = if offset == 0 { weights } else { self.from[usize::from(offset)] };
        let mut least = None::<u64>;
        let mut take = |bits: u64| least = Some(least.map_or(bits, |least| least.min(bits)));
        for (divisor, entered) in quotients.into_iter().enumerate() {
            let quotient = (largest >> divisor) as u16;
            let flat = weights * (1 + divisor as u64);
            if quotient <= LARGEST_QUOTIENT {
                let first = usize::from(offset) + (1 << divisor) - size % (1 << divisor);
                let behind = (size >> divisor) as u64 * all + self.steps[divisor][first];
                let behind = if sketch.highest.is_some() { behind } else { 0 };
                take(flat + behind.wrapping_add_signed(entered));
            }
            if quotient <= LARGEST_TRUNCATED {
                take(flat + weights - self.below(sketch, 1 << divisor));
            }
        }
        let is_uncompressed = if size == 0 { largest < 1 << sketch.width } else { largest < size };
        if is_uncompressed {
            let bits = if size == 0 { sketch.width } else { usize::BITS - (size - 1).leading_zeros() };
            take(weights * u64::from(bits));
        }
        least
    }

    /// How many weights have an index below some number.
    fn below(&self, sketch: &Sketch<'_>, number: usize) -> u64 {
        let &Sketch { entries, size, offset, zero_runs, .. } = sketch;
        let entered: u64 = entries.iter().take(number).map(|&(_, count)| count).sum();
        if sketch.highest.is_none() || number <= size {
            return entered;
        }
        let end = usize::from(offset) + number - size;
        let all = if offset == 0 { self.counts.weights(zero_runs) } else { self.from[usize::from(offset)] };
        let others = all - self.from.get(end).copied().unwrap_or(0);
        let entries = entries.iter().filter(|&&(code, _)| (usize::from(offset)..end).contains(&usize::from(code)));
        entered + others - entries.map(|&(_, count)| count).sum::<u64>()
    }

    /// Bits of weights and runs in the best single coding for a palette; None if there is none.
    pub fn bits_of(&self, palette: &Palette) -> Option<u64> {
        let Palette { offset, bits: width, zero_runs, .. } = *palette;
        let mut entries = palette.entries.as_slice();
        if let [one, other] = entries {
            entries = if one == other { &entries[..1] } else { entries };
        }
        // Zeros in runs are no weights, whether the palette has one or not.
        let count = |code: u16| if zero_runs && code == 0 { 0 } else { self.counts.count(code) };
        let entries: Vec<Counted> = entries.iter().map(|&code| (code, count(code))).collect();
        let is_entry = |code: &u16| palette.entries.contains(code);
        if offset > 0 && self.counts.codes(zero_runs).find(|code| !is_entry(code)).is_some_and(|code| code < offset) {
            return None;
        }
        let highest = self.counts.codes(zero_runs).rev().find(|code| !is_entry(code));
        let size = palette.entries.len();
        let sketch = Sketch { entries: &entries, size, offset, highest, width, zero_runs };
        if sketch.largest() > LARGEST_INDEX.into() {
            return None;
        }
        Some(self.bits(&sketch)? + self.runs(zero_runs))
    }

    fn runs(&self, zero_runs: bool) -> u64 {
        if zero_runs {
            self.counts.runs().1
        } else {
            0
        }
    }

    /// The palette that makes these counts smallest in one coding, and all their bits with those of the palette;
    /// None if there are no weights.
    pub fn best(&self, zero_runs: bool) -> Option<(u64, Palette)> {
        let codes: Vec<Counted> = self.counts.codes(zero_runs).map(|code| (code, self.counts.count(code))).collect();
        if codes.is_empty() {
            return None;
        }
        let most = codes.len().min(MOST_ENTRIES);
        let mut frequent = codes.clone();
        if most < codes.len() {
            frequent.select_nth_unstable_by_key(most, by_count);
        }
        frequent[..most].sort_unstable_by_key(by_count);
        let mut found: Option<(u64, Vec<Counted>, Option<[u16; 2]>)> = None;
        let mut consider = |entries: &[Counted], others: Option<[u16; 2]>| {
            let Some(shape) = Palette::shape(entries.iter().map(|&(code, _)| code), others) else { return };
            let (size, offset, width) = shape;
            let highest = others.map(|[_, highest]| highest);
            let sketch = Sketch { entries, size, offset, highest, width, zero_runs };
            let Some(bits) = self.bits(&sketch) else { return };
            let bits = bits + Palette::bits_of_header(size, width) as u64;
            if found.as_ref().is_none_or(|(least, ..)| bits < *least) {
                found = Some((bits, entries.to_vec(), others));
            }
        };
        let mut others = 0..codes.len();
        let mut taken = [false; CODES];
        let mut lowest: Vec<Counted> = Vec::with_capacity(most);
        let sizes = SIZES.into_iter().take_while(|&size| size < codes.len());
        for size in sizes.chain([most]) {
            for at in lowest.len()..size {
                taken[usize::from(frequent[at].0)] = true;
                let place = lowest.partition_point(|other| by_count(other) < by_count(&codes[at]));
                lowest.insert(place, codes[at]);
            }
            let is_taken = |at: usize| taken[usize::from(codes[at].0)];
            others.start += others.clone().take_while(|&at| is_taken(at)).count();
            others.end -= others.clone().rev().take_while(|&at| is_taken(at)).count();
            let left = (!others.is_empty()).then(|| [codes[others.start].0, codes[others.end - 1].0]);
            consider(&frequent[..size], left);
            if others.start < size && size < codes.len() {
                consider(&lowest, Some([codes[size].0, codes[codes.len() - 1].0]));
            }
        }
        let (bits, entries, others) = found?;
        let entries = entries.into_iter().map(|(code, _)| code).collect();
        Some((bits + self.runs(zero_runs), Palette::new(entries, others, zero_runs)?))
    }
}

/// The palette without entries for these counts; None if there are no weights.
pub fn plain(counts: &Counts, zero_runs: bool) -> Option<Palette> {
    let mut codes = counts.codes(zero_runs);
    let lowest = codes.next()?;
    Palette::new(Vec::new(), Some([lowest, codes.next_back().unwrap_or(lowest)]), zero_runs)
}

/// Sorts codes with their counts by these, the most frequent first.
fn by_count(&(code, count): &Counted) -> (Reverse<u64>, u16) {
    (Reverse(count), code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_in_runs_are_no_weights_of_a_palette_that_has_one() {
        let mut symbols = vec![CODES as u16; 40];
        symbols.extend([2, 2, 4]);
        let counts = Counts::new(&symbols);
        let bits = |first: u16| {
            let palette = Palette { entries: vec![first, 2, 4], offset: 0, bits: 3, zero_runs: true };
            Sums::of(&counts).bits_of(&palette)
        };
        // An entry that no weight has costs nothing, whatever it is.
        assert!(bits(5).is_some());
        assert_eq!(bits(0), bits(5));
    }
}
