//! Sections of a stream that are so unlike each other that each wants a palette of its own: whether there are any, and where.
//! Owns the cuts between them; how a section is coded then is `search`'s.

use std::ops::Range;

use super::candidates::kinds;
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
/// Streams of so many weights are cut in any case: too short for samples that tell anything, long enough for palettes.
const SHORT: Range<usize> = 2048..4096;
/// Own palettes have to spare one bit in so many.
const WORTH: u64 = 64;

/// Whether sections are worth looking for: windows here and there are smaller with palettes of their own than with the
/// best of these.
pub fn are_likely(symbols: &[u16], palettes: &[Palette]) -> bool {
    SHORT.contains(&symbols.len())
        || SAMPLES.iter().any(|&(window, most)| {
            let windows = symbols.len() / window;
            let count = most.min(windows / SAMPLED);
            let (mut own, mut others) = (0, 0);
            for number in 0..count {
                let first = number * windows / count * window;
                let counts = Counts::new(&symbols[first..first + window]);
                let sums = Sums::of(&counts);
                let shared = palettes.iter().filter_map(|palette| sums.bits_of(palette)).min();
                if let Some(((bits, _), least)) = best_of_kinds(&sums, &counts).zip(shared) {
                    own += bits;
                    others += least;
                }
            }
            own + own / WORTH < others
        })
}

/// Weights that one palette is best for.
pub struct Section {
    /// The first weight, and one past the last.
    pub span: [usize; 2],
    /// Of its symbols.
    pub counts: Counts,
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
        let (first, counts) = (number * length, Counts::new(window));
        let (bits, palette) = best_of_kinds(&Sums::of(&counts), &counts)
            .unwrap_or_else(|| unreachable!("a palette of none holds a window"));
        found.push(Section { span: [first, first + window.len()], counts, bits, palette });
        while let [.., before, last] = &found[..] {
            let counts = before.counts.and(&last.counts);
            let Some((bits, palette)) =
                best_of_kinds(&Sums::of(&counts), &counts).filter(|(bits, _)| *bits < before.bits + last.bits)
            else {
                break;
            };
            let joined = Section { span: [before.span[0], last.span[1]], counts, bits, palette };
            found.truncate(found.len() - 2);
            found.push(joined);
        }
    }
    found
}

/// The best palette, with zeros as weights or as runs, and all bits of it.
fn best_of_kinds(sums: &Sums<'_>, counts: &Counts) -> Option<(u64, Palette)> {
    kinds(counts).iter().filter_map(|&zero_runs| sums.best(zero_runs)).min_by_key(|&(bits, _)| bits)
}
