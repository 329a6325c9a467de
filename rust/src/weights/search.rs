//! The search for slices: dynamic programming over cells of a few weights and the codings for them. Owns the search; what
//! a coding costs is `coding`'s, which palettes there are `candidates`'.

use super::candidates;
use super::coding::{Coding, Costs, CODINGS, LANES, NEVER, UNCOMPRESSED};
use super::counts::{best as best_palette, Counts};
use super::format::{symbols, HEADER_BITS, SYMBOLS, ZERO_DIVISORS};
use super::palette::Palette;
use super::plan::{Plan, Slice};
use super::sections;
use crate::util::interrupt;

/// Weights of a cell, by round: slices are cut between cells first, between weights then.
const CELLS: [usize; 2] = [32, 8];
/// The most palettes that are tried once more.
const MOST_PALETTES: usize = 8;
/// Bits that fill up a chunk on the average.
const FILLING: i16 = 5;

/// Ways to code that share a palette and how runs of zeros are coded.
struct Group {
    palette: usize,
    zero_divisor: u32,
    costs: Costs,
    /// What it takes to begin a slice, by lane, without a palette.
    enter: [i16; LANES],
}

impl Group {
    fn new(palettes: &[Palette], palette: usize, zero_divisor: u32, used: &[u16]) -> Group {
        let zero_runs = palettes[palette].zero_runs;
        let enter = std::array::from_fn(|lane| match lane {
            _ if lane >= CODINGS => NEVER,
            UNCOMPRESSED => HEADER_BITS as i16,
            _ => HEADER_BITS as i16 + FILLING,
        });
        let runs = if zero_runs { FILLING } else { 0 };
        let costs = Costs::of(&palettes[palette], zero_divisor, used);
        Group { palette, zero_divisor, costs, enter: enter.map(|bits: i16| bits + runs) }
    }
}

/// A coding of a group.
type State = (usize, usize);

/// The best plan that is found for a stream of these codes.
pub fn best(codes: &[u16]) -> Plan {
    if codes.iter().all(|&code| code == 0) {
        let coding = Coding::Rice { divisor: 0, truncated: false };
        let slice = Slice { span: [0, codes.len()], palette: 0, brings_palette: true, coding, zero_divisor: 3 };
        let slices = if codes.is_empty() { Vec::new() } else { vec![slice] };
        return Plan::new(codes, vec![Palette::of_zeros()], slices);
    }
    let symbols = symbols(codes);
    let counts = Counts::new(&symbols);
    let used: Vec<u16> = (0..SYMBOLS as u16).filter(|&symbol| counts.of[usize::from(symbol)] > 0).collect();
    let mut numbers = vec![0; SYMBOLS];
    for (number, &symbol) in (0..).zip(&used) {
        numbers[usize::from(symbol)] = number;
    }
    let numbered: Vec<u16> = symbols.iter().map(|&symbol| numbers[usize::from(symbol)]).collect();
    let mut palettes = candidates::palettes(&symbols);
    let mut zero_divisors: Vec<u32> = (0..ZERO_DIVISORS).collect();
    let mut found: Option<Plan> = None;
    for cell in CELLS {
        let slices = cut(&numbered, &palettes, &zero_divisors, &used, cell);
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
    let other = by_section(codes, &symbols, &numbered, &used);
    if other.bits() < found.bits() {
        other
    } else {
        found
    }
}

/// The plan that codes each section with a palette of its own.
fn by_section(codes: &[u16], symbols: &[u16], numbered: &[u16], used: &[u16]) -> Plan {
    let (mut slices, mut palettes) = (Vec::new(), Vec::new());
    let divisors: Vec<u32> = (0..ZERO_DIVISORS).collect();
    for ([first, end], palette) in sections::sections(symbols) {
        interrupt::ask();
        let own = cut(&numbered[first..end], std::slice::from_ref(&palette), &divisors, used, CELLS[1]);
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
        let own = best_palette(&counts, old.zero_runs).map(|(_, palette)| palette);
        for palette in own.into_iter().chain([old.clone()]) {
            if !found.contains(&palette) && found.len() < MOST_PALETTES {
                found.push(palette);
            }
        }
    }
    found
}

/// The cheapest slices of these palettes.
fn cut(symbols: &[u16], palettes: &[Palette], zero_divisors: &[u32], used: &[u16], cell: usize) -> Vec<Slice> {
    let divisors = |palette: &Palette| if palette.zero_runs { zero_divisors } else { &[0] };
    let groups: Vec<Group> = palettes
        .iter()
        .enumerate()
        .flat_map(|(number, palette)| divisors(palette).iter().map(move |&divisor| (number, divisor)))
        .map(|(palette, divisor)| Group::new(palettes, palette, divisor, used))
        .collect();
    let mut path = Trellis::new(&groups, palettes).path(symbols, cell);
    for number in 1..path.len() {
        let [before, after] = [path[number - 1], path[number]];
        let cost = |(group, lane): State, symbol| i32::from(groups[group].costs.row(symbol)[lane]);
        let gain = |symbol| cost(before.1, symbol) - cost(after.1, symbol);
        let at = shifted(symbols, [before.0[0], after.0[0], after.0[1]], gain, cell);
        path[number - 1].0[1] = at;
        path[number].0[0] = at;
    }
    let slice = |([first, end], (group, lane)): ([usize; 2], State)| {
        let Group { palette, zero_divisor, .. } = groups[group];
        Slice { span: [first, end], palette, brings_palette: false, coding: Coding::of(lane), zero_divisor }
    };
    path.into_iter().map(slice).collect()
}

/// The best place, less than a cell away, to cut between two slices from the first to the second and the second to the
/// third of some places; `gain` is how much more a symbol costs in front of the cut than behind it.
fn shifted(symbols: &[u16], [first, cut, end]: [usize; 3], gain: impl Fn(u16) -> i32, cell: usize) -> usize {
    let mut found = (0, cut);
    let mut sum = 0;
    for (at, &symbol) in (cut + 1..(cut + cell).min(end)).zip(&symbols[cut..]) {
        sum += gain(symbol);
        found = found.min((sum, at));
    }
    sum = 0;
    for at in ((cut - cell).max(first) + 1..cut).rev() {
        sum -= gain(symbols[at]);
        found = found.min((sum, at));
    }
    found.1
}

/// States, cell by cell, and the cheapest way to each.
struct Trellis<'a> {
    groups: &'a [Group],
    /// Bits of a palette, by palette.
    headers: Vec<i16>,
    /// By cell and group, a bit for each lane that goes on from the cell before.
    stays: Vec<u16>,
    /// By cell and palette, from which state a slice is begun.
    sources: Vec<(u8, u8)>,
}

