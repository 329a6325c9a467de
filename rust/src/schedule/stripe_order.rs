//! The stripes of a group in the order of demand.
//!
//! - State: `made(p)`, how far each Part's output is made.
//! - Step: before a stripe of Part `p` runs, each producer makes its output, in stripes of its own height, as far as
//!   the stripe reads it, and so on back to the group's inputs.
//! - Invariant: when a stripe runs, all rows that it reads are made; nothing was made before it was asked for,
//!   apart from the rest of a stripe. So a buffer between two Parts holds the rows from the oldest one still wanted
//!   to the newest made.
//! - Cost: one visit of each stripe and of each of its reads.
//!
//! Owns what is wanted of each Part and how many rows of it stay; the walk itself is `demand`'s. Makes no steps and
//! knows no cost.

use smallvec::SmallVec;

use crate::model::graph::{CascaderGraph, Input};
use crate::model::ids::PartId;
use crate::model::plan::Plan;
use crate::schedule::demand::{demand, stripe_ahead, stripe_behind, Walker};
use crate::stripe::{Span, Tiling};

/// Demand-driven walk over one group: which stripe of which Part comes next, and how many rows stay alive.
pub struct StripeOrder<'a> {
    graph: &'a CascaderGraph,
    plan: &'a Plan,
    /// Rows wanted of each Part's output: `[start, end)`.
    wanted: Vec<Span>,
    /// Per Part, its reads of outputs of the group, each with the producer's offset.
    inside: Vec<SmallVec<[(usize, &'a Input); 2]>>,
    /// How far each output is made, from the near end on or from the far one.
    made: Vec<i64>,
    /// Largest number of rows alive at once, per Part's output.
    pub alive: Vec<i64>,
    /// Stripes in the order in which they are made.
    pub stripes: Vec<(PartId, Span)>,
}

impl Walker for StripeOrder<'_> {
    fn next(&mut self, part: usize, rows: Span) -> Option<Span> {
        let span = self.stripe(part);
        let reaches = if self.plan.backwards { rows.start < span.end } else { span.start < rows.end };
        (!span.is_empty() && !rows.is_empty() && reaches).then_some(span)
    }

    fn read(&self, part: usize, index: usize, stripe: Span) -> Option<(usize, Span)> {
        let &(producer, input) = self.inside[part].get(index)?;
        Some((producer, self.graph.needed(input, self.plan.tiling.roll, stripe)))
    }

    fn made(&mut self, part: usize, stripe: Span) {
        self.stripes.push((self.plan.part(part), stripe));
        self.made[part] = if self.plan.backwards { stripe.start } else { stripe.end };
        self.alive[part] = self.alive[part].max(self.wanted_still(part).hull(stripe).len());
    }
}

impl<'a> StripeOrder<'a> {
    /// A walk that makes the rows `wanted` of each Part's output, last Part first.
    pub fn new(graph: &'a CascaderGraph, plan: &'a Plan, wanted: Vec<Span>) -> StripeOrder<'a> {
        let inside = |offset: usize| {
            let inputs = graph.parts[plan.part(offset)].inputs.iter();
            inputs.filter_map(|input| Some((graph.made_since(input.tensor, plan.first)?, input))).collect()
        };
        let mut order = StripeOrder {
            graph,
            plan,
            inside: (0..plan.len()).map(inside).collect(),
            made: wanted.iter().map(|span| if plan.backwards { span.end } else { span.start }).collect(),
            alive: vec![0; wanted.len()],
            stripes: Vec::new(),
            wanted,
        };
        for offset in (0..plan.len()).rev() {
            if offset + 1 == plan.len() || !is_interior(graph, plan, offset) {
                let all = order.wanted[offset];
                demand(&mut order, offset, all);
            }
        }
        order
    }

    /// Next stripe of a Part.
    fn stripe(&self, offset: usize) -> Span {
        let cut = if self.plan.backwards { stripe_behind } else { stripe_ahead };
        cut(self.made[offset], self.plan.stripes[offset], self.wanted[offset])
    }

    /// Rows of a Part's output, of those made so far, that some consumer in the group still wants.
    fn wanted_still(&self, offset: usize) -> Span {
        let tensor = self.graph.output(self.plan.part(offset));
        let mut still = Span::new(0, 0);
        let made = self.made[offset];
        for &consumer in &self.graph.consumers[tensor] {
            if consumer > self.plan.last {
                continue;
            }
            let reader = self.plan.offset(consumer);
            // All that is not read yet: what comes next may be made of other inputs.
            let rest = if self.plan.backwards {
                Span::new(self.wanted[reader].start, self.made[reader])
            } else {
                Span::new(self.made[reader], self.wanted[reader].end)
            };
            if rest.is_empty() {
                continue;
            }
            for input in self.graph.parts[consumer].inputs.iter().filter(|input| input.tensor == tensor) {
                let needed = self.graph.needed(input, self.plan.tiling.roll, rest);
                let made = if self.plan.backwards {
                    Span::new(made, needed.end.max(made))
                } else {
                    Span::new(needed.start.min(made), made)
                };
                still = still.hull(made);
            }
        }
        still
    }
}

