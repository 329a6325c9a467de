//! Variants of one Part: its stripes, where its kernels read their constants, the bytes staged for that, and the cycles.
//!
//! Owns the share of a Part in a Plan, independent of all other Parts. Knows neither groups nor the buffers between Parts.

use crate::cost::{all_staging_cycles, staging_cycles, Costs};
use crate::model::graph::CascaderGraph;
use crate::model::ids::PartId;
use crate::model::memory::aligned;
use crate::model::operation::{Cost, Source};
use crate::model::plan::Staging;
use crate::plans::bands::Bands;
use crate::plans::options::{CopyCost, Options};
use crate::stripe::{Axis, Span};

/// Cycles of kernels, and how many of these keep the memory of constants busy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cycles {
    /// All.
    pub all: u64,
    /// Of these, those that keep the memory of constants busy.
    pub constants: u64,
}

impl Cycles {
    fn plus(self, cost: &Cost, times: u64) -> Cycles {
        Cycles { all: self.all + cost.cycles * times, constants: self.constants + cost.constants * times }
    }

    /// Of kernels one after the other.
    pub fn and(self, other: Cycles) -> Cycles {
        Cycles { all: self.all + other.all, constants: self.constants + other.constants }
    }
}

/// One way to run a Part.
pub struct PartVariant {
    /// Where its kernels find their constants.
    pub staging: Staging,
    /// Bytes that copies of its constants take in the arena.
    pub staged_bytes: u64,
    /// Modelled cycles.
    pub cycles: u64,
    /// Cycles of its kernels alone, whatever copies are taken to cost.
    pub kernels: Cycles,
}

impl PartVariant {
    /// Of an operator on the CPU, a feed or a take.
    fn elsewhere() -> PartVariant {
        PartVariant { staging: Staging::InPlace, staged_bytes: 0, cycles: 0, kernels: Cycles::default() }
    }
}

/// Stripes of one extent.
pub struct Stripes {
    /// Their height in pixels, or their width; the last one may have fewer.
    pub extent: i64,
    /// How a Part can run in them.
    pub variants: Vec<PartVariant>,
}

/// The extents of a band in pixels, along and across the rolling axis, and its number of equal neighbours.
struct Shape {
    along: i64,
    across: i64,
    count: u64,
}

/// Of the boxes that bands want of a Part's output.
fn shapes(boxes: &[[Span; 2]]) -> Vec<Shape> {
    let extents = |wanted: &[Span; 2]| wanted.map(|span| span.len());
    let alike = boxes.chunk_by(|a, b| extents(a) == extents(b));
    alike
        .map(|alike| Shape { along: alike[0][0].len(), across: alike[0][1].len(), count: alike.len() as u64 })
        .collect()
}

/// Stripe heights of a Part that are tried, or widths: few rows, and even divisions of all.
fn stripe_extents(graph: &CascaderGraph, options: &Options, part: PartId, roll: Axis) -> Vec<i64> {
    let whole = graph.tensors[graph.output(part)].plane[roll as usize];
    let (granule, multiple) = (graph.device.granule(roll), graph.stripe_multiple(part));
    let even = options.divisions.iter().map(|n| ((whole + n - 1) / n + granule - 1) / granule * granule);
    let rounded = |extent: i64| (extent + multiple - 1) / multiple * multiple;
    let extents = options.stripes.iter().copied().chain(even).map(rounded);
    let mut found: Vec<i64> = extents.filter(|&extent| extent < whole).collect();
    found.push(whole);
    found.sort_unstable();
    found.dedup();
    found
}

/// Enumerates the variants of a Part for one cost of copies.
pub struct PartVariants<'a> {
    graph: &'a CascaderGraph,
    options: &'a Options,
    copies: CopyCost,
    costs: &'a mut Costs,
}

