//! What palettes make of counts, and which one is best for them. Owns the rules by which palettes are made; which of them
//! are tried together is `candidates`'.

use std::cell::{Cell, OnceCell};

use smallvec::SmallVec;

use super::counts::Counts;
use super::entries::{Counted, Entries, NOWHERE};
use super::format::{DIVISORS, LARGEST_INDEX, LARGEST_QUOTIENT, LARGEST_TRUNCATED, MOST_ENTRIES, PALETTE_BITS};
use super::palette::Palette;

/// Sizes that are tried beside all codes, as far as these fit.
const SIZES: [usize; 12] = [0, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32];

/// Runs of zeros are tried where more than one weight in this number is zero.
const FEW_ZEROS: u64 = 10;

/// Sums over counts that tell what any palette makes of them, without a look at each code.
pub struct Sums {
    counts: Counts,
    /// How many weights have a code so large or larger, of codes from 1 on.
    from: OnceCell<Vec<u64>>,
    /// By divisor, the sum of `from` at a code and at each multiple of the divisor behind it.
    steps: [OnceCell<Vec<u64>>; DIVISORS as usize],
    /// The divisor that was best for the palette before: the next one's is often the same.
    near: Cell<u32>,
    /// With zeros as weights and as runs.
    ranked: [OnceCell<CodeRanking>; 2],
}

/// The most frequent codes.
struct CodeRanking {
    entries: Entries,
    /// Bits of weights that no palette makes less of.
    ideal: u64,
}

/// A palette that is looked at, as far as it matters for bits.
struct Sketch<'a> {
    entries: &'a Entries,
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
            None => self.entries.iter().rposition(|(_, count)| count > 0).unwrap_or(0),
        }
    }
}

impl Sums {
    /// Of these counts.
    pub fn of(counts: Counts) -> Sums {
        let (from, steps, ranked) = (OnceCell::new(), Default::default(), Default::default());
        Sums { counts, from, steps, near: Cell::new(DIVISORS / 2), ranked }
    }

    fn from(&self) -> &[u64] {
        self.from.get_or_init(|| {
            let end = self.counts.codes(true).ends().map_or(0, |[_, highest]| usize::from(highest)) + 1;
            // Codes are asked for up to a divisor beyond the largest offset.
            let mut from = vec![0; end.max(MOST_ENTRIES) + (1 << DIVISORS)];
            for code in (1..end).rev() {
                from[code] = from[code + 1] + self.counts.count(code as u16);
            }
            from
        })
    }

