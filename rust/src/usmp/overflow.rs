//! Who is in the way when a pool overflows: those that can share no byte with what ends highest.
//!
//! Owns what an overflow names; knows nothing of how plans are found.

use super::instance::Instance;
use super::model::{Placement, Problem, Section};

/// Most buffers at the peak for which those that all conflict with them are looked for.
const MAX_PEAK_BUFFERS: usize = 8;

/// The buffers in the way in `pool`, ascending by id.
///
/// They are those in use together with the highest buffer or, where it has more bytes, a clique of conflicts around it.
pub(super) fn in_the_way(instance: &Instance, problem: &Problem, placement: &Placement, pool: u32) -> Vec<u32> {
    let (mut most, mut names) = live_at_the_peak(problem, placement, pool);
    if let Some(graph) = instance.graph() {
        let size = |index: u32| {
            let item = &instance.items[index as usize];
            let there = placement.slots[item.buffer as usize].pool == pool && !item.sections.is_empty();
            u64::from(there) * item.size_bytes
        };
        let ends_highest = |index: &u32| {
            let offset = placement.slots[instance.items[*index as usize].buffer as usize].offset;
            size(*index) > 0 && offset + size(*index) == placement.peaks[pool as usize]
        };
        let highest = (0..instance.items.len() as u32).filter(ends_highest).take(MAX_PEAK_BUFFERS);
        for set in highest.map(|index| graph.heaviest(size, Some(index))) {
            let bytes = set.iter().map(|&index| size(index)).sum();
            if bytes > most {
                most = bytes;
                names = set.into_iter().map(|index| instance.items[index as usize].buffer).collect();
            }
        }
    }
    names.sort_unstable();
    names
}

/// The buffers of `pool` in use at its peak, and their bytes.
///
/// The peak is the first step with most bytes in use, of those in which the highest buffer is in use.
fn live_at_the_peak(problem: &Problem, placement: &Placement, pool: u32) -> (u64, Vec<u32>) {
    let mut sections: Vec<(Section, u32)> = Vec::new();
    let mut events: Vec<(i64, bool, u64, bool)> = Vec::new();
    for (id, (buffer, slot)) in (0u32..).zip(problem.buffers.iter().zip(&placement.slots)) {
        if slot.pool == pool {
            let highest = slot.offset + buffer.size_bytes == placement.peaks[pool as usize];
            for section in buffer.lifetime.sections(buffer.size_bytes) {
                events.push((section.lower, true, section.high - section.low, highest));
                events.push((section.upper, false, section.high - section.low, highest));
                sections.push((section, id));
            }
        }
    }
    events.sort_unstable();
    let (mut now, mut peaking, mut most, mut fullest) = (0u64, 0u32, 0u64, 0i64);
    for (step, starts, bytes, highest) in events {
        if !starts {
            now -= bytes;
            peaking -= u32::from(highest);
            continue;
        }
        now += bytes;
        peaking += u32::from(highest);
        if peaking > 0 && now > most {
            (most, fullest) = (now, step);
        }
    }
    let alive = |(section, _): &&(Section, u32)| section.lower <= fullest && fullest < section.upper;
    (most, sections.iter().filter(alive).map(|&(_, id)| id).collect())
}
