//! Liveness of a program's buffers: rows of a whole tensor are live from their write to their last read.
//!
//! Owns buffers' lifetimes and the windows of live bytes within them. A row is live from the step that writes it
//! first to the step that reads it last, both included, so two tensors may share bytes where the one's rows are dead
//! before the other's are made. A rolling buffer is live as a whole while it holds a row that is still to be read.
//! Staged constants and workspace are live from first to last use. What the caller brings is live at least until something
//! runs, whether anybody reads it or not.
//!
//! A tensor that may be made over another one shares bytes with it in one step. There the larger counts, and nothing of the
//! smaller; `search::items` tells the memory planner of both. State is live in the last step, after which its bytes are
//! written again, unless what updates it can lie there.

use smallvec::{smallvec, SmallVec};

use crate::model::graph::CascaderGraph;
use crate::model::ids::{BufferId, Id, IdVec, TensorId};
use crate::model::program::{Buffer, Content, CopySource, LiveWindow, Placement, Program, Step, View};
use crate::schedule::shared_bytes::{overlays, updates, whole_buffer, SharedBytes};
use crate::stripe::Span;

/// First write and last use of each row of one buffer, as steps.
struct Rows {
    written: Vec<u32>,
    used: Vec<u32>,
}

impl Rows {
    fn new(count: i64) -> Rows {
        Rows { written: vec![u32::MAX; count as usize], used: vec![0; count as usize] }
    }

    fn all(&self) -> (i64, i64) {
        (0, self.written.len() as i64)
    }

    fn write(&mut self, (from, to): (i64, i64), step: u32) {
        for row in from as usize..to as usize {
            self.written[row] = self.written[row].min(step);
            self.used[row] = self.used[row].max(step);
        }
    }

    fn read(&mut self, (from, to): (i64, i64), step: u32) {
        for used in &mut self.used[from as usize..to as usize] {
            *used = (*used).max(step);
        }
    }
}

/// Set every buffer's lifetime and, where only parts of it are live, its windows.
pub fn set_lifetimes(graph: &CascaderGraph, program: &mut Program) {
    let mut rows = accesses(graph, program);
    let end = (program.steps.len() as u32).max(1);
    // Copies ahead of all else are placed and moved by what is in use once something runs.
    let runs = |step: &Step| matches!(step, Step::Stripe(_) | Step::Call { .. });
    let first_run = program.steps.iter().position(runs).unwrap_or(0) as u32;
    for ((id, rows), buffer) in
        rows.iter_mut().enumerate().map(|(id, rows)| (BufferId::at(id), rows)).zip(&mut program.buffers)
    {
        // A caller provides and reads a tensor's home, not its copies.
        let home = |tensor: &TensorId| program.tensor_buffers[*tensor] == Some(id);
        if let Some(tensor) = whole_tensor(buffer).filter(home) {
            let description = &graph.tensors[tensor];
            let all = rows.all();
            if description.is_input {
                rows.write(all, 0);
                rows.read(all, first_run);
            }
            if description.is_output {
                rows.read(all, end - 1);
            }
        }
        buffer.first_step = rows.written.iter().copied().min().unwrap_or(0);
        buffer.last_step = rows.used.iter().copied().max().unwrap_or(0) + 1;
        buffer.windows = windows(rows, buffer.size_bytes / rows.written.len() as u64);
    }
    rest(graph, program);
    share_steps(graph, program);
    hold_state(graph, program);
}

/// Of two tensors that may share bytes in a step, count the larger there.
fn share_steps(graph: &CascaderGraph, program: &mut Program) {
    let shared: Vec<SharedBytes> = overlays(graph, program).collect();
    for SharedBytes { step, buffer: output, with: input, .. } in shared {
        let [read, made] = [input, output].map(|id| program.buffers[id].size_bytes);
        let smaller = &mut program.buffers[if made < read { output } else { input }];
        smaller.windows = live_windows(smaller);
        let rest = LiveWindow { first_step: step, last_step: step + 1, low: 0, high: 0 };
        let cut = |window: LiveWindow| {
            let before = LiveWindow { last_step: window.last_step.min(step), ..window };
            let behind = LiveWindow { first_step: window.first_step.max(step + 1), ..window };
            let meets = window.first_step <= step && step < window.last_step;
            let parts = if meets { [before, rest, behind] } else { [window; 3] };
            parts.into_iter().take(if meets { 3 } else { 1 }).filter(|part| part.first_step < part.last_step)
        };
        smaller.windows = smaller.windows.drain(..).flat_map(cut).collect();
    }
}

