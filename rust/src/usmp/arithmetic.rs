//! Whole numbers: what two have in common, and the next offset that suits an alignment. Owns no data.

/// The largest of all numbers that divide both; `gcd(0, b)` is `b`.
pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// The least offset from `offset` on whose address is a multiple of `alignment`.
pub(crate) fn aligned(offset: u64, alignment: u64, base: u64) -> u64 {
    let address = base + offset;
    // Nearly all alignments are powers of two, and a division takes longer than all else here.
    let above = if alignment.is_power_of_two() { address & (alignment - 1) } else { address % alignment };
    if above == 0 {
        offset
    } else {
        offset + (alignment - above)
    }
}
