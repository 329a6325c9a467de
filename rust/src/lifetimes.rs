//! When the bytes of a program's buffers are in use: rows of a whole tensor appear as they are made and die when read last.
//!
//! Owns buffers' lifetimes and the windows of live bytes within them. A row is live from the step that writes it first to
//! the step that reads it last, both included, so two tensors may share bytes where the one's rows are dead before the
//! other's are made. Rolling buffers, staged constants and workspace are live as a whole.

use crate::graph::CascaderGraph;
use crate::program::{Content, Program, Step, View, Window};

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

/// Set every buffer's lifetime and, where rows of a whole tensor appear or die one after the other, its windows.
pub fn settle(graph: &CascaderGraph, program: &mut Program) {
    let mut rows: Vec<Rows> = program.buffers.iter().map(|b| Rows::new(rows_of(b.content, b.capacity))).collect();
    for (step, action) in (0u32..).zip(&program.steps) {
        match action {
            Step::Copy { buffer, .. } => rows[*buffer as usize].write((0, 1), step),
            Step::Stripe(stripe) => {
                for view in &stripe.inputs {
                    let span = touched(program, view, &rows[view.buffer as usize]);
                    rows[view.buffer as usize].read(span, step);
                }
                if let Some(buffer) = stripe.constants {
                    rows[buffer as usize].read((0, 1), step);
                }
                let span = touched(program, &stripe.output, &rows[stripe.output.buffer as usize]);
                rows[stripe.output.buffer as usize].write(span, step);
            }
            Step::Call { part, workspace } => {
                let description = &graph.parts[*part as usize];
                for tensor in description.inputs.iter().map(|input| input.tensor) {
                    if let Some(buffer) = program.tensor_buffers[tensor as usize] {
                        let all = rows[buffer as usize].all();
                        rows[buffer as usize].read(all, step);
                    }
                }
                let made = description.outputs.iter().filter_map(|&tensor| program.tensor_buffers[tensor as usize]);
                for buffer in made.chain(*workspace) {
                    let all = rows[buffer as usize].all();
                    rows[buffer as usize].write(all, step);
                }
            }
        }
    }
    let end = (program.steps.len() as u32).max(1);
    for (buffer, rows) in program.buffers.iter_mut().zip(&mut rows) {
        if let Content::Tensor(tensor) = buffer.content {
            let description = &graph.tensors[tensor as usize];
            let all = rows.all();
            if description.is_input {
                rows.write(all, 0);
            }
            if description.is_output {
                rows.read(all, end - 1);
            }
        }
        buffer.first_step = rows.written.iter().copied().min().unwrap_or(0);
        buffer.last_step = rows.used.iter().copied().max().unwrap_or(0) + 1;
        buffer.windows = windows(rows, buffer.size_bytes / rows.written.len() as u64);
    }
}

/// Rows that live and die by themselves: a whole tensor's; anything else counts as one.
fn rows_of(content: Content, capacity: [i64; 2]) -> i64 {
    match content {
        Content::Tensor(_) => capacity[0],
        _ => 1,
    }
}

/// Rows of its buffer that a view touches; all of them where it sees the buffer differently than it is laid out.
fn touched(program: &Program, view: &View, rows: &Rows) -> (i64, i64) {
    let buffer = &program.buffers[view.buffer as usize];
    if rows.written.len() == 1 || view.capacity != buffer.capacity {
        return rows.all();
    }
    (view.region.spans[0].start, view.region.spans[0].end)
}

/// The live rows over time as windows of bytes; none if all rows live equally long.
fn windows(rows: &Rows, row_bytes: u64) -> Vec<Window> {
    let mut changes: Vec<u32> = rows.written.iter().copied().chain(rows.used.iter().map(|&step| step + 1)).collect();
    changes.sort_unstable();
    changes.dedup();
    if changes.len() <= 2 {
        return Vec::new();
    }
    let mut found: Vec<Window> = Vec::new();
    for period in changes.windows(2) {
        let live = |row: &usize| rows.written[*row] <= period[0] && period[0] <= rows.used[*row];
        let count = rows.written.len();
        let low = (0..count).find(live).unwrap_or(0) as u64 * row_bytes;
        let high = (0..count).rev().find(live).map_or(0, |row| row + 1) as u64 * row_bytes;
        match found.last_mut() {
            Some(last) if (last.low, last.high) == (low, high) => last.last_step = period[1],
            _ => found.push(Window { first_step: period[0], last_step: period[1], low, high }),
        }
    }
    found
}
