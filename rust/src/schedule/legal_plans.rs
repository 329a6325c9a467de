//! What makes a set of Plans legal.
//!
//! Owns these rules and their words. `interleave` asks before it makes steps of a Plan.

use thiserror::Error;

use crate::cost::tensor_copy_cycles;
use crate::model::graph::CascaderGraph;
use crate::model::ids::{Id, PartId, TensorId};
use crate::model::memory::Memories;
use crate::model::plan::{CopiedTensor, Plan, Staging};
use crate::schedule::stripe_order::is_interior;
use crate::stripe::Tiling;

/// A fault in a set of Plans.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// Plans overlap, leave Parts out, or name Parts that are not there.
    #[error("plan {plan} covers parts {first}..={last}; part {expected} is next of {count}")]
    Cover {
        /// Index of the Plan.
        plan: usize,
        /// Its first Part.
        first: PartId,
        /// Its last Part.
        last: PartId,
        /// The Part that should come first.
        expected: PartId,
        /// Parts in the graph.
        count: usize,
    },
    /// Decisions that do not fit the group.
    #[error("plan {plan}: {fault}")]
    Decision {
        /// Index of the Plan.
        plan: usize,
        /// What does not fit.
        fault: &'static str,
    },
    /// No OFM block of the encoded depth fits the accelerator's SHRAM for this stripe.
    #[error("part '{part}': no OFM block fits SHRAM for a stripe of {height}x{width}")]
    Block {
        /// The Part.
        part: String,
        /// Stripe height.
        height: i64,
        /// Stripe width.
        width: i64,
    },
}

/// Check a Plan behind those that end before Part `expected`.
///
/// # Errors
/// What is not, with the number of the Plan.
pub(super) fn check_plan(graph: &CascaderGraph, plan: &Plan, index: usize, expected: PartId) -> Result<(), PlanError> {
    let count = graph.parts.len();
    if plan.first != expected || plan.last < plan.first || plan.last.index() >= count {
        return Err(PlanError::Cover { plan: index, first: plan.first, last: plan.last, expected, count });
    }
    let fault = |fault| Err(PlanError::Decision { plan: index, fault });
    if plan.stripes.len() != plan.len() || plan.staging.len() != plan.len() {
        return fault("needs one stripe and one staging decision for each part");
    }
    let sliced = plan.staging.contains(&Staging::Sliced);
    if sliced && (plan.is_cascade() || graph.kernel(plan.first).is_none_or(|kernel| kernel.sliced.is_none())) {
        return fault("only a part on its own whose constants are sliced can be staged in slices");
    }
    if plan.stripes.iter().any(|&stripe| stripe < 1) || plan.tiling.tiles < 1 {
        return fault("stripes and bands are at least 1");
    }
    check_copied(graph, plan, index)?;
    if graph.is_streamed(plan.parts()) && (plan.tiling != Tiling::WHOLE_ROWS || plan.backwards) {
        return fault("what is handed over row by row is used and made in stripes of rows, from the first one on, and in one band");
    }
    let other_rows = |(&stripe, part): (&i64, PartId)| graph.handed_rows(part).is_some_and(|rows| rows != stripe);
    if plan.stripes.iter().zip(plan.parts()).any(other_rows) {
        return fault("a feed or a take has as many rows as are handed over at once");
    }
    let opaque = plan.parts().any(|part| graph.is_opaque(part));
    if opaque && plan.is_cascade() {
        return fault("an opaque part cannot be cascaded");
    }
    if !opaque {
        let across = graph.tensors[graph.output(plan.last)].plane[plan.tiling.roll.other() as usize];
        if (i64::from(plan.tiling.tiles) - 1) * graph.stripe_multiple(plan.last) >= across {
            return fault("more bands than the output has rows or columns, or pairs of them where it is doubled");
        }
        let uneven = |(&stripe, part): (&i64, PartId)| {
            let whole = graph.tensors[graph.output(part)].plane[plan.tiling.roll as usize];
            stripe < whole && stripe % graph.stripe_multiple(part) != 0
        };
        if plan.stripes.iter().zip(plan.parts()).any(uneven) {
            return fault("a part that doubles its input is made in stripes of even extent, or whole");
        }
        let open = (0..plan.len() - 1).any(|offset| !is_interior(graph, plan, offset));
        if plan.tiling.tiles > 1 && open {
            return fault("a group that is cut into bands has a single output");
        }
    }
    Ok(())
}

/// The tensor that a decision copies; None if there is no such operand.
pub(super) fn copied_tensor(graph: &CascaderGraph, copied: CopiedTensor) -> Option<TensorId> {
    let (CopiedTensor::Read(part, _) | CopiedTensor::Write(part)) = copied;
    let part = graph.parts.get(part.index())?;
    match copied {
        CopiedTensor::Read(_, operand) => part.inputs.get(operand as usize).map(|input| input.tensor),
        CopiedTensor::Write(_) => part.outputs.first().copied(),
    }
}

/// Check which tensors are copied: those made before the group or wanted after it.
///
/// There must be a pool to copy from or to.
fn check_copied(graph: &CascaderGraph, plan: &Plan, index: usize) -> Result<(), PlanError> {
    let fault = |fault| Err(PlanError::Decision { plan: index, fault });
    if plan.copied.is_empty() {
        return Ok(());
    }
    if graph.device.memories().spacious().is_empty() {
        return fault("tensors are copied between pools, and the device has one pool of tensors");
    }
    if tensor_copy_cycles(&graph.device, 0, Memories::SCARCE, Memories::SCARCE).is_none() {
        return fault("tensors are copied between pools, and no command of the device does that");
    }
    if plan.staging.contains(&Staging::Sliced) {
        return fault("a part whose constants are staged in slices has its tensors where they are");
    }
    for &copied in &plan.copied {
        let (CopiedTensor::Read(part, _) | CopiedTensor::Write(part)) = copied;
        if part < plan.first || part > plan.last || graph.kernel(part).is_none() {
            return fault("tensors are copied for NPU parts of the group");
        }
        let Some(tensor) = copied_tensor(graph, copied) else { return fault("there is no such operand to copy") };
        let is_made_here = graph.producer[tensor].is_some_and(|maker| maker >= plan.first);
        match copied {
            CopiedTensor::Read(..) if is_made_here => {
                return fault("an operand that is copied is made before the group")
            }
            CopiedTensor::Write(_) if is_interior(graph, plan, plan.offset(part)) => {
                return fault("an output that is copied is wanted after the group")
            }
            CopiedTensor::Read(..) | CopiedTensor::Write(_) => {}
        }
    }
    Ok(())
}
