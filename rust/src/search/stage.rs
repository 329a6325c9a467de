//! Stages of a search, for reports of progress. No result depends on them.

use crate::util::interrupt;

/// A step of a search that may take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The first passes over all Plans.
    EnumerateCoarsely,
    /// The passes that follow cheap ones.
    EnumerateFinely,
    /// The pass for the fewest bytes.
    EnumerateForFewestBytes,
    /// Programs of all candidates are estimated.
    Estimate,
    /// The candidates with the least live bytes are placed.
    FindFloor,
    /// Candidates are placed.
    Place,
    /// Copies are issued into gaps, and what that promises is placed.
    Fill,
}

impl Stage {
    /// Share of a search's time, in per cent from its begin, measured on large networks.
    fn percent(self) -> (u64, u64) {
        match self {
            Stage::EnumerateCoarsely => (0, 20),
            Stage::EnumerateFinely => (20, 45),
            Stage::EnumerateForFewestBytes => (45, 55),
            Stage::Estimate => (55, 60),
            Stage::FindFloor => (60, 70),
            Stage::Place => (70, 85),
            Stage::Fill => (85, 100),
        }
    }

    /// What `work` returns; [`interrupt::reach`] counts its steps in this stage meanwhile.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let (begin, end) = self.percent();
        interrupt::portion(begin, end, 100, work)
    }
}
