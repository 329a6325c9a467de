//! A stream as a list of slices: which are legal, and how many bits they take. Owns the rules of slices.

use super::coding::Coding;
use super::format::{zero_chunk, CHUNK, HEADER_BITS, MOST_WEIGHTS};
use super::palette::Palette;

/// Weights that are coded in one coding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The first weight, and one past the last.
    pub span: [usize; 2],
    /// Which of the plan's palettes.
    pub palette: usize,
    /// Whether the palette stands in its header.
    pub brings_palette: bool,
    /// How indices are coded.
    pub coding: Coding,
    /// How runs of zeros are, if there are any.
    pub zero_divisor: u32,
}

/// How a stream will be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The palettes that slices name.
    pub palettes: Vec<Palette>,
    /// One after the other.
    pub slices: Vec<Slice>,
    bits: usize,
}

/// Where a slice can begin that is wanted between the first and the last of some places: zeros belong to the weight in
/// front of them, so at that, if the slice can code it, or behind them, which is nearer.
fn parted(
    [first, wanted, end]: [usize; 3],
    is_weight: impl Fn(&usize) -> bool,
    is_codable: impl Fn(&usize) -> bool,
) -> usize {
    let behind = (wanted..end).find(&is_weight).unwrap_or(end);
    let before = (first..wanted).rev().find(&is_weight);
    let nearer = before.filter(|before| behind > wanted && wanted - before <= behind - wanted);
    nearer.filter(is_codable).unwrap_or(behind)
}

/// Weights of a slice and the runs between them.
pub struct Body {
    /// Indices in the palette.
    pub indices: Vec<u32>,
    /// Lengths of the runs of zeros: behind each weight, and in front of all where the slice brings its palette.
    pub runs: Vec<u32>,
}

impl Slice {
    /// Nothing but zeros, with [`Palette::of_zeros`]: one weight as it is, the rest runs, each eight of them in a bit.
    pub fn of_zeros(span: [usize; 2], palette: usize) -> Slice {
        Slice { span, palette, brings_palette: true, coding: Coding::Uncompressed, zero_divisor: 3 }
    }

    /// The slice's weights as indices and runs.
    pub fn body(&self, codes: &[u16], palette: &Palette, indices: &[u16]) -> Body {
        let codes = &codes[self.span[0]..self.span[1]];
        let index = |code: u16| u32::from(indices[usize::from(code)]);
        if !palette.zero_runs {
            return Body { indices: codes.iter().map(|&code| index(code)).collect(), runs: Vec::new() };
        }
        let mut body = Body { indices: Vec::new(), runs: Vec::new() };
        let mut zeros = 0u32;
        for &code in codes {
            if code == 0 {
                zeros += 1;
                continue;
            }
            if self.brings_palette || !body.indices.is_empty() {
                body.runs.push(zeros);
            }
            body.indices.push(index(code));
            zeros = 0;
        }
        if body.indices.is_empty() {
            // Nothing but zeros: the last one is a weight.
            body.runs.push(zeros.saturating_sub(1));
            body.indices.push(index(0));
            zeros = 0;
        }
        body.runs.push(zeros);
        body
    }

    fn bits(&self, body: &Body, palette: &Palette) -> usize {
        let header = HEADER_BITS + if self.brings_palette { palette.header_bits() } else { 0 };
        let weights = match self.coding {
            Coding::Uncompressed => body.indices.len() * palette.uncompressed_bits() as usize,
            Coding::Rice { divisor, truncated } => {
                let (mut places, mut ones) = (0, 0);
                for &index in &body.indices {
                    let quotient = index >> divisor;
                    places += if truncated { 1 } else { quotient / 2 + 1 };
                    ones += if truncated { quotient.min(1) } else { quotient.div_ceil(2) };
                }
                (places as usize).next_multiple_of(CHUNK) + ones as usize + body.indices.len() * divisor as usize
            }
        };
        let unary: usize = body.runs.iter().map(|run| (run >> self.zero_divisor) as usize + 1).sum();
        let runs = unary.next_multiple_of(zero_chunk(self.zero_divisor)) + body.runs.len() * self.zero_divisor as usize;
        header + weights + if body.runs.is_empty() { 0 } else { runs }
    }
}

impl Plan {
    /// Slices that follow each other as one legal stream of these codes, with its exact length.
    pub fn new(codes: &[u16], palettes: Vec<Palette>, slices: Vec<Slice>) -> Plan {
        let mut indices: Vec<Vec<u16>> = palettes.iter().map(Palette::indices).collect();
        let mut plan = Plan { palettes, slices: Vec::with_capacity(slices.len()), bits: 0 };
        let mut at = 0;
        let mut rest = slices.as_slice();
        while let Some(first) = rest.first() {
            let section = rest.iter().take_while(|slice| slice.palette == first.palette).count();
            plan.section(codes, at, &rest[..section], &indices[first.palette]);
            at = rest[section - 1].span[1];
            rest = &rest[section..];
        }
        indices.extend(plan.palettes[indices.len()..].iter().map(Palette::indices));
        let of = |slice: &Slice| {
            let palette = &plan.palettes[slice.palette];
            let body = slice.body(codes, palette, &indices[slice.palette]);
            debug_assert!(body.indices.iter().all(|&index| slice.coding.bits(index as u16, palette).is_some()));
            slice.bits(&body, palette)
        };
        plan.bits += plan.slices.iter().map(of).sum::<usize>();
        plan
    }

    /// Slices of one palette with these indices, the first of which brings it.
    fn section(&mut self, codes: &[u16], first: usize, slices: &[Slice], indices: &[u16]) {
        let palette = slices[0].palette;
        let zero_runs = self.palettes[palette].zero_runs;
        let is_weight = |at: &usize| !zero_runs || codes[*at] != 0;
        let end = slices[slices.len() - 1].span[1];
        let mut brings_palette = true;
        let mut at = first;
        for (number, slice) in slices.iter().enumerate() {
            let upto = match slices.get(number + 1) {
                None => end,
                Some(next) => {
                    let index = |at: usize| indices[usize::from(codes[at])];
                    let is_codable = |at: &usize| next.coding.bits(index(*at), &self.palettes[palette]).is_some();
                    parted([at, slice.span[1].max(at), end], is_weight, is_codable)
                }
            };
            while at < upto && (at..upto).any(|at| is_weight(&at)) {
                let mut weights = (at..upto).filter(is_weight).skip(MOST_WEIGHTS);
                let next = weights.next().unwrap_or(upto);
                self.slices.push(Slice { span: [at, next], brings_palette, ..*slice });
                brings_palette = false;
                at = next;
            }
        }
        if at < end {
            self.palettes.push(Palette::of_zeros());
            let palette = self.palettes.len() - 1;
            self.slices.push(Slice::of_zeros([at, end], palette));
        }
    }

    /// Bits of all slices.
    pub fn bits(&self) -> usize {
        self.bits
    }
}
