//! Which buffers of a program may share bytes although both are in use.
//!
//! - A call may make a tensor over the one that it reads, from front to back. A stripe may, if it makes all of an output, do so
//!   element by element. Both are overlays of their Parts.
//! - An output that updates state may lie where that state lay.
//!
//! Owns these pairs and the distances between their offsets. `lifetimes` says what counts as live meanwhile,
//! `search::arena` hands them to the memory planner.

use crate::model::graph::{CascaderGraph, Overlay, Tensor};
use crate::model::ids::{BufferId, TensorId};
use crate::model::program::{Buffer, Content, Program, Step, Stripe};
use crate::stripe::Region;

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

impl SharedBytes {
    /// Whether the buffer may overlap the other one in its very place alone.
    pub fn is_handed_over(&self) -> bool {
        self.apart == [0; 2]
    }
}

/// Every pair of a program whose lifetimes are set.
pub fn shared_bytes(graph: &CascaderGraph, program: &Program) -> Vec<SharedBytes> {
    let end = (program.steps.len() as u32).max(1) - 1;
    let update = |[with, buffer]: [BufferId; 2]| SharedBytes { step: end, buffer, with, apart: [0, 0] };
    overlays(graph, program).chain(updates(graph, program).map(update)).collect()
}

/// Overlays of a program's calls and whole stripes. Lifetimes must be set.
pub fn overlays<'a>(graph: &'a CascaderGraph, program: &'a Program) -> impl Iterator<Item = SharedBytes> + 'a {
    (0..).zip(&program.steps).filter_map(|(step, action)| {
        let part = match action {
            Step::Call { part, .. } => *part,
            Step::Stripe(stripe) if makes_all(graph, stripe) => stripe.part,
            Step::Stripe(_) | Step::Copy { .. } | Step::LoadTable { .. } | Step::Feed { .. } | Step::Take { .. } => {
                return None
            }
        };
        let Overlay { input, output, apart } = graph.overlay(part)?;
        let (with, buffer) = match action {
            Step::Stripe(stripe) => handed_over(graph, program, (step, stripe), input)?,
            _ => (program.tensor_buffers[input]?, program.tensor_buffers[output]?),
        };
        Some(SharedBytes { step, buffer, with, apart })
    })
}

/// Whether a stripe is all of its Part.
fn makes_all(graph: &CascaderGraph, stripe: &Stripe) -> bool {
    let plane = graph.tensors[graph.output(stripe.part)].plane;
    stripe.piece.is_none() && stripe.output.region == Region::at([0; 2], plane)
}

/// The buffers of a stripe's operand and output if the one may be handed over to the other.
///
/// Both hold whole tensors in the same pools, and the one is used for the last time in the step that makes the other.
fn handed_over(
    graph: &CascaderGraph,
    program: &Program,
    (step, stripe): (u32, &Stripe),
    input: TensorId,
) -> Option<(BufferId, BufferId)> {
    let operand = graph.parts[stripe.part].inputs.iter().position(|read| read.tensor == input)?;
    let (with, buffer) = (stripe.inputs[operand].buffer, stripe.output.buffer);
    let [read, made] = [with, buffer].map(|id| &program.buffers[id]);
    let are_whole = [read, made].iter().all(|of| matches!(of.content, Content::Tensor(_)));
    let is_last = read.last_step == step + 1 && made.first_step == step;
    let is_like = read.pools == made.pools && read.size_bytes == made.size_bytes;
    (are_whole && is_last && is_like).then_some((with, buffer))
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