    /// What is summed.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn steps(&self, divisor: u32) -> &[u64] {
        self.steps[divisor as usize].get_or_init(|| {
            let (mut sums, step) = (self.from().to_vec(), 1 << divisor);
            // Row by row, the last codes without one behind them.
            let mut rows = sums.chunks_mut(step).rev();
            let mut behind = rows.next().unwrap_or_default();
            for row in rows {
                row.iter_mut().zip(&*behind).for_each(|(sum, more)| *sum += more);
                behind = row;
            }
            sums
        })
    }

    /// Bits of weights in the best single coding, without runs of zeros; None if there is none. What is not below the
    /// limit may be reported as more.
    fn bits(&self, sketch: &Sketch<'_>, limit: u64) -> Option<u64> {
        let &Sketch { size, zero_runs, .. } = sketch;
        let largest = sketch.largest();
        let weights = self.counts.weights(zero_runs);
        let is_uncompressed = if size == 0 { largest < 1 << sketch.width } else { largest < size };
        let width = if size == 0 { sketch.width } else { usize::BITS - (size - 1).leading_zeros() };
        let uncompressed = is_uncompressed.then(|| weights * u64::from(width));
        let fits = |most: u16| (0..DIVISORS).find(|divisor| largest >> divisor <= usize::from(most));
        let full = fits(LARGEST_QUOTIENT).map(|first| self.full(sketch, first, limit));
        let least = uncompressed.into_iter().chain(full).min();
        // With a larger divisor each weight takes a bit more, and no more weights than that take one less.
        let truncated = fits(LARGEST_TRUNCATED)
            // No weight takes less than a bit beside its remainder.
            .filter(|&divisor| weights * u64::from(1 + divisor) < least.map_or(limit, |least| least.min(limit)))
            .map(|divisor| weights * (2 + u64::from(divisor)) - self.below(sketch, 1 << divisor));
        least.into_iter().chain(truncated).min()
    }

    /// Bits of weights with the best divisor from the first one on that all quotients fit, as far as they are below the
    /// limit.
    fn full(&self, sketch: &Sketch<'_>, first: u32, limit: u64) -> u64 {
        let quotients = self.quotients(sketch);
        let weights = self.counts.weights(sketch.zero_runs);
        let bits = |divisor: u32, quotients: u64| weights * u64::from(1 + divisor) + quotients;
        // From divisor to divisor bits shrink by less each time, or grow by more: by as many as there are weights, less
        // `ceil(quotient / 2)` of each, which never grows. So there is no second valley, and where quotients are as many as
        // weights it is on neither side.
        let mut at = self.near.get().max(first);
        let mut sum = quotients(at);
        let mut least = bits(at, sum);
        let is_downward = sum < weights;
        while sum != weights {
            let mut left = if is_downward { first..at } else { at + 1..DIVISORS };
            let Some(next) = (if is_downward { left.clone().next_back() } else { left.clone().next() }) else { break };
            // A quotient becomes at least twice as large with each step down, and loses less than one where it is halved.
            let possible = |next: u32| match is_downward {
                true => bits(next, sum << (at - next)),
                false => bits(next, (sum + weights).div_ceil(1 << (next - at)).saturating_sub(weights)),
            };
            if possible(next) >= least || left.all(|next| possible(next) >= limit) {
                break;
            }
            let found = quotients(next);
            if bits(next, found) >= least {
                break;
            }
            (at, sum, least) = (next, found, bits(next, found));
        }
        self.near.set(at);
        least
    }

    /// The sum of all weights' quotients by a divisor.
    fn quotients<'a>(&'a self, sketch: &Sketch<'a>) -> impl Fn(u32) -> u64 + 'a {
        let &Sketch { entries, size, offset, highest, zero_runs, .. } = sketch;
        let none = highest.is_none();
        let behind = if none { NOWHERE } else { entries.behind(size, offset) };
        // Where codes are few they are summed one by one, where they are many by sums of them.
        let ranked = (!none && self.counts.codes(zero_runs).count() <= MOST_ENTRIES).then(|| self.ranked(zero_runs));
        let few = ranked.map(|CodeRanking { entries, .. }| (entries, entries.behind(size, offset)));
        let all = match offset {
            _ if none || few.is_some() => 0,
            0 => self.counts.weights(zero_runs),
            _ => self.from()[usize::from(offset)],
        };
        move |divisor| {
            // What stands behind the entries is summed with all codes: an entry's share of that is taken back.
            let others = match &few {
                _ if none => 0,
                Some((codes, behind)) => codes.quotients_of(divisor, behind) as u64,
                None => {
                    let begin = usize::from(offset) + (1 << divisor) - size % (1 << divisor);
                    (size >> divisor) as u64 * all + self.steps(divisor)[begin]
                }
            };
            others.wrapping_add_signed(entries.quotients(divisor, &behind))
        }
    }

    /// How many weights have an index below some number.
    fn below(&self, sketch: &Sketch<'_>, number: usize) -> u64 {
        let &Sketch { entries, size, offset, zero_runs, .. } = sketch;
        let entered = entries.first(number);
        if sketch.highest.is_none() || number <= size {
            return entered;
        }
        let end = usize::from(offset) + number - size;
        let all = if offset == 0 { self.counts.weights(zero_runs) } else { self.from()[usize::from(offset)] };
        let others = all - self.from().get(end).copied().unwrap_or(0);
        let entries = entries.iter().filter(|&(code, _)| (usize::from(offset)..end).contains(&usize::from(code)));
        entered + others - entries.map(|(_, count)| count).sum::<u64>()
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
        let mut counted = Entries::new();
        entries.iter().for_each(|&code| counted.push((code, count(code))));
        let sketch = Sketch { entries: &counted, size: palette.entries.len(), offset, highest, width, zero_runs };
        if sketch.largest() > LARGEST_INDEX.into() {
            return None;
        }
        Some(self.bits(&sketch, u64::MAX)? + self.runs(zero_runs))
    }

    fn runs(&self, zero_runs: bool) -> u64 {
        if zero_runs {
            self.counts.run_bits()
        } else {
            0
        }
    }

    /// Bits that no palette makes less of, with those of the palette; None if there are no weights.
    pub fn least(&self, zero_runs: bool) -> Option<u64> {
        let ranked = (self.counts.weights(zero_runs) > 0).then(|| self.ranked(zero_runs))?;
        Some(PALETTE_BITS as u64 + ranked.ideal + self.runs(zero_runs))
    }

    /// The most frequent codes, the most frequent first, and the lower of equal ones.
    fn ranked(&self, zero_runs: bool) -> &CodeRanking {
        self.ranked[usize::from(zero_runs)].get_or_init(|| {
            let codes = self.counts.codes(zero_runs);
            let mut keys: SmallVec<[u64; 64]> = codes.iter().map(|code| key((code, self.counts.count(code)))).collect();
            let count = keys.len();
            let end = count.saturating_sub(MOST_ENTRIES);
            if end > 0 {
                keys.select_nth_unstable(end);
            }
            let most = &mut keys[end..];
            most.sort_unstable();
            let mut entries = Entries::new();
            most.iter().rev().for_each(|&key| entries.push(counted(key)));
            let ideal = self.ideal(&entries, count, zero_runs);
            CodeRanking { entries, ideal }
        })
    }

    /// Bits of weights if each code's index were its rank among `count` codes; these entries are the most frequent ones.
    fn ideal(&self, entries: &Entries, count: usize, zero_runs: bool) -> u64 {
        let (weights, last) = (self.counts.weights(zero_runs), count.saturating_sub(1));
        let others = weights - entries.first(MOST_ENTRIES);
        let full = |divisor: u32| {
            let quotients = entries.quotients(divisor, &NOWHERE) as u64 + others * (MOST_ENTRIES >> divisor) as u64;
            weights * u64::from(1 + divisor) + quotients
        };
        let fits = (0..DIVISORS).find(|divisor| last >> divisor <= LARGEST_TRUNCATED.into());
        let truncated = fits.map(|divisor| weights * u64::from(2 + divisor) - entries.first(1 << divisor));
        let width = u64::from((usize::BITS - last.leading_zeros()).max(1));
        (0..DIVISORS).map(full).chain(truncated).chain([weights * width]).min().unwrap_or(0)
    }

    /// The palette that makes these counts smallest in one coding, and all their bits with those of the palette;
    /// None if there are no weights.
    pub fn best(&self, zero_runs: bool) -> Option<(u64, Palette)> {
        self.best_of(zero_runs, u64::MAX)
    }

    /// The same, None also if it has not fewer bits than `limit`.
    fn best_of(&self, zero_runs: bool, limit: u64) -> Option<(u64, Palette)> {
        let present = self.counts.codes(zero_runs);
        let (count, [_, highest]) = (present.count(), present.ends()?);
        let (CodeRanking { entries: ranked, ideal }, runs) = (self.ranked(zero_runs), self.runs(zero_runs));
        let mut contest =
            Contest { sums: self, zero_runs, ideal: *ideal, least: limit.saturating_sub(runs), found: None };
        let ascending: SmallVec<[u16; 2 * MOST_ENTRIES]> = present.iter().take(MOST_ENTRIES + 1).collect();
        let mut more = ranked.iter();
        let (mut frequent, mut lowest, mut others) = (Entries::new(), Entries::new(), present);
        let sizes = SIZES.into_iter().take_while(|&size| size < count);
        for size in sizes.chain((1..=MOST_ENTRIES).contains(&count).then_some(count)) {
            for entry in more.by_ref().take(size - frequent.len()) {
                others = others.without(entry.0);
                frequent.push(entry);
            }
            let left = others.ends();
            contest.enter(&frequent, left);
            // The lowest codes are other ones than the most frequent.
            let is_other = |&next: &u16| left.is_some_and(|[first, _]| first < next);
            let Some(next) = ascending.get(size).copied().filter(is_other) else { continue };
            let (low, left) = (&ascending[..size], Some([next, highest]));
            if contest.is_open(size, low.last().copied(), left) {
                for &code in &low[lowest.len()..] {
                    lowest.insert((code, self.counts.count(code)));
                }
                contest.enter(&lowest, left);
            }
        }
        let (entries, others) = contest.found?;
        Some((contest.least + runs, Palette::new(entries.to_vec(), others, zero_runs)?))
    }

    /// The same with zeros as weights or as runs, if it has fewer bits than `limit`.
    pub fn best_below(&self, limit: u64) -> Option<(u64, Palette)> {
        let mut found: Option<(u64, Palette)> = None;
        for &zero_runs in self.kinds() {
            let limit = found.as_ref().map_or(limit, |(bits, _)| *bits);
            if self.least(zero_runs).is_some_and(|least| least < limit) {
                found = self.best_of(zero_runs, limit).or(found);
            }
        }
        found
    }

    /// Whether zeros are worth being runs, and weights.
    pub fn kinds(&self) -> &'static [bool] {
        match self.counts.zeros() {
            zeros if zeros == self.counts.all() || zeros * FEW_ZEROS <= self.counts.all() => &[false],
            _ => &[false, true],
        }
    }
}

