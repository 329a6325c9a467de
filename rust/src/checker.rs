//! Proves a program right without the search.
//!
//! The steps are replayed over symbolic memory. A program passes if and only if all of these hold:
//!
//! ```text
//! s        a step, 0 <= s < S; part(s) and piece(s) are what it runs
//! b, i     a buffer and one of its cells, a pixel's bytes each
//! t, p     a tensor and one of its pixels
//! M(s)     the memory right before step s: M(s)(b, i) = (t, p, channels) or nothing
//! R(s)     reads (b, i, t, p) of step s: all pixels that its windows touch, counted from the kernel's geometry
//! W(s)     writes (b, i, t, p) of step s, of the channels C(s)
//! live(s)  cells (b, i) all of whose bytes are in the window of b at step s
//!
//! start       for all p of all network inputs t:   M(0)(cell of p in the buffer of t) = (t, p, all);  all else is nothing
//! forget      for all s, (b, i) not in live(s):    M(s)(b, i) = nothing
//! reads       for all s, (b, i, t, p) in R(s):     M(s)(b, i) = (t, p, all)
//! writes      for all s, (b, i, t, p) in W(s):     (b, i) in live(s)  and  M(s + 1)(b, i) = (t, p, c + C(s))
//!             where c are the channels of p in M(s)(b, i), none if it holds another pixel
//! once        for all s, (b, i, t, p) in W(s):     c and C(s) have no channel in common, if b holds all of t
//! lifetimes   for all s, b read or written by s:   first_step(b) <= s < last_step(b)
//! constants   for all s with copied constants:     their buffer holds the constants of part(s) and piece(s)
//! tables      for all s with a look-up:            the slots hold every piece of its table
//! boxes       for all s:                           each input box and its padding are exactly those of the windows of W(s),
//!             and W(s) lies in the box of piece(s)
//! sizes       for all b:                           size(b) is at least the bytes of its cells
//! end         for all p of all network outputs t:  M(S)(cell of p in the buffer of t) = (t, p, all)
//! pools       for all b:                           pool(b) may hold b, and offset(b) + size(b) <= limit of pool(b)
//! ```
//!
//! `usmp::check` proves the rest: at no step do live bytes of two buffers have one address. Shares no code with plans,
//! candidates or the interleaving walk.
//!
//! Example: `tests::example`, on the network of docs/worked-example.md.

mod arrival;
mod channels;
mod complaint;

pub use complaint::Complaint;

use std::ops::Range;

use crate::checker::channels::{ChannelSets, NOTHING, WHOLE};
use crate::model::device::LookUpArea;
use crate::model::graph::{CascaderGraph, Input, Work};
use crate::model::ids::{BufferId, IdVec, PartId, Piece, TableId, TensorId};
use crate::model::memory::Memories;
use crate::model::operation::{LookUpTable, NpuOperation, Upscale};
use crate::model::program::{Content, CopySource, LiveWindow, Placement, Program, Step, Stripe, View};
use crate::stripe::{Axis, Region, Span};
use crate::util::interrupt;

/// Which pixel of which tensor a cell holds, and which of its channels, as a number of [`ChannelSets`].
type Cell = Option<(TensorId, i64, i64, u32)>;

struct Replay<'a> {
    graph: &'a CascaderGraph,
    program: &'a Program,
    cells: IdVec<BufferId, Vec<Cell>>,
    staged: IdVec<BufferId, Option<(PartId, Option<Piece>)>>,
    /// The table that each slot holds a part of, and which part.
    slots: [Option<(TableId, u32)>; LookUpArea::SLOTS],
    sets: ChannelSets,
    /// How many rows of each tensor the caller has handed over or taken.
    handed: IdVec<TensorId, i64>,
    /// Rows on their way.
    arriving: Option<View>,
}

