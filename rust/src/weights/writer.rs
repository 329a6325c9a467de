//! The bits of a planned stream. Owns the layout of headers and chunks, as far as it is written.

use super::coding::Coding;
use super::format::{zero_chunk, CHUNK, END_BITS, LARGEST_QUOTIENT, LARGEST_TRUNCATED};
use super::order::CODES;
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
    /// An empty stream of `length` bytes, a multiple of 4.
    pub fn new(length: usize) -> Writer {
        Writer { bits: Bits { bytes: Vec::with_capacity(length), pending: 0, count: 0 }, length }
    }

    /// The slices of a plan for these codes.
    pub fn write(&mut self, plan: &Plan, codes: &[u16]) {
        let indices: Vec<Box<[u16; CODES]>> = plan.palettes.iter().map(Palette::indices).collect();
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

/// What a weight's quotient adds to the places of a chunk, and to the record of those above 0.
#[derive(Clone, Copy)]
struct Places {
    /// For each place whether it is more than 0, and how many places there are.
    first: (u32, u32),
    /// For each place that is more than 0 whether it is more than 1, and how many these are.
    second: (u32, u32),
}

impl Places {
    const NONE: Places = Places { first: (0, 0), second: (0, 0) };

    /// Of a quotient: a place takes two of it, and the last one what is left; truncated ones have one place.
    const fn of(quotient: u32, truncated: bool) -> Places {
        if truncated {
            let more = if quotient > 0 { 1 } else { 0 };
            return Places { first: (more, 1), second: (if quotient > 1 { 1 } else { 0 }, more) };
        }
        let (full, left) = (quotient / 2, quotient % 2);
        let ones = (1 << full) - 1;
        Places { first: (ones | left << full, full + 1), second: (ones, full + left) }
    }
}

/// By quotient its places.
const fn all_places<const COUNT: usize>(truncated: bool) -> [Places; COUNT] {
    let mut all = [Places::NONE; COUNT];
    let mut quotient = 0;
    while quotient < COUNT {
        all[quotient] = Places::of(quotient as u32, truncated);
        quotient += 1;
    }
    all
}

static FULL: [Places; LARGEST_QUOTIENT as usize + 1] = all_places(false);
static TRUNCATED: [Places; LARGEST_TRUNCATED as usize + 1] = all_places(true);

/// Quotients of weights in unary, chunk by chunk: how many have begun and ended, and those whose remainders are still to
/// come.
struct Quotients<'a> {
    indices: &'a [u32],
    /// By how many bits indices are longer than their quotients.
    divisor: u32,
    /// By quotient.
    places: &'static [Places],
    truncated: bool,
    begun: usize,
    /// Places that have begun and are in no chunk yet.
    first: (u32, u32),
    second: (u32, u32),
    /// Weights whose remainders were asked for.
    told: usize,
    /// Weights that ended, and what filled up chunks.
    ended: usize,
}

impl<'a> Quotients<'a> {
    fn new(indices: &'a [u32], divisor: u32, truncated: bool) -> Quotients<'a> {
        let places = if truncated { &TRUNCATED[..] } else { &FULL[..] };
        let (first, second) = ((0, 0), (0, 0));
        Quotients { indices, divisor, places, truncated, begun: 0, first, second, told: 0, ended: 0 }
    }

    fn is_on(&self) -> bool {
        self.ended < self.indices.len()
    }

    /// A chunk: which of its places are more than 0, and of those which more than 1, and how many these are.
    ///
    /// Not inlined, nor are remainders: what a loop over weights needs would not stay in registers.
    #[inline(never)]
    fn chunk(&mut self, count: u32) -> (u32, u32, u32) {
        let (mut first, mut second, mut begun) = (self.first, self.second, self.begun);
        for &index in &self.indices[begun..] {
            if first.1 >= count {
                break;
            }
            let more = self.places[(index >> self.divisor) as usize];
            first = (first.0 | more.first.0 << first.1, first.1 + more.first.1);
            second = (second.0 | more.second.0 << second.1, second.1 + more.second.1);
            begun += 1;
        }
        self.begun = begun;
        let places = first.0 & ((1 << count) - 1);
        let ones = places.count_ones();
        let twos = second.0 & ((1 << ones) - 1);
        self.first = (first.0 >> count, first.1.saturating_sub(count));
        self.second = (second.0 >> ones, second.1 - ones);
        // A place that takes two has another one behind it, unless that is all there can be.
        self.ended += (count - if self.truncated { 0 } else { twos.count_ones() }) as usize;
        (places, twos, ones)
    }

    /// Indices of weights that ended since this was asked last.
    fn newly_ended(&mut self) -> &'a [u32] {
        let found = &self.indices[self.told..self.ended.min(self.indices.len())];
        self.told += found.len();
        found
    }
}

