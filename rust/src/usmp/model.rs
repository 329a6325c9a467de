//! What is planned: buffers, lifetimes, pools, placements, errors.
//!
//! Owns the types and their own consistency. Knows nothing of how a placement is found.

use smallvec::SmallVec;
use thiserror::Error;

/// Sizes, offsets and alignments of one problem stay below this in total, so that no sum of them can wrap.
const LARGEST_TOTAL_BYTES: u128 = 1 << 60;

/// A stretch of time in which a buffer needs none of its bytes, or only some of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gap {
    /// First step of the gap.
    pub lower: i64,
    /// One past the last step of the gap.
    pub upper: i64,
    /// The bytes `[low, high)` of the buffer that stay in use meanwhile; `None` when none do.
    pub window: Option<(u64, u64)>,
}

/// The steps `[lower, upper)` in which a buffer holds something, less its gaps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lifetime {
    lower: i64,
    upper: i64,
    gaps: Vec<Gap>,
}

/// A rectangle of a buffer in time and space: bytes `[low, high)` of it are in use in steps `[lower, upper)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Section {
    /// First step.
    pub lower: i64,
    /// One past the last step.
    pub upper: i64,
    /// First byte, counted from the buffer's start.
    pub low: u64,
    /// One past the last byte, counted from the buffer's start.
    pub high: u64,
}

impl Section {
    /// Whether two sections share a step.
    #[must_use]
    pub fn meets(&self, other: &Section) -> bool {
        self.lower < other.upper && other.lower < self.upper
    }
}

impl Lifetime {
    /// All steps of `[lower, upper)`. An empty range is a buffer that is never in use.
    #[must_use]
    pub fn new(lower: i64, upper: i64) -> Self {
        Self { lower, upper, gaps: Vec::new() }
    }

    /// The steps `[lower, upper)` with `gaps`, in any order.
    #[must_use]
    pub fn with_gaps(lower: i64, upper: i64, mut gaps: Vec<Gap>) -> Self {
        gaps.sort();
        Self { lower, upper, gaps }
    }

    /// The lifetime with all bytes in use in `step` as well, whether it is before, within or behind all others.
    #[must_use]
    pub fn with_step(&self, step: i64) -> Self {
        let (lower, upper) = (self.lower.min(step), self.upper.max(step + 1));
        let beyond = [(step + 1, self.lower), (self.upper, step)].into_iter().filter(|(from, to)| from < to);
        let beyond = beyond.map(|(lower, upper)| Gap { lower, upper, window: None });
        let apart = |gap: &Gap| {
            let before = Gap { upper: gap.upper.min(step), ..gap.clone() };
            let behind = Gap { lower: gap.lower.max(step + 1), ..gap.clone() };
            [before, behind].into_iter().filter(|gap| gap.lower < gap.upper)
        };
        Self::with_gaps(lower, upper, self.gaps.iter().flat_map(apart).chain(beyond).collect())
    }

    /// First step.
    #[must_use]
    pub fn lower(&self) -> i64 {
        self.lower
    }

    /// One past the last step.
    #[must_use]
    pub fn upper(&self) -> i64 {
        self.upper
    }

    /// Steps in which not all of the buffer is in use, in order of time.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// The sections of a buffer of `size_bytes`, in order of time; they never meet. None when nothing is ever in use.
    #[must_use]
    pub fn sections(&self, size_bytes: u64) -> SmallVec<[Section; 1]> {
        let mut sections = SmallVec::new();
        let mut push = |lower: i64, upper: i64, low: u64, high: u64| {
            if lower < upper && low < high {
                sections.push(Section { lower, upper, low, high });
            }
        };
        let mut from = self.lower;
        for gap in &self.gaps {
            push(from, gap.lower, 0, size_bytes);
            if let Some((low, high)) = gap.window {
                push(gap.lower, gap.upper, low, high);
            }
            from = gap.upper;
        }
        push(from, self.upper, 0, size_bytes);
        sections
    }

    /// The first gap that is reversed, leaves the lifetime, meets its predecessor or keeps bytes that do not exist.
    fn bad_gap(&self, size_bytes: u64) -> Option<&Gap> {
        let mut from = self.lower;
        self.gaps.iter().find(|gap| {
            let window_fits = gap.window.is_none_or(|(low, high)| low <= high && high <= size_bytes);
            let fits = from <= gap.lower && gap.lower <= gap.upper && gap.upper <= self.upper && window_fits;
            from = gap.upper;
            !fits
        })
    }
}