/// Check a program against its graph.
pub fn check(graph: &CascaderGraph, program: &Program) -> Result<(), Complaint> {
    let mut replay = Replay::new(graph, program)?;
    for (index, step) in program.steps.iter().enumerate() {
        interrupt::ask();
        replay.read_overlaid(index, step)?;
        replay.forget(index as u32);
        replay.keep_arriving(index)?;
        match step {
            Step::Copy { moved, buffer, .. } => replay.copy(index, *moved, *buffer)?,
            Step::LoadTable { part, table, slot, .. } => replay.load(index, *part, *table, *slot)?,
            Step::Stripe(stripe) => {
                replay.look_up(index, stripe)?;
                replay.stripe(index, stripe)?;
            }
            Step::Feed { part, output } => replay.feed(index, *part, output)?,
            Step::Take { part, input } => replay.take(index, *part, input)?,
            Step::Call { part, workspace } => replay.call(index, *part, *workspace)?,
        }
    }
    for (id, tensor) in graph.tensors.iter_ids() {
        match graph.producer[id].filter(|&part| graph.is_take(part)) {
            Some(part) => replay.all_is_taken(part)?,
            None if tensor.is_output => replay.complete(id)?,
            None => {}
        }
    }
    Ok(())
}

/// Check that every buffer lies in a pool that may hold it, and no pool is beyond its limit. What lies in the last pool of
/// tensors is what all others leave, and bounded by the caller.
pub fn check_placement(memories: &Memories, program: &Program, placement: &Placement) -> Result<(), Complaint> {
    let last = memories.tensors().last();
    for (id, buffer) in program.buffers.iter_ids() {
        let pool = placement.pools[id];
        if !buffer.pools.contains(&pool) {
            return Err(Complaint::Misplaced { buffer: id, pool: memories.name(pool).to_owned() });
        }
        let (end, limit) = (placement.offsets[id] + buffer.size_bytes, memories.pool(pool).limit_bytes);
        if let Some(limit_bytes) = limit.filter(|&limit| Some(&pool) != last && limit < end) {
            let pool = memories.name(pool).to_owned();
            return Err(Complaint::Beyond { buffer: id, pool, needed_bytes: end, limit_bytes });
        }
    }
    Ok(())
}

