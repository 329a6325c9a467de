//! Python face of the `simulator` room: a machine with its memories, and the disassembler.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::interruptible;
use super::pickling::class;
use crate::npu::disassemble::disassemble as disassemble_payload;
use crate::npu::memory::REGION_COUNT;
use crate::npu::{Accelerator, Fault, Machine, NpuError, RunReport};

/// Bytes of the largest memory that is simulated: damaged files ask for any amount, and no memory left is no error.
const MAX_REGION_BYTES: usize = 1 << 29;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyMachine>()?;
    module.add_class::<PyRunReport>()?;
    module.add_function(wrap_pyfunction!(disassemble, module)?)
}

/// `SimulationError` (or `ConfigError` for an unknown accelerator) of `ethoscade.errors`.
pub(super) fn error(py: Python<'_>, error: NpuError) -> PyErr {
    let name = match error {
        NpuError::UnknownAccelerator { .. } => "ConfigError",
        NpuError::Payload(_) | NpuError::Command { .. } | NpuError::Host(_) => "SimulationError",
    };
    let build = || -> PyResult<Bound<'_, PyAny>> {
        let class = py.import("ethoscade.errors")?.getattr(name)?;
        let attributes = PyDict::new(py);
        if let Some(command) = error.command() {
            attributes.set_item("command", command)?;
        }
        class.call((error.to_string(),), Some(&attributes))
    };
    build().map_or_else(|failure| failure, PyErr::from_value)
}

/// The accelerator of that name.
pub(super) fn accelerator_of(py: Python<'_>, name: &str) -> PyResult<&'static Accelerator> {
    Accelerator::by_name(name).ok_or_else(|| {
        let known = Accelerator::all().iter().map(|a| a.name).collect::<Vec<_>>().join(", ");
        error(py, NpuError::UnknownAccelerator { name: name.to_string(), known })
    })
}

fn host(py: Python<'_>, fault: Fault) -> PyErr {
    error(py, NpuError::Host(fault))
}

/// Kind, command index, number of the kernel or transfer, message.
type WarningTuple = (String, usize, usize, String);
/// Kind, first command or None, second command, region or None for SHRAM, start, end, message.
type HazardTuple = (String, Option<usize>, usize, Option<usize>, i64, i64, String);
type ReportTuple = (usize, usize, usize, u64, u64, Vec<WarningTuple>, Vec<HazardTuple>);

/// What one payload did: counts of commands, kernels and transfers, bytes read from and written to regions, findings.
#[pyclass(name = "RunReport", frozen, get_all, module = "ethoscade._core")]
pub struct PyRunReport {
    commands: usize,
    kernels: usize,
    transfers: usize,
    bytes_read: u64,
    bytes_written: u64,
    warnings: Vec<WarningTuple>,
    hazards: Vec<HazardTuple>,
}

impl From<RunReport> for PyRunReport {
    fn from(report: RunReport) -> PyRunReport {
        let RunReport { commands, kernels, transfers, bytes_read, bytes_written, warnings, hazards } = report;
        let warnings =
            warnings.into_iter().map(|w| (w.kind.name().to_string(), w.command, w.operation, w.message)).collect();
        let hazards = hazards
            .into_iter()
            .map(|h| (h.kind.name().to_string(), h.first, h.second, h.region, h.start, h.end, h.message))
            .collect();
        PyRunReport { commands, kernels, transfers, bytes_read, bytes_written, warnings, hazards }
    }
}

#[pymethods]
impl PyRunReport {
    #[new]
    fn new(
        commands: usize,
        kernels: usize,
        transfers: usize,
        bytes_read: u64,
        bytes_written: u64,
        warnings: Vec<WarningTuple>,
        hazards: Vec<HazardTuple>,
    ) -> PyRunReport {
        PyRunReport { commands, kernels, transfers, bytes_read, bytes_written, warnings, hazards }
    }

    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, ReportTuple) {
        let PyRunReport { commands, kernels, transfers, bytes_read, bytes_written, .. } = *self;
        let findings = (self.warnings.clone(), self.hazards.clone());
        let fields = (commands, kernels, transfers, bytes_read, bytes_written, findings.0, findings.1);
        (class::<PyRunReport>(py), fields)
    }

    fn __repr__(&self) -> String {
        let r = self;
        format!(
            "RunReport(commands={}, kernels={}, transfers={}, bytes_read={}, bytes_written={}, warnings={}, hazards={})",
            r.commands,
            r.kernels,
            r.transfers,
            r.bytes_read,
            r.bytes_written,
            r.warnings.len(),
            r.hazards.len()
        )
    }
}

