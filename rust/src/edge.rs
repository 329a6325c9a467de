//! The edge of a group: its last output, and the input that dies in it; how many bytes the two take while one grows into
//! the other.
//!
//! Owns this estimate, which follows the demand-driven order of stripes without walking it. What a program really takes
//! is `lifetimes` and the memory planner's to say.

use crate::graph::{aligned, CascaderGraph, PartId, TensorId};
use crate::program::Plan;
use crate::stripe::{Axis, Span};

/// Moments of a cascade that are looked at.
const SAMPLES: i64 = 24;

/// Whole tensors of a group whose bytes may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The largest input that nobody wants after the group.
    pub dying: Option<TensorId>,
    /// What the group's last Part makes; None for an opaque one.
    pub output: Option<TensorId>,
}

impl Edge {
    /// The edge of Parts `first..=last`.
    pub fn new(graph: &CascaderGraph, first: PartId, last: PartId) -> Edge {
        if graph.kernel(last).is_none() {
            return Edge { dying: None, output: None };
        }
        let inputs = graph.parts[first as usize..=last as usize].iter().flat_map(|part| &part.inputs);
        let dies = |&tensor: &TensorId| {
            graph.producer[tensor as usize].is_none_or(|part| part < first) && !graph.outlives(tensor, last)
        };
        let size = |tensor: &TensorId| (graph.tensors[*tensor as usize].size_bytes(), TensorId::MAX - tensor);
        let dying = inputs.map(|input| input.tensor).filter(dies).max_by_key(size);
        Edge { dying, output: Some(graph.output(last)) }
    }

    /// Bytes of both tensors side by side.
    pub fn whole_bytes(&self, graph: &CascaderGraph) -> u64 {
        let size = |tensor: Option<TensorId>| tensor.map_or(0, |t| aligned(graph.tensors[t as usize].size_bytes()));
        size(self.dying) + size(self.output)
    }

    /// Most bytes of both tensors that are in use at once while `plan` runs.
    ///
    /// Whole stripes are counted live while they are read or written. Exact for the moments sampled.
    pub fn peak_bytes(&self, graph: &CascaderGraph, plan: &Plan) -> u64 {
        let (Some(dying), Some(output)) = (self.dying, self.output) else { return self.whole_bytes(graph) };
        if plan.tiling.tiles > 1 || plan.tiling.roll != Axis::Height {
            return self.whole_bytes(graph);
        }
        let row_bytes = |t: TensorId| {
            let tensor = &graph.tensors[t as usize];
            (tensor.plane[0], tensor.plane[1] as u64 * tensor.pixel_bytes)
        };
        let ((rows_in, in_bytes), (rows_out, out_bytes)) = (row_bytes(dying), row_bytes(output));
        let stripe = plan.stripes[plan.len() - 1];
        let count = (rows_out + stripe - 1) / stripe;
        let step = (count / SAMPLES).max(1);
        let mut peak = rows_in as u64 * in_bytes;
        for index in (1..count).step_by(step as usize).chain([count]) {
            let made = (index * stripe).min(rows_out);
            let oldest = oldest_row(graph, plan, dying, made).min(rows_in);
            peak = peak.max(made as u64 * out_bytes + (rows_in - oldest) as u64 * in_bytes);
        }
        aligned(peak).min(self.whole_bytes(graph))
    }
}

/// Oldest row of `dying` that is read at or after the stripe with which the group's last output has `made_last` rows.
fn oldest_row(graph: &CascaderGraph, plan: &Plan, dying: TensorId, made_last: i64) -> i64 {
    let mut made = vec![0; plan.len()];
    made[plan.len() - 1] = made_last;
    let mut oldest = i64::MAX;
    for offset in (0..plan.len()).rev() {
        let part = plan.first + offset as PartId;
        let stripe = plan.stripes[offset];
        let current = Span::new((made[offset] - stripe).max(0), made[offset]);
        for input in &graph.parts[part as usize].inputs {
            if input.tensor == dying {
                let extent = graph.tensors[graph.output(part) as usize].plane[0];
                let next = Span::new(made[offset], (made[offset] + stripe).min(extent));
                let reading = if part == plan.last { current } else { next };
                if !reading.is_empty() {
                    oldest = oldest.min(graph.needed(input, Axis::Height, reading).start);
                }
            } else if let Some(producer) = graph.producer[input.tensor as usize].filter(|&p| p >= plan.first) {
                let inner = (producer - plan.first) as usize;
                let extent = graph.tensors[input.tensor as usize].plane[0];
                let needed = graph.needed(input, Axis::Height, current).end;
                let whole = (needed + plan.stripes[inner] - 1) / plan.stripes[inner] * plan.stripes[inner];
                made[inner] = made[inner].max(whole.min(extent));
            }
        }
    }
    oldest
}
