//! The search for slices: dynamic programming over cells of a few weights and the codings for them. Owns the search; what
//! a coding costs is `coding`'s, which palettes there are `candidates`'.

use super::candidates;
use super::coding::{run_bits, Coding, Costs, LANES, UNCOMPRESSED};
use super::counts::{Counts, Sums};
use super::format::{code_of, symbols, CHUNK, HEADER_BITS, ZERO_DIVISORS};
use super::palette::Palette;
use super::plan::{Plan, Slice};
use super::sections::{self, Section};
use crate::util::interrupt;

/// Weights of a cell, by round: slices are cut between cells first, between weights then.
const CELLS: [usize; 2] = [32, 8];
/// The most palettes that are tried once more.
const MOST_PALETTES: usize = 8;
/// Bits that fill up a chunk on the average, where cuts are moved so that few are lost.
const FILLING: i16 = 2;

/// Bits of a lane and behind them the lane, so that the least of all tells which lane it is.
type Tagged = i16;
const TAG_BITS: u32 = LANES.trailing_zeros();

const TAGS: Tagged = LANES as Tagged - 1;

fn tagged(bits: i16) -> Tagged {
    bits << TAG_BITS
}

fn lane_of(least: Tagged) -> usize {
    (least & TAGS) as usize
}

/// Ways to code that share a palette and how runs of zeros are coded.
struct Group {
    palette: usize,
    zero_divisor: u32,
    /// What it takes to begin a slice, by lane, without a palette.
    enter: [Tagged; LANES],
}

impl Group {
    fn new(palette: usize, zero_runs: bool, zero_divisor: u32) -> Group {
        let runs = if zero_runs { FILLING } else { 0 };
        let enter = std::array::from_fn(|lane| match lane {
            UNCOMPRESSED.. => tagged(HEADER_BITS as i16 + runs) | lane as i16,
            _ => tagged(HEADER_BITS as i16 + runs + FILLING) | lane as i16,
        });
        Group { palette, zero_divisor, enter }
    }
}

