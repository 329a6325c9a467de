//! Python face of devices: an Ethos-U's target, or a description, becomes the core's device.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use crate::cost::described_device;
use crate::model::device::{DescribedUnit, Device, Dma, Engine, Unit};
use crate::model::memory::{Memories, Pool};
use crate::model::operation::OperationKind;
use crate::npu::timing::Port;

#[derive(FromPyObject)]
struct MemorySpec {
    name: String,
    bytes_per_cycle: (u32, u32),
    read_latency: u32,
    write_latency: u32,
    burst_bytes: u32,
    size_bytes: Option<u64>,
}

impl MemorySpec {
    fn build(self) -> Pool {
        let MemorySpec { name, bytes_per_cycle, read_latency, write_latency, burst_bytes, size_bytes } = self;
        let port = Port { name, bytes_per_cycle, read_latency, write_latency, burst_bytes };
        Pool { port, limit_bytes: size_bytes }
    }
}

#[derive(FromPyObject)]
struct MemoriesSpec {
    tensors: Vec<MemorySpec>,
    constants: MemorySpec,
    inputs: Option<MemorySpec>,
}

impl MemoriesSpec {
    fn build(self) -> PyResult<Memories> {
        let tensors = self.tensors.into_iter().map(MemorySpec::build).collect();
        let inputs = self.inputs.map(MemorySpec::build);
        Memories::with_inputs(tensors, self.constants.build(), inputs).map_err(PyValueError::new_err)
    }
}

#[derive(FromPyObject)]
struct AcceleratorSpec {
    name: String,
}

/// What the planner plans for.
pub(super) enum DeviceSpec<'py> {
    EthosU(EthosUSpec),
    DescribedUnit(RatedSpec<'py>),
}

/// By its fields, not by trying one after the other: an interrupt in the first try would be lost.
impl<'py> FromPyObject<'_, 'py> for DeviceSpec<'py> {
    type Error = PyErr;

    fn extract(device: Borrowed<'_, 'py, PyAny>) -> PyResult<DeviceSpec<'py>> {
        if device.hasattr("engines")? {
            return device.extract().map(DeviceSpec::DescribedUnit);
        }
        device.extract().map(DeviceSpec::EthosU)
    }
}

#[derive(FromPyObject)]
pub(super) struct EthosUSpec {
    accelerator: AcceleratorSpec,
    memories: MemoriesSpec,
}

#[derive(FromPyObject)]
pub(super) struct RatedSpec<'py> {
    engines: Vec<EngineSpec<'py>>,
    memories: MemoriesSpec,
    buffer_bytes: Option<u64>,
    dma: Option<DmaSpec>,
}

#[derive(FromPyObject)]
struct EngineSpec<'py> {
    name: String,
    rates: Bound<'py, PyMapping>,
    granule: [i64; 4],
    operation_cycles: u64,
    instruction_cycles: u64,
}

#[derive(FromPyObject)]
struct DmaSpec {
    start_cycles: u64,
    in_flight: u32,
}

impl DeviceSpec<'_> {
    pub(super) fn build(self) -> PyResult<Device> {
        match self {
            DeviceSpec::EthosU(spec) => {
                Device::ethos_u(&spec.accelerator.name, spec.memories.build()?).map_err(PyValueError::new_err)
            }
            DeviceSpec::DescribedUnit(spec) => Ok(Device { unit: Unit::Described(spec.build()?) }),
        }
    }
}

impl RatedSpec<'_> {
    fn build(self) -> PyResult<DescribedUnit> {
        let engines = self.engines.into_iter().enumerate().map(|(index, engine)| engine.build(index));
        let unit = DescribedUnit {
            engines: engines.collect::<PyResult<_>>()?,
            memories: self.memories.build()?,
            buffer_bytes: self.buffer_bytes,
            dma: self.dma.map(|DmaSpec { start_cycles, in_flight }| Dma { start_cycles, in_flight }),
        };
        described_device::verify(&unit).map_err(PyValueError::new_err)?;
        Ok(unit)
    }
}

impl EngineSpec<'_> {
    fn build(self, index: usize) -> PyResult<Engine> {
        let mut rates = [None; OperationKind::COUNT];
        for entry in self.rates.items()?.iter() {
            let (name, rate): (String, (u32, u32)) = entry.extract()?;
            let kind = kind_of(&name).ok_or_else(|| {
                let known: Vec<&str> = OperationKind::ALL.iter().map(|kind| kind.name()).collect();
                let (engine, known) = (&self.name, known.join(", "));
                PyValueError::new_err(format!("engines[{index}].rates of '{engine}' has '{name}'; known are {known}"))
            })?;
            rates[kind as usize] = Some(rate);
        }
        let EngineSpec { name, granule, operation_cycles, instruction_cycles, .. } = self;
        Ok(Engine { name, rates, granule, operation_cycles, instruction_cycles })
    }
}

/// A kind of operation by its name.
pub(super) fn kind_of(name: &str) -> Option<OperationKind> {
    OperationKind::ALL.into_iter().find(|kind| kind.name() == name)
}

/// Raise `ValueError` with the field of a device description that makes no sense.
#[pyfunction]
fn check_device(device: RatedSpec<'_>) -> PyResult<()> {
    device.build().map(|_| ())
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(check_device, module)?)
}
