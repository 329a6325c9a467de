//! Decompression of weight streams: bits to a flat sequence of weights, and the scale records beside them.
//! Owns the coding; the order of the sequence belongs to [`super::weight_order`].

use super::arithmetic::Scale;
use super::error::Fault;
use crate::util::interrupt;

/// Bytes of one scale record.
pub const SCALE_RECORD_BYTES: usize = 10;

const ZERO_RUNS_OFF: u32 = 6;
const END_OF_STREAM: u32 = 7;
const UNCOMPRESSED: u32 = 7;
const WEIGHT_LIMIT: i32 = 255;
/// No code can hold more weights per bit than this: eight zeros per unary bit and the weight between two runs.
const MAX_WEIGHTS_PER_BIT: usize = 16;

/// Bias and multiplier of one output channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelScale {
    /// Added to the sum of products, 40 bits.
    pub bias: i64,
    /// Multiplier of the accumulator.
    pub scale: Scale,
}

/// Reads one 10-byte record: bias (40 bits signed), scale (32 bits), shift (6 bits), little-endian.
///
/// # Errors
/// [`Fault::Range`] if the two bits above the shift are set.
pub fn scale_record(record: &[u8; SCALE_RECORD_BYTES]) -> Result<ChannelScale, Fault> {
    let mut wide = [0; 8];
    wide[..5].copy_from_slice(&record[..5]);
    let bias = i64::from_le_bytes(wide) << 24 >> 24;
    let scale = u32::from_le_bytes([record[5], record[6], record[7], record[8]]);
    let shift = u32::from(record[9]);
    if shift > 63 {
        return Err(Fault::Range { register: "a scale record's shift", value: i64::from(shift), allowed: "0..=63" });
    }
    Ok(ChannelScale { bias, scale: Scale { scale, shift } })
}

/// Reads bits, least significant bit of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl Bits<'_> {
    fn left(&self) -> usize {
        self.bytes.len() * 8 - self.position
    }

    /// The next `count` (at most 24) bits as a number.
    #[inline(always)]
    fn take(&mut self, count: u32) -> Result<u32, Fault> {
        if self.left() < count as usize {
            return Err(Fault::Weights { what: "the stream is truncated", bit: self.position });
        }
        let byte = self.position / 8;
        let word = match self.bytes.get(byte..byte + 4) {
            Some(b) => u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            None => {
                let mut word = [0; 4];
                let rest = &self.bytes[byte..];
                word[..rest.len()].copy_from_slice(rest);
                u32::from_le_bytes(word)
            }
        };
        let value = word >> (self.position % 8) & ((1u32 << count) - 1);
        self.position += count as usize;
        Ok(value)
    }

    fn skip_to_byte(&mut self) {
        self.position = self.position.next_multiple_of(8);
    }
}

/// How indices become weights; persists from slice to slice.
struct Palette {
    entries: Vec<i16>,
    direct_offset: u32,
    bits: u32,
    zero_runs: bool,
}

impl Palette {
    fn read(bits: &mut Bits, zero_runs: bool) -> Result<Palette, Fault> {
        let direct_offset = bits.take(5)?;
        let size = match bits.take(5)? {
            0 => 0,
            n => n + 1,
        };
        let width = bits.take(3)? + 2;
        let entries = (0..size)
            .map(|_| {
                let at = bits.position;
                let code = bits.take(width)?;
                signed(code, at)
            })
            .collect::<Result<_, _>>()?;
        Ok(Palette { entries, direct_offset, bits: width, zero_runs })
    }

    /// Bits per weight of slices without entropy coding.
    fn uncompressed_bits(&self) -> u32 {
        match self.entries.len() as u32 {
            0 => self.bits,
            n => 32 - (n - 1).leading_zeros(),
        }
    }

    #[inline(always)]
    fn weight(&self, index: u32, bit: usize) -> Result<i16, Fault> {
        match self.entries.get(index as usize) {
            Some(weight) => Ok(*weight),
            None => signed(index - self.entries.len() as u32 + self.direct_offset, bit),
        }
    }
}

/// Sign in bit 0, magnitude above.
#[inline(always)]
fn signed(code: u32, bit: usize) -> Result<i16, Fault> {
    let magnitude = (code >> 1) as i32;
    if magnitude > WEIGHT_LIMIT {
        return Err(Fault::Weights { what: "a weight beyond -255..=255", bit });
    }
    Ok((if code & 1 == 1 { -magnitude } else { magnitude }) as i16)
}

