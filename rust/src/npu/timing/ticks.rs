//! Exact time: cycles in fixed point, so that no float decides anything and every machine gets the same totals.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Bits behind the point: a tick is 2^-16 NPU cycle.
const FRACTION_BITS: u32 = 16;
/// Ceiling of any one duration. Above it (2^80 cycles) only damaged streams get; sums of them stay far from `u128::MAX`.
const LIMIT: u128 = 1 << 96;

/// A time or a duration in ticks of 2^-16 NPU cycle. Quotients are rounded up, so a resource is never flattered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ticks(u128);

impl Ticks {
    /// Nothing.
    pub const ZERO: Ticks = Ticks(0);

    /// Whole cycles.
    pub fn cycles(cycles: u128) -> Ticks {
        Ticks(cycles.min(LIMIT >> FRACTION_BITS) << FRACTION_BITS)
    }

    /// `amount * numerator / denominator` cycles, rounded up to a tick; 0 as denominator counts as 1.
    pub fn ratio(amount: u128, numerator: u128, denominator: u128) -> Ticks {
        let scaled = amount.saturating_mul(numerator).min(u128::MAX >> FRACTION_BITS) << FRACTION_BITS;
        Ticks(quotient(scaled, denominator).min(LIMIT))
    }

    /// From raw ticks.
    pub(super) fn raw(ticks: u128) -> Ticks {
        Ticks(ticks)
    }

    /// Raw ticks.
    pub(super) fn get(self) -> u128 {
        self.0
    }

    /// Cycles, rounded up; `u64::MAX` if there are more.
    pub fn ceil(self) -> u64 {
        u64::try_from(self.0.div_ceil(1 << FRACTION_BITS)).unwrap_or(u64::MAX)
    }

    /// Cycles, rounded down; `u64::MAX` if there are more.
    pub fn floor(self) -> u64 {
        u64::try_from(self.0 >> FRACTION_BITS).unwrap_or(u64::MAX)
    }

    /// Difference, not below zero.
    pub fn saturating_sub(self, other: Ticks) -> Ticks {
        Ticks(self.0.saturating_sub(other.0))
    }

    /// `count` times this.
    pub fn times(self, count: u64) -> Ticks {
        Ticks(self.0.saturating_mul(u128::from(count)).min(LIMIT))
    }

    /// The `n`-th part, rounded up; all of it for 0.
    pub fn part(self, n: u64) -> Ticks {
        Ticks(quotient(self.0, u128::from(n)))
    }

    /// The `n`-th part, rounded down; all of it for 0.
    pub fn part_down(self, n: u64) -> Ticks {
        Ticks(self.0 / u128::from(n.max(1)))
    }
}

/// `amount / by`, rounded up; 0 as divisor counts as 1. In 64 bits where that is enough, which is nearly everywhere.
fn quotient(amount: u128, by: u128) -> u128 {
    let by = by.max(1);
    match (u64::try_from(amount), u64::try_from(by)) {
        (Ok(amount), Ok(by)) => u128::from(amount.div_ceil(by)),
        _ => amount.div_ceil(by),
    }
}

impl Add for Ticks {
    type Output = Ticks;

    fn add(self, other: Ticks) -> Ticks {
        Ticks(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Ticks {
    fn add_assign(&mut self, other: Ticks) {
        *self = *self + other;
    }
}

impl Sum for Ticks {
    fn sum<I: Iterator<Item = Ticks>>(iter: I) -> Ticks {
        iter.fold(Ticks::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_round_up() {
        assert_eq!(Ticks::ratio(1, 1, 3).get(), 21846);
        assert_eq!(Ticks::ratio(10, 1, 8), Ticks::cycles(5).part(4));
        assert_eq!((Ticks::ratio(5, 1, 3).floor(), Ticks::cycles(7).floor()), (1, 7));
        assert_eq!((Ticks::ratio(1, 1, 3).ceil(), Ticks::cycles(7).ceil(), Ticks::ZERO.ceil()), (1, 7, 0));
    }

    #[test]
    fn nothing_overflows() {
        let most = Ticks::ratio(u128::MAX, u128::MAX, 0);
        assert_eq!(most.times(u64::MAX), most);
        assert_eq!(most.ceil(), u64::MAX);
        assert_eq!(Ticks::ZERO.saturating_sub(most), Ticks::ZERO);
    }
}
