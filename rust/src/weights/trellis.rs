//! The cheapest way through cells of a few weights and the codings for them, by dynamic programming. Owns states and steps
//! from cell to cell; what a coding costs is `coding`'s.

use wide::{i16x16, CmpGt};

use super::candidates::Candidate;
use super::cells::{Cell, Cells};
use super::coding::{run_bits, Costs, LANES, UNCOMPRESSED};
use super::counts::Counts;
use super::format::HEADER_BITS;
use crate::util::interrupt;

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

/// A coding and the group of codings that it is of: those that share a palette and how runs of zeros are coded.
pub type State = (usize, usize);

/// A palette, its groups, and what it costs to code with it.
struct CodedPalette {
    costs: Costs,
    /// Bits of the palette.
    header: Tagged,
    /// What it takes to begin a slice, by lane, without a palette.
    enter: i16x16,
    zero_runs: bool,
    /// The first of its groups, and one past the last.
    groups: [usize; 2],
}

/// All states, and what they cost.
pub struct Trellis {
    palettes: Vec<CodedPalette>,
    /// By group its palette, and the divisor of runs of zeros.
    groups: Vec<(usize, u32)>,
}

/// The cheapest ways to all states up to some cell.
struct Ways {
    /// By group what its states cost, by lane.
    costs: Vec<i16x16>,
    /// By palette what it costs to have it again or go on with it, and the cheapest state that this is from.
    begin: Vec<(Tagged, State)>,
    /// By cell and palette, from which state a slice is begun.
    sources: Vec<(u8, u8)>,
}

impl Trellis {
    /// Of what is tried for symbols that were counted.
    pub fn new(counts: &Counts, candidates: &[Candidate]) -> Trellis {
        let mut trellis = Trellis { groups: Vec::new(), palettes: Vec::with_capacity(candidates.len()) };
        for (number, Candidate { palette, zero_divisors }) in candidates.iter().enumerate() {
            let (zero_runs, first) = (palette.zero_runs, trellis.groups.len());
            trellis.groups.extend(zero_divisors.iter().map(|divisor| (number, divisor)));
            let runs = HEADER_BITS as i16 + if zero_runs { FILLING } else { 0 };
            let enter = |lane| tagged(if lane < UNCOMPRESSED { runs + FILLING } else { runs }) | lane as i16;
            trellis.palettes.push(CodedPalette {
                costs: Costs::of(palette, &counts.codes(zero_runs)),
                header: tagged(palette.header_bits() as i16),
                enter: i16x16::new(std::array::from_fn(enter)),
                zero_runs,
                groups: [first, trellis.groups.len()],
            });
        }
        trellis
    }

    /// The palette of a state, and how it codes runs of zeros.
    pub fn group(&self, (group, _): State) -> (usize, u32) {
        self.groups[group]
    }

    /// What a symbol costs in a state.
    pub fn bits(&self, (group, lane): State, symbol: u16) -> i32 {
        let (palette, zero_divisor) = self.groups[group];
        let CodedPalette { costs, zero_runs, .. } = &self.palettes[palette];
        let runs = if *zero_runs { run_bits(&[symbol])[zero_divisor as usize] } else { 0 };
        costs.bits(symbol, lane) + i32::from(runs)
    }

    /// Spans and their states, in order, of symbols that were counted, in cells of a length.
    pub fn path(&self, symbols: &[u16], counts: &Counts, length: usize) -> Vec<([usize; 2], State)> {
        let any_runs = self.palettes.iter().any(|palette| palette.zero_runs);
        let cells = Cells::new(symbols, counts, length, any_runs);
        let count = self.groups.len();
        let mut ways = Ways {
            costs: vec![i16x16::MAX; count],
            begin: self.palettes.iter().map(|palette| (palette.header, (0, 0))).collect(),
            sources: Vec::with_capacity(cells.len() * self.palettes.len()),
        };
        // By cell and group, a bit for each lane that goes on from the cell before.
        let mut stays = vec![0; cells.len() * count];
        let mut before = 0;
        for (number, (cell, stays)) in cells.iter().zip(stays.chunks_exact_mut(count)).enumerate() {
            if number % 1024 == 0 {
                interrupt::ask();
            }
            self.step(&cell, before, &mut ways, stays);
            before = self.settle(&mut ways);
        }
        let (least, group) = ways.costs.iter().map(|costs| costs.reduce_min()).zip(0..).min().unwrap_or((0, 0));
        let mut last = (group, lane_of(least));
        let mut found = vec![([0, symbols.len()], last)];
        for cell in (1..cells.len()).rev() {
            let (group, lane) = last;
            if stays[cell * count + group] >> lane & 1 == 1 {
                continue;
            }
            let source = ways.sources[(cell - 1) * self.palettes.len() + self.groups[group].0];
            last = (usize::from(source.0), usize::from(source.1));
            let end = found.len() - 1;
            found[end].0[0] = cell * length;
            found.push(([0, cell * length], last));
        }
        found.reverse();
        found
    }

    /// One cell on, from states that cost so much more than `begin` counts from; `begin` is then the least of a palette.
    fn step(&self, cell: &Cell<'_>, more: Tagged, ways: &mut Ways, stays: &mut [u16]) {
        let more = i16x16::splat(more);
        for (palette, begin) in self.palettes.iter().zip(&mut ways.begin) {
            let [first, end] = palette.groups;
            let sum = palette.costs.sum(cell.symbols, cell.zeros) << TAG_BITS;
            let anew = palette.enter + i16x16::splat(begin.0);
            let groups = &self.groups[first..end];
            let (costs, stays) = (&mut ways.costs[first..end], &mut stays[first..end]);
            let mut least = i16x16::MAX;
            for ((costs, stays), &(_, divisor)) in costs.iter_mut().zip(stays).zip(groups) {
                let runs = if palette.zero_runs { tagged(cell.runs[divisor as usize]) } else { 0 };
                let stay = *costs - more;
                *stays = !stay.cmp_gt(anew).move_mask() as u16;
                *costs = stay.min(anew) + (sum + i16x16::splat(runs));
                least = least.min(*costs);
            }
            let least = least.reduce_min();
            let lane = lane_of(least);
            let mut group = first;
            // The first that has it; a loop that ends nowhere else is foreseen.
            for (number, costs) in (first..end).zip(costs.iter()).skip(1).rev() {
                group = if costs.as_array_ref()[lane] == least { number } else { group };
            }
            group = if costs[0].as_array_ref()[lane] == least { first } else { group };
            *begin = (least, (group, lane));
        }
    }

    /// From where slices begin in the next cell, and the least that a state costs: `begin` counts from that.
    fn settle(&self, ways: &mut Ways) -> Tagged {
        let cheapest = ways.begin.iter().copied().min().unwrap_or_default();
        let least = cheapest.0 & !TAGS;
        for (own, palette) in ways.begin.iter_mut().zip(&self.palettes) {
            let bits = (own.0 & !TAGS) - least;
            *own = if bits <= palette.header { (bits, own.1) } else { (palette.header, cheapest.1) };
            ways.sources.push((own.1 .0 as u8, own.1 .1 as u8));
        }
        least
    }
}
