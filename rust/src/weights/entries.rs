//! Entries of a palette with how often each is there, and what all of them add to quotients, eight at a time. Owns these
//! sums; which entries a palette should have is `sums`'.

use wide::{i16x8, i32x4, CmpGt};

use super::format::MOST_ENTRIES;

/// A code and how often it stands there.
pub type Counted = (u16, u64);

/// Entries that are looked at together.
const TOGETHER: usize = 8;
/// Bits of a digit of a count, so that sums of products with quotients fit 32 bits.
const DIGIT: u32 = 15;
/// Digits of a count; no volume has `1 << 45` weights.
const DIGITS: usize = 3;

/// A number for each entry.
type Numbers = [i16x8; MOST_ENTRIES / TOGETHER];

/// Entries by index. Those that are not there count 0.
pub struct Entries {
    len: usize,
    widest: Option<u16>,
    codes: [i16; MOST_ENTRIES],
    /// Of counts, the lowest digit first.
    digits: [[i16; MOST_ENTRIES]; DIGITS],
    /// Digits that are not 0 in some count.
    used: usize,
}

static INDICES: [i16; MOST_ENTRIES] = {
    let mut indices = [0; MOST_ENTRIES];
    let mut index = 0;
    while index < indices.len() {
        indices[index] = index as i16;
        index += 1;
    }
    indices
};

#[inline(always)]
fn eight(numbers: &[i16; MOST_ENTRIES], vector: usize) -> i16x8 {
    let first = vector * TOGETHER;
    i16x8::new(std::array::from_fn(|lane| numbers[first + lane]))
}

impl Entries {
    /// None.
    pub fn new() -> Entries {
        Entries { len: 0, widest: None, codes: [0; MOST_ENTRIES], digits: [[0; MOST_ENTRIES]; DIGITS], used: 1 }
    }

    fn set(&mut self, place: usize, (code, count): Counted) {
        self.widest = self.widest.max(Some(code));
        self.codes[place] = code as i16;
        self.used = self.used.max((u64::BITS - count.leading_zeros()).div_ceil(DIGIT) as usize);
        for (number, digits) in (0u32..).zip(&mut self.digits[..self.used]) {
            digits[place] = (count >> (number * DIGIT) & ((1 << DIGIT) - 1)) as i16;
        }
    }

    /// These and one behind them.
    pub fn push(&mut self, entry: Counted) {
        self.set(self.len, entry);
        self.len += 1;
    }

    /// These and one behind all that count as much.
    pub fn insert(&mut self, entry: Counted) {
        let place = self.iter().rposition(|(_, count)| count >= entry.1).map_or(0, |before| before + 1);
        self.codes.copy_within(place..self.len, place + 1);
        for digits in &mut self.digits[..self.used] {
            digits.copy_within(place..self.len, place + 1);
        }
        self.set(place, entry);
        self.len += 1;
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// All with their counts.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Counted> + ExactSizeIterator + '_ {
        let digits = &self.digits[..self.used];
        let count = |index: usize| digits.iter().rev().fold(0, |all, digits| all << DIGIT | digits[index] as u64);
        self.codes[..self.len].iter().enumerate().map(move |(index, &code)| (code as u16, count(index)))
    }

    /// The largest code.
    pub fn widest(&self) -> Option<u16> {
        self.widest
    }

    /// The sum of the first counts.
    pub fn first(&self, number: usize) -> u64 {
        self.iter().take(number).map(|(_, count)| count).sum()
    }

    /// By entry the index that it would have as a code from an offset on, behind the entries; 0 below the offset.
    pub fn behind(&self, size: usize, offset: u16) -> Numbers {
        let (least, more) = (i16x8::splat(offset as i16 - 1), i16x8::splat(size as i16 - offset as i16));
        std::array::from_fn(|vector| {
            let codes = eight(&self.codes, vector);
            (codes + more) & codes.cmp_gt(least)
        })
    }

    /// How much more all quotients with a divisor are than they would be with `others` for indices.
    pub fn quotients(&self, divisor: u32, others: &Numbers) -> i64 {
        self.sum(|vector| (eight(&INDICES, vector) >> divisor) - (others[vector] >> divisor))
    }

    /// All quotients of these indices with a divisor.
    pub fn quotients_of(&self, divisor: u32, indices: &Numbers) -> i64 {
        self.sum(|vector| indices[vector] >> divisor)
    }

    /// The sum of what entries have as often as they count, eight at a time.
    #[inline(always)]
    fn sum(&self, of: impl Fn(usize) -> i16x8) -> i64 {
        let vectors = self.len.div_ceil(TOGETHER);
        let sum = |digits: &[i16; MOST_ENTRIES]| {
            let add = |sum: i32x4, vector: usize| sum + of(vector).dot(eight(digits, vector));
            i64::from((0..vectors).fold(i32x4::ZERO, add).reduce_add())
        };
        self.digits[..self.used].iter().rev().fold(0, |all, digits| (all << DIGIT) + sum(digits))
    }
}

/// What `others` are that all count 0.
pub const NOWHERE: Numbers = [i16x8::ZERO; MOST_ENTRIES / TOGETHER];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quotients_are_summed_entry_by_entry(
            entries in prop::collection::vec((0u16..512, prop_oneof![0u64..300, 0..1u64 << 40]), 0..=MOST_ENTRIES),
            is_sorted in any::<bool>(),
            (divisor, offset) in (0u32..6, 0u16..32),
        ) {
            let (mut found, mut wanted) = (Entries::new(), Vec::new());
            for entry in entries {
                if is_sorted {
                    found.insert(entry);
                    let place = wanted.partition_point(|&(_, count)| count >= entry.1);
                    wanted.insert(place, entry);
                } else {
                    found.push(entry);
                    wanted.push(entry);
                }
            }
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), wanted.clone());
            let size = wanted.len();
            let more = |(index, &(code, count)): (usize, &Counted)| {
                let behind = if code < offset { 0 } else { size + usize::from(code - offset) };
                count as i64 * ((index >> divisor) as i64 - (behind >> divisor) as i64)
            };
            let sum: i64 = wanted.iter().enumerate().map(more).sum();
            let behind = found.behind(size, offset);
            prop_assert_eq!(found.quotients(divisor, &behind), sum);
            prop_assert_eq!(found.quotients(divisor, &NOWHERE) - found.quotients_of(divisor, &behind), sum);
        }
    }
}