/// What a region is made of.
#[derive(FromPyObject)]
enum RegionSpec {
    /// An uninitialised, writable memory.
    Size(usize),
    /// Read-only constants.
    Constants(PyBackedBytes),
    /// A window of an earlier region: index, offset and size in bytes.
    Window((usize, usize, usize)),
}

/// An NPU with its memories.
#[pyclass(name = "Machine", module = "ethoscade._core")]
pub struct PyMachine {
    machine: Machine,
}

#[pymethods]
impl PyMachine {
    #[new]
    fn new(py: Python<'_>, accelerator: &str, regions: &Bound<'_, PyList>) -> PyResult<Self> {
        let variant = accelerator_of(py, accelerator)?;
        if regions.len() > REGION_COUNT {
            return Err(PyValueError::new_err(format!("{} regions; an NPU has {REGION_COUNT}", regions.len())));
        }
        let mut machine = Machine::new(variant, true);
        for (index, item) in regions.iter().enumerate().filter(|(_, item)| !item.is_none()) {
            let spec = item.extract().map_err(|_| {
                PyTypeError::new_err(format!("region {index} is neither a size, bytes, a window, nor None"))
            })?;
            add_region(&mut machine, index, spec).map_err(|fault| host(py, fault))?;
        }
        Ok(PyMachine { machine })
    }

    /// Name of the accelerator.
    #[getter]
    fn accelerator(&self) -> &'static str {
        self.machine.accelerator().name
    }

    /// Writes bytes; they count as initialised and touched.
    fn write(&mut self, py: Python<'_>, region: usize, offset: i64, data: PyBackedBytes) -> PyResult<()> {
        let target = self.machine.memory.write("the host", region, offset, data.len());
        target.map_err(|fault| host(py, fault))?.copy_from_slice(&data);
        if let Some((buffer, base, _)) = self.machine.memory.window(region) {
            let start = base.saturating_add_signed(offset as isize);
            self.machine.inputs.host_write(buffer, start, start + data.len());
        }
        Ok(())
    }

    /// Watches bytes `[start, end)`, a network input that the host has written, for being overwritten too early.
    fn watch_input(&mut self, py: Python<'_>, region: usize, start: i64, end: i64) -> PyResult<()> {
        let length = length(py, region, start, end)?;
        self.machine.memory.peek("a network input", region, start, length).map_err(|fault| host(py, fault))?;
        if let Some((buffer, base, _)) = self.machine.memory.window(region) {
            let start = base.saturating_add_signed(start as isize);
            self.machine.inputs.watch(buffer, start, start + length);
        }
        Ok(())
    }

    /// Bounds what one payload may cost, in multiply-accumulates, elements and bytes moved.
    fn limit_work(&mut self, limit: u64) {
        self.machine.work_limit = limit;
    }

    /// Changes what the hazards' shadow assumes of the hardware.
    #[pyo3(signature = (*, blockdep_spans_kernels=None, sub_kernels_are_jobs=None, kernels_write_in_order=None))]
    fn assume(
        &mut self,
        blockdep_spans_kernels: Option<bool>,
        sub_kernels_are_jobs: Option<bool>,
        kernels_write_in_order: Option<bool>,
    ) {
        let rules = &mut self.machine.rules;
        rules.blockdep_spans_kernels = blockdep_spans_kernels.unwrap_or(rules.blockdep_spans_kernels);
        rules.sub_kernels_are_jobs = sub_kernels_are_jobs.unwrap_or(rules.sub_kernels_are_jobs);
        rules.kernels_write_in_order = kernels_write_in_order.unwrap_or(rules.kernels_write_in_order);
    }

    /// Reads bytes; they count as touched, initialised or not.
    fn read<'py>(&mut self, py: Python<'py>, region: usize, offset: i64, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        let memory = &mut self.machine.memory;
        memory.touch("the host", region, offset, size).map_err(|fault| host(py, fault))?;
        Ok(PyBytes::new(py, memory.peek("the host", region, offset, size).map_err(|fault| host(py, fault))?))
    }

    /// Counts bytes `[start, end)` as touched.
    fn touch(&mut self, py: Python<'_>, region: usize, start: i64, end: i64) -> PyResult<()> {
        let length = length(py, region, start, end)?;
        self.machine.memory.touch("the host", region, start, length).map_err(|fault| host(py, fault))
    }

    /// Sets whether bytes `[start, end)` count as initialised.
    #[pyo3(signature = (region, start, end, value=true))]
    fn mark_initialised(&mut self, py: Python<'_>, region: usize, start: i64, end: i64, value: bool) -> PyResult<()> {
        let length = length(py, region, start, end)?;
        self.machine.memory.set_initialised(region, start, length, value).map_err(|fault| host(py, fault))
    }

    /// The first byte of `[start, end)` never written, or None.
    fn find_uninitialised(&self, py: Python<'_>, region: usize, start: i64, end: i64) -> PyResult<Option<usize>> {
        let length = length(py, region, start, end)?;
        self.machine.memory.find_uninitialised(region, start, length).map_err(|fault| host(py, fault))
    }

    /// Size of a region in bytes, None if it was not given.
    fn size(&self, region: usize) -> Option<usize> {
        self.machine.memory.window(region).map(|(_, _, size)| size)
    }

    /// One past the highest byte of a region that was touched.
    fn touched_end(&self, region: usize) -> usize {
        self.machine.memory.touched_end(region)
    }

    /// Runs a payload to its end, without the GIL. What stops it leaves the machine as it was then.
    fn run(&mut self, py: Python<'_>, payload: PyBackedBytes) -> PyResult<PyRunReport> {
        let machine = &mut self.machine;
        let report = interruptible::run(py, None, || machine.run(&payload))?.map_err(|e| error(py, e))?;
        Ok(PyRunReport::from(report))
    }

    fn __repr__(&self) -> String {
        let sizes: Vec<_> = (0..REGION_COUNT).filter_map(|r| self.size(r).map(|s| format!("{r}: {s}"))).collect();
        format!("Machine({}, regions={{{}}})", self.machine.accelerator().name, sizes.join(", "))
    }
}

