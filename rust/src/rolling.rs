//! How many rows a rolling buffer must hold, found by walking the Parts that it depends on; remembered.
//!
//! Owns this question of the search, which it asks of every pair of stripes: hence a walk of its own over flattened reads. What a
//! whole program's buffers hold is `interleave`'s to say, by `walk`, which finds the same.

use smallvec::SmallVec;

use crate::graph::{CascaderGraph, Input, PartId};
use crate::hashing::Table;
use crate::occupancy::Link;
use crate::stripe::{Axis, Span};

/// What tells walks apart besides stripes: producer, rolling axis, Parts that it passes, and what is wanted of the last.
type SheetKey = (PartId, Axis, u32, Span);

/// Rows alive of tensors, by their producers' and readers' stripes.
#[derive(Debug, Default)]
pub struct RowTable {
    sheets: Table<SheetKey, Sheet>,
}

impl RowTable {
    /// What is known where Parts `first..` run along `roll`, and `wanted` along that axis is wanted of each; to be given
    /// back by `keep`.
    pub fn sheet(&mut self, graph: &CascaderGraph, first: PartId, roll: Axis, wanted: &[Span]) -> Sheet {
        let key = (first, roll, wanted.len() as u32, wanted[wanted.len() - 1]);
        self.sheets.remove(&key).unwrap_or_else(|| Sheet::new(graph, key, wanted))
    }

    /// Take back what a sheet has learnt.
    pub fn keep(&mut self, sheet: Sheet) {
        self.sheets.insert(sheet.key, sheet);
    }
}

/// Rows alive of one tensor, where the same is wanted of its readers.
#[derive(Debug)]
pub struct Sheet {
    key: SheetKey,
    wanted: Box<[Span]>,
    /// Per Part, its reads of outputs of the Parts that the walk passes, each with the producer's offset.
    reads: Vec<SmallVec<[(usize, Link); 2]>>,
    /// Reads of the first Part's output.
    readers: SmallVec<[Link; 2]>,
    /// Parts whose outputs are wanted whatever the others read.
    ends: SmallVec<[usize; 2]>,
    /// Rows by stripe extent, then by the extents of the Parts that follow; both ascending.
    known: Vec<(i64, Vec<Answer>)>,
}

/// Stripe extents of the Parts behind the producer, and rows.
type Answer = (SmallVec<[i64; 2]>, i64);

impl Sheet {
    fn new(graph: &CascaderGraph, key: SheetKey, wanted: &[Span]) -> Sheet {
        let (first, roll, count, _) = key;
        let last = first + count - 1;
        let is_end = |&part: &usize| {
            let part = first + part as PartId;
            part == last || graph.outlives(graph.output(part), last)
        };
        let reads = (first..=last).map(|part| {
            let link = |input: &Input| {
                let producer = graph.producer[input.tensor as usize].filter(|&producer| producer >= first)?;
                Some(((producer - first) as usize, Link::new(graph, (part - first) as usize, input, roll)))
            };
            graph.parts[part as usize].inputs.iter().filter_map(link).collect()
        });
        let reads: Vec<SmallVec<[(usize, Link); 2]>> = reads.collect();
        let of_first = reads.iter().flatten().filter(|(producer, _)| *producer == 0);
        Sheet {
            key,
            wanted: wanted.into(),
            readers: of_first.map(|(_, link)| *link).collect(),
            ends: (0..count as usize).rev().filter(is_end).collect(),
            reads,
            known: Vec::new(),
        }
    }

    /// Rows that a rolling buffer of the first Part's output needs when that Part runs in stripes of `stripe` and those
    /// behind it in stripes of one of `next`, which may go on beyond the last that matters; for each of these.
    pub fn alive<'a>(&mut self, stripe: i64, next: impl Iterator<Item = &'a [i64]>, mut found: impl FnMut(i64)) {
        let row = self.known.binary_search_by_key(&stripe, |row| row.0).unwrap_or_else(|row| {
            self.known.insert(row, (stripe, Vec::new()));
            row
        });
        let mut answers = std::mem::take(&mut self.known[row].1);
        let mut place = 0;
        for next in next.map(|next| &next[..self.wanted.len() - 1]) {
            // They mostly come in order, each some times.
            place += usize::from(answers.get(place).is_some_and(|answer| answer.0[..] < *next));
            if answers.get(place).is_none_or(|answer| answer.0[..] != *next) {
                place = answers.binary_search_by(|answer| answer.0[..].cmp(next)).unwrap_or_else(|place| {
                    answers.insert(place, (next.into(), self.walk(stripe, next)));
                    place
                });
            }
            found(answers[place].1);
        }
        self.known[row].1 = answers;
    }

    fn walk(&self, stripe: i64, next: &[i64]) -> i64 {
        let stripes: SmallVec<[i64; 8]> = std::iter::once(stripe).chain(next.iter().copied()).collect();
        let made = self.wanted.iter().map(|wanted| wanted.start).collect();
        let mut walk = Walk { sheet: self, stripes: &stripes, made, alive: 0 };
        for &part in &self.ends {
            walk.make(part, self.wanted[part].end);
        }
        ((walk.alive + stripe - 1) / stripe * stripe).min(self.wanted[0].len())
    }
}

