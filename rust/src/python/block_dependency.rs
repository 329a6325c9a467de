//! Python face of `cost`'s BLOCKDEP: kernels with addresses in, the value of each out.

use pyo3::prelude::*;

use super::simulator::accelerator_of;
use crate::cost::ethosu::addresses::address;
use crate::cost::ethosu::block_dependency::{block_dependencies as of_kernels, Access, Reading};
use crate::cost::ethosu::surface::Surface;
use crate::model::ids::PoolId;
use crate::model::operation::Layout;

/// Shape, tiles, their first bytes, strides, whether it lies in bricks, bytes of an element, memory region.
type SurfaceRow = ([u64; 3], [u64; 3], [u64; 4], [u64; 3], bool, u64, u32);
/// Whether a kernel is elementwise, and reads all channels for each of its output; enlargement, strides, window, padding
/// in height and width.
type ReadingRow = (bool, bool, i64, [i64; 2], [i64; 2], [i64; 2]);
/// What a kernel reads, and how, what it writes, in which blocks, and whether it looks results up.
type KernelRow = (Vec<SurfaceRow>, ReadingRow, SurfaceRow, [i64; 3], bool);

fn surface((extent, tiles, offsets, strides, bricks, element_bytes, region): SurfaceRow) -> Surface {
    let layout = if bricks { Layout::Nhcwb16 } else { Layout::Nhwc };
    let bases = offsets.map(|offset| address(PoolId(region), offset));
    Surface { extent, tiles, bases, strides, layout, element_bytes }
}

/// BLOCKDEP of each kernel in order.
#[pyfunction]
fn block_dependencies(py: Python<'_>, kernels: Vec<KernelRow>, accelerator: &str) -> PyResult<Vec<u32>> {
    let kernels = kernels.into_iter().map(|(inputs, reading, output, block, looks_up)| {
        let (is_elementwise, reads_whole_depth, factor, stride, window, before) = reading;
        let depth = inputs.first().map_or(0, |input| input.0[2]);
        let parts = Reading::parts(reads_whole_depth, depth);
        let reading = Reading { is_elementwise, factor, stride, window, before, parts };
        let inputs = inputs.into_iter().map(surface).collect();
        (reading, Access { inputs, constant: None, output: surface(output), block, looks_up })
    });
    Ok(of_kernels(kernels, accelerator_of(py, accelerator)?))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(block_dependencies, module)?)
}