/// Runs of zeros in unary, chunk by chunk: how many have ended, and those whose remainders are still to come.
struct Runs<'a> {
    lengths: &'a [u32],
    divisor: u32,
    /// What is left of the first one that has not ended.
    left: u32,
    told: usize,
    /// Runs that ended, and what filled up chunks.
    ended: usize,
}

impl<'a> Runs<'a> {
    fn new(lengths: &'a [u32], divisor: u32) -> Runs<'a> {
        Runs { lengths, divisor, left: lengths.first().map_or(0, |length| length >> divisor), told: 0, ended: 0 }
    }

    fn is_on(&self) -> bool {
        self.ended < self.lengths.len()
    }

    /// A chunk: a one for each step of a quotient, a zero behind it.
    fn chunk(&mut self, count: u32) -> u32 {
        let (mut found, mut place) = (0, 0);
        while place < count {
            let steps = self.left.min(count - place);
            found |= ((1 << steps) - 1) << place;
            self.left -= steps;
            place += steps;
            if place < count {
                place += 1;
                self.ended += 1;
                self.left = self.lengths.get(self.ended).map_or(0, |length| length >> self.divisor);
            }
        }
        found
    }

    /// Lengths of runs that ended since this was asked last.
    fn newly_ended(&mut self) -> &'a [u32] {
        let found = &self.lengths[self.told..self.ended.min(self.lengths.len())];
        self.told += found.len();
        found
    }
}

/// The lowest `width` bits of each number, one behind the other.
#[inline(never)]
fn remainders(bits: &mut Bits, numbers: &[u32], width: u32) {
    if width == 0 {
        return;
    }
    let mask = (1 << width) - 1;
    for numbers in numbers.chunks((u32::BITS / width) as usize) {
        let (mut all, mut count) = (0, 0);
        for number in numbers {
            all |= (number & mask) << count;
            count += width;
        }
        bits.put(all, count);
    }
}

fn chunks(bits: &mut Bits, slice: &Slice, palette: &Palette, body: &Body) {
    let (divisor, truncated, width) = match slice.coding {
        Coding::Rice { divisor, truncated } => (divisor, truncated, divisor),
        // All of an index is remainder.
        Coding::Uncompressed => (u16::BITS, false, palette.uncompressed_bits()),
    };
    let compressed = slice.coding != Coding::Uncompressed;
    let chunk = if !compressed && width > 5 { 8 } else { CHUNK as u32 };
    let mut weights = Quotients::new(&body.indices, divisor, truncated);
    let mut runs = Runs::new(&body.runs, slice.zero_divisor);
    let mut waiting: [&[u32]; 2] = [&[], &[]];
    loop {
        let ahead = if palette.zero_runs { weights.ended as isize - runs.ended as isize } else { 0 };
        let weights_on = weights.is_on() && ahead < LEAD as isize;
        let runs_on = runs.is_on() && ahead >= 0;
        let (first, second, ones) = if weights_on { weights.chunk(chunk) } else { (0, 0, 0) };
        if weights_on && compressed {
            bits.put(first, CHUNK as u32);
        }
        if runs_on {
            let count = zero_chunk(slice.zero_divisor) as u32;
            bits.put(runs.chunk(count), count);
        }
        bits.put(second, ones);
        remainders(bits, waiting[0], width);
        remainders(bits, waiting[1], slice.zero_divisor);
        waiting = [weights.newly_ended(), runs.newly_ended()];
        if !weights_on && !runs_on {
            return;
        }
    }
}
