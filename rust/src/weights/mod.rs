//! Compression of weights for an Ethos-U: the smallest stream that a search finds, its exact length before a bit of it is
//! written, and its bits.
//!
//! `order` puts weights in the order of a stream, as codes; `coding` knows the ways to code a weight and what each costs;
//! `sums` finds good palettes for `counts` of codes, by what their `entries` add; `candidates` picks some for a stream;
//! `search` cuts the stream into slices of one coding each, as the `trellis` finds them over `cells`, and by `sections`;
//! `plan` makes the cuts legal and counts bits; `writer` writes them.
//! Owns the coding of weights as a compiler sees it. Knows nothing of the simulator, which decodes with code of its own and
//! is its judge.

mod candidates;
mod cells;
mod codes;
mod coding;
mod counts;
mod entries;
pub mod error;
mod format;
pub mod order;
mod palette;
mod plan;
mod search;
mod sections;
mod sums;
mod trellis;
mod writer;

use error::WeightError;
use format::{ALIGNMENT, END_BITS};
use order::{Order, Volume};
use plan::Plan;
use writer::Writer;

/// Weights that are looked at together at most, unless a block of output channels has more: a piece begins with a palette.
const PIECE_WEIGHTS: usize = 1 << 20;

/// How a stream will be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    order: Order,
    plans: Vec<Plan>,
}

impl Stream {
    /// The smallest stream found for a volume in an order; equal arguments give equal streams.
    ///
    /// # Errors
    /// [`WeightError`] for an order, a volume or a weight that cannot be.
    pub fn of(order: Order, volume: &Volume<'_>) -> Result<Stream, WeightError> {
        order.check(volume)?;
        let pieces = order.pieces(PIECE_WEIGHTS).into_iter();
        let plans = pieces.map(|piece| search::best(&order.codes(volume, piece))).collect();
        Ok(Stream { order, plans })
    }

    /// Bytes of the stream, a multiple of 16.
    pub fn length_bytes(&self) -> usize {
        let bits = END_BITS + self.plans.iter().map(Plan::bits).sum::<usize>();
        bits.div_ceil(8).next_multiple_of(ALIGNMENT)
    }

    /// The stream of the volume that it was planned for.
    ///
    /// # Errors
    /// As [`Stream::of`] for another one's size.
    pub fn write(&self, volume: &Volume<'_>) -> Result<Vec<u8>, WeightError> {
        self.order.check(volume)?;
        let mut writer = Writer::new(self.length_bytes());
        for (plan, piece) in self.plans.iter().zip(self.order.pieces(PIECE_WEIGHTS)) {
            writer.write(plan, &self.order.codes(volume, piece));
        }
        Ok(writer.end())
    }
}
