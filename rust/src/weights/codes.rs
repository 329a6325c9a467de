//! Sets of codes that weights have. Owns nothing else.

use super::order::CODES;

/// A set of codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeSet([u64; CODES / u64::BITS as usize]);

impl CodeSet {
    /// The codes whose counts, from code 0 on, are not 0.
    pub fn counted(counts: &[u32; CODES]) -> CodeSet {
        let mut found = CodeSet([0; CODES / u64::BITS as usize]);
        for (word, counts) in found.0.iter_mut().zip(counts.chunks_exact(u64::BITS as usize)) {
            for (number, eight) in counts.chunks_exact(8).enumerate() {
                // Most of many codes are nowhere in few weights.
                if eight.iter().fold(0, |any, count| any | count) > 0 {
                    let bits = eight.iter().rev().fold(0, |bits, &count| bits << 1 | u64::from(count > 0));
                    *word |= bits << (8 * number);
                }
            }
        }
        found
    }

    fn place(code: u16) -> (usize, u64) {
        (usize::from(code / u64::BITS as u16), 1 << (u32::from(code) % u64::BITS))
    }

    /// This set and a code.
    pub fn with(mut self, code: u16) -> CodeSet {
        let (word, bit) = CodeSet::place(code);
        self.0[word] |= bit;
        self
    }

    /// This set without a code.
    pub fn without(mut self, code: u16) -> CodeSet {
        let (word, bit) = CodeSet::place(code);
        self.0[word] &= !bit;
        self
    }

    /// The codes of both sets.
    pub fn and(&self, other: &CodeSet) -> CodeSet {
        CodeSet(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The lowest and the highest one.
    pub fn ends(&self) -> Option<[u16; 2]> {
        let first = self.0.iter().position(|&word| word > 0)?;
        let last = self.0.iter().rposition(|&word| word > 0)?;
        let at = |word: usize, bit: u32| (word as u32 * u64::BITS + bit) as u16;
        Some([at(first, self.0[first].trailing_zeros()), at(last, self.0[last].ilog2())])
    }

    /// All, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().zip((0u16..).step_by(u64::BITS as usize)).flat_map(|(&word, first)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left > 0).then(|| left.trailing_zeros() as u16)?;
                left &= left - 1;
                Some(first + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_counted() {
        let mut counts = [0; CODES];
        for code in [0, 7, 8, 63, 64, 300, 511] {
            counts[code] = 1;
        }
        let set = CodeSet::counted(&counts);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 7, 8, 63, 64, 300, 511]);
        assert_eq!((set.count(), set.ends()), (7, Some([0, 511])));
        let fewer = set.without(0).without(511).without(64);
        assert_eq!((fewer.count(), fewer.ends()), (4, Some([7, 300])));
        assert_eq!(fewer.with(0).with(511).with(64), set);
        assert_eq!(fewer.and(&set), set);
    }

    #[test]
    fn nothing_has_no_ends() {
        let none = CodeSet::counted(&[0; CODES]);
        assert_eq!((none.count(), none.ends(), none.iter().next()), (0, None, None));
    }
}
