//! The search for slices: rounds over palettes, and cuts to the weight. Owns the search; the cheapest way through codings is
//! `trellis`', which palettes there are `candidates`'.

use std::cmp::Reverse;

use super::candidates::{self, Candidate, Divisors};
use super::coding::Coding;
use super::counts::Counts;
use super::format::{code_of, symbols, CHUNK};
use super::order::CODES;
use super::palette::Palette;
use super::plan::{Plan, Slice};
use super::sections::{self, Likely};
use super::sums::Sums;
use super::trellis::{State, Trellis};
use crate::util::interrupt;

/// Weights of a cell, by round: slices are cut between cells first, between weights then.
const CELLS: [usize; 2] = [32, 8];
/// The same in large streams. Cells of 64 weights want a palette without entries among those that are tried.
const CELLS_OF_LARGE: [usize; 2] = [64, 32];
/// Streams of more weights are large.
const LARGE: usize = 32768;
/// Streams of more weights that are one slice stay one in finer cells.
const SHORT: usize = 8192;
/// The most palettes that are tried once more.
const MOST_PALETTES: usize = 8;
/// The most sections whose own palettes are sought, the longest ones.
const MOST_SECTIONS: usize = 32;

/// The best plan that is found for a stream of these codes.
pub fn best(codes: &[u16]) -> Plan {
    if codes.iter().all(|&code| code == 0) {
        let slices = if codes.is_empty() { Vec::new() } else { vec![Slice::of_zeros([0, codes.len()], 0)] };
        return Plan::new(codes, vec![Palette::of_zeros()], slices);
    }
    let symbols = symbols(codes);
    let (candidates, sums) = candidates::candidates(&symbols);
    let likely = sections::are_likely(&symbols, &candidates);
    if likely == Likely::Surely {
        return by_section(codes, &symbols);
    }
    let shared = by_palettes(codes, &symbols, sums.counts(), &candidates);
    match likely {
        Likely::No => shared,
        _ => smaller(shared, by_section(codes, &symbols)),
    }
}

/// The plan with fewer bits, of equal ones the first.
fn smaller(first: Plan, other: Plan) -> Plan {
    if other.bits() < first.bits() {
        other
    } else {
        first
    }
}

/// The plan that codes sections with the best of these palettes, or with palettes made for these sections.
fn by_palettes(codes: &[u16], symbols: &[u16], counts: &Counts, candidates: &[Candidate]) -> Plan {
    let is_large = codes.len() > LARGE;
    let cells = if is_large { CELLS_OF_LARGE } else { CELLS };
    let slices = cut(symbols, counts, candidates, cells[0]);
    let again = once_more(&slices, symbols, candidates);
    let is_new = |again: &Candidate| candidates.iter().all(|candidate| candidate.palette != again.palette);
    let is_found = slices.len() == 1 && codes.len() > SHORT && !again.iter().any(is_new);
    let plan = |candidates: &[Candidate], slices| Plan::new(codes, palettes(candidates), slices);
    if is_found {
        return plan(candidates, slices);
    }
    // What is large is seldom smaller for a round less, and takes long to look at.
    let before = (!is_large).then(|| plan(candidates, slices));
    let after = plan(&again, cut(symbols, counts, &again, cells[1]));
    match before {
        Some(before) => smaller(before, after),
        None => after,
    }
}

fn palettes(candidates: &[Candidate]) -> Vec<Palette> {
    candidates.iter().map(|candidate| candidate.palette.clone()).collect()
}

/// The plan that codes each section with a palette of its own.
fn by_section(codes: &[u16], symbols: &[u16]) -> Plan {
    let (mut slices, mut palettes) = (Vec::new(), Vec::new());
    for sections::Section { span: [first, end], sums, palette, .. } in sections::sections(symbols) {
        interrupt::ask();
        let candidate = Candidate::of(palette);
        let own = cut(&symbols[first..end], sums.counts(), std::slice::from_ref(&candidate), CELLS[1]);
        let moved = |slice: Slice| Slice { span: slice.span.map(|at| at + first), palette: palettes.len(), ..slice };
        slices.extend(own.into_iter().map(moved));
        palettes.push(candidate.palette);
    }
    Plan::new(codes, palettes, slices)
}

/// Slices that follow each other with one palette.
struct Section {
    palette: usize,
    span: [usize; 2],
    zero_divisors: Divisors,
}

