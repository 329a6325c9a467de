//! Python face of the `usmp` room.

use pyo3::prelude::*;

pub(super) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}

/// Arena bytes of buffers given as (size in bytes, first step, one past the last step).
pub(super) fn arena_bytes(buffers: impl Iterator<Item = (u64, u32, u32)>) -> u64 {
    buffers.map(|b| b.0).sum()
}
