//! What may be wrong with a program or its placement: a sentence and figures for each fault.
//!
//! Owns the words. Finding the faults is the checker's.

use thiserror::Error;

use crate::model::ids::{BufferId, TableId};

/// What is wrong with a program.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Complaint {
    /// A pixel that is read is not in the buffer.
    #[error("step {step}: part '{part}' reads pixel ({y}, {x}) of '{tensor}', but the buffer does not hold it")]
    Missing {
        /// Step index.
        step: usize,
        /// Reader.
        part: String,
        /// Tensor.
        tensor: String,
        /// Row.
        y: i64,
        /// Column.
        x: i64,
    },
    /// An input box is smaller than the windows of its output box.
    #[error("step {step}: part '{part}' needs pixel ({y}, {x}) of '{tensor}', which its input box leaves out")]
    Uncovered {
        /// Step index.
        step: usize,
        /// Reader.
        part: String,
        /// Tensor.
        tensor: String,
        /// Row.
        y: i64,
        /// Column.
        x: i64,
    },
    /// An input box that does not begin and end where its windows do. The device counts from the box's first pixel.
    #[error("step {step}: part '{part}' is given {found:?} of '{tensor}' for windows over {expected:?}")]
    Elsewhere {
        /// Step index.
        step: usize,
        /// Reader.
        part: String,
        /// Tensor.
        tensor: String,
        /// Rows and columns in the program, half-open, in the plane as the Part sees it.
        found: [(i64, i64); 2],
        /// Rows and columns by the windows.
        expected: [(i64, i64); 2],
    },
    /// A tensor in another shape than its maker's whose buffer lacks some of it, or of the rows that are seen.
    #[error("step {step}: part '{part}' sees '{tensor}' in another shape, in a buffer that does not hold all of it")]
    Reshaped {
        /// Step index.
        step: usize,
        /// Reader.
        part: String,
        /// Tensor.
        tensor: String,
    },
    /// Padding registers that do not match the window.
    #[error("step {step}: part '{part}' has padding {found:?}, its windows touch {expected:?}")]
    Padding {
        /// Step index.
        step: usize,
        /// Part.
        part: String,
        /// Padding in the program.
        found: [i64; 4],
        /// Padding by the window.
        expected: [i64; 4],
    },
    /// A pixel of a whole tensor is made twice.
    #[error("step {step}: part '{part}' makes pixel ({y}, {x}) of '{tensor}' again")]
    Repeated {
        /// Step index.
        step: usize,
        /// Part.
        part: String,
        /// Tensor.
        tensor: String,
        /// Row.
        y: i64,
        /// Column.
        x: i64,
    },
    /// Rows are handed over out of order, or not in their full width.
    #[error("step {step}: rows of '{tensor}' from {start} on are handed over, and row {next} is next")]
    Unordered {
        /// Step index.
        step: usize,
        /// Tensor.
        tensor: String,
        /// The next row.
        next: i64,
        /// The first row of these.
        start: i64,
    },
    /// One of several joined operations writes rows or columns that are not of its box.
    #[error("step {step}: part '{part}' writes pixels outside of the box of the operation that it runs")]
    Beside {
        /// Step index.
        step: usize,
        /// Part.
        part: String,
    },
    /// A tensor is not complete where all of it is needed.
    #[error("'{tensor}' lacks pixel ({y}, {x}) when it is needed whole")]
    Incomplete {
        /// Tensor.
        tensor: String,
        /// Row.
        y: i64,
        /// Column.
        x: i64,
    },
    /// A step touches a buffer outside its stated lifetime.
    #[error("step {step} touches buffer {buffer}, which lives in steps {first}..{last}")]
    Lifetime {
        /// Step index.
        step: usize,
        /// Buffer.
        buffer: BufferId,
        /// First step.
        first: u32,
        /// One past the last step.
        last: u32,
    },
    /// A row is written while the buffer's windows call it dead.
    #[error("step {step} writes row {y} of buffer {buffer} outside its live bytes")]
    Dead {
        /// Step index.
        step: usize,
        /// Buffer.
        buffer: BufferId,
        /// Row.
        y: i64,
    },
    /// A buffer is smaller than its pixels.
    #[error("buffer {buffer} has {size_bytes} bytes for {needed_bytes} bytes of pixels")]
    Size {
        /// Buffer.
        buffer: BufferId,
        /// Stated.
        size_bytes: u64,
        /// Needed.
        needed_bytes: u64,
    },
    /// A stripe of a doubled input that begins inside of what the device repeats.
    #[error("step {step}: part '{part}' begins at row {y}, column {x} of its output, inside a doubled pixel")]
    Halved {
        /// Step index.
        step: usize,
        /// Part.
        part: String,
        /// Row.
        y: i64,
        /// Column.
        x: i64,
    },
    /// A table is loaded to where none can lie.
    #[error("step {step}: part '{part}' loads a table of {bytes} bytes into slot {slot}")]
    Slot {
        /// Step index.
        step: usize,
        /// Part.
        part: String,
        /// Bytes of the table.
        bytes: u64,
        /// First slot.
        slot: u32,
    },
    /// Results are looked up in a table that is not there.
    #[error("step {step}: part '{part}' looks results up in table {table}, which is not loaded")]
    Unloaded {
        /// Step index.
        step: usize,
        /// Part.
        part: String,
        /// The table.
        table: TableId,
    },
    /// A tensor is copied from a buffer that does not hold all of it.
    #[error("step {step} copies '{tensor}' from buffer {buffer}, which does not hold its pixel ({y}, {x})")]
    NotThere {
        /// Step index.
        step: usize,
        /// Tensor.
        tensor: String,
        /// The buffer that is read.
        buffer: BufferId,
        /// Row.
        y: i64,
        /// Column.
        x: i64,
    },
    /// A buffer lies in a pool that may not hold it.
    #[error("buffer {buffer} lies in pool '{pool}', which may not hold it")]
    Misplaced {
        /// Buffer.
        buffer: BufferId,
        /// Name of the pool.
        pool: String,
    },
    /// A buffer ends beyond its pool.
    #[error("buffer {buffer} ends at byte {needed_bytes} of pool '{pool}', which holds {limit_bytes}")]
    Beyond {
        /// Buffer.
        buffer: BufferId,
        /// Name of the pool.
        pool: String,
        /// One past the buffer's last byte.
        needed_bytes: u64,
        /// Bytes that the pool holds.
        limit_bytes: u64,
    },
    /// Staged constants are used before they are copied.
    #[error("step {step}: part '{part}' uses constants that were not staged")]
    Unstaged {
        /// Step index.
        step: usize,
        /// Part.
        part: String,
    },
}
