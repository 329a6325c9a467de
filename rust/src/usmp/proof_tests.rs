//! What is called optimal, against every offset in every pool of up to seven buffers: windows, alignments, pins,
//! conflicts, shares, two pools.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::check::check;
use super::*;

/// Steps of the grid on which everything is tried. It has a byte for each bit: all buffers fit above one another.
const STEPS: usize = 8;

prop_compose! {
    fn any_lifetime(size: u64)(lower in 0i64..6, steps in 1i64..6, first in 0i64..4, away in 0i64..4, low in 0..=size,
                               kind in 0..4) -> Lifetime {
        let upper = (lower + steps).min(STEPS as i64);
        let from = (lower + first).min(upper);
        let gap = |from: i64, to: i64, window| Gap { lower: from, upper: to.min(upper), window };
        let gaps = match kind {
            0 => vec![],
            1 => vec![gap(from, from + away, None)],
            // Rows die, or appear, one after the other.
            2 => (0..size).map(|row| gap(from + row as i64, from + row as i64 + 1, Some((row, size)))).collect(),
            _ => vec![gap(lower, from, Some((0, low))), gap(from, upper, Some((low / 2, size)))],
        };
        let gaps = gaps.into_iter().filter(|gap| gap.lower < gap.upper).collect();
        Lifetime::with_gaps(lower, upper, gaps)
    }
}

prop_compose! {
    fn any_buffer()(size in 1u64..5, alignment in prop::sample::select(vec![1u64, 1, 2, 3]), pin in 0u64..12,
                    pools in prop::sample::select(vec![vec![0u32], vec![1], vec![0, 1], vec![0, 1], vec![1, 0]]))
        (lifetime in any_lifetime(size), size in Just(size), alignment in Just(alignment), pin in Just(pin),
         pools in Just(pools)) -> Buffer {
        // Addresses of pins must suit their alignments.
        let (pinned_offset, alignment) = if pin < 2 { (Some(pin * alignment), 1) } else { (None, alignment) };
        Buffer { pinned_offset, pools: pools.into(), ..Buffer::new(size, alignment, lifetime) }
    }
}

prop_compose! {
    fn any_problem()(buffers in prop::collection::vec(any_buffer(), 2..=7), base in 0u64..3, one_pool in prop::bool::ANY,
                     limit in 3u64..24, alignment in 1u64..3,
                     bound in prop::collection::vec((0u32..7, 0u32..7, -3i64..3, 0i64..3, prop::bool::ANY), 0..4))
        -> Problem {
        let mut buffers = buffers;
        let count = buffers.len() as u32;
        for (one, other, low, span, apart) in bound {
            let (one, other) = (one % count, other % count);
            if one != other && apart {
                buffers[one as usize].conflicts.push(other);
            } else if one != other {
                buffers[one as usize].shares.push(AllowedOverlap { with: other, low, high: low + span });
            }
        }
        let based = Pool { base_address: base, ..Pool::unbounded() };
        if one_pool {
            buffers.iter_mut().for_each(|buffer| buffer.pools = [0].as_slice().into());
            return Problem { buffers, pools: vec![based] };
        }
        let pinned = buffers.iter().any(|buffer| buffer.pinned_offset.is_some());
        let alignment = if pinned { 1 } else { alignment };
        let small = Pool { limit_bytes: Some(limit), alignment, ..based };
        Problem { buffers, pools: vec![small, Pool::unbounded()] }
    }
}

/// The bytes of a pool that are in use, a bit each, by step.
type Grid = [u64; STEPS];

fn grid(buffer: &Buffer) -> Grid {
    let mut grid = [0; STEPS];
    for s in buffer.lifetime.sections(buffer.size_bytes) {
        grid[s.lower as usize..s.upper as usize].fill((1 << s.high) - (1 << s.low));
    }
    grid
}

/// Offsets that a brute force tries at most. Each is compared with at most six buffers on eight steps, so the work of a
/// problem is below 2^26 comparisons of words, and that of all problems of a test is their number times as much.
const MOST_TRIES: u64 = 1 << 20;

/// The brute force of a problem takes more than [`MOST_TRIES`].
#[derive(Debug)]
struct TooManyTries;

/// Spill and peaks of a placement.
type Cost = (u64, Vec<u64>);

/// Problems with the least cost of all their placements, `None` where there is none. Those are drawn whose brute force
/// takes no more than [`MOST_TRIES`].
fn judged_problem() -> impl Strategy<Value = (Problem, Option<Cost>)> {
    any_problem().prop_filter_map("too many tries", |problem| {
        let best = BruteForce::new(&problem).best().ok()?;
        Some((problem, best))
    })
}

/// Tries all pools and all offsets, knowing nothing but what a problem says.
struct BruteForce<'a> {
    problem: &'a Problem,
    grids: Vec<Grid>,
    tries_left: u64,
    /// Least peak by pool and set of buffers; `None` when they do not fit its limit.
    least: BTreeMap<(u32, Vec<usize>), Option<u64>>,
}

impl<'a> BruteForce<'a> {
    fn new(problem: &'a Problem) -> Self {
        Self {
            problem,
            grids: problem.buffers.iter().map(grid).collect(),
            tries_left: MOST_TRIES,
            least: BTreeMap::new(),
        }
    }

