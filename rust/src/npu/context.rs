//! What kernels work on, and the findings that they report without stopping the run.

use super::accelerator::Accelerator;
use super::error::{Warning, WarningKind};
use super::memory::{Memory, REGION_COUNT};
use super::weight_cache::WeightCache;

/// Most findings that a report keeps.
const MAX_WARNINGS: usize = 1000;

/// What a kernel works on.
pub(super) struct Context<'m> {
    pub memory: &'m mut Memory,
    pub weights: &'m mut WeightCache,
    pub accelerator: &'m Accelerator,
    pub findings: &'m mut Findings,
}

/// Findings of the command in progress and of those before.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub command: usize,
    /// Kernels and transfers that the stream has started before this command.
    pub operation: usize,
    pub warnings: Vec<Warning>,
}

impl Findings {
    fn add(&mut self, kind: WarningKind, message: String) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Warning { kind, command: self.command, operation: self.operation, message });
        }
    }

    /// A sum left the accumulator's range, and the output shows it.
    pub fn accumulator_overflow(&mut self, bits: u32) {
        let message =
            format!("a sum does not fit the {bits}-bit accumulator, and the output depends on what becomes of it");
        self.add(WarningKind::AccumulatorOverflow, message);
    }

    /// A value left the range of a 32-bit OFM.
    pub fn saturation(&mut self) {
        self.add(WarningKind::Saturation, "a value does not fit the 32-bit OFM and was saturated".to_string());
    }

    /// A byte was read that was never written.
    pub fn uninitialised(&mut self, what: &str, place: Option<(usize, usize, usize)>) {
        if let Some((region, byte, _)) = place {
            let place = if region == REGION_COUNT { "SHRAM".to_string() } else { format!("region {region}") };
            self.add(
                WarningKind::UninitialisedRead,
                format!("{what} reads byte {byte} of {place}, which nobody wrote"),
            );
        }
    }
}