/// Leave to share bytes, as an elementwise operator that writes over its input needs it.
///
/// A buffer may overlap another, even while both are in use, when its offset less the other's lies in `[low, high]` and
/// both lie in the same pool. `(0, 0)` is the same address, a wide range is any overlap at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllowedOverlap {
    /// The other buffer, by id. Either of the two may say so; saying it twice permits either range.
    pub with: u32,
    /// Least difference of offsets, in bytes.
    pub low: i64,
    /// Largest difference of offsets, in bytes; not below `low`.
    pub high: i64,
}

/// Bytes that need a place. Its id is its position in [`Problem::buffers`].
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Size, in bytes; may be zero.
    pub size_bytes: u64,
    /// The address is a multiple of this, in bytes; at least 1, need not be a power of two.
    pub alignment: u64,
    /// When the bytes are in use.
    pub lifetime: Lifetime,
    /// Pools that may hold it, by id, the preferred one first; at least one.
    pub pools: SmallVec<[u32; 2]>,
    /// A fixed offset in its first pool, in bytes; `None` to let the planner choose.
    pub pinned_offset: Option<u64>,
    /// Buffers that it must not overlap whatever the lifetimes say, by id. One of the two need say so. A buffer that is
    /// never in use conflicts with none.
    pub conflicts: Vec<u32>,
    /// Buffers that it may overlap.
    pub shares: Vec<AllowedOverlap>,
}

impl Buffer {
    /// A buffer that may only lie in pool 0, at an address that is a multiple of `alignment` bytes.
    #[must_use]
    pub fn new(size_bytes: u64, alignment: u64, lifetime: Lifetime) -> Self {
        let pools = SmallVec::from_slice(&[0]);
        Self { size_bytes, alignment, lifetime, pools, pinned_offset: None, conflicts: Vec::new(), shares: Vec::new() }
    }
}

/// A memory that holds buffers. Its id is its position in [`Problem::pools`].
#[derive(Clone, Debug)]
pub struct Pool {
    /// Size, in bytes; `None` is as much as it takes.
    pub limit_bytes: Option<u64>,
    /// Every buffer's address in it is a multiple of this, in bytes; at least 1.
    pub alignment: u64,
    /// Address of offset 0, in bytes. Alignments count from address 0, not from here.
    pub base_address: u64,
}

impl Pool {
    /// A pool of any size at address 0 without an alignment of its own.
    #[must_use]
    pub fn unbounded() -> Self {
        Self { limit_bytes: None, alignment: 1, base_address: 0 }
    }
}

/// Buffers and the pools that may hold them. Pools come in order of importance: peaks are compared in that order.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    /// Buffers by id.
    pub buffers: Vec<Buffer>,
    /// Pools by id.
    pub pools: Vec<Pool>,
}

impl Problem {
    /// Whether the problem makes sense.
    ///
    /// # Errors
    /// The first thing that does not: see the variants of [`UsmpError`] other than `PoolOverflow`.
    pub fn validate(&self) -> Result<(), UsmpError> {
        let mut total: u128 = 0;
        for (pool, spec) in (0u32..).zip(&self.pools) {
            if spec.alignment == 0 {
                return Err(UsmpError::PoolAlignment { pool });
            }
            total += u128::from(spec.base_address);
        }
        for (id, buffer) in (0u32..).zip(&self.buffers) {
            self.validate_buffer(id, buffer)?;
            let alignments = buffer
                .pools
                .iter()
                .map(|&pool| u128::from(buffer.alignment) * u128::from(self.pools[pool as usize].alignment));
            let size = u128::from(buffer.size_bytes) * (buffer.pools.len() as u128);
            total = total.saturating_add(size).saturating_add(alignments.max().unwrap_or(0));
            total = total.saturating_add(u128::from(buffer.pinned_offset.unwrap_or(0)));
        }
        if total > LARGEST_TOTAL_BYTES {
            Err(UsmpError::TooLarge)
        } else {
            Ok(())
        }
    }

    fn validate_buffer(&self, buffer: u32, spec: &Buffer) -> Result<(), UsmpError> {
        let (lower, upper) = (spec.lifetime.lower, spec.lifetime.upper);
        if lower > upper {
            return Err(UsmpError::ReversedLifetime { buffer, lower, upper });
        }
        if let Some(gap) = spec.lifetime.bad_gap(spec.size_bytes) {
            return Err(UsmpError::BadGap { buffer, lower: gap.lower, upper: gap.upper });
        }
        if spec.alignment == 0 {
            return Err(UsmpError::BufferAlignment { buffer });
        }
        let partners = || spec.conflicts.iter().copied().chain(spec.shares.iter().map(|share| share.with));
        if let Some(other) = partners().find(|&other| other == buffer || other as usize >= self.buffers.len()) {
            return Err(UsmpError::UnknownPartner { buffer, other });
        }
        if let Some(share) = spec.shares.iter().find(|share| share.low > share.high) {
            return Err(UsmpError::BadShare { buffer, other: share.with });
        }
        let Some(&preferred) = spec.pools.first() else {
            return Err(UsmpError::NoPool { buffer });
        };
        if let Some(&pool) = spec.pools.iter().find(|&&pool| pool as usize >= self.pools.len()) {
            return Err(UsmpError::UnknownPool { buffer, pool, pools: self.pools.len() });
        }
        let pool = &self.pools[preferred as usize];
        if let Some(offset) = spec.pinned_offset {
            let address = u128::from(pool.base_address) + u128::from(offset);
            if let Some(&alignment) = [spec.alignment, pool.alignment].iter().find(|&&a| address % u128::from(a) != 0) {
                return Err(UsmpError::PinMisaligned { buffer, offset, alignment });
            }
        }
        Ok(())
    }
}

