//! Proves a placement right or names what is wrong with it. Shares nothing with the solvers but the data model.

use thiserror::Error;

use super::model::{Placement, Problem, Section};
use crate::util::interrupt;

/// What is wrong with a placement. Buffers and pools by id.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlacementComplaint {
    /// Not one slot per buffer, or not one peak per pool.
    #[error("{found} entries where {wanted} were wanted")]
    Count {
        /// Entries that there should be.
        wanted: usize,
        /// Entries that there are.
        found: usize,
    },
    /// A buffer lies in a pool that is not among its candidates.
    #[error("buffer {buffer} lies in pool {pool}, which is not among its candidates")]
    Pool {
        /// Buffer.
        buffer: usize,
        /// Pool.
        pool: u32,
    },
    /// A pinned buffer lies elsewhere.
    #[error("buffer {buffer} is not where it is pinned")]
    Pin {
        /// Buffer.
        buffer: usize,
    },
    /// An address is not a multiple of the buffer's or the pool's alignment.
    #[error("buffer {buffer} lies at address {address}, which is not a multiple of {alignment}")]
    Alignment {
        /// Buffer.
        buffer: usize,
        /// Address in bytes.
        address: u128,
        /// The alignment that it misses, in bytes.
        alignment: u64,
    },
    /// A buffer ends behind the end of its pool.
    #[error("buffer {buffer} ends at byte {end} of pool {pool}, which has {limit_bytes}")]
    Limit {
        /// Buffer.
        buffer: usize,
        /// Pool.
        pool: u32,
        /// One past the buffer's last byte.
        end: u128,
        /// The pool's size in bytes.
        limit_bytes: u64,
    },
    /// Two buffers hold the same byte at the same step.
    #[error("buffers {first} and {second} share bytes while both are in use")]
    Overlap {
        /// Buffer.
        first: usize,
        /// Buffer.
        second: usize,
    },
    /// Two buffers that conflict explicitly hold the same byte, at whatever steps.
    #[error("buffers {first} and {second} share bytes although they conflict")]
    Conflict {
        /// Buffer.
        first: usize,
        /// Buffer.
        second: usize,
    },
    /// A peak is not what the slots add up to.
    #[error("pool {pool} is said to peak at {claimed} bytes, but peaks at {actual}")]
    Peak {
        /// Pool.
        pool: usize,
        /// What the placement says, in bytes.
        claimed: u64,
        /// What is so, in bytes.
        actual: u128,
    },
}

/// Whether `placement` answers `problem`, which must be valid.
///
/// # Errors
/// The first complaint, in the order of [`PlacementComplaint`]'s variants within each buffer, overlaps and peaks last.
pub fn check(problem: &Problem, placement: &Placement) -> Result<(), PlacementComplaint> {
    count(problem.buffers.len(), placement.slots.len())?;
    count(problem.pools.len(), placement.peaks.len())?;
    let mut peaks = vec![0u128; problem.pools.len()];
    let mut rectangles: Vec<(u32, Section, u128, u128, usize)> = Vec::new();
    for (buffer, (spec, slot)) in problem.buffers.iter().zip(&placement.slots).enumerate() {
        let pool = slot.pool;
        if !spec.pools.contains(&pool) {
            return Err(PlacementComplaint::Pool { buffer, pool });
        }
        if spec.pinned_offset.is_some_and(|pin| pin != slot.offset || pool != spec.pools[0]) {
            return Err(PlacementComplaint::Pin { buffer });
        }
        let place = &problem.pools[pool as usize];
        let address = u128::from(place.base_address) + u128::from(slot.offset);
        for alignment in [spec.alignment, place.alignment] {
            if address % u128::from(alignment) != 0 {
                return Err(PlacementComplaint::Alignment { buffer, address, alignment });
            }
        }
        let offset = u128::from(slot.offset);
        let sections = spec.lifetime.sections(spec.size_bytes);
        let end = if sections.is_empty() { 0 } else { offset + u128::from(spec.size_bytes) };
        if let Some(limit_bytes) = place.limit_bytes.filter(|&limit| end > u128::from(limit)) {
            return Err(PlacementComplaint::Limit { buffer, pool, end, limit_bytes });
        }
        peaks[pool as usize] = peaks[pool as usize].max(end);
        let placed = |s: Section| (pool, s, offset + u128::from(s.low), offset + u128::from(s.high), buffer);
        rectangles.extend(sections.into_iter().map(placed));
    }
    rectangles.sort_unstable_by_key(|&(pool, section, ..)| (pool, section.lower));
    for (index, &(pool, section, start, end, first)) in rectangles.iter().enumerate() {
        interrupt::ask();
        // Sorted by first step: once one starts too late to meet this one, so do all behind it.
        let rest = rectangles[index + 1..].iter().take_while(|other| other.0 == pool && other.1.lower < section.upper);
        if let Some(other) = rest.into_iter().find(|other| {
            other.4 != first && start < other.3 && other.2 < end && !permitted(problem, placement, first, other.4)
        }) {
            return Err(PlacementComplaint::Overlap { first: first.min(other.4), second: first.max(other.4) });
        }
    }
    conflicts(problem, placement)?;
    for (pool, (&claimed, &actual)) in placement.peaks.iter().zip(&peaks).enumerate() {
        if u128::from(claimed) != actual {
            return Err(PlacementComplaint::Peak { pool, claimed, actual });
        }
    }
    Ok(())
}

/// Whether one of two buffers in the same pool has leave to lie over the other where it does.
fn permitted(problem: &Problem, placement: &Placement, one: usize, other: usize) -> bool {
    let grants = |owner: usize, partner: usize| {
        let apart = i128::from(placement.slots[owner].offset) - i128::from(placement.slots[partner].offset);
        problem.buffers[owner].shares.iter().any(|share| {
            share.with as usize == partner && i128::from(share.low) <= apart && apart <= i128::from(share.high)
        })
    };
    grants(one, other) || grants(other, one)
}

fn conflicts(problem: &Problem, placement: &Placement) -> Result<(), PlacementComplaint> {
    let used = |buffer: usize| {
        let spec = &problem.buffers[buffer];
        !spec.lifetime.sections(spec.size_bytes).is_empty()
    };
    let bytes = |buffer: usize| {
        let start = u128::from(placement.slots[buffer].offset);
        (start, start + u128::from(problem.buffers[buffer].size_bytes))
    };
    for (buffer, spec) in problem.buffers.iter().enumerate() {
        for &other in &spec.conflicts {
            let other = other as usize;
            let (one, two) = (bytes(buffer), bytes(other));
            let together = placement.slots[buffer].pool == placement.slots[other].pool;
            let overlap = one.0.max(two.0) < one.1.min(two.1);
            if together && overlap && used(buffer) && used(other) && !permitted(problem, placement, buffer, other) {
                return Err(PlacementComplaint::Conflict { first: buffer.min(other), second: buffer.max(other) });
            }
        }
    }
    Ok(())
}

fn count(wanted: usize, found: usize) -> Result<(), PlacementComplaint> {
    if wanted == found {
        Ok(())
    } else {
        Err(PlacementComplaint::Count { wanted, found })
    }
}