impl<'a> Replay<'a> {
    fn new(graph: &'a CascaderGraph, program: &'a Program) -> Result<Replay<'a>, Complaint> {
        let mut cells = IdVec::default();
        for (id, buffer) in program.buffers.iter_ids() {
            let pixels = buffer.capacity[0] * buffer.capacity[1];
            let pixel_bytes = match buffer.content {
                Content::Tensor(tensor) | Content::Rolling(tensor, _) => graph.tensors[tensor].pixel_bytes,
                Content::Constants(_) | Content::Workspace(_) => 0,
            };
            size(id, buffer.size_bytes, pixels as u64 * pixel_bytes)?;
            cells.push(vec![None; pixels as usize]);
        }
        let mut replay = Replay {
            graph,
            program,
            cells,
            staged: vec![None; program.buffers.len()].into(),
            slots: [None; LookUpArea::SLOTS],
            sets: ChannelSets::default(),
            handed: vec![0; graph.tensors.len()].into(),
            arriving: None,
        };
        for (id, tensor) in graph.tensors.iter_ids() {
            if tensor.is_input {
                replay.fill(id);
            }
        }
        Ok(replay)
    }

    fn alive(&self, step: usize, buffer: BufferId) -> Result<(), Complaint> {
        let b = &self.program.buffers[buffer];
        if (b.first_step as usize) <= step && step < b.last_step as usize {
            return Ok(());
        }
        Err(Complaint::Lifetime { step, buffer, first: b.first_step, last: b.last_step })
    }

    fn copy(&mut self, step: usize, moved: CopySource, buffer: BufferId) -> Result<(), Complaint> {
        self.alive(step, buffer)?;
        let size_bytes = self.program.buffers[buffer].size_bytes;
        match moved {
            CopySource::Constants(part, piece) => {
                size(buffer, size_bytes, copied_bytes(self.graph, part, piece))?;
                self.staged[buffer] = Some((part, piece));
            }
            CopySource::Tensor { tensor, from } => {
                self.alive(step, from)?;
                size(buffer, size_bytes, self.graph.tensors[tensor].size_bytes())?;
                let [height, width] = self.graph.tensors[tensor].plane;
                let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
                let held = &self.cells[from];
                let lacks = |&(at, (y, x)): &(usize, (i64, i64))| held.get(at) != Some(&Some((tensor, y, x, WHOLE)));
                if let Some((_, (y, x))) = pixels.enumerate().find(lacks) {
                    let tensor = self.graph.tensors[tensor].name.clone();
                    return Err(Complaint::NotThere { step, tensor, buffer: from, y, x });
                }
                self.cells[buffer] = self.cells[from].clone();
            }
        }
        Ok(())
    }

    /// Lose what lies outside a buffer's window of live bytes: others may have overwritten it.
    fn forget(&mut self, step: u32) {
        for (buffer, cells) in self.program.buffers.iter().zip(&mut self.cells) {
            let Some(window) = buffer.windows.iter().find(|window| window.first_step == step) else { continue };
            let pixel_bytes = buffer.size_bytes / (cells.len() as u64).max(1);
            for (pixel, cell) in (0u64..).zip(cells.iter_mut()) {
                if pixel * pixel_bytes < window.low || window.high < (pixel + 1) * pixel_bytes {
                    *cell = None;
                }
            }
        }
    }

    fn slot(&self, view: &View, y: i64, x: i64) -> usize {
        let capacity = self.program.buffers[view.buffer].capacity;
        let row = (y - view.origin[0]).rem_euclid(capacity[0]);
        let column = (x - view.origin[1]).rem_euclid(capacity[1]);
        (row * capacity[1] + column) as usize
    }

    fn stripe(&mut self, step: usize, stripe: &Stripe) -> Result<(), Complaint> {
        let part = &self.graph.parts[stripe.part];
        let (made, all) = self.channels(step, stripe)?;
        for (operand, view) in stripe.inputs.iter().enumerate() {
            self.alive(step, view.buffer)?;
            if !self.is_overlaid(stripe, operand) {
                self.read(step, stripe, operand, view)?;
            }
        }
        if let Some(buffer) = stripe.constants {
            self.alive(step, buffer)?;
            if self.staged[buffer] != Some((stripe.part, stripe.piece)) {
                return Err(Complaint::Unstaged { step, part: part.name.clone() });
            }
        }
        self.alive(step, stripe.output.buffer)?;
        let tensor = part.outputs[0];
        let content = self.program.buffers[stripe.output.buffer].content;
        let mut unions = Vec::new();
        for y in stripe.output.region.spans[0].start..stripe.output.region.spans[0].end {
            for x in stripe.output.region.spans[1].start..stripe.output.region.spans[1].end {
                let slot = self.slot(&stripe.output, y, x);
                let cell = &mut self.cells[stripe.output.buffer][slot];
                let known = match *cell {
                    Some((t, row, column, channels)) if (t, row, column) == (tensor, y, x) => channels,
                    _ => NOTHING,
                };
                let (with, repeats) = self.sets.with(&mut unions, known, made, all);
                if content == Content::Tensor(tensor) && repeats {
                    let (part, tensor) = (part.name.clone(), self.graph.tensors[tensor].name.clone());
                    return Err(Complaint::Repeated { step, part, tensor, y, x });
                }
                *cell = Some((tensor, y, x, with));
                self.inside_window(step, &stripe.output, y)?;
            }
        }
        Ok(())
    }

    /// The channels that a stripe makes, and all that its output has. What is joined lies in its own box.
    fn channels(&self, step: usize, stripe: &Stripe) -> Result<([i64; 2], i64), Complaint> {
        let Some(kernel) = self.graph.kernel(stripe.part) else { return Ok(([0, 0], 0)) };
        let own = kernel.region(stripe.piece);
        if own.meet(&stripe.output.region) != Some(stripe.output.region) {
            let part = self.graph.parts[stripe.part].name.clone();
            return Err(Complaint::Beside { step, part });
        }
        Ok((kernel.channels(stripe.piece), kernel.ofm_depth))
    }

    /// What is written must be inside the window of the moment, or another buffer owns the bytes.
    fn inside_window(&self, step: usize, view: &View, y: i64) -> Result<(), Complaint> {
        let buffer = &self.program.buffers[view.buffer];
        let now = |w: &&LiveWindow| (w.first_step as usize) <= step && step < w.last_step as usize;
        let Some(window) = buffer.windows.iter().find(now) else { return Ok(()) };
        let row_bytes = buffer.size_bytes / buffer.capacity[0] as u64;
        let row = (y - view.origin[0]).rem_euclid(buffer.capacity[0]) as u64;
        if window.low <= row * row_bytes && (row + 1) * row_bytes <= window.high {
            return Ok(());
        }
        Err(Complaint::Dead { step, buffer: view.buffer, y })
    }

    /// Compare an input box with the windows of the output box, and the buffer's cells with the box.
    fn read(&self, step: usize, stripe: &Stripe, operand: usize, view: &View) -> Result<(), Complaint> {
        let part = &self.graph.parts[stripe.part];
        let input = &self.graph.reads(stripe.part, stripe.piece)[operand];
        let tensor = &self.graph.tensors[input.tensor];
        let Work::Npu(kernel) = &part.work else { return Ok(()) };
        let kernel = kernel.piece(stripe.piece);
        let [rows, columns] = stripe.output.region.spans.map(|span| span.start);
        let multiple = kernel.upscale.factor();
        if rows % multiple != 0 || columns % multiple != 0 {
            return Err(Complaint::Halved { step, part: part.name.clone(), y: rows, x: columns });
        }
        let mut padding = [0i64; 4];
        let mut needed = [(0, 0); 2];
        let mut expected = [(0, 0); 2];
        for axis in [Axis::Height, Axis::Width] {
            let first = input.region.span(axis).start;
            let Span { start, end } = stripe.output.region.span(axis);
            let touched = touched(kernel, (operand, input), axis, Span::new(start - first, end - first));
            let axis = axis as usize;
            [padding[axis], padding[axis + 2]] = touched.padding;
            (needed[axis], expected[axis]) = (touched.inside, touched.given);
        }
        if operand == 0 && padding != stripe.padding {
            let (found, expected) = (stripe.padding, padding);
            return Err(Complaint::Padding { step, part: part.name.clone(), found, expected });
        }
        let names = || (part.name.clone(), tensor.name.clone());
        let reshaped = input.plane != tensor.plane || input.strides.is_some();
        let rows = if input.plane[0] == tensor.plane[0] && input.strides.is_none() {
            needed[0].0..needed[0].1 + 1
        } else {
            0..tensor.plane[0]
        };
        if reshaped && !self.holds_rows(view, input.plane, input.tensor, rows) {
            let (part, tensor) = names();
            return Err(Complaint::Reshaped { step, part, tensor });
        }
        for y in needed[0].0..=needed[0].1 {
            for x in needed[1].0..=needed[1].1 {
                let [rows, columns] = view.region.spans;
                if y < rows.start || y >= rows.end || x < columns.start || x >= columns.end {
                    let (part, tensor) = names();
                    return Err(Complaint::Uncovered { step, part, tensor, y, x });
                }
                let held =
                    reshaped || self.cells[view.buffer][self.slot(view, y, x)] == Some((input.tensor, y, x, WHOLE));
                if !held {
                    let (part, tensor) = names();
                    return Err(Complaint::Missing { step, part, tensor, y, x });
                }
            }
        }
        let found = view.region.spans.map(|span| (span.start, span.end));
        if found != expected {
            let (part, tensor) = names();
            return Err(Complaint::Elsewhere { step, part, tensor, found, expected });
        }
        Ok(())
    }

    /// Whether the view's buffer holds all pixels of some rows of a tensor in the maker's order.
    ///
    /// It is laid out as the plane that is seen. Only if that has the maker's rows may the buffer be short of some.
    fn holds_rows(&self, view: &View, plane: [i64; 2], tensor: TensorId, rows: Range<i64>) -> bool {
        let [height, width] = self.graph.tensors[tensor].plane;
        let capacity = self.program.buffers[view.buffer].capacity;
        let in_place = capacity == [height, width] && view.capacity == plane && view.origin == [0, 0];
        let by_rows = plane[0] == height && capacity[1] == width && view.capacity == [capacity[0], plane[1]];
        let cells = &self.cells[view.buffer];
        let first = |y: i64| (y - view.origin[0]).rem_euclid(capacity[0]) * width;
        let mut pixels = rows.flat_map(|y| (0..width).map(move |x| (y, x)));
        (in_place || by_rows && view.origin[1] == 0)
            && pixels.all(|(y, x)| cells[(first(y) + x) as usize] == Some((tensor, y, x, WHOLE)))
    }

    fn load(&mut self, step: usize, part: PartId, table: LookUpTable, slot: u32) -> Result<(), Complaint> {
        let count = (table.bytes.div_ceil(LookUpArea::SLOT_BYTES)) as u32;
        let end = slot.saturating_add(count) as usize;
        if count == 0 || slot % count != 0 || end > self.slots.len() {
            let part = self.graph.parts[part].name.clone();
            return Err(Complaint::Slot { step, part, bytes: table.bytes, slot });
        }
        for (piece, held) in (0..).zip(&mut self.slots[slot as usize..end]) {
            *held = Some((table.id, piece));
        }
        Ok(())
    }

    /// All of the table that a stripe looks results up in is there. Where the slots are not apart from the buffers of
    /// kernels, those of one that looks nothing up may lie in them.
    fn look_up(&mut self, step: usize, stripe: &Stripe) -> Result<(), Complaint> {
        let Some(area) = self.graph.device.look_up_area() else { return Ok(()) };
        let kernel = self.graph.kernel(stripe.part);
        let Some(table) = kernel.and_then(|kernel| kernel.piece(stripe.piece).table()) else {
            if !area.is_apart {
                self.slots = [None; LookUpArea::SLOTS];
            }
            return Ok(());
        };
        let count = table.bytes.div_ceil(LookUpArea::SLOT_BYTES) as usize;
        let whole = |slots: &[Option<(TableId, u32)>]| (0..).zip(slots).all(|(at, slot)| *slot == Some((table.id, at)));
        if self.slots.chunks(count.max(1)).any(whole) {
            return Ok(());
        }
        Err(Complaint::Unloaded { step, part: self.graph.parts[stripe.part].name.clone(), table: table.id })
    }

    fn call(&mut self, step: usize, part: PartId, workspace: Option<BufferId>) -> Result<(), Complaint> {
        // What comes next is another NPU run, which finds no tables.
        self.slots = [None; LookUpArea::SLOTS];
        if let Some(buffer) = workspace {
            self.alive(step, buffer)?;
        }
        let description = &self.graph.parts[part];
        if self.graph.overlay(part).is_none() {
            description.inputs.iter().try_for_each(|input| self.complete(input.tensor))?;
        }
        for &tensor in &description.outputs {
            self.fill(tensor);
        }
        Ok(())
    }

    /// What a call or a stripe may write over while it reads it is there when it begins.
    fn read_overlaid(&self, index: usize, step: &Step) -> Result<(), Complaint> {
        match step {
            Step::Call { part, .. } => self.graph.overlay(*part).map_or(Ok(()), |overlay| self.complete(overlay.input)),
            Step::Stripe(stripe) => {
                let views = stripe.inputs.iter().enumerate();
                let mut overlaid = views.filter(|&(operand, _)| self.is_overlaid(stripe, operand));
                overlaid.try_for_each(|(operand, view)| self.read(index, stripe, operand, view))
            }
            Step::Copy { .. } | Step::LoadTable { .. } | Step::Feed { .. } | Step::Take { .. } => Ok(()),
        }
    }

    /// Whether a stripe, all of its Part, may write over an operand.
    fn is_overlaid(&self, stripe: &Stripe, operand: usize) -> bool {
        let whole = Region::at([0; 2], self.graph.tensors[self.graph.output(stripe.part)].plane);
        let is_whole = stripe.piece.is_none() && stripe.output.region == whole;
        let tensor = |operand: usize| self.graph.parts[stripe.part].inputs[operand].tensor;
        is_whole && self.graph.overlay(stripe.part).is_some_and(|overlay| overlay.input == tensor(operand))
    }

    /// Every pixel of a tensor is in some buffer of its own.
    fn complete(&self, tensor: TensorId) -> Result<(), Complaint> {
        let [height, width] = self.graph.tensors[tensor].plane;
        let holder = self.program.buffers.iter_ids().find(|(id, b)| {
            matches!(b.content, Content::Tensor(t) | Content::Rolling(t, _) if t == tensor)
                && b.capacity == [height, width]
                && self.program.tensor_buffers[tensor].is_none_or(|home| home == *id)
        });
        for y in 0..height {
            for x in 0..width {
                let cell = holder.map(|(buffer, _)| self.cells[buffer][(y * width + x) as usize]);
                if cell != Some(Some((tensor, y, x, WHOLE))) {
                    let tensor = self.graph.tensors[tensor].name.clone();
                    return Err(Complaint::Incomplete { tensor, y, x });
                }
            }
        }
        Ok(())
    }

    fn fill(&mut self, tensor: TensorId) {
        let Some(buffer) = self.program.tensor_buffers[tensor] else { return };
        let [height, width] = self.graph.tensors[tensor].plane;
        for y in 0..height {
            for x in 0..width {
                self.cells[buffer][(y * width + x) as usize] = Some((tensor, y, x, WHOLE));
            }
        }
    }
}

