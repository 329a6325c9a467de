//! Rows of streamed inputs and outputs in a program: handed over in order, and undisturbed while they arrive.
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
        let rows = output.region.spans[0];
        self.hand_over(step, tensor, output)?;
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

    /// Rows are taken in order, each in its full width, when all of them are there.
    pub(super) fn take(&mut self, step: usize, part: PartId, input: &View) -> Result<(), Complaint> {
        self.alive(step, input.buffer)?;
        let tensor = self.graph.parts[part].inputs[0].tensor;
        self.hand_over(step, self.graph.output(part), input)?;
        let [rows, columns] = input.region.spans;
        let mut pixels = (rows.start..rows.end).flat_map(|y| (columns.start..columns.end).map(move |x| (y, x)));
        let is_missing =
            |&(y, x): &(i64, i64)| self.cells[input.buffer][self.slot(input, y, x)] != Some((tensor, y, x, WHOLE));
        match pixels.find(is_missing) {
            Some((y, x)) => {
                let [part, tensor] =
                    [&self.graph.parts[part].name, &self.graph.tensors[tensor].name].map(String::clone);
                Err(Complaint::Missing { step, part, tensor, y, x })
            }
            None => Ok(()),
        }
    }

    /// At the end, every row of an output has been taken.
    pub(super) fn all_is_taken(&self, part: PartId) -> Result<(), Complaint> {
        let tensor = self.graph.output(part);
        let (y, height) = (self.handed[tensor], self.graph.tensors[tensor].plane[0]);
        match y < height {
            true => Err(Complaint::Incomplete { tensor: self.graph.tensors[tensor].name.clone(), y, x: 0 }),
            false => Ok(()),
        }
    }

    fn hand_over(&mut self, step: usize, tensor: TensorId, rows: &View) -> Result<(), Complaint> {
        let [lines, columns] = rows.region.spans;
        let next = std::mem::replace(&mut self.handed[tensor], lines.end);
        if lines.start != next || columns != Span::new(0, self.graph.tensors[tensor].plane[1]) {
            let tensor = self.graph.tensors[tensor].name.clone();
            return Err(Complaint::Unordered { step, tensor, next, start: lines.start });
        }
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
