//! What the bytes of a stream's memories are for: who made what an operation reads, and how many bytes are kept at it.
//! Owns both walks over a stream's accesses. Nothing is computed, so neither weights nor inputs are needed.
//!
//! A byte is live at an operation that touches it, and between two commands if what it holds is read later on: by the
//! stream, or by the caller when the stream has ended. Bytes of regions without a memory (constants) have no producer.

use std::collections::{BTreeMap, BTreeSet};

use super::accelerator::Accelerator;
use super::decode::{decode, Command, Opcode};
use super::dma::read_dma;
use super::error::NpuError;
use super::hazards::access::{of_dma, of_kernel, Access, Accesses, Place};
use super::hazards::ranges::Ranges;
use super::kernel_reader::read_kernel;
use super::memory::{Memory, REGION_COUNT};
use super::payload;
use super::registers::RegisterFile;
use super::run::{kernel_kind, kernel_work};
use crate::util::interrupt;

/// Bytes `[start, end)` of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Which memory.
    pub memory: usize,
    /// First byte.
    pub start: i64,
    /// One past the last.
    pub end: i64,
}

/// Who put bytes where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Maker {
    /// What was there before the stream: an index of the pieces given.
    Given(usize),
    /// A kernel or transfer, by its number among them.
    Operation(usize),
}

/// A kernel or a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationFlow {
    /// Index of its command.
    pub command: usize,
    /// Who made what it reads, each once; the NPU's own memory is seen through.
    pub makers: Vec<Maker>,
    /// Of each memory the bytes that are live at it, and one past the highest of them.
    pub live: Vec<(u64, i64)>,
}

/// A whole stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataflow {
    /// Kernels and transfers in stream order.
    pub operations: Vec<OperationFlow>,
    /// Who made each of the pieces wanted.
    pub wanted: Vec<Vec<Maker>>,
    /// What must be there before the stream, for it and for what is wanted behind it.
    pub before: Vec<Piece>,
}

/// Follows the bytes of a payload. `regions` maps the stream's regions to memories `0..memories`, `given` is what is
/// there before it, `wanted` what is read when it has ended.
///
/// # Errors
/// What is wrong with the payload, or the first command that is wrong.
pub fn dataflow(
    bytes: &[u8],
    accelerator: &Accelerator,
    regions: [Option<usize>; REGION_COUNT],
    memories: usize,
    given: &[Piece],
    wanted: &[Piece],
) -> Result<Dataflow, NpuError> {
    let touched = accesses(bytes, accelerator, regions, memories)?;
    let (makers, of_wanted) = makers(&touched, memories, given, wanted);
    let (live, before) = live(&touched, memories, wanted);
    let operations = touched.into_iter().zip(makers).zip(live);
    let operations = operations.map(|(((command, _), makers), live)| OperationFlow { command, makers, live });
    Ok(Dataflow { operations: operations.collect(), wanted: of_wanted, before })
}

/// What each kernel and transfer touches, by its command; the memories are the buffers.
fn accesses(
    bytes: &[u8],
    accelerator: &Accelerator,
    regions: [Option<usize>; REGION_COUNT],
    memories: usize,
) -> Result<Vec<(usize, Accesses)>, NpuError> {
    let payload = payload::parse(bytes)?;
    payload::check_device(&payload, accelerator)?;
    // Only which regions are one memory is asked of it: nothing is read or written.
    let mut memory = Memory::new(0, false);
    for _ in 0..memories {
        memory.add_buffer(Vec::new(), true, false);
    }
    for (region, place) in regions.into_iter().enumerate() {
        if let Some(buffer) = place {
            let fault = |fault| NpuError::Command { command: 0, operation: "regions", fault };
            memory.set_region(region, buffer, 0, 0).map_err(fault)?;
        }
    }
    let mut registers = RegisterFile::default();
    let mut found = Vec::new();
    for (command, decoded) in decode(&payload.stream)?.iter().enumerate() {
        interrupt::ask();
        let fault = |fault| NpuError::Command { command, operation: decoded.name(), fault };
        match *decoded {
            Command::Set { register, value } => registers.set(register, value),
            Command::Operation { opcode: Opcode::DmaStart, .. } => {
                let dma = read_dma(&registers, accelerator).map_err(fault)?;
                found.push((command, of_dma(&dma, &memory)));
            }
            Command::Operation { opcode, parameter } => {
                if let Some(kind) = kernel_kind(opcode, parameter).map_err(fault)? {
                    let kernel = read_kernel(&registers, accelerator, kind).map_err(fault)?;
                    kernel_work(&kernel).map_err(fault)?;
                    found.push((command, of_kernel(&kernel, accelerator, &memory)));
                }
            }
        }
    }
    Ok(found)
}

/// The memory of an access; SHRAM is one more.
fn index(access: &Access, memories: usize) -> usize {
    match access.place {
        Place::Buffer(buffer) => buffer,
        Place::Shram => memories,
    }
}