/// Where one buffer lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Pool, by id.
    pub pool: u32,
    /// First byte, counted from the pool's start.
    pub offset: u64,
}

/// An answer, free of how it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// By buffer id.
    pub slots: Vec<Slot>,
    /// One past the last byte of any buffer that is ever in use, in bytes, by pool id.
    pub peaks: Vec<u64>,
}

/// Why there is no solution.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UsmpError {
    /// A lifetime ends before it begins.
    #[error("buffer {buffer} is in use from step {lower} to {upper}, which ends before it begins")]
    ReversedLifetime {
        /// Buffer, by id.
        buffer: u32,
        /// First step.
        lower: i64,
        /// One past the last step.
        upper: i64,
    },
    /// A gap is reversed, overlaps another, leaves the lifetime, or its window leaves the buffer.
    #[error(
        "buffer {buffer} has a gap from step {lower} to {upper} that does not fit its lifetime, other gaps or size"
    )]
    BadGap {
        /// Buffer, by id.
        buffer: u32,
        /// First step of the gap.
        lower: i64,
        /// One past the last step of the gap.
        upper: i64,
    },
    /// A buffer's alignment is zero.
    #[error("buffer {buffer} has alignment 0; the least is 1")]
    BufferAlignment {
        /// Buffer, by id.
        buffer: u32,
    },
    /// A pool's alignment is zero.
    #[error("pool {pool} has alignment 0; the least is 1")]
    PoolAlignment {
        /// Pool, by id.
        pool: u32,
    },
    /// A buffer conflicts or shares with itself or with one that does not exist.
    #[error("buffer {buffer} cannot conflict or share bytes with number {other}: that is itself or does not exist")]
    UnknownPartner {
        /// Buffer, by id.
        buffer: u32,
        /// The other, by id.
        other: u32,
    },
    /// A range of differences is reversed.
    #[error("buffer {buffer} and buffer {other} may share bytes in a range that ends before it begins")]
    BadShare {
        /// Buffer, by id.
        buffer: u32,
        /// The other, by id.
        other: u32,
    },
    /// A buffer may lie nowhere.
    #[error("buffer {buffer} names no pool that may hold it")]
    NoPool {
        /// Buffer, by id.
        buffer: u32,
    },
    /// A buffer names a pool that does not exist.
    #[error("buffer {buffer} names pool {pool}, but there are only {pools} pools")]
    UnknownPool {
        /// Buffer, by id.
        buffer: u32,
        /// Pool, by id.
        pool: u32,
        /// Number of pools.
        pools: usize,
    },
    /// A pinned offset contradicts an alignment.
    #[error("buffer {buffer} is pinned to offset {offset}, which gives no address that is a multiple of {alignment}")]
    PinMisaligned {
        /// Buffer, by id.
        buffer: u32,
        /// The pin, in bytes.
        offset: u64,
        /// The alignment it misses, in bytes.
        alignment: u64,
    },
    /// Two pinned buffers overlap.
    #[error("buffers {first} and {second} are pinned to bytes that overlap while both are in use")]
    PinsOverlap {
        /// Buffer, by id.
        first: u32,
        /// Buffer, by id.
        second: u32,
    },
    /// Sums of sizes would not fit 64 bits.
    #[error("sizes, alignments and addresses add up to more than 2^60 bytes")]
    TooLarge,
    /// No plan that was found fits a pool.
    #[error("pool {pool} holds {available_bytes} bytes, but the best plan found needs {needed_bytes}")]
    PoolOverflow {
        /// Pool, by id.
        pool: u32,
        /// Peak of the best plan found, in bytes.
        needed_bytes: u64,
        /// The pool's limit, in bytes.
        available_bytes: u64,
        /// No plan needs less in this pool, in bytes.
        lower_bound_bytes: u64,
        /// Buffers in the way, ascending by id: those in use at this peak or, where it has more bytes, a clique of
        /// conflicts around the highest buffer.
        live: Vec<u32>,
    },
}