/// Whether the output of the group's Part `offset` is not needed outside the group.
pub fn is_interior(graph: &CascaderGraph, plan: &Plan, offset: usize) -> bool {
    !graph.outlives(graph.output(plan.part(offset)), plan.last)
}

/// Boxes wanted of each Part's output in band `tile`, by propagating back from the group's outputs.
///
/// Returned per Part: span along the rolling axis and span across it.
pub fn wanted(graph: &CascaderGraph, plan: &Plan, tile: u32) -> Vec<[Span; 2]> {
    wanted_between(graph, plan.tiling, (plan.first, plan.last), tile)
}

/// The same of a group of Parts `first..=last`, whatever its stripes.
pub fn wanted_between(
    graph: &CascaderGraph,
    tiling: Tiling,
    (first, last): (PartId, PartId),
    tile: u32,
) -> Vec<[Span; 2]> {
    let mut found = vec![[Span::new(0, 0); 2]; last.since(first) + 1];
    for part in first.through(last).rev() {
        found[part.since(first)] = wanted_of(graph, tiling, last, part, tile, |later| found[later.since(first)]);
    }
    found
}

/// The box wanted of Part `part`'s output in band `tile` of a group that ends with Part `last`, given those of later
/// Parts.
fn wanted_of(
    graph: &CascaderGraph,
    tiling: Tiling,
    last: PartId,
    part: PartId,
    tile: u32,
    later: impl Fn(PartId) -> [Span; 2],
) -> [Span; 2] {
    let roll = tiling.roll;
    let tensor = graph.output(part);
    let plane = graph.tensors[tensor].plane;
    let across = plane[roll.other() as usize];
    let multiple = graph.stripe_multiple(part);
    if part == last {
        return [Span::new(0, plane[roll as usize]), tiling.band(tile, across, multiple)];
    }
    if graph.outlives(tensor, last) {
        return [Span::new(0, plane[roll as usize]), Span::new(0, across)];
    }
    let mut found = [Span::new(0, 0); 2];
    for &reader in graph.consumers[tensor].iter().filter(|&&reader| reader <= last) {
        let read = later(reader);
        for input in graph.parts[reader].inputs.iter().filter(|input| input.tensor == tensor) {
            let needed = [graph.needed(input, roll, read[0]), graph.needed(input, roll.other(), read[1])];
            // An operation that makes nothing of the box reads nothing for it.
            if needed.iter().all(|span| !span.is_empty()) {
                found = [0, 1].map(|axis| found[axis].hull(needed[axis]));
            }
        }
    }
    if let (Some(rows), true, false) = (graph.handed_rows(part), graph.is_feed(part), found[0].is_empty()) {
        // They arrive from the first one on, as wide as they are.
        let end = (found[0].end + rows - 1) / rows * rows;
        return [Span::new(0, end.min(plane[0])), Span::new(0, plane[1])];
    }
    found.map(|span| Span::new(span.start / multiple * multiple, span.end))
}
