//! Python face of the scheduler: Python's problem dataclasses become owned graphs, results become frozen classes.
//!
//! `graph` and `plan` say what crosses, `search` and `program` what is asked of them, `error` what is raised; here are the
//! questions about a single Part.

mod error;
mod graph;
mod plan;
mod program;
mod search;

use pyo3::prelude::*;

use super::devices::DeviceSpec;
use crate::cost::{choose_encoding, floor};
use crate::model::ids::{Id, PartId};
use crate::model::operation::WeightOrder;
use error::SchedulingError;
use graph::{layout_of, CascaderGraph, KernelSpec, PropagatorSpec};

/// (OFM block depth, part-kernel-first) of weights to be read in place, and of weights to be staged; None if nothing fits.
#[pyfunction]
fn choose_weight_encoding(
    device: DeviceSpec<'_>,
    kernel: KernelSpec,
    plane: [i64; 2],
    layouts: (String, String),
) -> PyResult<Option<[WeightOrder; 2]>> {
    let layouts = [layout_of(&layouts.0)?, layout_of(&layouts.1)?];
    Ok(choose_encoding(&device.build()?, &kernel.build()?, plane, layouts))
}

/// Cycles, and (depth, pixels) of blocks.
type FloorTuple = (u64, u64, u64, u64, Vec<(i64, i64)>);

/// What an NPU Part costs at least in any schedule: cycles of the MAC engine, of the MAC engine in proportion to the output,
/// of the output stage, and of the Part in one piece; and by depth the most pixels of its blocks, where it has weights. None
/// if it is opaque or the device is described by data.
#[pyfunction]
fn part_floor(graph: &CascaderGraph, part: u32) -> PyResult<Option<FloorTuple>> {
    let part = PartId(part);
    if part.index() >= graph.graph.parts.len() {
        return Err(SchedulingError::new_err(format!("there is no part {part}")));
    }
    Ok(floor(&graph.graph, part).map(|floor| (floor.mac, floor.dense, floor.output, floor.in_one_piece, floor.planes)))
}

/// Input stripe shape and start of a propagator, before clamping.
#[pyfunction]
fn propagate(propagator: PropagatorSpec, shape: [i64; 4], start: [i64; 4]) -> ([i64; 4], [i64; 4]) {
    let propagator = propagator.build();
    (propagator.shape(shape), propagator.start(start))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("SchedulingError", module.py().get_type::<SchedulingError>())?;
    module.add_class::<CascaderGraph>()?;
    search::register(module)?;
    program::register(module)?;
    module.add_function(wrap_pyfunction!(choose_weight_encoding, module)?)?;
    module.add_function(wrap_pyfunction!(part_floor, module)?)?;
    module.add_function(wrap_pyfunction!(propagate, module)?)?;
    Ok(())
}
