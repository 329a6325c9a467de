//! Python face of the simulator's dataflow: who made what an operation of a payload reads, and what is live at it.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use super::interruptible;
use super::simulator::error;
use crate::npu::dataflow::{dataflow, Maker, Piece};
use crate::npu::memory::REGION_COUNT;
use crate::npu::{Accelerator, NpuError};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(follow_payload, module)?)
}

/// Memory, first byte, one past the last.
type PieceRow = (usize, i64, i64);
/// Command, makers, and of each memory the bytes that are live and one past the highest.
type OperationRow = (usize, Vec<i64>, Vec<(u64, i64)>);

/// Operations, makers of the pieces wanted, pieces that must be there before.
type FlowRow = (Vec<OperationRow>, Vec<Vec<i64>>, Vec<PieceRow>);

/// Follows a payload's bytes.
#[pyfunction]
fn follow_payload(
    py: Python<'_>,
    payload: PyBackedBytes,
    accelerator: &str,
    regions: [Option<usize>; REGION_COUNT],
    given: Vec<PieceRow>,
    wanted: Vec<PieceRow>,
) -> PyResult<FlowRow> {
    let variant = Accelerator::by_name(accelerator).ok_or_else(|| {
        let known = Accelerator::all().iter().map(|a| a.name).collect::<Vec<_>>().join(", ");
        error(py, NpuError::UnknownAccelerator { name: accelerator.to_string(), known })
    })?;
    let memories = regions.iter().flatten().max().map_or(0, |most| most + 1);
    if memories > REGION_COUNT || given.iter().chain(&wanted).any(|piece| piece.0 >= memories) {
        return Err(PyValueError::new_err(format!("a memory that no region is in; there are {memories} of at most 8")));
    }
    let pieces = |rows: Vec<PieceRow>| -> Vec<Piece> {
        rows.into_iter().map(|(memory, start, end)| Piece { memory, start, end }).collect()
    };
    let (given, wanted) = (pieces(given), pieces(wanted));
    let work = || dataflow(&payload, variant, regions, memories, &given, &wanted);
    let found = interruptible::run(py, None, work)?.map_err(|fault| error(py, fault))?;
    let operations = found.operations.into_iter().map(|o| (o.command, numbers(&o.makers), o.live)).collect();
    let before = found.before.iter().map(|piece| (piece.memory, piece.start, piece.end)).collect();
    Ok((operations, found.wanted.iter().map(|makers| numbers(makers)).collect(), before))
}

/// Operations by their number, what was given as -1 and downwards.
fn numbers(makers: &[Maker]) -> Vec<i64> {
    let number = |maker: &Maker| match *maker {
        Maker::Operation(number) => number as i64,
        Maker::Given(number) => -1 - number as i64,
    };
    makers.iter().map(number).collect()
}