/// `walk::Walk` from the first row on, as far as the first Part's rows depend on it.
struct Walk<'a> {
    sheet: &'a Sheet,
    stripes: &'a [i64],
    /// How far each output is made.
    made: SmallVec<[i64; 8]>,
    /// Most rows of the first Part's output that were alive at once.
    alive: i64,
}

impl Walk<'_> {
    fn make(&mut self, part: usize, until: i64) {
        let sheet = self.sheet;
        while self.made[part] < until.min(sheet.wanted[part].end) {
            let span = self.next(part);
            for &(producer, link) in &sheet.reads[part] {
                self.make(producer, link.needed(span).end);
            }
            self.made[part] = span.end;
            if part == 0 {
                self.count(span);
            }
        }
    }

    fn next(&self, part: usize) -> Span {
        let made = self.made[part];
        Span::new(made, (made + self.stripes[part]).min(self.sheet.wanted[part].end))
    }

    /// Count what is alive once the first Part has made `span`: that, and what its readers still want of earlier rows.
    fn count(&mut self, span: Span) {
        let unread = self.sheet.readers.iter().map(|&link| (link, self.next(link.reader)));
        let unread = unread.filter(|(_, next)| !next.is_empty());
        let oldest = unread.map(|(link, next)| link.needed(next).start).min().unwrap_or(span.start);
        self.alive = self.alive.max(span.end - oldest.min(span.start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Plan, Staging};
    use crate::samples::mobilenet_v2;
    use crate::stripe::Tiling;
    use crate::walk::{self, wanted};

    /// Rows by the walk that makes programs.
    fn walked(graph: &CascaderGraph, plan: &Plan, wanted: &[Span]) -> i64 {
        let mut walk = walk::Walk::new(graph, plan, wanted.to_vec());
        walk.run(&mut |_, _| {});
        let stripe = plan.stripes[0];
        ((walk.alive[0] + stripe - 1) / stripe * stripe).min(wanted[0].len())
    }

    #[test]
    fn sheets_know_what_a_walk_finds() {
        let graph = mobilenet_v2();
        let mut table = RowTable::default();
        let count = graph.parts.len() as PartId;
        let groups = (1..4).flat_map(|more| (0..count - more).map(move |first| (first, first + more)));
        let is_group = |&(first, last): &(PartId, PartId)| {
            (first..=last).all(|part| graph.kernel(part).is_some()) && !graph.outlives(graph.output(first), last)
        };
        let mut compared = 0;
        for ((first, last), roll) in groups.filter(is_group).flat_map(|g| [(g, Axis::Height), (g, Axis::Width)]) {
            for (stripe, next) in [(1, 1), (1, 3), (2, 2), (3, 1), (4, 6), (8, 5)] {
                let mut stripes = vec![next; (last - first + 1) as usize];
                stripes[0] = stripe;
                let staging = vec![Staging::InPlace; stripes.len()];
                let plan = Plan { first, last, tiling: Tiling { roll, tiles: 1 }, backwards: false, stripes, staging };
                let spans: Vec<Span> = wanted(&graph, &plan, 0).iter().map(|wanted| wanted[0]).collect();
                let mut sheet = table.sheet(&graph, first, roll, &spans);
                for _ in 0..2 {
                    sheet.alive(stripe, std::iter::once(&plan.stripes[1..]), |rows| {
                        assert_eq!(rows, walked(&graph, &plan, &spans));
                        compared += 1;
                    });
                }
                table.keep(sheet);
            }
        }
        assert!(compared > 500);
    }
}