/// Decodes a whole stream of exactly `needed` weights.
///
/// # Errors
/// [`Fault::Weights`] with the bit position for damage, [`Fault::WeightCount`] for another number of weights.
pub fn decode(bytes: &[u8], needed: usize) -> Result<Vec<i16>, Fault> {
    if needed / MAX_WEIGHTS_PER_BIT > bytes.len() * 8 {
        return Err(Fault::WeightCount { found: bytes.len() * 8 * MAX_WEIGHTS_PER_BIT, needed });
    }
    let mut bits = Bits { bytes, position: 0 };
    let mut out = Vec::with_capacity(needed);
    let mut palette: Option<Palette> = None;
    while bits.left() >= 3 {
        interrupt::ask();
        let zero_divisor = bits.take(3)?;
        if zero_divisor == END_OF_STREAM {
            bits.skip_to_byte();
            palette = None;
            continue;
        }
        decode_slice(&mut bits, zero_divisor, &mut palette, &mut out, needed)?;
    }
    if out.len() != needed {
        return Err(Fault::WeightCount { found: out.len(), needed });
    }
    Ok(out)
}

/// What a slice header says, with the state that the chunks of its body share.
struct Slice {
    weights: usize,
    runs: usize,
    weight_bits: u32,
    zero_bits: u32,
    compressed: bool,
    truncated: bool,
    zero_runs: bool,
    /// Symbols per chunk of weights.
    chunk: u32,
}

/// Reads a slice's header and, if it brings one, its palette.
fn read_header(bits: &mut Bits, zero_divisor: u32, palette: &mut Option<Palette>) -> Result<Slice, Fault> {
    let start = bits.position;
    let bad = |what| Fault::Weights { what, bit: start };
    let weights = bits.take(15)? as usize + 1;
    let divisor = bits.take(3)?;
    let truncated = bits.take(1)? == 1;
    let new_palette = bits.take(1)? == 1;
    let zero_runs = zero_divisor != ZERO_RUNS_OFF;
    if (zero_divisor > 3 && zero_runs) || divisor == 6 {
        return Err(bad("an unknown divisor"));
    }
    if new_palette {
        *palette = Some(Palette::read(bits, zero_runs)?);
    }
    let palette = palette.as_ref().ok_or_else(|| bad("the first slice has no palette"))?;
    if palette.zero_runs != zero_runs {
        return Err(bad("zero runs are switched without a new palette"));
    }
    let compressed = divisor != UNCOMPRESSED;
    let weight_bits = if compressed { divisor } else { palette.uncompressed_bits() };
    Ok(Slice {
        weights,
        runs: if zero_runs { weights + usize::from(new_palette) } else { 0 },
        weight_bits,
        zero_bits: if zero_runs { zero_divisor } else { 0 },
        compressed,
        truncated,
        zero_runs,
        chunk: if !compressed && weight_bits > 5 { 8 } else { 12 },
    })
}

/// Decodes one slice behind its zero run divisor and appends its weights.
fn decode_slice(
    bits: &mut Bits,
    zero_divisor: u32,
    palette: &mut Option<Palette>,
    out: &mut Vec<i16>,
    needed: usize,
) -> Result<(), Fault> {
    let start = bits.position;
    let slice = read_header(bits, zero_divisor, palette)?;
    let palette = palette.as_ref().ok_or(Fault::Weights { what: "the first slice has no palette", bit: start })?;
    let (indices, zeros) = decode_body(bits, &slice)?;
    // A run more than weights lies in front of the first one.
    let lead = zeros.len().saturating_sub(indices.len());
    let emit_zeros = |out: &mut Vec<i16>, run: &u32| {
        let found = out.len().saturating_add(*run as usize);
        if found > needed {
            return Err(Fault::WeightCount { found, needed });
        }
        out.resize(found, 0);
        Ok(())
    };
    for run in &zeros[..lead] {
        emit_zeros(out, run)?;
    }
    for (i, index) in indices.iter().enumerate() {
        out.push(palette.weight(*index, start)?);
        if let Some(run) = zeros.get(lead + i) {
            emit_zeros(out, run)?;
        }
    }
    if out.len() > needed {
        return Err(Fault::WeightCount { found: out.len(), needed });
    }
    Ok(())
}

