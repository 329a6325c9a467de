//! Branching rules: which section is branched on and which block is tried first. Owns the list of tactics.
//!
//! No single order wins. Some of the public hard instances take a few hundred nodes with wide blocks first and millions
//! with large blocks first; for others it is the reverse. So short runs with different tactics alternate, and each restart
//! perturbs the order (Gomes, Selman, Kautz: "Boosting combinatorial search through randomization", AAAI 1998).

use super::space::{Space, SpaceBlock};
use crate::usmp::random::Random;

/// How the section to branch on is chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// The section with the fewest branches.
    Fewest,
    /// The section with the fewest branches per failure weight (dom/wdeg).
    ///
    /// Boussemart and others: "Boosting systematic search by weighting constraints", ECAI 2004.
    FailureWeighted,
    /// The section with the fewest bytes to spare; of equals the one with the fewest branches.
    Tight,
    /// The section with the lowest floor; of equals the one with the fewest branches.
    Lowest,
}

/// The key by which blocks are tried, largest first.
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
    (Rule::FailureWeighted, BlockOrder::Width),
    (Rule::FailureWeighted, BlockOrder::Size),
    (Rule::Tight, BlockOrder::Area),
    (Rule::Lowest, BlockOrder::Width),
    (Rule::FailureWeighted, BlockOrder::Total),
    (Rule::Lowest, BlockOrder::Size),
];

/// Length of the list of tactics; it repeats, each time perturbed differently.
pub(super) const ROUND: u64 = TACTICS.len() as u64;
/// A perturbation multiplies a block's key by 1 to 1.5.
const NOISE_PERCENT: usize = 50;

/// How one run branches.
pub(super) struct Tactic {
    pub rule: Rule,
    /// By block, smallest first.
    pub rank: Vec<u32>,
}

impl Tactic {
    /// The tactic of the `turn`-th run; the first round is not perturbed.
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