    /// The least cost of all placements, `None` when there is none.
    fn best(&mut self) -> Result<Option<Cost>, TooManyTries> {
        let mut ways: Vec<(u64, Vec<u32>)> = vec![(0, vec![])];
        for buffer in &self.problem.buffers {
            // A pin is an offset in the first pool.
            let candidates = &buffer.pools[..if buffer.pinned_offset.is_some() { 1 } else { buffer.pools.len() }];
            let with = |(spill, way): &(u64, Vec<u32>)| {
                let each = (0u64..).zip(candidates);
                let longer = each.map(|(rank, &pool)| (spill + rank * buffer.size_bytes, [&way[..], &[pool]].concat()));
                longer.collect::<Vec<_>>()
            };
            ways = ways.iter().flat_map(with).collect();
        }
        let pools = self.problem.pools.len() as u32;
        let mut best: Option<Cost> = None;
        for (spill, way) in ways {
            // A pin has one offset and is tried first: pins that clash leave nothing else to try.
            let members = |pool| {
                let mut members: Vec<usize> = (0..way.len()).filter(|&buffer| way[buffer] == pool).collect();
                members.sort_by_key(|&buffer| self.problem.buffers[buffer].pinned_offset.is_none());
                members
            };
            let members: Vec<Vec<usize>> = (0..pools).map(members).collect();
            let peaks = (0..pools).zip(members).map(|(pool, members)| self.least_peak(pool, members));
            let peaks = peaks.collect::<Result<Vec<Option<u64>>, TooManyTries>>()?;
            let cost = peaks.into_iter().collect::<Option<Vec<u64>>>().map(|peaks| (spill, peaks));
            best = best.into_iter().chain(cost).min();
        }
        Ok(best)
    }

    fn least_peak(&mut self, pool: u32, members: Vec<usize>) -> Result<Option<u64>, TooManyTries> {
        if let Some(&known) = self.least.get(&(pool, members.clone())) {
            return Ok(known);
        }
        let limit = self.problem.pools[pool as usize].limit_bytes.unwrap_or(63);
        let mut least = None;
        for capacity in 0..=limit {
            if self.fits(pool, &members, capacity, &mut Vec::new())? {
                least = Some(capacity);
                break;
            }
        }
        self.least.insert((pool, members), least);
        Ok(least)
    }

    /// Whether `members`, of which the first lie at `offsets`, have places below `capacity` bytes.
    fn fits(
        &mut self,
        pool: u32,
        members: &[usize],
        capacity: u64,
        offsets: &mut Vec<u64>,
    ) -> Result<bool, TooManyTries> {
        let Some(&member) = members.get(offsets.len()) else { return Ok(true) };
        let (buffer, spec) = (&self.problem.buffers[member], &self.problem.pools[pool as usize]);
        let used = self.grids[member] != [0; STEPS];
        if used && buffer.size_bytes > capacity {
            return Ok(false);
        }
        // Where what is never in use lies does not matter.
        for offset in 0..=if used { capacity - buffer.size_bytes } else { 0 } {
            self.tries_left = self.tries_left.checked_sub(1).ok_or(TooManyTries)?;
            let address = spec.base_address + offset;
            let suits = buffer.pinned_offset.unwrap_or(offset) == offset
                && address % buffer.alignment == 0
                && address % spec.alignment == 0;
            let clear = |(&other, &there): (&usize, &u64)| !self.clash((member, offset), (other, there));
            if used && !(suits && members.iter().zip(offsets.iter()).all(clear)) {
                continue;
            }
            offsets.push(offset);
            let fits = self.fits(pool, members, capacity, offsets)?;
            offsets.pop();
            if fits {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn clash(&self, (one, at): (usize, u64), (other, there): (usize, u64)) -> bool {
        let (ours, theirs) = (&self.problem.buffers[one], &self.problem.buffers[other]);
        let permits = |from: &Buffer, with: usize, apart: i64| {
            from.shares.iter().any(|s| s.with as usize == with && (s.low..=s.high).contains(&apart))
        };
        let apart = at as i64 - there as i64;
        if permits(ours, other, apart) || permits(theirs, one, -apart) {
            return false;
        }
        let conflict = ours.conflicts.contains(&(other as u32)) || theirs.conflicts.contains(&(one as u32));
        let touch = at < there + theirs.size_bytes && there < at + ours.size_bytes;
        let used = self.grids[one] != [0; STEPS] && self.grids[other] != [0; STEPS];
        let overlap =
            self.grids[one].iter().zip(&self.grids[other]).any(|(our, their)| our << at & their << there != 0);
        overlap || conflict && touch && used
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn exact_equals_brute_force_on_up_to_seven_buffers((problem, best) in judged_problem()) {
        let search = Params { algorithm: Algorithm::Exact, seed: 1, iterations: 10_000, threads: 1 };
        match plan(&problem, &search) {
            Ok(found) => {
                let cost = (tests::spilt(&problem, &found.placement), found.placement.peaks.clone());
                prop_assert_eq!(check(&problem, &found.placement), Ok(()));
                prop_assert!(found.optimal);
                prop_assert_eq!(&found.lower_bounds, &found.placement.peaks);
                prop_assert_eq!(Some(cost), best);
            }
            Err(UsmpError::PoolOverflow { .. } | UsmpError::PinsOverlap { .. }) => {
                prop_assert_eq!(best, None);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
