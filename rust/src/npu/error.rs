//! What the NPU can refuse, and where. Owns the error types and the findings that do not stop a run.

use thiserror::Error;

/// Why a payload was refused or a run stopped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NpuError {
    /// The payload around the command stream is wrong.
    #[error("payload: {0}")]
    Payload(#[from] PayloadError),
    /// A command of the stream is wrong. `command` counts commands (not words) from 0.
    #[error("command {command} ({operation}): {fault}")]
    Command {
        /// Index of the command in the stream.
        command: usize,
        /// Name of the command.
        operation: &'static str,
        /// What is wrong with it.
        fault: Fault,
    },
    /// An access from outside the stream (the host's) is wrong.
    #[error("{0}")]
    Host(Fault),
    /// No variant of that name exists.
    #[error("unknown accelerator '{name}'; known are {known}")]
    UnknownAccelerator {
        /// What was asked for.
        name: String,
        /// Comma-separated list of names.
        known: String,
    },
}

impl NpuError {
    /// Index of the command at fault, where there is one.
    pub fn command(&self) -> Option<usize> {
        match self {
            NpuError::Command { command, .. } => Some(*command),
            NpuError::Payload(_) | NpuError::Host(_) | NpuError::UnknownAccelerator { .. } => None,
        }
    }
}

/// What is wrong with the payload around the stream.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PayloadError {
    /// The size is no multiple of 4 or too small.
    #[error("{bytes} bytes is not a whole number of 32-bit words with at least a magic word")]
    Size {
        /// Bytes given.
        bytes: usize,
    },
    /// The first word is not "COP1".
    #[error("the first word is {word:#010x}, not \"COP1\" (0x31504f43)")]
    Magic {
        /// Word found.
        word: u32,
    },
    /// An action that the driver does not know.
    #[error("word {index}: unknown driver action {code} in {word:#010x}")]
    UnknownAction {
        /// Word index in the payload.
        index: usize,
        /// Word found.
        word: u32,
        /// Action code of the word.
        code: u32,
    },
    /// An action that says it is longer than what is left.
    #[error("word {index}: the action needs {needed} more words but {left} are left")]
    Truncated {
        /// Word index in the payload.
        index: usize,
        /// Words that the action announces.
        needed: usize,
        /// Words left after the action word.
        left: usize,
    },
    /// The stream does not start on a 16-byte boundary of the payload.
    #[error("the command stream starts at byte {offset}, which is no multiple of 16")]
    StreamMisaligned {
        /// Byte offset of the stream.
        offset: usize,
    },
    /// There is no command stream action, or more than one.
    #[error("{count} command streams; exactly one is needed")]
    StreamCount {
        /// Streams found.
        count: usize,
    },
    /// The stream is larger than QSIZE can say.
    #[error("the command stream has {bytes} bytes; the limit is 16 MiB")]
    StreamTooLong {
        /// Bytes of the stream.
        bytes: usize,
    },
    /// The payload was made for another device.
    #[error("config word {word:#010x} does not fit {accelerator} ({expected:#010x}): {what} differs")]
    ConfigMismatch {
        /// Word in the payload.
        word: u32,
        /// Word of the device.
        expected: u32,
        /// Device name.
        accelerator: &'static str,
        /// Field that differs.
        what: &'static str,
    },
    /// The payload was made for another architecture.
    #[error("id word {word:#010x} does not fit the device's {expected:#010x}: {what}")]
    IdMismatch {
        /// Word in the payload.
        word: u32,
        /// Word of the device.
        expected: u32,
        /// Field that differs.
        what: &'static str,
    },
    /// The stream has no configuration action before it.
    #[error("no OPTIMIZER_CONFIG action before the command stream")]
    NoConfig,
}