/// Count both of two tensors where they might share bytes and were placed apart.
pub fn count_apart(graph: &CascaderGraph, program: &mut Program, placement: &Placement) {
    let lies = |id: BufferId| (placement.pools[id], placement.offsets[id]);
    let shared = overlays(graph, program).filter(SharedBytes::is_handed_over);
    let apart: Vec<SharedBytes> = shared.filter(|pair| lies(pair.buffer) != lies(pair.with)).collect();
    for SharedBytes { step, with, .. } in apart {
        let Buffer { size_bytes, windows, .. } = &mut program.buffers[with];
        let rest = windows.iter_mut().filter(|window| window.first_step == step);
        rest.for_each(|window| window.high = *size_bytes);
    }
}

/// Make state live in the last step, unless its update may lie in its place.
fn hold_state(graph: &CascaderGraph, program: &mut Program) {
    let end = (program.steps.len() as u32).max(1);
    let updated: Vec<BufferId> = updates(graph, program).map(|[before, _]| before).collect();
    let state = graph.tensors.iter_ids().filter(|(_, tensor)| tensor.is_state);
    let held: Vec<BufferId> = state.filter_map(|(id, _)| whole_buffer(program, id)).collect();
    for id in held.into_iter().filter(|id| !updated.contains(id)) {
        let buffer = &mut program.buffers[id];
        if buffer.last_step < end {
            buffer.windows = live_windows(buffer);
            let window = |first_step, last_step, high| LiveWindow { first_step, last_step, low: 0, high };
            let windows = [window(buffer.last_step, end - 1, 0), window(end - 1, end, buffer.size_bytes)];
            buffer.windows.extend(windows.into_iter().filter(|window| window.first_step < window.last_step));
            buffer.last_step = end;
        }
    }
}

/// Which bytes of a buffer are in use when, from its first step to its last.
pub fn live_windows(buffer: &Buffer) -> Vec<LiveWindow> {
    let Buffer { size_bytes: high, first_step, last_step, .. } = *buffer;
    match buffer.windows.is_empty() {
        true => vec![LiveWindow { first_step, last_step, low: 0, high }],
        false => buffer.windows.clone(),
    }
}

/// When the program's steps first write and last read the rows of each buffer.
fn accesses(graph: &CascaderGraph, program: &Program) -> IdVec<BufferId, Rows> {
    let mut rows: IdVec<BufferId, Rows> =
        program.buffers.iter().map(|b| Rows::new(rows_of(b.content, b.capacity))).collect();
    let mut arriving: Option<View> = None;
    for (step, action) in (0u32..).zip(&program.steps) {
        match action {
            Step::Copy { moved, buffer, .. } => {
                if let CopySource::Tensor { from, .. } = moved {
                    let all = rows[*from].all();
                    rows[*from].read(all, step);
                }
                let all = rows[*buffer].all();
                rows[*buffer].write(all, step);
            }
            Step::LoadTable { .. } => {}
            Step::Stripe(stripe) => {
                for view in &stripe.inputs {
                    let span = touched(program, view, &rows[view.buffer]);
                    rows[view.buffer].read(span, step);
                }
                if let Some(buffer) = stripe.constants {
                    rows[buffer].read((0, 1), step);
                }
                let span = touched(program, &stripe.output, &rows[stripe.output.buffer]);
                rows[stripe.output.buffer].write(span, step);
            }
            Step::Feed { part, output } => {
                // Rows that arrive meanwhile are written until the next ones are wanted.
                let before = arriving.replace(*output).filter(|_| graph.arrives_ahead(*part));
                for view in before.iter().chain([output]) {
                    let span = touched(program, view, &rows[view.buffer]);
                    rows[view.buffer].write(span, step);
                }
            }
            Step::Take { input, .. } => {
                let span = touched(program, input, &rows[input.buffer]);
                rows[input.buffer].read(span, step);
            }
            Step::Call { part, workspace } => {
                let description = &graph.parts[*part];
                for tensor in description.inputs.iter().map(|input| input.tensor) {
                    if let Some(buffer) = program.tensor_buffers[tensor] {
                        let all = rows[buffer].all();
                        rows[buffer].read(all, step);
                    }
                }
                let made = description.outputs.iter().filter_map(|&tensor| program.tensor_buffers[tensor]);
                for buffer in made.chain(*workspace) {
                    let all = rows[buffer].all();
                    rows[buffer].write(all, step);
                }
            }
        }
    }
    rows
}