impl<'a> Trellis<'a> {
    fn new(groups: &'a [Group], palettes: &[Palette]) -> Trellis<'a> {
        let headers = palettes.iter().map(|palette| palette.header_bits() as i16).collect();
        Trellis { groups, headers, stays: Vec::new(), sources: Vec::new() }
    }

    /// Spans and their states, in order.
    fn path(mut self, symbols: &[u16], length: usize) -> Vec<([usize; 2], State)> {
        let count = self.groups.len();
        let mut costs: Vec<[i16; LANES]> =
            self.groups.iter().map(|group| group.enter.map(|bits| bits + self.headers[group.palette])).collect();
        let mut last = (0, 0);
        for (number, cell) in symbols.chunks(length).enumerate() {
            if number % 1024 == 0 {
                interrupt::ask();
            }
            let least = self.lowest(&costs);
            last = self.step(number, cell, &mut costs, &least);
        }
        let cells = symbols.len().div_ceil(length);
        let mut found = vec![([0, symbols.len()], last)];
        for cell in (1..cells).rev() {
            let (group, lane) = last;
            if self.stays[cell * count + group] >> lane & 1 == 1 {
                continue;
            }
            let source = self.sources[cell * self.headers.len() + self.groups[group].palette];
            last = (usize::from(source.0), usize::from(source.1));
            let end = found.len() - 1;
            found[end].0[0] = cell * length;
            found.push(([0, cell * length], last));
        }
        found.reverse();
        found
    }

    /// By palette its cheapest state.
    fn lowest(&self, costs: &[[i16; LANES]]) -> Vec<(i16, State)> {
        let mut found = vec![(i16::MAX, (0, 0)); self.headers.len()];
        for (number, (group, costs)) in self.groups.iter().zip(costs).enumerate() {
            let least = costs.iter().copied().fold(i16::MAX, i16::min);
            if least < found[group.palette].0 {
                let lane = costs.iter().position(|&cost| cost == least).unwrap_or(0);
                found[group.palette] = (least, (number, lane));
            }
        }
        found
    }

    /// One cell on; the cheapest state, whose cost becomes 0.
    fn step(&mut self, number: usize, cell: &[u16], costs: &mut [[i16; LANES]], lowest: &[(i16, State)]) -> State {
        let cheapest = lowest.iter().copied().min().unwrap_or_default();
        let mut begin: [i16; 64] = [0; 64];
        for (palette, &(own, state)) in lowest.iter().enumerate() {
            let other = cheapest.0 + self.headers[palette];
            begin[palette] = own.min(other);
            let source = if own <= other { state } else { cheapest.1 };
            self.sources.push((source.0 as u8, source.1 as u8));
        }
        for (group, costs) in self.groups.iter().zip(costs.iter_mut()) {
            let sum = group.costs.sum(cell);
            let begin = begin[group.palette];
            let mut stays = 0u16;
            for lane in 0..LANES {
                let (stay, anew) = (costs[lane], begin.wrapping_add(group.enter[lane]));
                let is_first = number == 0;
                stays |= u16::from(stay <= anew || is_first) << lane;
                costs[lane] = if is_first { stay } else { stay.min(anew) }.wrapping_add(sum[lane]);
            }
            self.stays.push(stays);
        }
        let (mut least, mut state) = (i16::MAX, (0, 0));
        for (group, costs) in costs.iter().enumerate() {
            let own = costs.iter().copied().fold(i16::MAX, i16::min);
            if own < least {
                (least, state) = (own, (group, costs.iter().position(|&cost| cost == own).unwrap_or(0)));
            }
        }
        for costs in costs.iter_mut() {
            costs.iter_mut().for_each(|cost| *cost = cost.wrapping_sub(least));
        }
        state
    }
}
