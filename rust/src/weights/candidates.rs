//! Which palettes are worth trying for a stream: the best ones of its parts, of all sizes of parts, as far as each saves
//! something beside the others. Owns the choice among palettes.

use super::counts::Counts;
use super::format::{HEADER_BITS, ZERO_DIVISORS};
use super::palette::Palette;
use super::sums::{plain, Sums};

/// Parts are halves, quarters and so on, of at least this number of weights.
const LEAST_PART: usize = 4096;
const LEAST_PART_OF_LARGE: usize = 2048;
const LARGE: usize = 16384;
/// The most parts of a stream.
const MOST_PARTS: usize = 8;
/// What a part costs that a palette cannot code.
const NEVER: u64 = u64::MAX / 1024;
/// The most palettes that are tried together.
const MOST_PALETTES: usize = 6;

/// Divisors of runs of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divisors([bool; ZERO_DIVISORS as usize]);

impl Divisors {
    /// These.
    pub fn of(divisors: impl Iterator<Item = u32>) -> Divisors {
        let mut found = [false; ZERO_DIVISORS as usize];
        divisors.for_each(|divisor| found[divisor as usize] = true);
        Divisors(found)
    }

    /// All of these and of other ones.
    pub fn and(self, other: Divisors) -> Divisors {
        Divisors(std::array::from_fn(|divisor| self.0[divisor] || other.0[divisor]))
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(self.0).filter_map(|(divisor, is_there)| is_there.then_some(divisor))
    }
}

/// A palette that is tried, and with which divisors of runs of zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The palette.
    pub palette: Palette,
    /// The divisors.
    pub zero_divisors: Divisors,
}

impl Candidate {
    /// A palette with all divisors, or where it has no runs with the one that stands for none.
    pub fn of(palette: Palette) -> Candidate {
        let divisors = if palette.zero_runs { ZERO_DIVISORS } else { 1 };
        Candidate { palette, zero_divisors: Divisors::of(0..divisors) }
    }
}

/// Good palettes for a stream, that of the stream as a whole first: it holds all of its weights. And sums over these.
pub fn candidates(symbols: &[u16]) -> (Vec<Candidate>, Sums) {
    let least = if symbols.len() > LARGE { LEAST_PART_OF_LARGE } else { LEAST_PART };
    let mut count = 1;
    while count < MOST_PARTS && symbols.len() / (2 * count) >= least {
        count *= 2;
    }
    let parts = symbols.chunks(symbols.len().div_ceil(count)).map(|part| Sums::of(Counts::new(part))).collect();
    let mut levels: Vec<Vec<Sums>> = vec![parts];
    while let Some(last) = levels.last().filter(|last| last.len() > 1) {
        let joined = |pair: &[Sums]| pair.iter().map(Sums::counts).cloned().reduce(|one, other| one.and(&other));
        let halves = last.chunks(2).filter_map(joined).map(Sums::of).collect();
        levels.push(halves);
    }
    let mut pool: Vec<Candidate> = Vec::new();
    for sums in levels.iter().rev().flatten() {
        for &zero_runs in sums.kinds() {
            let candidate = sums.best(zero_runs).map(|(_, palette)| Candidate::of(palette));
            pool.extend(candidate.filter(|candidate| !pool.contains(candidate)));
        }
    }
    let mut found = chosen(pool, &levels[0]);
    // Without entries there is room for all weights, and none of them is far from the cheapest index.
    let whole = levels.pop().and_then(|mut whole| whole.pop()).unwrap_or_else(|| unreachable!("a stream is a part"));
    let simple = whole.kinds().iter().filter_map(|&zero_runs| plain(whole.counts(), zero_runs)).map(Candidate::of);
    let missing: Vec<Candidate> = simple.filter(|candidate| !found.contains(candidate)).collect();
    found.extend(missing);
    (found, whole)
}

/// Those of the palettes that save bits beside those before them.
fn chosen(pool: Vec<Candidate>, parts: &[Sums]) -> Vec<Candidate> {
    if pool.len() == 1 {
        return pool;
    }
    let of = |palette: &Palette| parts.iter().map(|sums| sums.bits_of(palette).unwrap_or(NEVER)).collect();
    let costs: Vec<Vec<u64>> = pool.iter().map(|candidate| of(&candidate.palette)).collect();
    let mut kept = vec![0];
    let mut least = costs[0].clone();
    while kept.len() < MOST_PALETTES {
        let gain = |number: usize| {
            let saved: u64 = least.iter().zip(&costs[number]).map(|(least, bits)| least.saturating_sub(*bits)).sum();
            saved.saturating_sub((HEADER_BITS + pool[number].palette.header_bits()) as u64)
        };
        let Some(next) = (0..pool.len()).max_by_key(|&number| (gain(number), std::cmp::Reverse(number))) else { break };
        if gain(next) == 0 {
            break;
        }
        least.iter_mut().zip(&costs[next]).for_each(|(least, bits)| *least = (*least).min(*bits));
        kept.push(next);
    }
    kept.into_iter().map(|number| pool[number].clone()).collect()
}