/// What windows touch along an axis.
struct TouchedRange {
    /// Padding before and behind.
    padding: [i64; 2],
    /// The first and the last row or column that is read.
    inside: (i64, i64),
    /// Half-open, what the device is to be given: where a dilated window's first tap lies in padding, that begins at the edge
    /// and not at the first real tap.
    given: (i64, i64),
}

/// The rows or columns of an input that an operation touches for `out`, index by index.
fn touched(kernel: &NpuOperation, (operand, input): (usize, &Input), axis: Axis, out: Span) -> TouchedRange {
    let (inside_of, upscale) = (input.inside.span(axis), if operand == 0 { kernel.upscale } else { Upscale::None });
    if kernel.is_repeated(operand, axis as usize) {
        let only = inside_of.start;
        return TouchedRange { padding: [0; 2], inside: (only, only), given: (only, only + 1) };
    }
    let Span { start: first, end: extent } = inside_of;
    let (factor, zeros) = (upscale.factor(), upscale == Upscale::Zeros);
    let before = i64::from(zeros) - input.propagator.along(axis).dividends(Span::new(0, 0)).start;
    let (mut least, mut most, mut inside) = (i64::MAX, i64::MIN, (i64::MAX, i64::MIN));
    for o in out.start..out.end {
        for k in 0..kernel.kernel[axis as usize] {
            let i = o * kernel.stride[axis as usize] + k * kernel.dilation[axis as usize] - before;
            (least, most) = (least.min(i), most.max(i));
            if (first * factor..extent * factor).contains(&i) && (!zeros || i % factor == 0) {
                inside = (inside.0.min(i / factor), inside.1.max(i / factor));
            }
        }
    }
    // The device counts from a row that exists: a zero ahead of it is padding.
    let zero = if zeros && least > 0 { least % factor } else { 0 };
    let padding = [zero.max(first * factor - least), (most + 1 - extent * factor).max(0)];
    TouchedRange {
        padding,
        inside,
        given: ((least + zero).max(first * factor) / factor, (most / factor + 1).min(extent)),
    }
}