/// A coding of a group.
type State = (usize, usize);

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
    let trellis = Trellis::new(counts, palettes, zero_divisors);
    let mut path = trellis.path(symbols, cell);
    let indices: Vec<Vec<u16>> = palettes.iter().map(Palette::indices).collect();
    for number in 1..path.len() {
        let [before, after] = [path[number - 1], path[number]];
        let gain = |symbol| trellis.bits(before.1, symbol) - trellis.bits(after.1, symbol);
        let palette = trellis.groups[before.1 .0].palette;
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
    let slice = |([first, end], (group, lane)): ([usize; 2], State)| {
        let Group { palette, zero_divisor, .. } = trellis.groups[group];
        Slice { span: [first, end], palette, brings_palette: false, coding: Coding::of(lane), zero_divisor }
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

/// All states, and what they cost.
struct Trellis {
    groups: Vec<Group>,
    /// By palette.
    costs: Vec<Costs>,
    /// Bits of a palette, by palette.
    headers: Vec<i16>,
    /// By palette whether it has runs of zeros.
    zero_runs: Vec<bool>,
}

/// The cheapest ways to all states up to some cell.
struct Ways {
    /// By group what its states cost, by lane.
    costs: Vec<[Tagged; LANES]>,
    /// By group its cheapest state.
    least: Vec<Tagged>,
    /// By palette what it costs to have it anew or go on with it, and the cheapest state that this is from.
    begin: Vec<(Tagged, State)>,
    /// By cell and group, a bit for each lane that goes on from the cell before.
    stays: Vec<u16>,
    /// By cell and palette, from which state a slice is begun.
    sources: Vec<(u8, u8)>,
}

impl Trellis {
    fn new(counts: &Counts, palettes: &[Palette], zero_divisors: &[u32]) -> Trellis {
        let divisors = |palette: &Palette| if palette.zero_runs { zero_divisors } else { &[0] };
        let groups = palettes.iter().enumerate().flat_map(|(number, palette)| {
            divisors(palette).iter().map(move |&divisor| Group::new(number, palette.zero_runs, divisor))
        });
        Trellis {
            groups: groups.collect(),
            costs: palettes.iter().map(|palette| Costs::of(palette, counts.codes(palette.zero_runs))).collect(),
            headers: palettes.iter().map(|palette| tagged(palette.header_bits() as i16)).collect(),
            zero_runs: palettes.iter().map(|palette| palette.zero_runs).collect(),
        }
    }

    /// What a symbol costs in a state.
    fn bits(&self, (group, lane): State, symbol: u16) -> i32 {
        let Group { palette, zero_divisor, .. } = self.groups[group];
        let runs = if self.zero_runs[palette] { run_bits(&[symbol])[zero_divisor as usize] } else { 0 };
        self.costs[palette].bits(symbol, lane) + i32::from(runs)
    }

    /// Spans and their states, in order.
    fn path(&self, symbols: &[u16], length: usize) -> Vec<([usize; 2], State)> {
        let (count, cells) = (self.groups.len(), symbols.len().div_ceil(length));
        let mut ways = Ways {
            costs: vec![[Tagged::MAX; LANES]; count],
            least: vec![0; count],
            begin: self.headers.iter().map(|&bits| (bits, (0, 0))).collect(),
            stays: Vec::with_capacity(cells * count),
            sources: Vec::with_capacity(cells * self.headers.len()),
        };
        let mut before = 0;
        for (number, cell) in symbols.chunks(length).enumerate() {
            if number % 1024 == 0 {
                interrupt::ask();
            }
            self.step(cell, before, &mut ways);
            before = self.settle(&mut ways);
        }
        let (least, group) = ways.least.iter().zip(0..).min().unwrap_or((&0, 0));
        let mut last = (group, lane_of(*least));
        let mut found = vec![([0, symbols.len()], last)];
        for cell in (1..cells).rev() {
            let (group, lane) = last;
            if ways.stays[cell * count + group] >> lane & 1 == 1 {
                continue;
            }
            let source = ways.sources[(cell - 1) * self.headers.len() + self.groups[group].palette];
            last = (usize::from(source.0), usize::from(source.1));
            let end = found.len() - 1;
            found[end].0[0] = cell * length;
            found.push(([0, cell * length], last));
        }
        found.reverse();
        found
    }

    /// One cell on, from states that cost so much more than `begin` counts from.
    fn step(&self, cell: &[u16], more: Tagged, ways: &mut Ways) {
        let runs = if self.zero_runs.contains(&true) { run_bits(cell) } else { [0; ZERO_DIVISORS as usize] };
        let mut summed = usize::MAX;
        let mut sum = [0; LANES];
        for (number, group) in self.groups.iter().enumerate() {
            if group.palette != summed {
                summed = group.palette;
                sum = self.costs[summed].sum(cell).map(tagged);
            }
            let begin = ways.begin[summed].0;
            let run = if self.zero_runs[summed] { tagged(runs[group.zero_divisor as usize]) } else { 0 };
            let paid = sum.map(|bits| bits.wrapping_add(run));
            ways.stays.push(stepped(&mut ways.costs[number], more, begin, &group.enter, &paid));
            ways.least[number] = least_of(&ways.costs[number]);
        }
    }

    /// From where slices begin in the next cell, and the least that a state costs: `begin` counts from that.
    fn settle(&self, ways: &mut Ways) -> Tagged {
        ways.begin.fill((Tagged::MAX, (0, 0)));
        for (number, (group, &least)) in self.groups.iter().zip(&ways.least).enumerate() {
            let own = &mut ways.begin[group.palette];
            if least < own.0 {
                *own = (least, (number, lane_of(least)));
            }
        }
        let cheapest = ways.begin.iter().copied().min().unwrap_or_default();
        let least = cheapest.0 & !TAGS;
        for (own, &header) in ways.begin.iter_mut().zip(&self.headers) {
            let bits = (own.0 & !TAGS) - least;
            *own = if bits <= header { (bits, own.1) } else { (header, cheapest.1) };
            ways.sources.push((own.1 .0 as u8, own.1 .1 as u8));
        }
        least
    }
}

/// Costs of a group's states once a cell is paid, with a bit for each lane that goes on from the cell before, where it cost
/// so much `more`; others begin a slice.
#[inline(never)]
fn stepped(
    costs: &mut [Tagged; LANES],
    more: Tagged,
    begin: Tagged,
    enter: &[Tagged; LANES],
    paid: &[Tagged; LANES],
) -> u16 {
    let mut stays = [0u16; LANES];
    for lane in 0..LANES {
        let (stay, anew) = (costs[lane].wrapping_sub(more), enter[lane].wrapping_add(begin));
        stays[lane] = if stay <= anew { 1 << lane } else { 0 };
        costs[lane] = stay.min(anew).wrapping_add(paid[lane]);
    }
    stays.iter().fold(0, |all, stay| all | stay)
}

/// The least of all.
#[inline(never)]
fn least_of(costs: &[Tagged; LANES]) -> Tagged {
    let mut least = *costs;
    for width in [8, 4, 2, 1] {
        for lane in 0..width {
            least[lane] = least[lane].min(least[lane + width]);
        }
    }
    least[0]
}
