//! Which section is branched on and which block is tried first. Owns the list of tactics that a search takes in turn.
//!
//! No single order wins: of the public hard instances some fall to wide blocks first within a few hundred nodes and
//! resist large blocks first for millions, others the other way round. So short runs take turns, each restart with the
//! order slightly shuffled (Gomes, Selman, Kautz: "Boosting combinatorial search through randomization", AAAI 1998).

use super::space::{Space, SpaceBlock};
use crate::usmp::random::Random;

/// Which section of those that may be branched on is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// The one with the fewest ways.
    Fewest,
    /// The one with the fewest ways for each time that it made a branch fail (Boussemart and others: "Boosting
    /// systematic search by weighting constraints", ECAI 2004).
    Learned,
    /// The one with the fewest bytes to spare, unless another leaves no choice.
    Tight,
    /// The one with the lowest floor, unless another leaves no choice.
    Lowest,
}

/// What makes a block come early.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockOrder {
    /// Sections in use.
    Width,
    /// Bytes.
    Size,
    /// Both, multiplied.
    Area,
    /// Blocks beside it, summed over its sections.
    Total,
}

const TACTICS: [(Rule, BlockOrder); 8] = [
    (Rule::Fewest, BlockOrder::Width),
    (Rule::Fewest, BlockOrder::Size),
    (Rule::Learned, BlockOrder::Width),
    (Rule::Learned, BlockOrder::Size),
    (Rule::Tight, BlockOrder::Area),
    (Rule::Lowest, BlockOrder::Width),
    (Rule::Learned, BlockOrder::Total),
    (Rule::Lowest, BlockOrder::Size),
];

/// Tactics after which the list starts again, with other shuffles.
pub(super) const ROUND: u64 = TACTICS.len() as u64;
/// A shuffle multiplies what makes a block come early by 1 to 1.5.
const NOISE_PERCENT: usize = 50;

/// How one run branches.
pub(super) struct Tactic {
    pub rule: Rule,
    /// By block, smallest first.
    pub rank: Vec<u32>,
}

impl Tactic {
    /// The tactic of the `turn`-th run; the first round is not shuffled.
    pub fn new(space: &Space, turn: u64, seed: u64) -> Self {
        let (rule, order) = TACTICS[(turn % ROUND) as usize];
        let mut random = Random::new(seed ^ turn.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let keys: Vec<(u128, u64)> = space
            .blocks
            .iter()
            .map(|block| {
                let noise = if turn < ROUND { 0 } else { random.below(NOISE_PERCENT + 1) };
                (u128::from(key(space, block, order)) * (100 + noise as u128), block.size)
            })
            .collect();
        let mut blocks: Vec<u32> = (0..space.blocks.len() as u32).collect();
        blocks.sort_by_key(|&block| std::cmp::Reverse(keys[block as usize]));
        let mut rank = vec![0; blocks.len()];
        for (place, &block) in (0u32..).zip(&blocks) {
            rank[block as usize] = place;
        }
        Self { rule, rank }
    }
}

fn key(space: &Space, block: &SpaceBlock, order: BlockOrder) -> u64 {
    let width = block.cells.len() as u64;
    match order {
        BlockOrder::Width => width,
        BlockOrder::Size => block.size,
        // Sizes stay below 2^60 and areas need no more than their leading digits.
        BlockOrder::Area => (block.size / space.grain).saturating_mul(width),
        BlockOrder::Total => block.cells.iter().map(|cell| space.covers[cell.section as usize].len() as u64).sum(),
    }
}

/// The lengths of restarts: 1, 1, 2, 1, 1, 2, 4, 1, ... (Luby, Sinclair, Zuckerman: "Optimal speedup of Las Vegas
/// algorithms", 1993). `turn` counts from 0.
pub(super) fn luby(turn: u64) -> u64 {
    let mut index = turn + 1;
    loop {
        let full = index + 1;
        if full.is_power_of_two() {
            return full / 2;
        }
        index -= (1 << (63 - full.leading_zeros())) - 1;
    }
}
