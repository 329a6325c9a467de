//! The network's inputs: whether a byte of one still is what the host put there when a command reads it.
//!
//! A command that reads bytes of an input reads one feature map or one transfer, so either all of these bytes are the
//! input's or none is: a memory plan may give an input's bytes to other tensors once it is dead. A read that finds
//! both is the mark of an input that was overwritten too early.

use super::access::{Access, Accesses, Place};
use super::hazard::{place_name, Hazard, HazardKind};
use super::ranges::Ranges;

/// Overwriting commands that are remembered per input, the latest.
const MAX_WRITERS: usize = 4096;

#[derive(Debug, Clone)]
struct Input {
    buffer: usize,
    start: i64,
    end: i64,
    /// Per byte, whether it is still the host's.
    intact: Vec<bool>,
    intact_bytes: usize,
    writers: Vec<(usize, i64, i64)>,
}

/// The inputs that are watched. They stay watched over several payloads.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    watched: Vec<Input>,
}

impl Inputs {
    /// Watches bytes `[start, end)` of a buffer, which the host has written.
    pub fn watch(&mut self, buffer: usize, start: usize, end: usize) {
        let bytes = end.saturating_sub(start);
        self.watched.push(Input {
            buffer,
            start: start as i64,
            end: end as i64,
            intact: vec![true; bytes],
            intact_bytes: bytes,
            writers: Vec::new(),
        });
    }

    /// The host writes bytes `[start, end)` of a buffer: they are an input no longer.
    pub fn host_write(&mut self, buffer: usize, start: usize, end: usize) {
        for input in self.watched.iter_mut().filter(|input| input.buffer == buffer) {
            input.overwrite(start as i64, end as i64);
        }
    }

    /// A command reads, then writes. Several reads may be one operand's; each is judged by itself.
    pub(super) fn command(&mut self, command: usize, accesses: &Accesses) -> Vec<Hazard> {
        let mut found = Vec::new();
        for input in self.watched.iter_mut().filter(|input| input.intact_bytes > 0) {
            found.extend(accesses.reads.iter().filter_map(|read| input.judge(command, read)));
            for write in &accesses.writes {
                if !input.meets(write) {
                    continue;
                }
                for (start, end) in write.ranges().iter() {
                    input.overwrite(start, end);
                }
                let (start, end) = write.bounds();
                if input.writers.len() >= MAX_WRITERS {
                    input.writers.remove(0);
                }
                input.writers.push((command, start, end));
            }
        }
        found
    }

    /// Forgets which commands wrote: their numbers belong to a payload that has ended.
    pub fn end_payload(&mut self) {
        self.watched.iter_mut().for_each(|input| input.writers.clear());
    }
}

impl Input {
    fn meets(&self, access: &Access) -> bool {
        let (start, end) = access.bounds();
        access.place == Place::Buffer(self.buffer) && start < self.end && self.start < end
    }

    fn overwrite(&mut self, start: i64, end: i64) {
        let clip = |at: i64| (at.clamp(self.start, self.end) - self.start) as usize;
        for byte in &mut self.intact[clip(start)..clip(end).max(clip(start))] {
            self.intact_bytes -= usize::from(std::mem::take(byte));
        }
    }

    fn judge(&self, command: usize, read: &Access) -> Option<Hazard> {
        if !self.meets(read) || self.intact_bytes == self.intact.len() {
            return None;
        }
        let common = read.ranges().intersection(&Ranges::union(vec![(self.start, self.end)]));
        let slices = || common.iter().map(|(a, b)| &self.intact[(a - self.start) as usize..(b - self.start) as usize]);
        if !slices().any(|bytes| bytes.contains(&true)) || !slices().any(|bytes| bytes.contains(&false)) {
            return None;
        }
        let lost = common.iter().flat_map(|(a, b)| a..b).filter(|at| !self.intact[(at - self.start) as usize]);
        let lost = lost.map(|at| (at, at + 1)).collect();
        let lost = Ranges::union(lost);
        let (low, high) = lost.iter().next()?;
        let first = self.writers.iter().rev().find(|(_, start, end)| *start < high && low < *end).map(|w| w.0);
        let (start, end) = (low - read.offset, high - read.offset);
        let place = place_name(read.region);
        let who = first.map_or_else(|| "the host".to_string(), |first| format!("command {first}"));
        let message = format!(
            "command {command} ({}) reads a network input of which {who} has overwritten bytes [{start}, {end}) of {place}",
            read.what
        );
        let kind = HazardKind::InputOverwritten;
        Some(Hazard { kind, first, second: command, region: read.region, start, end, message })
    }
}
