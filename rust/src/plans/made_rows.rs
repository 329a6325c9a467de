//! How far a group has made its outputs when one stripe runs, found without a walk to it.
//!
//! - State: `limit(r)`, the row up to which Part `r` is made before the first stripe that needs the wanted one, itself or
//!   through Parts between the two: its first stripe that reads a Part `p` beyond `limit(p)`.
//! - Invariant: needs grow with rows, so such stripes of a Part are all behind its first one, found by halving. Rows made
//!   for several reasons are the most that one of them asks for, whichever came first.
//! - Result: demand goes from the first Part wanted later that reaches its limit down to the wanted stripe. On this way
//!   each Part is made up to its limit, and its next stripe has all that it reads before the Part next on the way.
//! - Cost: for each Part a few reads for each halving, where a walk visits every stripe.
//!
//! Owns this question. The order that it answers for is `demand`'s, and a test compares the two.

use smallvec::{smallvec, SmallVec};

use crate::plans::link::PartReads;
use crate::schedule::demand::stripe_ahead;
use crate::stripe::Span;

/// Rows or columns made, by Part of a group.
pub type MadeRows = SmallVec<[i64; 16]>;

/// One stripe of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StripeId {
    /// Which Part makes it, as the number of Parts behind it in the group.
    pub parts_behind: usize,
    /// A row or column in it.
    pub line: i64,
}

/// A group's reads of its own outputs, and how these are cut into stripes.
#[derive(Clone, Copy)]
pub struct GroupStripes<'a> {
    /// By Part, its reads of the group's outputs, numbered by the producer's offset.
    pub reads: &'a [PartReads],
    /// By Part, the extent of its stripes along the rolling axis.
    pub stripes: &'a [i64],
    /// What is wanted of each output along the rolling axis.
    pub ends: &'a [Span],
}

impl GroupStripes<'_> {
    /// How far each output is made just before a Part makes its stripe from row `start` on. What this reads is there
    /// by then. None where no stripe begins there. Parts `wanted_later` are asked for in this order.
    pub fn made_before(&self, part: usize, start: i64, wanted_later: impl Iterator<Item = usize>) -> Option<MadeRows> {
        let limit = self.limits(part, start);
        let mut made: MadeRows = self.ends.iter().map(|wanted| wanted.start).collect();
        let mut reader = None;
        for asked in wanted_later {
            if limit[asked] < self.ends[asked].end {
                reader = Some(asked);
                break;
            }
            made[asked] = self.ends[asked].end;
        }
        let mut reader = reader?;
        while reader != part {
            made[reader] = limit[reader];
            let stripe = stripe_ahead(limit[reader], self.stripes[reader], self.ends[reader]);
            let mut next = None;
            for (producer, needed) in self.reads_of(reader, stripe) {
                if needed.end > limit[producer] {
                    next = Some(producer);
                    break;
                }
                self.ask(&mut made, producer, needed.end);
            }
            reader = next?;
        }
        made[part] = stripe_ahead(start, self.stripes[part], self.ends[part]).end;
        for reader in (0..made.len()).rev() {
            let read = Span::new(self.ends[reader].start, made[reader]);
            if !read.is_empty() {
                self.reads_of(reader, read).for_each(|(producer, needed)| self.ask(&mut made, producer, needed.end));
            }
        }
        made[part] = start;
        Some(made)
    }

    fn reads_of(&self, part: usize, stripe: Span) -> impl Iterator<Item = (usize, Span)> + '_ {
        (0..).map_while(move |index| self.reads[part].get(index, stripe))
    }

    /// Make whole stripes of a Part's output up to row `until`.
    fn ask(&self, made: &mut MadeRows, part: usize, until: i64) {
        let (extent, wanted) = (self.stripes[part], self.ends[part]);
        let whole = (until - wanted.start + extent - 1) / extent * extent;
        made[part] = made[part].max((wanted.start + whole).min(wanted.end));
    }

    /// By Part, from which row on its stripes need rows of Part `part` from `start` on; beyond all where none does.
    fn limits(&self, part: usize, start: i64) -> MadeRows {
        let mut limit: MadeRows = smallvec![i64::MAX; self.ends.len()];
        limit[part] = start;
        for reader in part + 1..limit.len() {
            let (extent, wanted) = (self.stripes[reader], self.ends[reader]);
            let until = |stripes: i64| (wanted.start + stripes * extent).min(wanted.end);
            let needs_more = |stripes: i64| {
                let mut reads = self.reads_of(reader, Span::new(wanted.start, until(stripes)));
                reads.any(|(producer, needed)| needed.end > limit[producer])
            };
            let (mut without, mut with) = (0, (wanted.len() + extent - 1) / extent);
            if with == 0 || !needs_more(with) {
                continue;
            }
            while with - without > 1 {
                let half = (without + with) / 2;
                *(if needs_more(half) { &mut with } else { &mut without }) = half;
            }
            limit[reader] = until(without);
        }
        limit
    }
}