type Touched = [(usize, Accesses)];

/// Who made what each operation reads, and the pieces wanted.
fn makers(touched: &Touched, memories: usize, given: &[Piece], wanted: &[Piece]) -> (Vec<Vec<Maker>>, Vec<Vec<Maker>>) {
    let mut contents = vec![Contents::default(); memories + 1];
    for (number, piece) in given.iter().enumerate() {
        contents[piece.memory].write((piece.start, piece.end), Maker::Given(number));
    }
    let mut found = Vec::new();
    for (number, (_, accesses)) in touched.iter().enumerate() {
        interrupt::ask();
        let mut makers = BTreeSet::new();
        for access in &accesses.reads {
            access.ranges().iter().for_each(|range| contents[index(access, memories)].read(range, &mut makers));
        }
        found.push(makers.into_iter().collect());
        for access in &accesses.writes {
            let place = &mut contents[index(access, memories)];
            access.ranges().iter().for_each(|range| place.write(range, Maker::Operation(number)));
        }
    }
    let of_wanted = wanted.iter().map(|piece| {
        let mut makers = BTreeSet::new();
        contents[piece.memory].read((piece.start, piece.end), &mut makers);
        makers.into_iter().collect()
    });
    (found, of_wanted.collect())
}

/// Who wrote which bytes of a memory last: ranges by their start, with end and maker, none over another.
#[derive(Debug, Clone, Default)]
struct Contents(BTreeMap<i64, (i64, Maker)>);

impl Contents {
    fn write(&mut self, (start, end): (i64, i64), maker: Maker) {
        if start >= end {
            return;
        }
        let covered: Vec<_> = self.0.range(self.first(start)..end).map(|(&at, &value)| (at, value)).collect();
        for (at, (until, other)) in covered {
            self.0.remove(&at);
            if at < start {
                self.0.insert(at, (start, other));
            }
            if until > end {
                self.0.insert(end, (until, other));
            }
        }
        self.0.insert(start, (end, maker));
    }

    /// Where the first range begins that may hold bytes from `start` on.
    fn first(&self, start: i64) -> i64 {
        self.0.range(..start).next_back().filter(|(_, value)| value.0 > start).map_or(start, |(&at, _)| at)
    }

    fn read(&self, (start, end): (i64, i64), makers: &mut BTreeSet<Maker>) {
        if start < end {
            makers.extend(self.0.range(self.first(start)..end).map(|(_, &(_, maker))| maker));
        }
    }
}

/// Of each memory what is live at each operation, and what is live before the first.
fn live(touched: &Touched, memories: usize, wanted: &[Piece]) -> (Vec<Vec<(u64, i64)>>, Vec<Piece>) {
    let of = |memory: usize| wanted.iter().filter(move |p| p.memory == memory).map(|p| (p.start, p.end)).collect();
    let mut behind: Vec<Ranges> = (0..memories).map(|memory| Ranges::union(of(memory))).collect();
    let mut found = Vec::new();
    for (_, accesses) in touched.iter().rev() {
        interrupt::ask();
        let mut row = Vec::new();
        for (memory, behind) in behind.iter_mut().enumerate() {
            let bytes_of = |accesses: &[Access]| {
                let own = accesses.iter().filter(|access| access.place == Place::Buffer(memory));
                Ranges::union(own.flat_map(|access| access.ranges().iter().collect::<Vec<_>>()).collect())
            };
            let (reads, writes) = (bytes_of(&accesses.reads), bytes_of(&accesses.writes));
            let at = behind.with(&reads).with(&writes);
            row.push((at.bytes().unsigned_abs(), at.iter().last().map_or(0, |range| range.1)));
            *behind = behind.without(&writes).with(&reads);
        }
        found.push(row);
    }
    found.reverse();
    let pieces = |(memory, ranges): (usize, Ranges)| -> Vec<Piece> {
        ranges.iter().map(|(start, end)| Piece { memory, start, end }).collect()
    };
    (found, behind.into_iter().enumerate().flat_map(pieces).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_last_who_wrote_a_byte_made_it(
            writes in proptest::collection::vec((0i64..40, 0i64..40), 0..12), read in (0i64..40, 0i64..40),
        ) {
            let (mut contents, mut bytes) = (Contents::default(), [None; 40]);
            for (number, &(start, end)) in writes.iter().enumerate() {
                contents.write((start, end), Maker::Operation(number));
                (start..end).for_each(|at| bytes[at as usize] = Some(Maker::Operation(number)));
            }
            let mut found = BTreeSet::new();
            contents.read(read, &mut found);
            let want: BTreeSet<Maker> = (read.0..read.1).filter_map(|at| bytes[at as usize]).collect();
            prop_assert_eq!(found, want);
        }
    }
}
