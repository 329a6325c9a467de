//! The order of demand: before a stripe runs, all rows that it reads are made, back to the group's inputs.
//!
//! Owns this walk and how outputs are cut into stripes. What is asked of each Part, and what becomes of its stripes, is for
//! who walks: one makes programs, one counts bytes, one counts rows, and all go through the same stripes.

use crate::stripe::Span;

/// A walker of a group. Parts are named by their offset in it.
pub trait Walker {
    /// The stripe of a Part's output that is made next while `rows` of it are asked for; None once they are there, or where
    /// no more is to be made.
    fn next(&mut self, part: usize, rows: Span) -> Option<Span>;

    /// Read number `index` of a stripe, of an output of the group: which Part makes that, and what must be there; None
    /// behind the last.
    fn read(&self, part: usize, index: usize, stripe: Span) -> Option<(usize, Span)>;

    /// A stripe is made: all that it reads is there.
    fn made(&mut self, part: usize, stripe: Span);
}

/// Make `rows` of a Part's output, stripe by stripe, and before each what it reads.
pub fn demand<W: Walker>(walker: &mut W, part: usize, rows: Span) {
    while let Some(stripe) = walker.next(part, rows) {
        let mut index = 0;
        while let Some((producer, rows)) = walker.read(part, index, stripe) {
            demand(walker, producer, rows);
            index += 1;
        }
        walker.made(part, stripe);
    }
}

/// The next stripe of the wanted rows behind row `made`; empty where all are made.
#[inline]
pub fn stripe_ahead(made: i64, extent: i64, wanted: Span) -> Span {
    Span::new(made, (made + extent).min(wanted.end))
}

/// The stripe before what is made already, from row `made` on: the same stripes, the last one first.
pub fn stripe_behind(made: i64, extent: i64, wanted: Span) -> Span {
    let before = (made - 1 - wanted.start).max(0) / extent * extent;
    Span::new(wanted.start + before, made)
}

/// A walker whose stripes are written down.
#[cfg(test)]
pub struct RecordingWalker<W> {
    /// Who walks.
    pub walker: W,
    /// Parts and stripes in the order in which they are made.
    pub stripes: Vec<(usize, Span)>,
}

#[cfg(test)]
impl<W: Walker> Walker for RecordingWalker<W> {
    fn next(&mut self, part: usize, rows: Span) -> Option<Span> {
        self.walker.next(part, rows)
    }
    fn read(&self, part: usize, index: usize, stripe: Span) -> Option<(usize, Span)> {
        self.walker.read(part, index, stripe)
    }
    fn made(&mut self, part: usize, stripe: Span) {
        self.stripes.push((part, stripe));
        self.walker.made(part, stripe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_cut_from_the_near_end_whichever_is_made_first() {
        let wanted = Span::new(2, 9);
        let ahead = [2, 5, 8, 9].map(|made| stripe_ahead(made, 3, wanted));
        assert_eq!(ahead, [Span::new(2, 5), Span::new(5, 8), Span::new(8, 9), Span::new(9, 9)]);
        let behind = [9, 8, 5, 2].map(|made| stripe_behind(made, 3, wanted));
        assert_eq!(behind, [Span::new(8, 9), Span::new(5, 8), Span::new(2, 5), Span::new(2, 2)]);
    }
}
