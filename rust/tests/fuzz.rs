//! Every fuzzed function on its seeds, on what fuzzers found before, and on some thousands of damaged inputs.
//!
//! Fuzzers search deeper: `cargo fuzz run payload` in `fuzz`.

use std::fs;
use std::path::Path;

#[path = "../../fuzz/src/lib.rs"]
mod targets;

/// The files of one target, in the order of their names: the seeds, and the corpus where a fuzzer has left one.
fn inputs(target: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let mut paths = Vec::new();
    for folder in [root.join("seeds").join(target), root.join("corpus").join(target)] {
        paths.extend(fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()));
    }
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a file that can be read")).collect()
}

/// Numbers that only look random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// One to four changes: bytes, bits, 32-bit words at their extremes, pieces cut out, doubled or cut off.
fn damaged(data: &[u8], random: &mut Random) -> Vec<u8> {
    let mut found = data.to_vec();
    for _ in 0..=random.below(4) {
        let (length, at) = (found.len(), random.below(found.len()));
        match random.below(12) {
            _ if length == 0 => found.push(random.below(256) as u8),
            0 => found.truncate(at),
            1 => drop(found.drain(at..length.min(at + 1 + random.below(16)))),
            2 => found.splice(at..at, data[..random.below(data.len().min(64))].to_vec()).for_each(drop),
            3..=5 => found[at] ^= 1 << random.below(8),
            6 | 7 => found[at] = random.below(256) as u8,
            _ => {
                let word =
                    [0u32, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF][random.below(9)];
                let start = at / 4 * 4;
                for (byte, value) in found[start..length.min(start + 4)].iter_mut().zip(word.to_le_bytes()) {
                    *byte = value;
                }
            }
        }
    }
    found
}

/// Runs a target on its inputs as they are, then on `count` damaged ones.
fn run(target: &str, count: usize, function: fn(&[u8])) {
    let seeds = inputs(target);
    assert!(!seeds.is_empty(), "fuzz/seeds/{target} is empty: `make seeds` fills it");
    seeds.iter().for_each(|data| function(data));
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for turn in 0..count {
        function(&damaged(&seeds[turn % seeds.len()], &mut random));
    }
}

#[test]
fn payloads() {
    run("payload", 3_000, targets::payload);
}

#[test]
fn weights() {
    run("weights", 20_000, targets::weights);
}

#[test]
fn memory_problems() {
    run("memory", 3_000, targets::memory);
}
