//! A small random generator of our own: a seed means the same on every machine and in every release.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `[0, count)`; `count` must not be zero. The bias is below 2^-32 for the counts that occur here.
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    /// A number whose mean is about `1.44 * scale` and whose chance halves with every `scale`: annealing's tolerance.
    ///
    /// Whole numbers only, because a logarithm may round differently elsewhere.
    pub fn tolerance(&mut self, scale: u64) -> u64 {
        let bits = self.next();
        let halvings = u64::from(bits.leading_zeros().min(16));
        let fraction = bits & 0xffff;
        let part = (u128::from(scale) * u128::from(fraction)) >> 16;
        halvings * scale + part as u64
    }
}
