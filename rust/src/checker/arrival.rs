//! Rows of a streamed input in a program: handed over in order, and undisturbed until they are there.
//!
//! Owns what the replay knows of them. What a stripe may read is `checker`'s to say.

use super::{Complaint, Replay, WHOLE};
use crate::model::ids::{PartId, TensorId};
use crate::model::program::View;
use crate::stripe::Span;

impl Replay<'_> {
    /// Rows are handed over in order, each in its full width.
    pub(super) fn feed(&mut self, step: usize, part: PartId, output: &View) -> Result<(), Complaint> {
        self.alive(step, output.buffer)?;
        let tensor = self.graph.output(part);
        let [rows, columns] = output.region.spans;
        let fed = std::mem::replace(&mut self.fed[tensor], rows.end);
        if rows.start != fed || columns != Span::new(0, self.graph.tensors[tensor].plane[1]) {
            let tensor = self.graph.tensors[tensor].name.clone();
            return Err(Complaint::Unordered { step, tensor, fed, start: rows.start });
        }
        if let Some(before) = self.arriving.take() {
            self.arrive(step, tensor, &before)?;
        }
        if !self.graph.arrives_ahead(part) {
            return self.arrive(step, tensor, output);
        }
        self.write_rows(output, None);
        self.arriving = (!rows.is_empty()).then_some(*output);
        Ok(())
    }

    /// Rows are there.
    fn arrive(&mut self, step: usize, tensor: TensorId, rows: &View) -> Result<(), Complaint> {
        self.write_rows(rows, Some(tensor));
        let mut lines = rows.region.spans[0].start..rows.region.spans[0].end;
        lines.try_for_each(|y| self.inside_window(step, rows, y))
    }

    fn write_rows(&mut self, rows: &View, tensor: Option<TensorId>) {
        let [lines, columns] = rows.region.spans;
        for (y, x) in (lines.start..lines.end).flat_map(|y| (columns.start..columns.end).map(move |x| (y, x))) {
            let slot = self.slot(rows, y, x);
            self.cells[rows.buffer][slot] = tensor.map(|tensor| (tensor, y, x, WHOLE));
        }
    }

    /// Rows on their way keep their place: no other buffer has these bytes meanwhile.
    pub(super) fn keep_arriving(&self, step: usize) -> Result<(), Complaint> {
        let Some(rows) = &self.arriving else { return Ok(()) };
        self.alive(step, rows.buffer)?;
        let mut lines = rows.region.spans[0].start..rows.region.spans[0].end;
        lines.try_for_each(|y| self.inside_window(step, rows, y))
    }
}