/// Bytes that a copy of a Part's constants, or of one slice of them, writes.
fn copied_bytes(graph: &CascaderGraph, part: PartId, piece: Option<Piece>) -> u64 {
    let Some(kernel) = graph.kernel(part) else { return 0 };
    kernel.encoding(kernel.copied(piece)).map_or(u64::MAX, |encoding| encoding.bytes)
}

fn size(buffer: BufferId, size_bytes: u64, needed_bytes: u64) -> Result<(), Complaint> {
    if size_bytes < needed_bytes {
        return Err(Complaint::Size { buffer, size_bytes, needed_bytes });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::schedule::interleave::interleave;
    use crate::testing::worked_example::{rows_at_a_time, worked_example};

    /// A legal program passes. Row 0 of `expand` cannot be made twice: its input row is dead, and the output may lie there.
    #[test]
    fn example() {
        let graph = worked_example();
        let plans = [rows_at_a_time(0, &[1, 1, 1])];
        let mut program = interleave(&graph, &plans, &mut Costs::default()).expect("a legal Plan");
        assert_eq!(check(&graph, &program), Ok(()));
        program.steps[1] = program.steps[0].clone();
        let Err(Complaint::Missing { step, tensor, y, .. }) = check(&graph, &program) else { panic!("a row is dead") };
        assert_eq!((step, &*tensor, y), (1, "input", 0));
    }
}