/// Whether a buffer's windows lie in it and follow one another through its lifetime, as in every complete program.
pub fn is_tiled(buffer: &Buffer) -> bool {
    let inside = |window: &LiveWindow| window.first_step < window.last_step && window.high <= buffer.size_bytes;
    let [first, .., last] = &buffer.windows[..] else { return buffer.windows.iter().all(inside) };
    buffer.windows.iter().all(|window| inside(window) && window.low <= window.high)
        && buffer.windows.windows(2).all(|pair| pair[0].last_step == pair[1].first_step)
        && (first.first_step, last.last_step) == (buffer.first_step, buffer.last_step)
}

/// The tensor that a buffer holds as a whole.
fn whole_tensor(buffer: &Buffer) -> Option<TensorId> {
    match buffer.content {
        Content::Tensor(tensor) => Some(tensor),
        Content::Rolling(..) | Content::Constants(_) | Content::Workspace(_) => None,
    }
}

/// What a row, or column, of a rolling buffer holds for a while.
#[derive(Clone, Copy)]
struct Occupant {
    /// Its index in the tensor, and where the band begins that it belongs to: the next band's row of the same index holds
    /// other pixels.
    row: [i64; 2],
    /// First write and one past the last use, as steps.
    live: (u32, u32),
}

/// When the rows of a rolling buffer are in use, while the program is followed.
struct Rolling {
    capacity: [i64; 2],
    /// The axis along which it rolls.
    axis: usize,
    /// By rows, or columns, of the buffer.
    occupants: SmallVec<[Option<Occupant>; 16]>,
    /// Steps in which rows that have been written over were in use.
    live: Vec<(u32, u32)>,
}

impl Rolling {
    /// Of a buffer; none unless it rolls.
    fn of(buffer: &Buffer) -> Option<Rolling> {
        let Content::Rolling(_, axis) = buffer.content else { return None };
        let (capacity, axis) = (buffer.capacity, axis as usize);
        let occupants = smallvec![None; capacity[axis] as usize];
        Some(Rolling { capacity, axis, occupants, live: Vec::new() })
    }

    /// Rows of the tensor that a view touches. A view with another shape than the buffer's may touch all of it, one with
    /// other columns all of the rows that it sees.
    fn span(&self, view: &View) -> Span {
        let origin = view.origin[self.axis];
        if view.in_rows && view.capacity[..=self.axis] == self.capacity[..=self.axis] {
            view.region.spans[self.axis]
        } else {
            Span::new(origin, origin + self.capacity[self.axis])
        }
    }

    /// Where in the buffer a row of the tensor lies.
    fn place(&self, view: &View, row: i64) -> usize {
        (row - view.origin[self.axis]).rem_euclid(self.capacity[self.axis]) as usize
    }

    fn read(&mut self, view: &View, step: u32) {
        let span = self.span(view);
        for row in span.start..span.end {
            let place = self.place(view, row);
            self.occupants[place].iter_mut().for_each(|held| held.live.1 = step + 1);
        }
    }

    /// A row that is there already is added to, as slices and joined operations do; any other one is written over.
    fn write(&mut self, view: &View, step: u32) {
        let (span, band) = (self.span(view), view.origin[1 - self.axis]);
        for row in span.start..span.end {
            let new = Occupant { row: [row, band], live: (step, step + 1) };
            let place = self.place(view, row);
            match &mut self.occupants[place] {
                Some(held) if held.row == new.row => held.live.1 = step + 1,
                held => self.live.extend(held.replace(new).map(|old| old.live)),
            }
        }
    }

    /// Steps in which anything in it is in use, in order.
    fn spans(mut self) -> Vec<(u32, u32)> {
        self.live.extend(self.occupants.iter().flatten().map(|held| held.live));
        self.live.sort_unstable();
        let mut spans: Vec<(u32, u32)> = Vec::new();
        for (first, end) in self.live {
            match spans.last_mut() {
                Some(last) if first <= last.1 => last.1 = last.1.max(end),
                _ => spans.push((first, end)),
            }
        }
        spans
    }
}

