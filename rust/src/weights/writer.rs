//! The bits of a planned stream. Owns the layout of headers and chunks, as far as it is written.

use super::coding::Coding;
use super::format::{zero_chunk, CHUNK, END_BITS};
use super::palette::Palette;
use super::plan::{Body, Plan, Slice};
use crate::util::interrupt;

const ZERO_RUNS_OFF: u32 = 6;
const END_OF_STREAM: u32 = 7;
const UNCOMPRESSED: u32 = 7;
/// Weights may be so far ahead of the runs between them.
const LEAD: usize = 8;

/// Bits, the lowest of each byte first.
struct Bits {
    bytes: Vec<u8>,
    pending: u64,
    count: u32,
}

impl Bits {
    /// The lowest `count` bits of a value, which has no others; at most 32.
    #[inline(always)]
    fn put(&mut self, value: u32, count: u32) {
        self.pending |= u64::from(value) << self.count;
        self.count += count;
        if self.count >= u32::BITS {
            self.bytes.extend_from_slice(&(self.pending as u32).to_le_bytes());
            self.pending >>= u32::BITS;
            self.count -= u32::BITS;
        }
    }
}

/// A stream as far as it is written.
pub struct Writer {
    bits: Bits,
    length: usize,
}

impl Writer {
    /// Nothing yet of a stream of so many bytes, a multiple of 4.
    pub fn new(length: usize) -> Writer {
        Writer { bits: Bits { bytes: Vec::with_capacity(length), pending: 0, count: 0 }, length }
    }

    /// The slices of a plan for these codes.
    pub fn write(&mut self, plan: &Plan, codes: &[u16]) {
        let indices: Vec<Vec<u16>> = plan.palettes.iter().map(Palette::indices).collect();
        for slice in &plan.slices {
            interrupt::ask();
            let palette = &plan.palettes[slice.palette];
            let body = slice.body(codes, palette, &indices[slice.palette]);
            header(&mut self.bits, slice, palette, body.indices.len());
            chunks(&mut self.bits, slice, palette, &body);
        }
    }

    /// The stream, ended and filled up.
    pub fn end(mut self) -> Vec<u8> {
        self.bits.put(END_OF_STREAM, END_BITS as u32);
        while self.bits.bytes.len() < self.length {
            // What fills up is ones.
            self.bits.put(u32::MAX >> self.bits.count, u32::BITS - self.bits.count);
        }
        self.bits.bytes
    }
}

fn header(bits: &mut Bits, slice: &Slice, palette: &Palette, weights: usize) {
    bits.put(if palette.zero_runs { slice.zero_divisor } else { ZERO_RUNS_OFF }, 3);
    bits.put(weights as u32 - 1, 15);
    let (divisor, truncated) = match slice.coding {
        Coding::Rice { divisor, truncated } => (divisor, truncated),
        Coding::Uncompressed => (UNCOMPRESSED, false),
    };
    bits.put(divisor, 3);
    bits.put(u32::from(truncated), 1);
    bits.put(u32::from(slice.brings_palette), 1);
    if slice.brings_palette {
        bits.put(u32::from(palette.offset), 5);
        bits.put(palette.entries.len().saturating_sub(1) as u32, 5);
        bits.put(palette.bits - 2, 3);
        palette.entries.iter().for_each(|&entry| bits.put(u32::from(entry), palette.bits));
    }
}

/// Quotients in unary, chunk by chunk: how many have begun and ended, and those whose remainders are still to come.
struct Unary<'a> {
    numbers: &'a [u32],
    /// By how many bits numbers are longer than their quotients.
    divisor: u32,
    /// What is left of the quotient at `ended`.
    left: u32,
    ended: usize,
    /// Numbers that ended, and what filled up chunks.
    counted: usize,
}

impl<'a> Unary<'a> {
    fn new(numbers: &'a [u32], divisor: u32) -> Unary<'a> {
        Unary { numbers, divisor, left: numbers.first().map_or(0, |number| number >> divisor), ended: 0, counted: 0 }
    }

    fn is_on(&self) -> bool {
        self.counted < self.numbers.len()
    }

    #[inline(always)]
    fn end(&mut self) {
        self.counted += 1;
        self.left = self.numbers.get(self.counted).map_or(0, |number| number >> self.divisor);
    }

    /// A chunk of weights: which of its places are more than 0, and of those which more than 1, and how many these are.
    #[inline(always)]
    fn places(&mut self, count: usize, truncated: bool) -> (u32, u32, u32) {
        let (mut first, mut second, mut ones) = (0, 0, 0);
        for place in 0..count {
            let is_more = u32::from(self.left > 0);
            first |= is_more << place;
            second |= u32::from(self.left > 1) << ones;
            ones += is_more;
            if self.left > 1 && !truncated {
                self.left -= 2;
            } else {
                self.end();
            }
        }
        (first, second, ones)
    }

    /// A chunk of runs: a one for each step of a quotient, a zero behind it.
    fn steps(&mut self, count: usize) -> u32 {
        let mut found = 0;
        for place in 0..count {
            if self.left > 0 {
                found |= 1 << place;
                self.left -= 1;
            } else {
                self.end();
            }
        }
        found
    }

    /// Numbers that ended since this was asked last.
    fn newly_ended(&mut self) -> &'a [u32] {
        let end = self.counted.min(self.numbers.len());
        let found = &self.numbers[self.ended..end];
        self.ended = end;
        found
    }
}

fn chunks(bits: &mut Bits, slice: &Slice, palette: &Palette, body: &Body) {
    let (divisor, truncated, width) = match slice.coding {
        Coding::Rice { divisor, truncated } => (divisor, truncated, divisor),
        // All of an index is remainder.
        Coding::Uncompressed => (u16::BITS, false, palette.uncompressed_bits()),
    };
    let compressed = slice.coding != Coding::Uncompressed;
    let chunk = if !compressed && width > 5 { 8 } else { CHUNK };
    let (mut weights, mut runs) = (Unary::new(&body.indices, divisor), Unary::new(&body.runs, slice.zero_divisor));
    let mut waiting: [&[u32]; 2] = [&[], &[]];
    loop {
        let ahead = if palette.zero_runs { weights.counted as isize - runs.counted as isize } else { 0 };
        let weights_on = weights.is_on() && ahead < LEAD as isize;
        let runs_on = runs.is_on() && ahead >= 0;
        let (first, second, ones) = if weights_on { weights.places(chunk, truncated) } else { (0, 0, 0) };
        if weights_on && compressed {
            bits.put(first, CHUNK as u32);
        }
        if runs_on {
            let count = zero_chunk(slice.zero_divisor);
            bits.put(runs.steps(count), count as u32);
        }
        bits.put(second, ones);
        waiting[0].iter().for_each(|index| bits.put(index & ((1 << width) - 1), width));
        waiting[1].iter().for_each(|run| bits.put(run & ((1 << slice.zero_divisor) - 1), slice.zero_divisor));
        waiting = [weights.newly_ended(), runs.newly_ended()];
        if !weights_on && !runs_on {
            return;
        }
    }
}
