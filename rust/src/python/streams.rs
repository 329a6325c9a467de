//! Command streams as Python compares them: what an emitted one holds, and what the planner predicted of it.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use super::pickling::class;
use super::simulator::error;
use crate::cost::ethosu::stream::Sent;
use crate::npu::decode::{decode, Command, Opcode};
use crate::npu::operation::KernelKind;
use crate::npu::payload;
use crate::npu::registers::{Register, RegisterValue};
use crate::npu::timing::walk::Action;
use crate::npu::NpuError;

/// Name, parameter, words, registers.
type CommandTuple = (String, u32, u64, Vec<(String, u64)>);

/// One operation of a command stream, with the registers that are set before it.
#[derive(PartialEq, Eq, Hash)]
#[pyclass(frozen, get_all, eq, hash, module = "ethoscade._core")]
pub struct StreamCommand {
    name: String,
    parameter: u32,
    words: u64,
    registers: Vec<(String, u64)>,
}

#[pymethods]
impl StreamCommand {
    #[new]
    fn new(name: String, parameter: u32, words: u64, registers: Vec<(String, u64)>) -> StreamCommand {
        StreamCommand { name, parameter, words, registers }
    }
    fn __reduce__(&self, py: Python<'_>) -> (Py<PyAny>, CommandTuple) {
        (class::<StreamCommand>(py), (self.name.clone(), self.parameter, self.words, self.registers.clone()))
    }
    fn __repr__(&self) -> String {
        let set: Vec<String> = self.registers.iter().map(|(name, value)| format!("{name}={value:#x}")).collect();
        format!("StreamCommand({} {}, {} words: {})", self.name, self.parameter, self.words, set.join(" "))
    }
}

impl From<&Sent> for StreamCommand {
    fn from(sent: &Sent) -> StreamCommand {
        let (opcode, parameter) = match &sent.command.action {
            Action::Kernel(kernel) => of_kernel(kernel.0.kind),
            Action::Dma(_) => (Opcode::DmaStart, 0),
            Action::KernelWait(count) => (Opcode::KernelWait, *count),
            Action::DmaWait(count) => (Opcode::DmaWait, *count),
            Action::Nothing => (Opcode::Irq, 0),
            Action::Stop => (Opcode::Stop, 0xFFFF),
        };
        command(opcode, parameter, sent.command.words, sent.registers.clone())
    }
}

fn of_kernel(kind: KernelKind) -> (Opcode, u32) {
    match kind {
        KernelKind::Conv => (Opcode::Conv, 0),
        KernelKind::Depthwise => (Opcode::Depthwise, 0),
        KernelKind::MaxPool => (Opcode::Pool, 0),
        KernelKind::AveragePool => (Opcode::Pool, 1),
        KernelKind::ReduceSum => (Opcode::Pool, 2),
        KernelKind::Elementwise(function) => (Opcode::Elementwise, function as u32),
    }
}

/// A command with its registers in the order of their codes, whatever the order in which they are set.
fn command(opcode: Opcode, parameter: u32, words: u64, mut registers: Vec<(Register, u64)>) -> StreamCommand {
    registers.sort_by_key(|&(register, _)| register as usize);
    let registers = registers.into_iter().map(|(register, value)| (register.name().to_string(), value)).collect();
    StreamCommand { name: opcode.name().to_string(), parameter, words, registers }
}

fn commands(payload: &[u8]) -> Result<Vec<Command>, NpuError> {
    decode(&payload::parse(payload)?.stream)
}

/// The operations of a payload.
#[pyfunction]
fn read_stream(py: Python<'_>, payload: PyBackedBytes) -> PyResult<Vec<StreamCommand>> {
    let decoded = commands(&payload).map_err(|fault| error(py, fault))?;
    let (mut found, mut words, mut registers) = (Vec::new(), 0, Vec::new());
    for decoded in decoded {
        match decoded {
            Command::Set { register, value: RegisterValue { low, high } } => {
                words += 1 + u64::from(register.is_wide());
                registers.push((register, u64::from(low) | u64::from(high) << 32));
            }
            Command::Operation { opcode, parameter } => {
                found.push(command(opcode, u32::from(parameter), words + 1, std::mem::take(&mut registers)));
                words = 0;
            }
        }
    }
    Ok(found)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<StreamCommand>()?;
    module.add_function(wrap_pyfunction!(read_stream, module)?)
}
