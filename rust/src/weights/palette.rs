//! Palettes: which index stands for which weight. Owns what one is and what it takes; which one is good is `sums`'.

use super::format::{LARGEST_INDEX, LARGEST_OFFSET, PALETTE_BITS};
use super::order::CODES;

/// Weights by index: first the entries, then those from an offset on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Palette {
    /// Codes; none, or 2 to 32.
    pub entries: Vec<u16>,
    /// The first code that stands behind the entries.
    pub offset: u16,
    /// Bits of an entry, or without entries of an index that is not compressed: 2 to 9.
    pub bits: u32,
    /// Zeros are no weights but runs between them.
    pub zero_runs: bool,
}

impl Palette {
    /// The palette of these entries, with `others` behind them: the lowest code and the highest one that are no entries.
    /// None where an index would be too large.
    pub fn new(mut entries: Vec<u16>, others: Option<[u16; 2]>, zero_runs: bool) -> Option<Palette> {
        let (size, offset, bits) = Palette::shape(entries.len(), entries.iter().max().copied(), others)?;
        entries.extend(entries.last().copied().filter(|_| entries.len() < size));
        Some(Palette { entries, offset, bits, zero_runs })
    }

    /// How many entries, which offset and what bits the palette of `count` entries up to the `widest` one has.
    pub fn shape(count: usize, widest: Option<u16>, others: Option<[u16; 2]>) -> Option<(usize, u16, u32)> {
        // There is no palette of one.
        let size = if count == 1 { 2 } else { count };
        let [lowest, highest] = others.unwrap_or_default();
        let offset = lowest.min(LARGEST_OFFSET);
        let widest = widest.unwrap_or(highest - offset);
        let bits = (u16::BITS - widest.leading_zeros()).max(2);
        (size as u16 + highest - offset <= LARGEST_INDEX).then_some((size, offset, bits))
    }

    /// The palette of slices without a weight but 0: index 0 without an entry, in two bits where it is not compressed.
    pub fn of_zeros() -> Palette {
        Palette { entries: Vec::new(), offset: 0, bits: 2, zero_runs: true }
    }

    /// By code its index, or `u16::MAX`.
    pub fn indices(&self) -> Box<[u16; CODES]> {
        let (behind, offset) = (self.entries.len(), usize::from(self.offset));
        let mut found = Box::new([u16::MAX; CODES]);
        let end = CODES.min(usize::from(LARGEST_INDEX) + 1 + offset - behind);
        for (code, index) in (0u16..).zip(&mut found[offset..end]) {
            *index = behind as u16 + code;
        }
        for (index, &code) in self.entries.iter().enumerate().rev() {
            found[usize::from(code)] = index as u16;
        }
        found
    }

    /// Bits of an index that is not compressed.
    pub fn uncompressed_bits(&self) -> u32 {
        match self.entries.len() {
            0 => self.bits,
            count => usize::BITS - (count - 1).leading_zeros(),
        }
    }

    /// Whether an index can do without compression.
    pub fn holds_uncompressed(&self, index: u16) -> bool {
        match self.entries.len() {
            0 => u32::from(index) < 1 << self.bits,
            count => usize::from(index) < count,
        }
    }

    /// Bits of the palette in a header.
    pub fn header_bits(&self) -> usize {
        Palette::bits_of_header(self.entries.len(), self.bits)
    }

    /// Bits of a header's entries: their number times their width.
    pub fn bits_of_header(entries: usize, bits: u32) -> usize {
        PALETTE_BITS + entries * bits as usize
    }
}
