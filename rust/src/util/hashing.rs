//! A hash for small keys of integers, in a few instructions a word and the same on every run.
//!
//! Owns the mixing of words (multiply and rotate, after the FxHash of Firefox and rustc). Not for keys that an adversary
//! chooses; the planner's are its own.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by small keys.
pub type Table<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

/// Odd, with bits spread evenly: the golden ratio's fraction in 64 bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The state of a hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixer {
    state: u64,
}

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.state = (self.state.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }
    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }
    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }
    fn finish(&self) -> u64 {
        // Tables take their low bits from the hash, products have their best ones on top.
        self.state.rotate_left(26)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hash;

    #[test]
    fn small_keys_hardly_ever_share_a_bucket() {
        let mut buckets = vec![0; 1 << 12];
        for part in 0u32..64 {
            for rows in 1i64..33 {
                let mut mixer = Mixer::default();
                (part, [rows, 224 / rows]).hash(&mut mixer);
                buckets[mixer.finish() as usize % (1 << 12)] += 1;
            }
        }
        assert!(buckets.into_iter().max() < Some(8));
    }
}
