//! A stream as a list of slices: which are legal, and how many bits they take. Owns the rules of slices.

use super::coding::Coding;
use super::format::{zero_chunk, CHUNK, HEADER_BITS, MOST_WEIGHTS};
use super::order::CODES;
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
    /// Nothing but zeros, with [`Palette::of_zeros`]: one weight itself, the rest runs, each eight of them in a bit.
    pub fn of_zeros(span: [usize; 2], palette: usize) -> Slice {
        Slice { span, palette, brings_palette: true, coding: Coding::Uncompressed, zero_divisor: 3 }
    }

    /// The slice's weights as indices and runs.
    pub fn body(&self, codes: &[u16], palette: &Palette, indices: &[u16; CODES]) -> Body {
        let codes = &codes[self.span[0]..self.span[1]];
        let index = |code: u16| u32::from(indices[usize::from(code) % CODES]);
        if !palette.zero_runs {
            return Body { indices: codes.iter().map(|&code| index(code)).collect(), runs: Vec::new() };
        }
        let (mut all, mut runs) = (vec![0; codes.len()], vec![0; codes.len() + 1]);
        let (mut weights, mut zeros) = (0, 0u32);
        for &code in codes {
            // A zero is written over by what follows: a branch would often be foreseen wrongly.
            all[weights] = index(code);
            runs[weights] = zeros;
            weights += usize::from(code != 0);
            zeros = zeros.wrapping_add(1) & u32::from(code == 0).wrapping_neg();
        }
        if weights == 0 {
            // Nothing but zeros: the last one is a weight.
            return Body { indices: vec![index(0)], runs: vec![zeros.saturating_sub(1), 0] };
        }
        all.truncate(weights);
        runs[weights] = zeros;
        runs.truncate(weights + 1);
        if !self.brings_palette {
            runs.remove(0);
        }
        Body { indices: all, runs }
    }

    /// Bits of the slice, header and all. By code the index in its palette; that of zeros in runs is 0.
    fn bits(&self, codes: &[u16], palette: &Palette, indices: &[u16; CODES]) -> usize {
        let codes = &codes[self.span[0]..self.span[1]];
        let header = HEADER_BITS + if self.brings_palette { palette.header_bits() } else { 0 };
        let zeros = if palette.zero_runs { codes.iter().filter(|&&code| code == 0).count() } else { 0 };
        // Of nothing but zeros one is a weight.
        let weights = (codes.len() - zeros).max(1);
        let runs =
            if palette.zero_runs { self.run_bits(&codes[usize::from(zeros == codes.len())..], weights) } else { 0 };
        header + runs + self.index_bits(codes, weights, palette, indices)
    }

    /// Bits of the weights' indices among these codes.
    fn index_bits(&self, codes: &[u16], weights: usize, palette: &Palette, indices: &[u16; CODES]) -> usize {
        let Coding::Rice { divisor, truncated } = self.coding else {
            return weights * palette.uncompressed_bits() as usize;
        };
        // Sums that no stream is long enough for to wrap; a look at each takes twice the time.
        let (mut places, mut ones) = (0u32, 0u32);
        for &code in codes {
            let quotient = u32::from(indices[usize::from(code) % CODES] >> divisor);
            places = places.wrapping_add(quotient / 2);
            ones = ones.wrapping_add(if truncated { quotient.min(1) } else { quotient.div_ceil(2) });
        }
        let places = weights + if truncated { 0 } else { places as usize };
        places.next_multiple_of(CHUNK) + ones as usize + weights * divisor as usize
    }

    /// Bits of the runs of zeros between the weights.
    fn run_bits(&self, codes: &[u16], weights: usize) -> usize {
        let (mask, runs) = ((1u32 << self.zero_divisor) - 1, weights + usize::from(self.brings_palette));
        let (mut steps, mut run) = (0u32, 0u32);
        for &code in codes {
            // All ones for a zero: a branch would often be foreseen wrongly.
            let zero = u32::from(code == 0).wrapping_neg();
            run = run.wrapping_add(1) & zero;
            steps = steps.wrapping_add(u32::from(run & mask == 0) & zero);
        }
        (runs + steps as usize).next_multiple_of(zero_chunk(self.zero_divisor)) + runs * self.zero_divisor as usize
    }
}