/// Quotients of one kind of symbol: an unfinished one, and those that wait for their remainders.
#[derive(Default)]
struct Quotients {
    unfinished: u32,
    finished: Vec<u32>,
    /// Symbols finished so far, beyond the end of the slice included.
    count: usize,
}

impl Quotients {
    #[inline(always)]
    fn finish(&mut self) {
        self.finished.push(self.unfinished);
        self.unfinished = 0;
        self.count += 1;
    }

    /// Reads the remainders of what `waiting` holds into `out`, never beyond `limit` symbols.
    fn remainders(
        waiting: &mut Vec<u32>,
        bits: &mut Bits,
        width: u32,
        out: &mut Vec<u32>,
        limit: usize,
    ) -> Result<(), Fault> {
        for quotient in waiting.drain(..) {
            if out.len() < limit {
                let high = quotient.checked_shl(width).filter(|h| h >> width == quotient);
                let high = high.ok_or(Fault::Weights { what: "a quotient overflows", bit: bits.position })?;
                out.push(high | bits.take(width)?);
            }
        }
        Ok(())
    }
}

/// The body of a slice: weight indices and zero run lengths.
fn decode_body(bits: &mut Bits, slice: &Slice) -> Result<(Vec<u32>, Vec<u32>), Fault> {
    // A symbol takes at least a bit, so what is left of the stream bounds what a header may promise.
    let capacity = slice.weights.min(bits.left());
    let (mut indices, mut zeros) = (Vec::with_capacity(capacity), Vec::with_capacity(capacity.min(slice.runs)));
    let (mut w, mut z) = (Quotients::default(), Quotients::default());
    let (mut waiting_w, mut waiting_z) = (Vec::with_capacity(12), Vec::with_capacity(12));
    loop {
        // Weights may run ahead of zero runs by one chunk, so both end together.
        let balance = if slice.zero_runs { w.count as i64 - z.count as i64 } else { 0 };
        let w_on = w.count < slice.weights && balance < 8;
        let z_on = slice.zero_runs && balance >= 0 && z.count < slice.runs;
        let unary = if w_on && slice.compressed { bits.take(12)? } else { 0 };
        if z_on {
            zero_chunk(bits, slice, &mut z)?;
        }
        if w_on {
            weight_chunk(bits, slice, unary, &mut w)?;
        }
        Quotients::remainders(&mut waiting_w, bits, slice.weight_bits, &mut indices, slice.weights)?;
        Quotients::remainders(&mut waiting_z, bits, slice.zero_bits, &mut zeros, slice.runs)?;
        std::mem::swap(&mut waiting_w, &mut w.finished);
        std::mem::swap(&mut waiting_z, &mut z.finished);
        if !w_on && !z_on {
            return Ok((indices, zeros));
        }
    }
}

/// Unary codes of zero runs: a one extends a run's quotient, a zero ends it.
fn zero_chunk(bits: &mut Bits, slice: &Slice, z: &mut Quotients) -> Result<(), Fault> {
    let length = if slice.zero_bits == 3 { 8 } else { 12 };
    let unary = bits.take(length)?;
    for i in 0..length {
        if unary >> i & 1 == 1 {
            z.unfinished += 1;
        } else {
            z.finish();
        }
    }
    Ok(())
}

/// Quotients of one chunk of weights: `unary` says which of them are more than 0, further bits which more than 1.
fn weight_chunk(bits: &mut Bits, slice: &Slice, unary: u32, w: &mut Quotients) -> Result<(), Fault> {
    let mut more = bits.take(unary.count_ones())?;
    for i in 0..slice.chunk {
        let mut code = unary >> i & 1;
        if code == 1 {
            code += more & 1;
            more >>= 1;
        }
        w.unfinished += code;
        if code < 2 || slice.truncated {
            w.finish();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scale_record_vector() {
        let record = [0x18, 0xfc, 0xff, 0xff, 0xff, 0x52, 0xb8, 0x9e, 0x55, 0x27];
        let scale = Scale { scale: 1_436_465_234, shift: 39 };
        assert_eq!(scale_record(&record), Ok(ChannelScale { bias: -1000, scale }));
        let mut bad = record;
        bad[9] = 0x40;
        assert!(matches!(scale_record(&bad), Err(Fault::Range { value: 64, .. })));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), needed in 0usize..3000) {
            let _ = decode(&bytes, needed);
        }
    }
}
