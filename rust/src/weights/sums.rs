//! What palettes make of counts, and which one is best for them. Owns the rules by which palettes are made; which of them
//! are tried together is `candidates`'.

use std::cell::{Cell, OnceCell};

use smallvec::SmallVec;

use super::counts::Counts;
use super::format::{DIVISORS, LARGEST_INDEX, LARGEST_QUOTIENT, LARGEST_TRUNCATED, MOST_ENTRIES};
use super::palette::Palette;

/// Sizes that are tried beside all codes, as far as these fit.
const SIZES: [usize; 12] = [0, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32];

/// A code and how often it stands there.
type Counted = (u16, u64);

/// Entries of a palette.
type Entries = SmallVec<[Counted; MOST_ENTRIES]>;

/// Sums over counts that tell what any palette makes of them, without a look at each code.
pub struct Sums<'a> {
    counts: &'a Counts,
    /// How many weights have a code so large or larger, of codes from 1 on.
    from: Vec<u64>,
    /// By divisor, the sum of `from` at a code and at each multiple of the divisor behind it.
    steps: [OnceCell<Vec<u64>>; DIVISORS as usize],
    /// The divisor that was best for the palette before: the next one's is often the same.
    near: Cell<u32>,
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

    /// What a code's index is among those that are no entries, as if it were one of them; 0 where none can be.
    fn behind(&self, code: u16) -> usize {
        if self.highest.is_none() || code < self.offset {
            return 0;
        }
        self.size + usize::from(code) - usize::from(self.offset)
    }
}

