//! Which buffers of a program may share bytes although both are in use.
//!
//! - A call may make a tensor over the one that it reads, from front to back: an overlay of its Part.
//! - An output that updates state may lie where that state lay.
//!
//! Owns these pairs and the distances between their offsets. `lifetimes` says what counts as live meanwhile,
//! `search::arena` hands them to the memory planner.

use crate::model::graph::{CascaderGraph, Overlay, Tensor};
use crate::model::ids::{BufferId, TensorId};
use crate::model::program::{Buffer, Content, Program, Step};

/// Bytes beyond any distance in an arena.
const FAR: i64 = 1 << 59;

/// Two buffers that are in use in one step and may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBytes {
    /// The step. All bytes of both are in use in it.
    pub step: u32,
    /// What is written.
    pub buffer: BufferId,
    /// What is read, or was.
    pub with: BufferId,
    /// Least and largest offset of the buffer less the other's, in bytes.
    pub apart: [i64; 2],
}

/// Every pair of a program whose lifetimes are set.
pub fn shared_bytes(graph: &CascaderGraph, program: &Program) -> Vec<SharedBytes> {
    let end = (program.steps.len() as u32).max(1) - 1;
    let update = |[with, buffer]: [BufferId; 2]| SharedBytes { step: end, buffer, with, apart: [0, 0] };
    overlays(graph, program).chain(updates(graph, program).map(update)).collect()
}

/// The calls that make a tensor over the one that they read.
pub fn overlays<'a>(graph: &'a CascaderGraph, program: &'a Program) -> impl Iterator<Item = SharedBytes> + 'a {
    (0..).zip(&program.steps).filter_map(|(step, action)| {
        let Step::Call { part, .. } = action else { return None };
        let Overlay { input, output, least_bytes } = graph.overlay(*part)?;
        let (with, buffer) = (program.tensor_buffers[input]?, program.tensor_buffers[output]?);
        let least = i64::try_from(least_bytes).unwrap_or(FAR).min(FAR);
        Some(SharedBytes { step, buffer, with, apart: [-FAR, -least] })
    })
}

/// State and its update, where the one is used for the last time before the other is begun. Lifetimes must be set.
pub fn updates<'a>(graph: &'a CascaderGraph, program: &'a Program) -> impl Iterator<Item = [BufferId; 2]> + 'a {
    let pair = |(after, tensor): (TensorId, &Tensor)| {
        Some([whole_buffer(program, tensor.updates?)?, whole_buffer(program, after)?])
    };
    let may_follow =
        |before: &Buffer, after: &Buffer| before.last_step <= after.first_step && before.pools == after.pools;
    let pairs = graph.tensors.iter_ids().filter_map(pair);
    pairs.filter(move |&[before, after]| may_follow(&program.buffers[before], &program.buffers[after]))
}

/// The buffer that holds a tensor as a whole.
pub fn whole_buffer(program: &Program, tensor: TensorId) -> Option<BufferId> {
    program.tensor_buffers[tensor].filter(|&id| program.buffers[id].content == Content::Tensor(tensor))
}
