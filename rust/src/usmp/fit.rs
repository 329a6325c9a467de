//! How an item rises: the lowest offset that suits its alignment and lies in no forbidden range.
//!
//! Owns that walk over ranges; who forbids them is for others to say.

use super::arithmetic::aligned;

/// Sweeps over what may be in the way before it is sorted.
const MAX_SWEEPS: u32 = 8;

/// The lowest offset that nothing looked at so far forbids.
pub(crate) struct Fit {
    pub offset: i64,
    alignment: u64,
    base: u64,
}

impl Fit {
    pub fn new(alignment: u64, base: u64) -> Self {
        Self::from(aligned(0, alignment, base), (alignment, base))
    }

    /// From `offset` on, which suits the alignment and the base.
    pub fn from(offset: u64, (alignment, base): (u64, u64)) -> Self {
        Self { offset: offset as i64, alignment, base }
    }

    /// Rises until no range `[low, high)` of those `banned` is in the way; their order changes.
    ///
    /// What lies below is never looked at again, so that mostly a few sweeps are enough. They are free of branches that
    /// depend on what is banned, which sorting is not.
    pub fn rise(mut self, banned: &mut [(i64, i64)]) -> u64 {
        let mut count = banned.len();
        for _ in 0..MAX_SWEEPS {
            let before = self.offset;
            count = self.sweep(&mut banned[..count]);
            if self.offset == before {
                return self.offset as u64;
            }
        }
        let banned = &mut banned[..count];
        banned.sort_unstable_by_key(|&(low, _)| low);
        for &(low, high) in &*banned {
            if low > self.offset {
                break;
            }
            self.offset = self.offset.max(aligned(high as u64, self.alignment, self.base) as i64);
        }
        self.offset as u64
    }

    /// Rises above what is in the way; returns how many ranges, now the first ones, may still be.
    fn sweep(&mut self, banned: &mut [(i64, i64)]) -> usize {
        let (mut offset, mut kept) = (self.offset, 0);
        for index in 0..banned.len() {
            let (low, high) = banned[index];
            let above = low > offset;
            offset = if above { offset } else { offset.max(high) };
            banned[kept] = (low, high);
            kept += usize::from(above);
        }
        if offset > self.offset {
            self.offset = aligned(offset as u64, self.alignment, self.base) as i64;
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lowest(banned: &[(i64, i64)], alignment: u64, base: u64) -> u64 {
        let fits = |&offset: &u64| {
            (offset + base) % alignment == 0
                && !banned.iter().any(|&(low, high)| low <= offset as i64 && (offset as i64) < high)
        };
        (0..).find(fits).expect("ranges end")
    }

    proptest! {
        #[test]
        fn an_item_rises_to_the_lowest_offset_that_is_free(
            mut banned in prop::collection::vec((-20i64..200, 0i64..30), 0..40),
            alignment in prop::sample::select(vec![1u64, 3, 4, 16]),
            base in 0u64..20,
        ) {
            banned.iter_mut().for_each(|(low, high)| *high += *low);
            let expected = lowest(&banned, alignment, base);
            prop_assert_eq!(Fit::new(alignment, base).rise(&mut banned), expected);
        }
    }

    #[test]
    fn ranges_that_come_in_the_worst_order_are_sorted() {
        for count in 1..3 * i64::from(MAX_SWEEPS) {
            let mut banned: Vec<(i64, i64)> = (0..count).rev().map(|n| (10 * n, 10 * n + 12)).collect();
            let expected = lowest(&banned, 4, 0);
            assert_eq!(Fit::new(4, 0).rise(&mut banned), expected);
        }
    }
}
