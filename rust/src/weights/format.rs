//! What the format of streams fixes: sizes of headers, limits of numbers, and the symbols that a stream is seen as.
//! Owns these figures; how a weight is coded is `coding`'s.

use super::order::CODES;

/// Streams are padded to a multiple of this number of bytes.
pub const ALIGNMENT: usize = 16;
/// Bits that end a stream.
pub const END_BITS: usize = 3;
/// Bits of a slice's header without a palette.
pub const HEADER_BITS: usize = 23;
/// Bits of a palette's header.
pub const PALETTE_BITS: usize = 13;
/// The most weights of a slice.
pub const MOST_WEIGHTS: usize = 32767;
/// Entries of the largest palette.
pub const MOST_ENTRIES: usize = 32;
/// The largest code that may stand first behind a palette's entries.
pub const LARGEST_OFFSET: u16 = 31;
/// The largest index that the NPU makes a weight of.
pub const LARGEST_INDEX: u16 = 511;
/// Divisors of indices, as numbers of bits.
pub const DIVISORS: u32 = 6;
/// Divisors of runs of zeros.
pub const ZERO_DIVISORS: u32 = 4;
/// The largest quotient of a weight's index.
pub const LARGEST_QUOTIENT: u16 = 31;
/// The largest quotient of a weight's index that is truncated.
pub const LARGEST_TRUNCATED: u16 = 2;
/// Symbols of quotients in a chunk.
pub const CHUNK: usize = 12;

/// Symbols of a chunk of quotients of runs.
pub fn zero_chunk(divisor: u32) -> usize {
    if divisor == 3 {
        8
    } else {
        CHUNK
    }
}

/// Codes of weights, and in the place of 0 eight symbols: how many zeros stand in a row so far, less one, modulo 8.
pub const SYMBOLS: usize = CODES + 8;

/// The symbols of a stream's codes.
pub fn symbols(codes: &[u16]) -> Vec<u16> {
    let mut zeros = 0;
    let symbol = |&code: &u16| {
        zeros = if code == 0 { (zeros & 7) + 1 } else { 0 };
        code + if code == 0 { CODES as u16 - 1 } else { 0 } + zeros
    };
    codes.iter().map(symbol).collect()
}

/// The code of a symbol.
pub fn code_of(symbol: u16) -> u16 {
    if usize::from(symbol) < CODES {
        symbol
    } else {
        0
    }
}
