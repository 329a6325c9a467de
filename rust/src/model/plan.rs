//! Plans and Proposals: decisions for a group of Parts, and for the whole network.
//!
//! Owns the types between the search and the schedule that comes of it. Decides nothing.

use super::ids::PartId;
use super::program::{IssueOrder, Placement};
use crate::stripe::Tiling;

/// Decisions for one group of consecutive Parts: how it is cut and what is staged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// First Part of the group.
    pub first: PartId,
    /// Last Part of the group, inclusive.
    pub last: PartId,
    /// Bands and rolling axis.
    pub tiling: Tiling,
    /// Whether stripes are made from the far end of the rolling axis on.
    pub backwards: bool,
    /// Stripe extent along the rolling axis for each Part, at least 1.
    pub stripes: Vec<i64>,
    /// Where each Part reads its constants.
    pub staging: Vec<Staging>,
    /// Tensors that are copied between the scarce pool and others; none in what the search makes.
    pub copied: Vec<CopiedTensor>,
}

/// A tensor whose home is not the scarce pool, and that is copied there or from there, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopiedTensor {
    /// An operand of a Part is copied into the scarce pool before the group; all its readers in the group read the copy.
    Read(PartId, u32),
    /// The Part's output is made in the scarce pool and copied to its home after the group.
    Write(PartId),
}

/// Where a Part reads its constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Staging {
    /// From their home, at every stripe.
    InPlace,
    /// From the arena, into which all are copied once.
    Whole,
    /// From the arena, slice by slice of the output channels, copied while earlier ones are in use.
    Sliced,
}

impl Plan {
    /// Parts in the group.
    pub fn len(&self) -> usize {
        self.last.since(self.first) + 1
    }

    /// The Parts, ascending.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = PartId> + ExactSizeIterator + Clone {
        self.first.through(self.last)
    }

    /// The Part at an offset in the group.
    pub fn part(&self, offset: usize) -> PartId {
        self.first.after(offset)
    }

    /// The offset in the group of a Part of it.
    pub fn offset(&self, part: PartId) -> usize {
        part.since(self.first)
    }

    /// Never: a Plan has at least one Part.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Whether several Parts run interleaved.
    pub fn is_cascade(&self) -> bool {
        self.first != self.last
    }
}

/// A way to run the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Plans that cover the Parts in order.
    pub plans: Vec<Plan>,
    /// Where its copies are issued; None if each is right before its first use.
    pub issue_order: Option<IssueOrder>,
    /// Where the buffers of its program lie.
    pub placement: Placement,
    /// Cycles that the timing model counts of its command streams.
    pub cycles: u64,
}

impl Proposal {
    /// Bytes of its arena, a multiple of 16.
    pub fn sram_bytes(&self) -> u64 {
        self.placement.bytes()
    }
}
