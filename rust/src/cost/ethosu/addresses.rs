//! Addresses of a placed program: where a byte lies among all pools of tensors.
//!
//! Owns how pool and offset become one number, so that bytes of different pools never meet. Registers hold the offset.

use crate::model::ids::{Id, PoolId};

/// Bits of the offset in a pool.
const OFFSET_BITS: u32 = 44;

/// The address of a byte of a pool; of the scarce one it is the offset itself.
#[inline]
pub fn address(pool: PoolId, offset: u64) -> u64 {
    (pool.index() as u64) << OFFSET_BITS | offset
}

/// The offset in its pool.
#[inline]
pub fn offset_of(address: u64) -> u64 {
    address & ((1 << OFFSET_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_different_pools_never_meet() {
        let last = (1 << OFFSET_BITS) - 1;
        let places = [(0, 0), (0, 16), (0, last), (1, 0), (1, 16), (6, last)];
        let addresses = places.map(|(pool, offset)| address(PoolId(pool), offset));
        assert!(addresses.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(addresses.map(offset_of), places.map(|(_, offset)| offset));
        assert_eq!(address(PoolId(0), 12345), 12345);
    }
}