/// Entries of a palette, and the lowest and the highest code that are none.
type Found = (SmallVec<[u16; MOST_ENTRIES]>, Option<[u16; 2]>);

/// The best palette so far.
struct Contest<'a> {
    sums: &'a Sums,
    zero_runs: bool,
    /// Bits of weights that no palette makes less of.
    ideal: u64,
    /// Bits of the best one without runs, or what it must have less of.
    least: u64,
    found: Option<Found>,
}

impl Contest<'_> {
    /// Whether this number of entries up to the widest one may be the best.
    fn is_open(&self, count: usize, widest: Option<u16>, others: Option<[u16; 2]>) -> bool {
        let shape = Palette::shape(count, widest, others);
        shape.is_some_and(|(size, _, width)| Palette::bits_of_header(size, width) as u64 + self.ideal < self.least)
    }

    /// Take a palette that is better.
    fn enter(&mut self, entries: &Entries, others: Option<[u16; 2]>) {
        let Some(shape) = Palette::shape(entries.len(), entries.widest(), others) else { return };
        let (size, offset, width) = shape;
        let header = Palette::bits_of_header(size, width) as u64;
        if header + self.ideal >= self.least {
            return;
        }
        let highest = others.map(|[_, highest]| highest);
        let sketch = Sketch { entries, size, offset, highest, width, zero_runs: self.zero_runs };
        let bits = self.sums.bits(&sketch, self.least - header).map(|bits| header + bits);
        if let Some(bits) = bits.filter(|bits| *bits < self.least) {
            self.least = bits;
            self.found = Some((entries.iter().map(|(code, _)| code).collect(), others));
        }
    }
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
    use std::cmp::Reverse;

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
            let (sums, foreign) = (Sums::of(counts), Sums::of(strange));
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

    /// The least bits of all palettes that are tried, with those of the palettes.
    fn least_of_all(sums: &Sums, zero_runs: bool) -> Option<u64> {
        let present = sums.counts().codes(zero_runs);
        let ascending: Vec<u16> = present.iter().collect();
        let mut frequent = ascending.clone();
        frequent.sort_by_key(|&code| Reverse(key((code, sums.counts().count(code)))));
        let of = |entries: &[u16]| {
            let mut entries = entries.to_vec();
            entries.sort_by_key(|&code| Reverse(key((code, sums.counts().count(code)))));
            let others = entries.iter().fold(present, |codes, &code| codes.without(code)).ends();
            let palette = Palette::new(entries, others, zero_runs)?;
            Some(sums.bits_of(&palette)? + palette.header_bits() as u64)
        };
        let sizes = SIZES.iter().copied().chain([ascending.len()]).filter(|&size| size <= ascending.len().min(32));
        sizes.flat_map(|size| [of(&frequent[..size]), of(&ascending[..size])]).flatten().min()
    }

    proptest! {
        #[test]
        fn no_palette_has_fewer_bits_than_the_best(codes in drawn(), less in 0u64..3) {
            let sums = Sums::of(Counts::new(&format::symbols(&codes)));
            for zero_runs in [false, true] {
                let best = sums.best(zero_runs).map(|(bits, _)| bits);
                let wanted = if sums.counts().weights(zero_runs) > 0 { least_of_all(&sums, zero_runs) } else { None };
                prop_assert_eq!(best, wanted);
                prop_assert!(sums.least(zero_runs) <= best);
            }
            let of = |&zero_runs: &bool| sums.best(zero_runs);
            let best = sums.kinds().iter().filter_map(of).min_by_key(|&(bits, _)| bits);
            prop_assert_eq!(sums.best_below(u64::MAX), best.clone());
            if let Some((bits, palette)) = best {
                let wanted = if less == 0 { Some((bits, palette)) } else { None };
                prop_assert_eq!(sums.best_below(bits + 1 - less), wanted);
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
            Sums::of(counts.clone()).bits_of(&palette)
        };
        // An entry that no weight has costs nothing, whatever it is.
        assert!(bits(5).is_some());
        assert_eq!(bits(0), bits(5));
    }
}
