//! The order by demand: which stripe of which Part of a group comes next.
//!
//! - State: `made(p)`, how far each Part's output is made.
//! - Step: before a stripe of Part `p` runs, each producer makes its output, in stripes of its own height, as far as
//!   the stripe reads it, and so on back to the group's inputs.
//! - Invariant: when a stripe runs, all rows that it reads are made; nothing was made that nobody had asked for,
//!   apart from the rest of a stripe. So a buffer between two Parts holds the rows from the oldest one still wanted
//!   to the newest made.
//! - Cost: one visit of each stripe and of each of its reads.
//!
//! Owns this order and what is wanted of each Part. Makes no steps and knows no cost.

use crate::model::graph::CascaderGraph;
use crate::model::ids::{PartId, TensorId};
use crate::model::plan::Plan;
use crate::stripe::{Span, Tiling};

/// Demand-driven walk over one group: which stripe of which Part comes next, and how many rows stay alive.
///
/// Works on spans along the rolling axis only, so that the search can use it without making steps.
pub struct StripeOrder<'a> {
    graph: &'a CascaderGraph,
    plan: &'a Plan,
    /// Rows wanted of each Part's output: `[start, end)`.
    wanted: Vec<Span>,
    /// How far each output is made, from the near end on or from the far one.
    made: Vec<i64>,
    /// Largest number of rows alive at once, per Part's output.
    pub alive: Vec<i64>,
}

impl<'a> StripeOrder<'a> {
    /// A walk that makes the rows `wanted` of each Part's output.
    pub fn new(graph: &'a CascaderGraph, plan: &'a Plan, wanted: Vec<Span>) -> StripeOrder<'a> {
        let made = wanted.iter().map(|span| if plan.backwards { span.end } else { span.start }).collect();
        let alive = vec![0; wanted.len()];
        StripeOrder { graph, plan, wanted, made, alive }
    }

    /// Make everything, last Part first, calling `emit(part, span)` for each stripe in order.
    pub fn run(&mut self, emit: &mut dyn FnMut(PartId, Span)) {
        for offset in (0..self.plan.len()).rev() {
            let all = self.wanted[offset];
            if offset + 1 == self.plan.len() || !is_interior(self.graph, self.plan, offset) {
                self.make(offset, all, emit);
            }
        }
    }

    /// Make a Part's output as far as `rows` reach, stripe by stripe.
    fn make(&mut self, offset: usize, rows: Span, emit: &mut dyn FnMut(PartId, Span)) {
        let graph = self.graph;
        let part = self.plan.part(offset);
        loop {
            let span = self.next(offset);
            let reaches = if self.plan.backwards { rows.start < span.end } else { span.start < rows.end };
            if span.is_empty() || !reaches {
                break;
            }
            for input in &graph.parts[part].inputs {
                if let Some(producer) = self.inside(input.tensor) {
                    self.make(producer, graph.needed(input, self.plan.tiling.roll, span), emit);
                }
            }
            emit(part, span);
            self.made[offset] = if self.plan.backwards { span.start } else { span.end };
            self.alive[offset] = self.alive[offset].max(self.wanted_still(offset).hull(span).len());
        }
    }

    /// Next stripe of a Part. Stripes are cut from the near end on, also where the last one is made first.
    fn next(&self, offset: usize) -> Span {
        let (made, stripe, wanted) = (self.made[offset], self.plan.stripes[offset], self.wanted[offset]);
        if self.plan.backwards {
            let before = (made - 1 - wanted.start).max(0) / stripe * stripe;
            return Span::new(wanted.start + before, made);
        }
        Span::new(made, (made + stripe).min(wanted.end))
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
            let next = self.next(reader);
            if next.is_empty() {
                continue;
            }
            for input in self.graph.parts[consumer].inputs.iter().filter(|input| input.tensor == tensor) {
                let needed = self.graph.needed(input, self.plan.tiling.roll, next);
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

    fn inside(&self, tensor: TensorId) -> Option<usize> {
        let producer = self.graph.producer[tensor]?;
        (producer >= self.plan.first).then(|| self.plan.offset(producer))
    }
}

/// Whether the output of the group's Part `offset` is wanted by nobody outside the group.
pub fn is_interior(graph: &CascaderGraph, plan: &Plan, offset: usize) -> bool {
    !graph.outlives(graph.output(plan.part(offset)), plan.last)
}

/// Boxes wanted of each Part's output in band `tile`, by propagating back from the group's outputs.
///
/// Returned per Part: span along the rolling axis and span across it.
pub fn wanted(graph: &CascaderGraph, plan: &Plan, tile: u32) -> Vec<[Span; 2]> {
    let mut found = vec![[Span::new(0, 0); 2]; plan.len()];
    for offset in (0..plan.len()).rev() {
        let part = plan.part(offset);
        found[offset] = wanted_of(graph, plan.tiling, plan.last, part, tile, |p| found[plan.offset(p)]);
    }
    found
}

/// The box wanted of Part `part`'s output in band `tile` of a group that ends with Part `last`, given those of later
/// Parts.
pub fn wanted_of(
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
            found[0] = found[0].hull(graph.needed(input, roll, read[0]));
            found[1] = found[1].hull(graph.needed(input, roll.other(), read[1]));
        }
    }
    found.map(|span| Span::new(span.start / multiple * multiple, span.end))
}
