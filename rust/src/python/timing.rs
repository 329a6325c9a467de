//! Python face of the `timing` room: a payload in, times and bytes of each operation and in total out.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use super::interruptible;
use super::simulator::{accelerator_of, error};
use crate::npu::memory::REGION_COUNT;
use crate::npu::operation::{Elementwise, KernelKind};
use crate::npu::timing::report::{bound, PortTotal};
use crate::npu::timing::traffic::Load;
use crate::npu::timing::{simulate, Bound, Event, Port, Rules, System, Timing, What};

pub(super) fn register(module: &pyo3::Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(time_payload, module)?)
}

/// Name, bandwidth (numerator, denominator), read latency, write latency, burst bytes.
type PortRow = (String, u32, u32, u32, u32, u32);
/// OFM, IFM, block, BLOCKDEP.
type ShapeRow = (Size, Size, Size, u32);
/// Height, width, depth.
type Size = (u32, u32, u32);
/// MACs, blocks, jobs, and in cycles: MAC engine, output stage, pipeline, fill, drain, alone, hidden.
type CostRow = (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);
/// Bytes read and written, and the cycles that they take the memory, wasted parts of bursts included.
type LoadRow = (u64, u64, u64);
/// Kind, command, bound, (reached, issued, start, end), load by memory, kernel's shape and cost.
type EventRow = (&'static str, usize, String, (u64, u64, u64, u64), Vec<LoadRow>, Option<(ShapeRow, CostRow)>);
/// Kernel reads and writes, DMA reads and writes, command bytes, busy cycles.
type PortTotalRow = (u64, u64, u64, u64, u64, u64);
/// Cycles, kernels busy, DMA busy, front end busy, MACs, MAC engine busy, least MAC cycles, output stage busy,
/// constant bytes, lower bound.
type TotalsRow = (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);

/// Plays a payload: (totals, totals by memory, events).
#[pyfunction]
fn time_payload(
    py: Python<'_>,
    payload: PyBackedBytes,
    accelerator: &str,
    memories: Vec<PortRow>,
    regions: [usize; REGION_COUNT],
    commands: usize,
    rules: Vec<(String, u32)>,
) -> PyResult<(TotalsRow, Vec<PortTotalRow>, Vec<EventRow>)> {
    let variant = accelerator_of(py, accelerator)?;
    let ports = memories.into_iter().map(port).collect();
    let system = System::new(ports, regions, commands).map_err(PyValueError::new_err)?;
    let mut switches = Rules::default();
    for (name, value) in &rules {
        switches.set(name, *value).map_err(PyValueError::new_err)?;
    }
    let played = interruptible::run(py, None, || simulate(&payload, variant, &system, &switches))?;
    let timing = played.map_err(|e| error(py, e))?;
    let rows = timing.events.iter().map(|event| event_row(event, &system)).collect();
    Ok((totals_row(&timing), timing.totals.ports.iter().map(port_row).collect(), rows))
}

fn port((name, numerator, denominator, read_latency, write_latency, burst_bytes): PortRow) -> Port {
    Port { name, bytes_per_cycle: (numerator, denominator), read_latency, write_latency, burst_bytes }
}

fn totals_row(timing: &Timing) -> TotalsRow {
    let t = &timing.totals;
    [
        t.cycles.ceil(),
        t.kernel_busy.ceil(),
        t.dma_busy.ceil(),
        t.front_busy.ceil(),
        t.macs,
        t.mac_busy.ceil(),
        t.mac_ideal.ceil(),
        t.output_busy.ceil(),
        t.constant_bytes,
        t.lower_bound.ceil(),
    ]
    .into()
}

fn port_row(p: &PortTotal) -> PortTotalRow {
    [p.kernel_read, p.kernel_written, p.dma_read, p.dma_written, p.commands, p.busy.ceil()].into()
}

fn event_row(event: &Event, system: &System) -> EventRow {
    let moved = |loads: &[Load]| -> Vec<LoadRow> {
        loads.iter().zip(system.ports()).map(|(load, port)| (load.read, load.written, load.time(port).ceil())).collect()
    };
    let times = [event.reached, event.issued, event.start, event.end].map(|time| time.ceil());
    let (kind, loads, kernel) = match &event.what {
        What::Kernel(kernel) => {
            let (shape, c) = (&kernel.0, &kernel.1);
            let cycles = [c.mac, c.output, c.pipeline, c.fill, c.drain, c.alone, event.hidden].map(|time| time.ceil());
            let mut cost = [c.macs, c.blocks, c.jobs, 0, 0, 0, 0, 0, 0, 0];
            cost[3..].copy_from_slice(&cycles);
            (
                kernel_name(shape.kind),
                moved(&c.loads),
                Some(((shape.ofm.into(), shape.ifm.into(), shape.block.into(), shape.blockdep), cost.into())),
            )
        }
        What::Dma(dma) => ("dma", moved(&dma.loads), None),
        What::Wait(what) => (*what, vec![(0, 0, 0); system.ports().len()], None),
    };
    (kind, event.command, bound_name(bound(event, system), system), times.into(), loads, kernel)
}

fn bound_name(bound: Bound, system: &System) -> String {
    match bound {
        Bound::Compute => "compute".to_string(),
        Bound::Output => "output".to_string(),
        Bound::Memory(index) => system.ports()[index].name.clone(),
        Bound::Latency => "latency".to_string(),
        Bound::Waiting => "waiting".to_string(),
    }
}

fn kernel_name(kind: KernelKind) -> &'static str {
    match kind {
        KernelKind::Conv => "conv",
        KernelKind::Depthwise => "depthwise",
        KernelKind::MaxPool => "max_pool",
        KernelKind::AveragePool => "average_pool",
        KernelKind::ReduceSum => "reduce_sum",
        KernelKind::Elementwise(function) => match function {
            Elementwise::Mul => "mul",
            Elementwise::Add => "add",
            Elementwise::Sub => "sub",
            Elementwise::Min => "minimum",
            Elementwise::Max => "maximum",
            Elementwise::LeakyRelu => "leaky_relu",
            Elementwise::Abs => "abs",
            Elementwise::Clz => "clz",
            Elementwise::Shr => "shr",
            Elementwise::Shl => "shl",
        },
    }
}
