//! One enumeration of Plans: how finely, under which cost of copies, for which sizes of the arena.
//!
//! Owns these parameters. `search::passes` decides which passes answer a question.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

use crate::plans::options::{CopyCost, Options};

/// Sizes of an arena, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaRange {
    /// Plans of fewer bytes are worth no more than Plans of this size.
    pub least_bytes: u64,
    /// Cascades whose rolling buffers, staged constants and last stripe take more bytes are dropped.
    pub most_bytes: u64,
}

impl ArenaRange {
    /// All sizes.
    pub const ALL: ArenaRange = ArenaRange { least_bytes: 0, most_bytes: u64::MAX };
}

/// Parameters of one enumeration of Plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// As `Options::resolution`.
    pub resolution: u64,
    /// As `Options::max_points`.
    pub max_points: usize,
    /// What copies of constants are taken to cost.
    pub copies: CopyCost,
    /// Sizes of the arena.
    pub range: ArenaRange,
}

impl Pass {
    /// The first pass of the options, for all sizes of the arena.
    pub fn new(options: &Options, copies: CopyCost) -> Pass {
        let Options { resolution, max_points, .. } = *options;
        Pass { resolution, max_points, copies, range: ArenaRange::ALL }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::model::ids::PartId;
    use crate::plans::enumerate;
    use crate::plans::rolling_rows::RowTable;
    use crate::testing::worked_example::worked_example;

    /// Rows (1, 1, 1) and (2, 1, 1) alone have buffers of at most 1,400 bytes: 17 and 21 times 64.
    #[test]
    fn example() {
        let (graph, options) = (worked_example(), Options::default());
        let range = ArenaRange { most_bytes: 1400, ..ArenaRange::ALL };
        let pass = Pass { range, ..Pass::new(&options, CopyCost::Serial) };
        let table = enumerate(&graph, &options, &pass, &mut Costs::default(), &mut RowTable::default());
        let plans = table.by_last[PartId(2)][2].iter().map(|plan| table.plan(PartId(0), PartId(2), plan));
        let rows: Vec<Vec<i64>> = plans.filter(|plan| plan.tiling.tiles == 1).map(|plan| plan.stripes).collect();
        assert_eq!(rows, [[1, 1, 1], [2, 1, 1]]);
    }
}