/// Set the windows of rolling buffers: nothing of one is live from the last read of all that it holds to the next
/// write.
fn rest(graph: &CascaderGraph, program: &mut Program) {
    let mut rolling: IdVec<BufferId, Option<Rolling>> = program.buffers.iter().map(Rolling::of).collect();
    let mut arriving: Option<View> = None;
    for (step, action) in (0u32..).zip(&program.steps) {
        let (inputs, output) = match action {
            Step::Stripe(stripe) => (&stripe.inputs[..], Some(&stripe.output)),
            Step::Take { input, .. } => (std::slice::from_ref(input), None),
            Step::Feed { part, output } => {
                let before = arriving.replace(*output).filter(|_| graph.arrives_ahead(*part));
                before.iter().for_each(|view| {
                    rolling[view.buffer].iter_mut().for_each(|buffer| buffer.read(view, step));
                });
                (&[][..], Some(output))
            }
            _ => continue,
        };
        for view in inputs {
            rolling[view.buffer].iter_mut().for_each(|buffer| buffer.read(view, step));
        }
        if let Some(output) = output {
            rolling[output.buffer].iter_mut().for_each(|buffer| buffer.write(output, step));
        }
    }
    for (buffer, rolling) in program.buffers.iter_mut().zip(rolling.into_items()) {
        let Some(spans) = rolling.map(Rolling::spans).filter(|spans| spans.len() > 1) else { continue };
        let (mut at, size) = (buffer.first_step, buffer.size_bytes);
        for (first_step, last_step) in spans {
            if at < first_step {
                buffer.windows.push(LiveWindow { first_step: at, last_step: first_step, low: 0, high: 0 });
            }
            buffer.windows.push(LiveWindow { first_step, last_step, low: 0, high: size });
            at = last_step;
        }
    }
}

/// Rows that live and die by themselves: a whole tensor's; anything else counts as one.
fn rows_of(content: Content, capacity: [i64; 2]) -> i64 {
    match content {
        Content::Tensor(_) => capacity[0],
        _ => 1,
    }
}

/// Rows of its buffer touched by a view; all where the view has other rows.
fn touched(program: &Program, view: &View, rows: &Rows) -> (i64, i64) {
    let buffer = &program.buffers[view.buffer];
    if rows.written.len() == 1 || !view.in_rows || view.capacity[0] != buffer.capacity[0] {
        return rows.all();
    }
    (view.region.spans[0].start, view.region.spans[0].end)
}