fn length(py: Python<'_>, region: usize, start: i64, end: i64) -> PyResult<usize> {
    end.checked_sub(start)
        .and_then(|length| usize::try_from(length).ok())
        .ok_or_else(|| host(py, Fault::OutOfBounds { what: "the host", region, start, end, size: 0 }))
}

fn add_region(machine: &mut Machine, index: usize, spec: RegionSpec) -> Result<(), Fault> {
    let memory = &mut machine.memory;
    let (buffer, offset, size) = match spec {
        RegionSpec::Size(size) if size > MAX_REGION_BYTES => {
            let what = "bytes in a region";
            return Err(Fault::TooLarge { what, amount: size as u64, limit: MAX_REGION_BYTES as u64 });
        }
        RegionSpec::Size(size) => (memory.add_buffer(vec![0; size], true, false), 0, size),
        RegionSpec::Constants(bytes) => (memory.add_buffer(bytes.to_vec(), false, true), 0, bytes.len()),
        RegionSpec::Window((region, offset, size)) => {
            let what = "a region's window";
            let (buffer, base, outer) = memory.window(region).ok_or(Fault::NoRegion { what, region })?;
            if offset.checked_add(size).is_none_or(|end| end > outer) {
                let (start, end) = (offset as i64, offset.saturating_add(size) as i64);
                return Err(Fault::OutOfBounds { what, region, start, end, size: outer });
            }
            (buffer, base + offset, size)
        }
    };
    memory.set_region(index, buffer, offset, size)
}

/// The payload's command stream as text, one line per command.
#[pyfunction]
fn disassemble(py: Python<'_>, payload: PyBackedBytes) -> PyResult<Vec<String>> {
    py.detach(|| disassemble_payload(&payload)).map_err(|e| error(py, e))
}
