//! Python face of the `simulator` room.

use pyo3::prelude::*;

pub(super) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