impl<'a> PartVariants<'a> {
    /// For the Parts of a graph.
    pub fn new(
        graph: &'a CascaderGraph,
        options: &'a Options,
        copies: CopyCost,
        costs: &'a mut Costs,
    ) -> PartVariants<'a> {
        PartVariants { graph, options, copies, costs }
    }

    /// Every stripe height of Part `part`, or width, that is tried over its bands, ascending.
    pub fn in_stripes(&mut self, part: PartId, bands: &Bands) -> Vec<Stripes> {
        let roll = bands.tiling.roll;
        if let Some(extent) = self.graph.handed_rows(part) {
            return vec![Stripes { extent, variants: vec![PartVariant::elsewhere()] }];
        }
        let shapes = shapes(&bands.boxes(part));
        let extents = stripe_extents(self.graph, self.options, part, roll).into_iter();
        extents.map(|extent| Stripes { extent, variants: self.striped(part, roll, extent, &shapes) }).collect()
    }

    /// Fewest cycles of Part `part` in any stripes over its bands.
    pub fn fewest_cycles(&mut self, part: PartId, bands: &Bands) -> u64 {
        let stripes = self.in_stripes(part, bands);
        stripes.iter().flat_map(|stripes| &stripes.variants).map(|variant| variant.cycles).min().unwrap_or(0)
    }

    /// PartVariants to run Part `part` unstriped: constants in place, staged whole, or staged in slices.
    pub fn unstriped(&mut self, part: PartId) -> Vec<PartVariant> {
        if self.graph.kernel(part).is_none() {
            return vec![PartVariant::elsewhere()];
        }
        let plane = self.graph.tensors[self.graph.output(part)].plane;
        let whole = Shape { along: plane[0], across: plane[1], count: 1 };
        let mut found = self.striped(part, Axis::Height, plane[0], &[whole]);
        found.extend(self.sliced(part, plane));
        found
    }

    /// PartVariants to run Part `part` in stripes of `stripe` over bands of these shapes.
    fn striped(&mut self, part: PartId, roll: Axis, stripe: i64, shapes: &[Shape]) -> Vec<PartVariant> {
        let constant_bytes = self.graph.kernel(part).map_or(0, |kernel| kernel.staged_bytes());
        let copy = self.graph.kernel(part).map_or(0, |kernel| all_staging_cycles(&self.graph.device, kernel));
        let mut found = Vec::new();
        if let Some(cycles) = self.cycles(part, roll, stripe, Source::InPlace, shapes) {
            let (kernels, cycles) = (cycles, self.copies.in_place(cycles.all, cycles.constants, copy));
            found.push(PartVariant { staging: Staging::InPlace, staged_bytes: 0, cycles, kernels });
        }
        if constant_bytes > 0 {
            if let Some(cycles) = self.cycles(part, roll, stripe, Source::Staged, shapes) {
                let (kernels, cycles) = (cycles, self.copies.cycles(cycles.all, copy, 0));
                // A copy takes bytes, so it must be faster than reading in place.
                if found.iter().all(|way| cycles < way.cycles) {
                    found.push(PartVariant {
                        staging: Staging::Whole,
                        staged_bytes: aligned(constant_bytes),
                        cycles,
                        kernels,
                    });
                }
            }
        }
        found
    }

    fn cycles(&mut self, part: PartId, roll: Axis, stripe: i64, source: Source, shapes: &[Shape]) -> Option<Cycles> {
        let mut cycles = Cycles::default();
        for &Shape { along, across, count } in shapes {
            for (extent, many) in [(stripe.min(along), along / stripe), (along % stripe, 1)] {
                if extent > 0 && many > 0 {
                    let mut plane = [extent; 2];
                    plane[roll.other() as usize] = across;
                    cycles = cycles.plus(&self.costs.stripe(self.graph, part, plane, source)?, many as u64 * count);
                }
            }
        }
        Some(cycles)
    }

    /// Unstriped, each slice of the constants copied while kernels work on the one before.
    fn sliced(&mut self, part: PartId, plane: [i64; 2]) -> Option<PartVariant> {
        let (graph, device) = (self.graph, &self.graph.device);
        let kernel = graph.kernel(part)?;
        let sliced = kernel.sliced.as_ref()?;
        let cost = |piece| self.costs.stripe(graph, part, plane, Source::Piece(piece)).map(|cost| cost.cycles);
        let kernels = kernel.pieces().map(cost).sum::<Option<u64>>()?;
        let mut copies = sliced.bytes.iter().map(|&bytes| staging_cycles(device, bytes));
        let (first, rest) = (copies.next().unwrap_or(0), copies.sum());
        let pairs = sliced.bytes.windows(2).map(|pair| aligned(pair[0]) + aligned(pair[1]));
        Some(PartVariant {
            staging: Staging::Sliced,
            staged_bytes: pairs.max()?,
            cycles: self.copies.cycles(kernels, first, rest),
            kernels: Cycles { all: kernels, constants: rest },
        })
    }
}