impl Plan {
    /// Slices that follow each other as one legal stream of these codes, with its exact length.
    pub fn new(codes: &[u16], palettes: Vec<Palette>, slices: Vec<Slice>) -> Plan {
        let mut indices: Vec<Box<[u16; CODES]>> = palettes.iter().map(Palette::indices).collect();
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
        for (indices, _) in indices.iter_mut().zip(&plan.palettes).filter(|(_, palette)| palette.zero_runs) {
            indices[0] = 0;
        }
        let of = |slice: &Slice| slice.bits(codes, &plan.palettes[slice.palette], &indices[slice.palette]);
        plan.bits += plan.slices.iter().map(of).sum::<usize>();
        plan
    }

    /// Slices of one palette with these indices, the first of which brings it.
    fn section(&mut self, codes: &[u16], first: usize, slices: &[Slice], indices: &[u16; CODES]) {
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
                let next = if upto - at > MOST_WEIGHTS { weights.next().unwrap_or(upto) } else { upto };
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bits of a slice, weight by weight and run by run.
    fn added(slice: &Slice, palette: &Palette, body: &Body) -> usize {
        let weights = match slice.coding {
            Coding::Uncompressed => body.indices.len() * palette.uncompressed_bits() as usize,
            Coding::Rice { divisor, truncated } => {
                let quotients = || body.indices.iter().map(|index| (index >> divisor) as usize);
                let places: usize = quotients().map(|quotient| if truncated { 1 } else { quotient / 2 + 1 }).sum();
                let ones: usize = quotients().map(|q| if truncated { q.min(1) } else { q.div_ceil(2) }).sum();
                places.next_multiple_of(CHUNK) + ones + body.indices.len() * divisor as usize
            }
        };
        let unary: usize = body.runs.iter().map(|run| (run >> slice.zero_divisor) as usize + 1).sum();
        let runs =
            unary.next_multiple_of(zero_chunk(slice.zero_divisor)) + body.runs.len() * slice.zero_divisor as usize;
        let header = HEADER_BITS + if slice.brings_palette { palette.header_bits() } else { 0 };
        header + weights + if palette.zero_runs { runs } else { 0 }
    }

    proptest! {
        #[test]
        fn a_plan_has_the_bits_of_its_slices(
            codes in prop::collection::vec(prop_oneof![0u16..1, 0u16..6], 1..300),
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..2, 0usize..=12, 0u32..4), 1..8),
        ) {
            let palettes = [false, true].map(|zero_runs| Palette { entries: Vec::new(), offset: 0, bits: 3, zero_runs });
            let mut starts: Vec<usize> = cuts.iter().skip(1).map(|(at, ..)| at.index(codes.len())).collect();
            starts.push(0);
            starts.sort_unstable();
            let ends = starts.iter().skip(1).copied().chain([codes.len()]);
            let slice = |((first, end), &(_, palette, lane, zero_divisor)): ((usize, usize), &(_, usize, usize, u32))| Slice {
                span: [first, end],
                palette,
                brings_palette: false,
                // Truncated quotients are at most 2.
                coding: Coding::of(if lane == 6 { 12 } else { lane }),
                zero_divisor,
            };
            let slices = starts.iter().copied().zip(ends).zip(&cuts).map(slice).collect();
            let plan = Plan::new(&codes, palettes.to_vec(), slices);
            let bits = |slice: &Slice| {
                let palette = &plan.palettes[slice.palette];
                added(slice, palette, &slice.body(&codes, palette, &palette.indices()))
            };
            prop_assert_eq!(plan.bits(), plan.slices.iter().map(bits).sum::<usize>());
        }
    }
}
