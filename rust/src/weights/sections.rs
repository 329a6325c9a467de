//! Sections of a stream that are so unlike each other that each wants a palette of its own: whether there are any, and where.
//! Owns the cuts between them; how a section is coded then is `search`'s.

use std::ops::Range;

use super::candidates::Candidate;
use super::counts::Counts;
use super::palette::Palette;
use super::sums::Sums;
use crate::util::interrupt;

/// Weights of a window, of which sections are made.
const WINDOW: usize = 256;
/// Weights of a window where the stream is short, which has few sections if it has any.
const WINDOW_OF_SHORT: usize = 512;
/// Windows that are looked at to tell whether there are sections: their weights, and the most of them.
const SAMPLES: [(usize, usize); 3] = [(256, 12), (1024, 4), (4096, 4)];
/// A stream has as many times the weights that are looked at.
const SAMPLED: usize = 4;
/// Streams of this number of weights are cut in any case: too short for samples that tell anything, long enough for palettes.
const SHORT: Range<usize> = 2048..4096;
/// Own palettes have to save one bit in the first number to be tried, in the second to be tried alone.
const WORTH: u64 = 64;
const SURE: u64 = 8;

/// What a window costs that a palette cannot code.
const NEVER: u64 = u64::MAX / 1024;

/// Whether sections are worth looking for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likely {
    /// Palettes that are shared will do.
    No,
    /// Sections may be smaller.
    Perhaps,
    /// Sections are so much smaller that nothing else needs a look.
    Surely,
}

/// Whether sections are worth looking for: windows here and there are smaller with palettes of their own than with the
/// best of these.
pub fn are_likely(symbols: &[u16], candidates: &[Candidate]) -> Likely {
    let least = if SHORT.contains(&symbols.len()) { Likely::Perhaps } else { Likely::No };
    SAMPLES.iter().map(|&size| are_likely_of(size, symbols, candidates)).max().map_or(least, |found| found.max(least))
}

/// The same, by windows of a size, up to a number of them.
fn are_likely_of((window, most): (usize, usize), symbols: &[u16], candidates: &[Candidate]) -> Likely {
    let windows = symbols.len() / window;
    let count = most.min(windows / SAMPLED);
    let first = |number: usize| number * windows / count * window;
    let sums: Vec<Sums> = (0..count).map(|number| Sums::of(Counts::new(&symbols[first(number)..][..window]))).collect();
    let least = |sums: &Sums| sums.kinds().iter().filter_map(|&zero_runs| sums.least(zero_runs)).min();
    let least: u64 = sums.iter().filter_map(least).sum();
    let spares = |own: u64, others: u64, part: u64| own + own / part < others;
    let mut shared = vec![NEVER; count];
    // Palettes one by one: often the first is so good that no window can do better.
    for Candidate { palette, .. } in candidates {
        for (shared, sums) in shared.iter_mut().zip(&sums) {
            *shared = sums.bits_of(palette).map_or(*shared, |bits| bits.min(*shared));
        }
        if !spares(least, shared.iter().sum(), WORTH) {
            return Likely::No;
        }
    }
    let others = shared.iter().sum();
    let own = sums.iter().filter_map(|sums| sums.best_below(u64::MAX)).map(|(bits, _)| bits).sum();
    match spares(own, others, WORTH) {
        true if spares(own, others, SURE) => Likely::Surely,
        true => Likely::Perhaps,
        false => Likely::No,
    }
}

/// Weights that one palette is best for.
pub struct Section {
    /// The first weight, and one past the last.
    pub span: [usize; 2],
    /// Of its symbols.
    pub sums: Sums,
    /// Of all its weights with the palette.
    bits: u64,
    /// The best one.
    pub palette: Palette,
}

/// Sections and their palettes: windows, joined to the section in front of them where one palette takes fewer bits than two.
pub fn sections(symbols: &[u16]) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    let length = if SHORT.contains(&symbols.len()) { WINDOW_OF_SHORT } else { WINDOW };
    for (number, window) in symbols.chunks(length).enumerate() {
        interrupt::ask();
        let (first, sums) = (number * length, Sums::of(Counts::new(window)));
        let (bits, palette) =
            sums.best_below(u64::MAX).unwrap_or_else(|| unreachable!("a palette of none holds a window"));
        found.push(Section { span: [first, first + window.len()], sums, bits, palette });
        while let [.., before, last] = &found[..] {
            let Some(joined) = before.joined(last) else { break };
            found.truncate(found.len() - 2);
            found.push(joined);
        }
    }
    found
}

impl Section {
    /// This section and the one behind it, if one palette takes fewer bits than two.
    fn joined(&self, next: &Section) -> Option<Section> {
        let sums = Sums::of(self.sums.counts().and(next.sums.counts()));
        let (bits, palette) = sums.best_below(self.bits + next.bits)?;
        Some(Section { span: [self.span[0], next.span[1]], sums, bits, palette })
    }
}
