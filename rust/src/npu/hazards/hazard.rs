//! Hazards as they are reported: what goes wrong, between which commands, over which bytes. Finds none.

use super::access::Access;
use super::ranges::Ranges;

/// What goes wrong. "After" is the order of the stream, which the hardware need not keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HazardKind {
    /// The second command reads what the first one may not have written yet.
    ReadAfterWrite,
    /// The second command may overwrite what the first one still reads.
    WriteAfterRead,
    /// Both write, in any order.
    WriteAfterWrite,
    /// Bytes are read that were never written.
    ReadOfUnwritten,
    /// A byte of a network input is read after a command wrote something else there.
    InputOverwritten,
}

impl HazardKind {
    /// Stable name for reports.
    pub fn name(self) -> &'static str {
        match self {
            HazardKind::ReadAfterWrite => "read_after_write",
            HazardKind::WriteAfterRead => "write_after_read",
            HazardKind::WriteAfterWrite => "write_after_write",
            HazardKind::ReadOfUnwritten => "read_of_unwritten",
            HazardKind::InputOverwritten => "input_overwritten",
        }
    }
}

/// One hazard: two commands and the first range of bytes over which they disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hazard {
    /// What goes wrong.
    pub kind: HazardKind,
    /// The earlier command; `None` for the host, or where there is none.
    pub first: Option<usize>,
    /// The later command.
    pub second: usize,
    /// Region as the later command names it; `None` is SHRAM.
    pub region: Option<usize>,
    /// First byte in the region.
    pub start: i64,
    /// One past the last byte of the first range.
    pub end: i64,
    /// One sentence about it.
    pub message: String,
}

/// A region, or SHRAM, for people.
pub(super) fn place_name(region: Option<usize>) -> String {
    region.map_or_else(|| "SHRAM".to_string(), |region| format!("region {region}"))
}

/// The hazard over `common`, bytes in the buffer of the second access; none if there are none.
pub(super) fn hazard(
    kind: HazardKind,
    first: (usize, &str),
    second: (usize, &Access),
    common: &Ranges,
) -> Option<Hazard> {
    let (low, high) = common.iter().next()?;
    let (start, end) = (low - second.1.offset, high - second.1.offset);
    let verb = match kind {
        HazardKind::ReadAfterWrite => "reads before they are written by",
        HazardKind::WriteAfterRead => "may overwrite before they are read by",
        HazardKind::WriteAfterWrite => "may write before",
        HazardKind::ReadOfUnwritten | HazardKind::InputOverwritten => "meets",
    };
    let more = common.bytes() - (high - low);
    let rest = if more > 0 { format!(" and {more} bytes behind them") } else { String::new() };
    let message = format!(
        "command {} ({}) touches bytes [{start}, {end}) of {}{rest}, which it {verb} command {} ({})",
        second.0,
        second.1.what,
        place_name(second.1.region),
        first.0,
        first.1,
    );
    Some(Hazard { kind, first: Some(first.0), second: second.0, region: second.1.region, start, end, message })
}
