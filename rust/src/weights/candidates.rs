//! Which palettes are worth trying for a stream: the best ones of its parts, of all sizes of parts, as far as each saves
//! something beside the others. Owns the choice among palettes.

use super::counts::Counts;
use super::format::HEADER_BITS;
use super::palette::Palette;
use super::sums::{plain, Sums};

/// Parts are halves, quarters and so on, of at least so many weights.
const LEAST_PART: usize = 4096;
const LEAST_PART_OF_LARGE: usize = 2048;
const LARGE: usize = 16384;
/// The most parts of a stream.
const MOST_PARTS: usize = 8;
/// Runs of zeros are tried where more than one in so many weights is zero.
const FEW_ZEROS: u64 = 10;
/// What a part costs that a palette cannot code.
const NEVER: u64 = u64::MAX / 1024;
/// The most palettes that are tried together.
const MOST_PALETTES: usize = 6;

/// Good palettes for a stream, that of the stream as a whole first: it holds all of its weights. And the counts of these.
pub fn palettes(symbols: &[u16]) -> (Vec<Palette>, Counts) {
    let least = if symbols.len() > LARGE { LEAST_PART_OF_LARGE } else { LEAST_PART };
    let mut count = 1;
    while count < MOST_PARTS && symbols.len() / (2 * count) >= least {
        count *= 2;
    }
    let parts: Vec<Counts> = symbols.chunks(symbols.len().div_ceil(count)).map(Counts::new).collect();
    let mut levels = vec![parts.clone()];
    while let Some(last) = levels.last().filter(|last| last.len() > 1) {
        let halves = last.chunks(2).map(|pair| pair.iter().skip(1).fold(pair[0].clone(), |a, b| a.and(b))).collect();
        levels.push(halves);
    }
    let mut pool: Vec<Palette> = Vec::new();
    let mut add = |palette: Option<Palette>| pool.extend(palette.filter(|palette| !pool.contains(palette)));
    for counts in levels.iter().rev().flatten() {
        let sums = Sums::of(counts);
        for &zero_runs in kinds(counts) {
            add(sums.best(zero_runs).map(|(_, palette)| palette));
        }
    }
    let mut found = chosen(pool, &parts);
    // Without entries there is room for all weights, and none of them is far from the cheapest index.
    let whole = levels.pop().and_then(|mut whole| whole.pop()).unwrap_or_else(|| unreachable!("a stream is a part"));
    let simple = kinds(&whole).iter().filter_map(|&zero_runs| plain(&whole, zero_runs));
    let missing: Vec<Palette> = simple.filter(|palette| !found.contains(palette)).collect();
    found.extend(missing);
    (found, whole)
}

/// Whether zeros are worth being runs, and weights.
pub fn kinds(counts: &Counts) -> &'static [bool] {
    match counts.zeros() {
        zeros if zeros == counts.all() || zeros * FEW_ZEROS <= counts.all() => &[false],
        _ => &[false, true],
    }
}

/// Those of the palettes that save bits beside those before them.
fn chosen(pool: Vec<Palette>, parts: &[Counts]) -> Vec<Palette> {
    if pool.len() == 1 {
        return pool;
    }
    let parts: Vec<Sums<'_>> = parts.iter().map(Sums::of).collect();
    let of = |palette: &Palette| parts.iter().map(|sums| sums.bits_of(palette).unwrap_or(NEVER)).collect();
    let costs: Vec<Vec<u64>> = pool.iter().map(of).collect();
    let mut kept = vec![0];
    let mut least = costs[0].clone();
    while kept.len() < MOST_PALETTES {
        let gain = |number: usize| {
            let saved: u64 = least.iter().zip(&costs[number]).map(|(least, bits)| least.saturating_sub(*bits)).sum();
            saved.saturating_sub((HEADER_BITS + pool[number].header_bits()) as u64)
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
