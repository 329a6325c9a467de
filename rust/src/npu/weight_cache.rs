//! Decoded weights by content, because striped streams use the same ones hundreds of times.
//! Owns nothing but the memo: an entry is used only if the encoded bytes are still the same.

use std::collections::HashMap;
use std::sync::Arc;

use super::error::Fault;
use super::weight_order::WeightGeometry;
use super::weights;

/// Decoded weights kept at most, in weights (2 bytes each).
const CAPACITY_WEIGHTS: usize = 32 << 20;

/// A memo of [`weights::decode`] and [`WeightGeometry::reorder`].
#[derive(Debug, Clone, Default)]
pub struct WeightCache {
    entries: HashMap<(WeightGeometry, u64), Entry>,
    weights: usize,
}

#[derive(Debug, Clone)]
struct Entry {
    encoded: Vec<u8>,
    decoded: Arc<Vec<i16>>,
}

/// A quick 64-bit digest; a collision costs a decode, never a wrong result.
fn digest(bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(8);
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let mut hash = bytes.len() as u64;
    for chunk in chunks.by_ref() {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        hash = mix(hash, u64::from_le_bytes(word));
    }
    chunks.remainder().iter().fold(hash, |hash, &byte| mix(hash, u64::from(byte)))
}

impl WeightCache {
    /// The weights that `encoded` holds, in the order of [`WeightGeometry::reorder`].
    ///
    /// # Errors
    /// What decoding and reordering refuse.
    pub fn weights(&mut self, geometry: WeightGeometry, encoded: &[u8]) -> Result<Arc<Vec<i16>>, Fault> {
        let key = (geometry, digest(encoded));
        if let Some(entry) = self.entries.get(&key).filter(|entry| entry.encoded == encoded) {
            return Ok(Arc::clone(&entry.decoded));
        }
        let needed = usize::try_from(geometry.stream_weights()).unwrap_or(usize::MAX);
        let decoded = Arc::new(geometry.reorder(&weights::decode(encoded, needed)?)?);
        if self.weights + decoded.len() > CAPACITY_WEIGHTS {
            self.entries.clear();
            self.weights = 0;
        }
        self.weights += decoded.len();
        self.entries.insert(key, Entry { encoded: encoded.to_vec(), decoded: Arc::clone(&decoded) });
        Ok(decoded)
    }
}