/// What is wrong with one command or one access.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// The word is no known command.
    #[error("unknown command word {word:#010x}")]
    UnknownCommand {
        /// First word of the command.
        word: u32,
    },
    /// A two-word command lacks its second word, or the stream ends without OP_STOP.
    #[error("the stream ends here, in the middle of a command or without OP_STOP")]
    Truncated,
    /// Commands follow OP_STOP.
    #[error("{words} words follow OP_STOP")]
    AfterStop {
        /// Number of words left.
        words: usize,
    },
    /// An operation needs a register that nothing has set.
    #[error("register not set: {register}")]
    NotSet {
        /// Register name.
        register: &'static str,
    },
    /// A register holds a value outside what it may hold.
    #[error("{register} is {value}; allowed: {allowed}")]
    Range {
        /// Register name.
        register: &'static str,
        /// Value found.
        value: i64,
        /// Words for what is allowed.
        allowed: &'static str,
    },
    /// A register's value is not aligned.
    #[error("{register} is {value:#x}, which is no multiple of {alignment}")]
    Misaligned {
        /// Register name.
        register: &'static str,
        /// Value found.
        value: i64,
        /// Needed alignment in bytes or elements.
        alignment: u32,
    },
    /// An access leaves its region.
    #[error("{what} touches bytes [{start}, {end}) of region {region}, which has {size} bytes")]
    OutOfBounds {
        /// Who accesses.
        what: &'static str,
        /// Region index.
        region: usize,
        /// First byte.
        start: i64,
        /// One past the last byte.
        end: i64,
        /// Size of the region in bytes.
        size: usize,
    },
    /// A region that does not exist.
    #[error("{what} uses region {region}, which was not given")]
    NoRegion {
        /// Who accesses.
        what: &'static str,
        /// Region index.
        region: usize,
    },
    /// A write to constants.
    #[error("{what} writes bytes [{start}, {end}) of region {region}, which is read-only")]
    ReadOnly {
        /// Who writes.
        what: &'static str,
        /// Region index.
        region: usize,
        /// First byte.
        start: i64,
        /// One past the last byte.
        end: i64,
    },
    /// The block does not fit the SHRAM layout.
    #[error("block does not fit SHRAM: {what}: {needed} banks against {available}")]
    Shram {
        /// Which rule.
        what: &'static str,
        /// Left side of the inequality, in banks.
        needed: u32,
        /// Right side of the inequality, in banks.
        available: u32,
    },
    /// The weight stream cannot be decoded.
    #[error("weight stream: {what} at bit {bit}")]
    Weights {
        /// What is wrong.
        what: &'static str,
        /// Bit position in the stream.
        bit: usize,
    },
    /// The weight stream has another number of weights than the operation needs.
    #[error("weight stream holds {found} weights, the operation needs {needed}")]
    WeightCount {
        /// Weights found (or a lower bound of them).
        found: usize,
        /// Weights that the operation's geometry asks for.
        needed: usize,
    },
    /// Two settings contradict each other.
    #[error("{what}")]
    Invalid {
        /// What is wrong.
        what: &'static str,
    },
    /// Something whose behaviour is not known well enough to be modelled.
    #[error("not modelled: {what}")]
    Unsupported {
        /// What it is.
        what: &'static str,
    },
    /// The operation is too large to be simulated in reasonable time.
    #[error("the operation needs {amount} {what}; the simulator stops at {limit}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// Amount needed.
        amount: u64,
        /// Limit of the simulator.
        limit: u64,
    },
}

/// Kind of a finding that does not stop a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarningKind {
    /// Bytes were read that were never written.
    UninitialisedRead,
    /// A sum does not fit the accumulator format, and the output depends on what becomes of it.
    AccumulatorOverflow,
    /// A value does not fit a 32-bit OFM and was saturated.
    Saturation,
}

impl WarningKind {
    /// Stable name for reports.
    pub fn name(self) -> &'static str {
        match self {
            WarningKind::UninitialisedRead => "uninitialised_read",
            WarningKind::AccumulatorOverflow => "accumulator_overflow",
            WarningKind::Saturation => "saturation",
        }
    }
}

/// A finding that does not stop a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// What sort of finding.
    pub kind: WarningKind,
    /// Index of the command in the stream.
    pub command: usize,
    /// Number of the kernel or transfer that it is about, among all of the stream.
    pub operation: usize,
    /// One sentence about it.
    pub message: String,
}