/// What slices use, which codes all of them, and of the best palettes for their sections those that save most. What is not
/// large is seldom worse off with the first palette too.
fn once_more(slices: &[Slice], symbols: &[u16], candidates: &[Candidate]) -> Vec<Candidate> {
    let is_large = symbols.len() > LARGE;
    let mut sections: Vec<Section> = slices
        .chunk_by(|one, other| one.palette == other.palette)
        .map(|slices| Section {
            palette: slices[0].palette,
            span: [slices[0].span[0], slices[slices.len() - 1].span[1]],
            zero_divisors: Divisors::of(slices.iter().map(|slice| slice.zero_divisor)),
        })
        .collect();
    let mut found: Vec<Candidate> = Vec::new();
    for (number, Candidate { palette, .. }) in candidates.iter().enumerate() {
        let used = sections.iter().filter(|section| section.palette == number).map(|section| section.zero_divisors);
        let used = used.reduce(Divisors::and);
        if used.is_some() || (number == 0 && !is_large) {
            let zero_divisors = used.unwrap_or(candidates[0].zero_divisors);
            found.push(Candidate { palette: palette.clone(), zero_divisors });
        }
    }
    sections.sort_by_key(|section| Reverse(section.span[1] - section.span[0]));
    let mut own: Vec<(u64, Candidate)> = Vec::new();
    for Section { palette, span: [first, end], zero_divisors } in sections.into_iter().take(MOST_SECTIONS) {
        let (sums, old) = (Sums::of(Counts::new(&symbols[first..end])), &candidates[palette].palette);
        let Some((taken, (bits, palette))) = sums.bits_of(old).zip(sums.best(old.zero_runs)) else { continue };
        let saved = (taken + old.header_bits() as u64).saturating_sub(bits);
        match own.iter_mut().find(|(_, other)| other.palette == palette) {
            Some((all, known)) => {
                *all += saved;
                known.zero_divisors = known.zero_divisors.and(zero_divisors);
            }
            None => own.push((saved, Candidate { palette, zero_divisors })),
        }
    }
    own.sort_by_key(|(saved, _)| Reverse(*saved));
    own.retain(|(saved, own)| *saved > 0 && found.iter().all(|known| known.palette != own.palette));
    found.extend(own.into_iter().map(|(_, candidate)| candidate));
    found.truncate(MOST_PALETTES);
    found
}

/// The cheapest slices of these palettes, for symbols that were counted.
fn cut(symbols: &[u16], counts: &Counts, candidates: &[Candidate], cell: usize) -> Vec<Slice> {
    let trellis = Trellis::new(counts, candidates);
    let mut path = trellis.path(symbols, counts, cell);
    let cut = if path.len() > 1 { candidates } else { &[] };
    let indices: Vec<Box<[u16; CODES]>> = cut.iter().map(|candidate| candidate.palette.indices()).collect();
    for number in 1..path.len() {
        let [before, after] = [path[number - 1], path[number]];
        let gain = |symbol| trellis.bits(before.1, symbol) - trellis.bits(after.1, symbol);
        let (palette, _) = trellis.group(before.1);
        let indices = &indices[palette];
        // An index has a place, and as many more as it is times `1 << shift`; of runs and whole indices none are counted.
        let (shift, least) = match Coding::of(before.1 .1) {
            Coding::Uncompressed => (u16::BITS, 0),
            _ if candidates[palette].palette.zero_runs => (u16::BITS, 0),
            Coding::Rice { truncated: true, .. } => (u16::BITS, 1),
            Coding::Rice { divisor, .. } => (divisor + 1, 1),
        };
        let places = |symbol: u16| (u32::from(indices[usize::from(code_of(symbol))]) >> shift) + least;
        let span = if least > 0 { &symbols[before.0[0]..after.0[0]] } else { &[] };
        // No stream has so many that sums need to be looked at one by one, which takes twice the time.
        let taken = span.iter().fold(0u32, |sum, &symbol| sum.wrapping_add(places(symbol)));
        let at = shifted(symbols, [before.0[0], after.0[0], after.0[1]], taken, gain, places, cell);
        path[number - 1].0[1] = at;
        path[number].0[0] = at;
    }
    let slice = |(span, state): ([usize; 2], State)| {
        let (palette, zero_divisor) = trellis.group(state);
        Slice { span, palette, brings_palette: false, coding: Coding::of(state.1), zero_divisor }
    };
    path.into_iter().map(slice).collect()
}

/// The best place, less than a cell away, to cut between two slices from the first to the second and the second to the
/// third of some places; `gain` is how much more a symbol costs in front of the cut than behind it, `places` how many of a
/// chunk's places it takes there, and `taken` how many all in front do: what is left of the last chunk is lost.
fn shifted(
    symbols: &[u16],
    [first, cut, end]: [usize; 3],
    taken: u32,
    gain: impl Fn(u16) -> i32,
    places: impl Fn(u16) -> u32,
    cell: usize,
) -> usize {
    let filled = |taken: u32| (taken.next_multiple_of(CHUNK as u32) - taken) as i32;
    let mut found = (filled(taken), cut);
    let (mut sum, mut here) = (0, taken);
    for (at, &symbol) in (cut + 1..(cut + cell).min(end)).zip(&symbols[cut..]) {
        sum += gain(symbol);
        here += places(symbol);
        found = found.min((sum + filled(here), at));
    }
    (sum, here) = (0, taken);
    for at in ((cut - cell).max(first) + 1..cut).rev() {
        sum -= gain(symbols[at]);
        here -= places(symbols[at]);
        found = found.min((sum + filled(here), at));
    }
    found.1
}
