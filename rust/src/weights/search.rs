//! The search for slices: rounds over palettes, and cuts to the weight. Owns the search; the cheapest way through codings is
//! `trellis`', which palettes there are `candidates`'.

use super::candidates;
use super::coding::Coding;
use super::counts::Counts;
use super::format::{code_of, symbols, CHUNK, ZERO_DIVISORS};
use super::palette::Palette;
use super::plan::{Plan, Slice};
use super::sections::{self, Section};
use super::sums::Sums;
use super::trellis::{State, Trellis};
use crate::util::interrupt;

/// Weights of a cell, by round: slices are cut between cells first, between weights then.
const CELLS: [usize; 2] = [32, 8];
/// The most palettes that are tried once more.
const MOST_PALETTES: usize = 8;

/// The best plan that is found for a stream of these codes.
pub fn best(codes: &[u16]) -> Plan {
    if codes.iter().all(|&code| code == 0) {
        let slices = if codes.is_empty() { Vec::new() } else { vec![Slice::of_zeros([0, codes.len()], 0)] };
        return Plan::new(codes, vec![Palette::of_zeros()], slices);
    }
    let symbols = symbols(codes);
    let (mut palettes, counts) = candidates::palettes(&symbols);
    let mut zero_divisors: Vec<u32> = (0..ZERO_DIVISORS).collect();
    let mut found: Option<Plan> = None;
    for cell in CELLS {
        let slices = cut(&symbols, &counts, &palettes, &zero_divisors, cell);
        zero_divisors.retain(|&divisor| slices.iter().any(|slice| slice.zero_divisor == divisor));
        let again = once_more(&slices, &symbols, &palettes);
        let plan = Plan::new(codes, palettes.clone(), slices);
        if found.as_ref().is_none_or(|found| plan.bits() < found.bits()) {
            found = Some(plan);
        }
        palettes = again;
    }
    let found = found.unwrap_or_else(|| unreachable!("there is a first round"));
    if !sections::are_likely(&symbols, &found.palettes) {
        return found;
    }
    let other = by_section(codes, &symbols);
    if other.bits() < found.bits() {
        other
    } else {
        found
    }
}

/// The plan that codes each section with a palette of its own.
fn by_section(codes: &[u16], symbols: &[u16]) -> Plan {
    let (mut slices, mut palettes) = (Vec::new(), Vec::new());
    let divisors: Vec<u32> = (0..ZERO_DIVISORS).collect();
    for Section { span: [first, end], counts, palette, .. } in sections::sections(symbols) {
        interrupt::ask();
        let own = cut(&symbols[first..end], &counts, std::slice::from_ref(&palette), &divisors, CELLS[1]);
        let moved = |slice: Slice| Slice { span: slice.span.map(|at| at + first), palette: palettes.len(), ..slice };
        slices.extend(own.into_iter().map(moved));
        palettes.push(palette);
    }
    Plan::new(codes, palettes, slices)
}

/// The palettes in use, and the best ones of each section that one is used for.
fn once_more(slices: &[Slice], symbols: &[u16], palettes: &[Palette]) -> Vec<Palette> {
    let mut found: Vec<Palette> = vec![palettes[0].clone()];
    let mut rest = slices;
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|slice| slice.palette == first.palette).count();
        let span = first.span[0]..rest[count - 1].span[1];
        rest = &rest[count..];
        let counts = Counts::new(&symbols[span]);
        let old = &palettes[first.palette];
        let own = Sums::of(&counts).best(old.zero_runs).map(|(_, palette)| palette);
        for palette in own.into_iter().chain([old.clone()]) {
            if !found.contains(&palette) && found.len() < MOST_PALETTES {
                found.push(palette);
            }
        }
    }
    found
}

/// The cheapest slices of these palettes, for symbols that were counted.
fn cut(symbols: &[u16], counts: &Counts, palettes: &[Palette], zero_divisors: &[u32], cell: usize) -> Vec<Slice> {
    let trellis = Trellis::new(|zero_runs| counts.codes(zero_runs), palettes, zero_divisors);
    let mut path = trellis.path(symbols, cell);
    let indices: Vec<Vec<u16>> = palettes.iter().map(Palette::indices).collect();
    for number in 1..path.len() {
        let [before, after] = [path[number - 1], path[number]];
        let gain = |symbol| trellis.bits(before.1, symbol) - trellis.bits(after.1, symbol);
        let (palette, _) = trellis.group(before.1);
        let indices = &indices[palette];
        // An index has a place, and as many more as it is times `1 << shift`; of runs and whole indices none are counted.
        let (shift, least) = match Coding::of(before.1 .1) {
            Coding::Uncompressed => (u16::BITS, 0),
            _ if palettes[palette].zero_runs => (u16::BITS, 0),
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