/// The live rows over time as windows of bytes; none if all rows live equally long.
fn windows(rows: &Rows, row_bytes: u64) -> Vec<LiveWindow> {
    let mut changes: Vec<u32> = rows.written.iter().copied().chain(rows.used.iter().map(|&step| step + 1)).collect();
    changes.sort_unstable();
    changes.dedup();
    if changes.len() <= 2 {
        return Vec::new();
    }
    let mut found: Vec<LiveWindow> = Vec::new();
    for period in changes.windows(2) {
        let live = |row: &usize| rows.written[*row] <= period[0] && period[0] <= rows.used[*row];
        let count = rows.written.len();
        let low = (0..count).find(live).unwrap_or(0) as u64 * row_bytes;
        let high = (0..count).rev().find(live).map_or(0, |row| row + 1) as u64 * row_bytes;
        match found.last_mut() {
            Some(last) if (last.low, last.high) == (low, high) => last.last_step = period[1],
            _ => found.push(LiveWindow { first_step: period[0], last_step: period[1], low, high }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::model::ids::{PartId, Piece};
    use crate::model::operation::OperationKind;
    use crate::model::plan::{Plan, Staging};
    use crate::schedule::interleave::interleave;
    use crate::stripe::{Axis, Tiling};
    use crate::testing::networks::{Network, INPUT};

    /// One cascade of a whole network, its stripes one row or column each, in this many bands.
    fn cascade(graph: &CascaderGraph, roll: Axis, tiles: u32) -> Program {
        let count = graph.parts.len();
        let tiling = Tiling { roll, tiles };
        let (stripes, staging) = (vec![1; count], vec![Staging::InPlace; count]);
        let plan = Plan {
            first: PartId(0),
            last: PartId(count as u32 - 1),
            tiling,
            backwards: false,
            stripes,
            staging,
            copied: Vec::new(),
        };
        interleave(graph, &[plan], &mut Costs::default()).expect("a legal plan")
    }

    fn rolls(buffer: &Buffer, tensor: TensorId) -> bool {
        matches!(buffer.content, Content::Rolling(t, _) if t == tensor)
    }

    /// Steps in which the rolling buffer of a tensor is live.
    fn live(program: &Program, tensor: TensorId) -> Vec<u32> {
        let buffer = program.buffers.iter().find(|buffer| rolls(buffer, tensor)).expect("a rolling buffer");
        let size = buffer.size_bytes;
        assert!(buffer.windows.iter().all(|w| w.low == 0 && (w.high == 0 || w.high == size)));
        assert!(buffer.windows.windows(2).all(|pair| pair[0].last_step == pair[1].first_step));
        let window = |step: u32| buffer.windows.iter().find(|w| w.first_step <= step && step < w.last_step);
        (buffer.first_step..buffer.last_step).filter(|&step| window(step).is_none_or(|w| w.high > 0)).collect()
    }

    /// Steps that touch the rolling buffer of a tensor.
    fn touched(program: &Program, tensor: TensorId) -> Vec<u32> {
        let is_it = |view: &View| rolls(&program.buffers[view.buffer], tensor);
        let touches = |step: &Step| match step {
            Step::Stripe(stripe) => is_it(&stripe.output) || stripe.inputs.iter().any(is_it),
            _ => false,
        };
        (0..).zip(&program.steps).filter(|(_, step)| touches(step)).map(|(index, _)| index).collect()
    }

    #[test]
    fn a_buffer_is_not_live_while_nothing_in_it_is_wanted() {
        for (roll, tiles) in [(Axis::Height, 1), (Axis::Width, 1), (Axis::Height, 3), (Axis::Width, 3)] {
            let mut net = Network::new([12, 13], 16);
            let spread = net.window(INPUT, OperationKind::Depthwise, 3, 1, 16);
            let mixed = net.window(spread, OperationKind::Convolution, 1, 1, 16);
            let out = net.window(mixed, OperationKind::Depthwise, 3, 1, 16);
            let graph = net.finish(out);
            let program = cascade(&graph, roll, tiles);
            // A row that one kernel alone reads is wanted until then; of three, two are wanted for the next stripe as
            // well.
            assert_eq!(live(&program, spread), touched(&program, spread));
            assert!(live(&program, spread).len() < live(&program, mixed).len());
            let rests = touched(&program, mixed).iter().filter(|step| !live(&program, mixed).contains(step)).count();
            assert_eq!(rests, 0);
            let bands = live(&program, mixed).windows(2).filter(|pair| pair[1] > pair[0] + 1).count();
            assert_eq!(bands, tiles as usize - 1);
        }
    }

    #[test]
    fn who_sees_a_buffer_otherwise_wants_all_of_it() {
        let mut net = Network::new([6, 4], 16);
        let spread = net.window(INPUT, OperationKind::Depthwise, 3, 1, 16);
        let out = net.window(spread, OperationKind::Convolution, 1, 1, 16);
        let graph = net.finish(out);
        let mut program = cascade(&graph, Axis::Height, 1);
        // The rows of a buffer that holds them all, made from the last to the first, are read as one.
        let buffer = program.buffers.iter_mut().find(|buffer| rolls(buffer, spread));
        buffer.expect("a rolling buffer").capacity = [6, 4];
        let part = |step: &Step| if let Step::Stripe(stripe) = step { stripe.part } else { PartId(0) };
        program.steps.sort_by_key(part);
        program.steps.truncate(7);
        program.steps[..6].reverse();
        for step in &mut program.steps {
            let Step::Stripe(stripe) = step else { continue };
            stripe.output.capacity = [6, 4];
            if stripe.part == PartId(1) {
                stripe.inputs[0].region.spans = [1, 24].map(|extent| Span::new(0, extent));
                stripe.inputs[0].capacity = [1, 24];
            }
        }
        program
            .steps
            .insert(3, Step::Copy { moved: CopySource::Constants(PartId(0), None), buffer: BufferId(0), cycles: 0 });
        set_lifetimes(&graph, &mut program);
        assert_eq!(live(&program, spread), (0..8).collect::<Vec<u32>>());
    }

    #[test]
    fn what_is_joined_is_held_while_more_is_added() {
        let mut net = Network::new([9, 7], 16);
        let branches = [1, 3].map(|kernel| net.window(INPUT, OperationKind::Depthwise, kernel, 1, 16));
        let joined = net.join(&[branches[1], branches[0]]);
        let out = net.window(joined, OperationKind::Convolution, 1, 1, 16);
        let graph = net.finish(out);
        let mut program = cascade(&graph, Axis::Height, 1);
        // Something else between the two inputs of a stripe.
        let second = |step: &Step| matches!(step, Step::Stripe(stripe) if stripe.piece == Some(Piece(1)));
        let at = program.steps.iter().position(second).expect("two inputs");
        program
            .steps
            .insert(at, Step::Copy { moved: CopySource::Constants(PartId(0), None), buffer: BufferId(0), cycles: 0 });
        set_lifetimes(&graph, &mut program);
        assert!(live(&program, joined).contains(&(at as u32)));
        assert!(live(&program, joined).len() > touched(&program, joined).len());
    }
}
