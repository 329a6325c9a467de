//! Python face of the `weights` room: a volume in, the length of its stream out, and its bytes when they are wanted.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use super::interruptible;
use crate::weights::error::WeightError;
use crate::weights::order::{Elements, Order, Volume};
use crate::weights::Stream;

/// Volumes of fewer bytes take a few milliseconds, and need no way to stop them.
const SHORT: usize = 1 << 16;

/// Elements as they are stored, what they are, and what stands for 0.
type VolumeRow = (PyBackedBytes, String, i32);
/// Shape, block depth, micro-block depth, whether it is depthwise, part-kernel-first, for an input of 16 bits, dilation.
type OrderRow = ([usize; 4], usize, usize, bool, bool, bool, [usize; 2]);

/// A planned stream.
#[pyclass(frozen, module = "ethoscade._core", skip_from_py_object)]
struct WeightStream(Stream);

#[pymethods]
impl WeightStream {
    #[getter]
    fn length_bytes(&self) -> usize {
        self.0.length_bytes()
    }

    /// The bytes of the stream, of the volume that it was planned for.
    fn write<'py>(&self, py: Python<'py>, volume: VolumeRow) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = worked(py, &volume, |volume| self.0.write(volume))?;
        Ok(PyBytes::new(py, &bytes))
    }
}

/// Plans the stream of a volume for one core, or for one of several.
#[pyfunction]
#[pyo3(signature = (volume, order, core = (0, 1)))]
fn plan_weights(py: Python<'_>, volume: VolumeRow, order: OrderRow, core: (usize, usize)) -> PyResult<WeightStream> {
    let (shape, block_depth, micro_depth, depthwise, part_kernel, wide_input, dilation) = order;
    let order =
        Order { shape, block_depth, micro_depth, depthwise, part_kernel, wide_input, dilation, core: core.into() };
    worked(py, &volume, |volume| Stream::of(order, volume)).map(WeightStream)
}

fn worked<T: Send>(
    py: Python<'_>,
    (bytes, dtype, zero_point): &VolumeRow,
    work: impl FnOnce(&Volume<'_>) -> Result<T, WeightError> + Send,
) -> PyResult<T> {
    let elements = match dtype.as_str() {
        "uint8" => Elements::Unsigned(bytes),
        "int8" => Elements::Signed(bytes),
        _ => Elements::Wide(bytes),
    };
    let volume = Volume { elements, zero_point: *zero_point };
    let done =
        if bytes.len() < SHORT { py.detach(|| work(&volume)) } else { interruptible::run(py, None, || work(&volume))? };
    done.map_err(|fault| error(py, &fault))
}

fn error(py: Python<'_>, error: &WeightError) -> PyErr {
    let build = || py.import("ethoscade.errors")?.getattr("CodegenError")?.call1((error.to_string(),));
    build().map_or_else(|failure| failure, PyErr::from_value)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(plan_weights, module)?)
}