impl<'a> Sums<'a> {
    /// Of these counts.
    pub fn of(counts: &'a Counts) -> Sums<'a> {
        let end = counts.codes(true).ends().map_or(0, |[_, highest]| usize::from(highest)) + 1;
        // Codes are asked for up to a divisor beyond the largest offset.
        let mut from = vec![0; end.max(MOST_ENTRIES) + (1 << DIVISORS)];
        for code in (1..end).rev() {
            from[code] = from[code + 1] + counts.count(code as u16);
        }
        Sums { counts, from, steps: Default::default(), near: Cell::new(DIVISORS / 2) }
    }

    fn steps(&self, divisor: u32) -> &[u64] {
        self.steps[divisor as usize].get_or_init(|| {
            let (mut sums, step) = (self.from.clone(), 1 << divisor);
            for code in (0..sums.len() - (1 << DIVISORS)).rev() {
                sums[code] += sums[code + step];
            }
            sums
        })
    }

    /// Bits of weights in the best single coding, without runs of zeros; None if there is none.
    fn bits(&self, sketch: &Sketch<'_>) -> Option<u64> {
        let &Sketch { size, zero_runs, .. } = sketch;
        let largest = sketch.largest();
        let weights = self.counts.weights(zero_runs);
        let is_uncompressed = if size == 0 { largest < 1 << sketch.width } else { largest < size };
        let width = if size == 0 { sketch.width } else { usize::BITS - (size - 1).leading_zeros() };
        let uncompressed = is_uncompressed.then(|| weights * u64::from(width));
        let fits = |most: u16| (0..DIVISORS).find(|divisor| largest >> divisor <= usize::from(most));
        // With a larger divisor each weight takes a bit more, and no more weights than that take one less.
        let truncated = fits(LARGEST_TRUNCATED)
            .map(|divisor| weights * (2 + u64::from(divisor)) - self.below(sketch, 1 << divisor));
        let full = fits(LARGEST_QUOTIENT).map(|first| self.full(sketch, first));
        [uncompressed, truncated, full].into_iter().flatten().min()
    }

    /// Bits of weights with the best divisor from the first one on that all quotients fit.
    fn full(&self, sketch: &Sketch<'_>, first: u32) -> u64 {
        let &Sketch { entries, size, offset, highest, zero_runs, .. } = sketch;
        let weights = self.counts.weights(zero_runs);
        let all = if offset == 0 { weights } else { self.from[usize::from(offset)] };
        let bits = |divisor: u32| {
            let begin = usize::from(offset) + (1 << divisor) - size % (1 << divisor);
            let others = (size >> divisor) as u64 * all + self.steps(divisor)[begin];
            let others = if highest.is_some() { others } else { 0 };
            // What stands behind the entries is summed with all codes: an entry's share of that is taken back.
            let steps = |(index, &(code, count)): (usize, &Counted)| {
                count as i64 * ((index >> divisor) as i64 - (sketch.behind(code) >> divisor) as i64)
            };
            let entered: i64 = entries.iter().enumerate().map(steps).sum();
            weights * u64::from(1 + divisor) + others.wrapping_add_signed(entered)
        };
        // From divisor to divisor bits shrink by less each time, or grow by more: by as many as there are weights, less
        // `ceil(quotient / 2)` of each, which never grows. So there is no second valley.
        let of = |divisor: u32| (bits(divisor), divisor);
        let begin = of(self.near.get().max(first));
        let ahead = downhill(begin, (begin.1 + 1..DIVISORS).map(of));
        let least = if ahead == begin { downhill(begin, (first..begin.1).rev().map(of)) } else { ahead };
        self.near.set(least.1);
        least.0
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
        let others = entries.iter().fold(self.counts.codes(zero_runs), |codes, &code| codes.without(code)).ends();
        if others.is_some_and(|[lowest, _]| lowest < offset) {
            return None;
        }
        let highest = others.map(|[_, highest]| highest);
        let entries: Entries = entries.iter().map(|&code| (code, count(code))).collect();
        let sketch = Sketch { entries: &entries, size: palette.entries.len(), offset, highest, width, zero_runs };
        if sketch.largest() > LARGEST_INDEX.into() {
            return None;
        }
        Some(self.bits(&sketch)? + self.runs(zero_runs))
    }

    fn runs(&self, zero_runs: bool) -> u64 {
        if zero_runs {
            self.counts.run_bits()
        } else {
            0
        }
    }

    /// The palette that makes these counts smallest in one coding, and all their bits with those of the palette;
    /// None if there are no weights.
    pub fn best(&self, zero_runs: bool) -> Option<(u64, Palette)> {
        let present = self.counts.codes(zero_runs);
        let count = present.count();
        let mut found: Option<(u64, Entries, Option<[u16; 2]>)> = None;
        let mut consider = |entries: &[Counted], others: Option<[u16; 2]>| {
            let Some(shape) = Palette::shape(entries.iter().map(|&(code, _)| code), others) else { return };
            let (size, offset, width) = shape;
            let highest = others.map(|[_, highest]| highest);
            let Some(bits) = self.bits(&Sketch { entries, size, offset, highest, width, zero_runs }) else { return };
            let bits = bits + Palette::bits_of_header(size, width) as u64;
            if found.as_ref().is_none_or(|(least, ..)| bits < *least) {
                found = Some((bits, entries.into(), others));
            }
        };
        let most = count.min(MOST_ENTRIES);
        let frequent = self.frequent(zero_runs, most);
        let mut ascending = present.iter().peekable();
        let mut lowest: Entries = SmallVec::new();
        let mut others = present;
        let sizes = SIZES.into_iter().take_while(|&size| size < count);
        for size in sizes.chain((1..=MOST_ENTRIES).contains(&count).then_some(count)) {
            for &(code, _) in &frequent[lowest.len()..size] {
                others = others.without(code);
            }
            for code in ascending.by_ref().take(size - lowest.len()) {
                let counted = (code, self.counts.count(code));
                let place = lowest.partition_point(|&other| key(other) > key(counted));
                lowest.insert(place, counted);
            }
            let left = others.ends();
            consider(&frequent[..size], left);
            // The lowest codes are other ones than the most frequent.
            let highest = present.ends().map_or(0, |[_, highest]| highest);
            let is_other = left.is_some_and(|[first, _]| lowest.iter().any(|&(code, _)| code == first));
            if let Some(&next) = ascending.peek().filter(|_| is_other) {
                consider(&lowest, Some([next, highest]));
            }
        }
        let (bits, entries, others) = found?;
        let entries = entries.into_iter().map(|(code, _)| code).collect();
        Some((bits + self.runs(zero_runs), Palette::new(entries, others, zero_runs)?))
    }

    /// So many codes that are most frequent, with their counts, the most frequent first.
    fn frequent(&self, zero_runs: bool, most: usize) -> Entries {
        let codes = self.counts.codes(zero_runs);
        let mut keys: Vec<u64> = codes.iter().map(|code| key((code, self.counts.count(code)))).collect();
        if most < keys.len() {
            let end = keys.len() - most;
            keys.select_nth_unstable(end);
            keys.drain(..end);
        }
        keys.sort_unstable();
        keys.iter().rev().map(|&key| counted(key)).collect()
    }
}

/// The last of some bits with their divisors that are each fewer than those before.
fn downhill(begin: (u64, u32), on: impl Iterator<Item = (u64, u32)>) -> (u64, u32) {
    let mut least = begin;
    for next in on {
        if next.0 >= least.0 {
            break;
        }
        least = next;
    }
    least
}

/// A number for a code and its count: the more frequent, and of equal ones the lower, has the larger one.
fn key((code, count): Counted) -> u64 {
    count << u16::BITS | u64::from(u16::MAX - code)
}

fn counted(key: u64) -> Counted {
    (u16::MAX - key as u16, key >> u16::BITS)
}

/// The palette without entries for these counts; None if there are no weights.
pub fn plain(counts: &Counts, zero_runs: bool) -> Option<Palette> {
    Palette::new(Vec::new(), Some(counts.codes(zero_runs).ends()?), zero_runs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::weights::coding::{Coding, UNCOMPRESSED};
    use crate::weights::format::{self, code_of};
    use crate::weights::order::CODES;

    /// Bits of weights and runs in the best single coding, weight by weight.
    fn added(symbols: &[u16], palette: &Palette) -> Option<u64> {
        let indices = palette.indices();
        let codes = || symbols.iter().map(|&symbol| code_of(symbol)).filter(|&code| code > 0 || !palette.zero_runs);
        let bits = |lane: usize| {
            let index = |code: u16| Some(indices[usize::from(code)]).filter(|&index| index <= LARGEST_INDEX);
            codes().map(|code| Some(u64::from(Coding::of(lane).bits(index(code)?, palette)?))).sum::<Option<u64>>()
        };
        let runs = if palette.zero_runs { Counts::new(symbols).run_bits() } else { 0 };
        (0..=UNCOMPRESSED).filter_map(bits).min().map(|bits| bits + runs)
    }

    /// Weights around 0 or anywhere, of any width.
    fn drawn() -> impl Strategy<Value = Vec<u16>> {
        (1u16..9, any::<bool>()).prop_flat_map(|(width, wide)| {
            let most = if wide { CODES as u16 } else { 1 << width };
            prop::collection::vec(prop_oneof![1 => Just(0), 4 => 0..most], 1..200)
        })
    }

    proptest! {
        #[test]
        fn sums_tell_what_the_best_coding_takes(codes in drawn(), others in drawn()) {
            let symbols = format::symbols(&codes);
            let (counts, strange) = (Counts::new(&symbols), Counts::new(&format::symbols(&others)));
            let (sums, foreign) = (Sums::of(&counts), Sums::of(&strange));
            for zero_runs in [false, true] {
                let Some((bits, palette)) = sums.best(zero_runs) else { continue };
                prop_assert_eq!(Some(bits - palette.header_bits() as u64), added(&symbols, &palette));
                // Of a palette for other weights the same is told, or that it cannot code these.
                if let Some((_, palette)) = foreign.best(zero_runs) {
                    prop_assert_eq!(sums.bits_of(&palette), added(&symbols, &palette));
                }
            }
        }
    }

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
