//! What is assumed of the hardware where it is not certain. Owns the assumptions; what follows from them is others' business.

/// Assumptions about what may run at the same time. The defaults are the most cautious under which Vela's streams are
/// right; [`Rules::blockdep_spans_kernels`] goes beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Kernels that are in flight at most; starting one more waits for the oldest.
    pub kernels_in_flight: usize,
    /// Transfers that are in flight at most on U55.
    pub transfers_in_flight_u55: usize,
    /// Transfers that are in flight at most on U65.
    pub transfers_in_flight_u65: usize,
    /// Whether BLOCKDEP counts jobs of all kernels before, instead of only those of the kernel immediately before, and
    /// does so beyond [`Rules::kernels_in_flight`].
    pub blockdep_spans_kernels: bool,
    /// Whether each 8x8 part of a larger kernel is a job. If it is not, the first jobs of a kernel read more. Vela's
    /// softmax of many classes, a pool over all of a row, is right only if it is.
    pub sub_kernels_are_jobs: bool,
    /// Whether the kernels' pipeline keeps reads and writes in order, so that only reads after writes can go wrong
    /// between kernels. Vela relies on it.
    pub kernels_write_in_order: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            kernels_in_flight: 2,
            transfers_in_flight_u55: 1,
            transfers_in_flight_u65: 2,
            blockdep_spans_kernels: false,
            sub_kernels_are_jobs: true,
            kernels_write_in_order: true,
        }
    }
}
