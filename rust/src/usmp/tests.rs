//! Properties of planning as a whole, and the checker against corrupted answers.

use proptest::prelude::*;

use super::check::{check, PlacementComplaint};
use super::*;

fn buffer(lower: i64, upper: i64, size_bytes: u64) -> Buffer {
    Buffer::new(size_bytes, 1, Lifetime::new(lower, upper))
}

fn one_pool(buffers: Vec<Buffer>) -> Problem {
    Problem { buffers, pools: vec![Pool::unbounded()] }
}

fn params(algorithm: Algorithm) -> Params {
    Params { algorithm, seed: 1, iterations: 300, threads: 1 }
}

prop_compose! {
    fn any_lifetime(size: u64)(lower in -4i64..12, steps in 0i64..9, cut in 0i64..9, low in 0u64..40, kind in 0..4)
        -> Lifetime {
        let (from, to) = (lower + cut.min(steps) / 2, lower + cut.min(steps));
        let window = (kind == 2).then_some((low.min(size) / 2, low.min(size)));
        let gaps = if kind < 2 { vec![] } else { vec![Gap { lower: from, upper: to, window }] };
        Lifetime::with_gaps(lower, lower + steps, gaps)
    }
}

prop_compose! {
    fn any_buffer()(size in 0u64..60, alignment in prop::sample::select(vec![1u64, 2, 3, 8, 16]))
        (lifetime in any_lifetime(size), size in Just(size), alignment in Just(alignment),
         pools in prop::sample::select(vec![vec![0u32], vec![1], vec![0, 1], vec![1, 0]])) -> Buffer {
        Buffer { pools: pools.into(), ..Buffer::new(size, alignment, lifetime) }
    }
}

prop_compose! {
    fn any_problem()(buffers in prop::collection::vec(any_buffer(), 0..14), limit in 60u64..200, base in 0u64..9,
                     alignment in prop::sample::select(vec![1u64, 4])) -> Problem {
        let small = Pool { limit_bytes: Some(limit), alignment, base_address: base };
        Problem { buffers, pools: vec![small, Pool::unbounded()] }
    }
}

prop_compose! {
    /// With conflicts and leave to share, among equals too.
    pub(super) fn any_related_problem()(problem in any_problem(), twins in prop::bool::ANY,
        bound in prop::collection::vec((0u32..14, 0u32..14, -8i64..8, 0i64..20, prop::bool::ANY), 0..6)) -> Problem {
        let mut problem = problem;
        if twins {
            problem.buffers.extend_from_within(..problem.buffers.len().min(5));
        }
        let count = (problem.buffers.len() as u32).max(1);
        for (one, other, low, span, apart) in bound {
            let (one, other) = (one % count, other % count);
            if one != other && apart {
                problem.buffers[one as usize].conflicts.push(other);
            } else if one != other {
                problem.buffers[one as usize].shares.push(AllowedOverlap { with: other, low, high: low + span });
            }
        }
        problem
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn every_answer_passes_the_checker(problem in any_problem()) {
        for algorithm in Algorithm::ALL {
            match plan(&problem, &params(algorithm)) {
                Ok(solution) => {
                    prop_assert_eq!(check(&problem, &solution.placement), Ok(()));
                    for (peak, bound) in solution.placement.peaks.iter().zip(&solution.lower_bounds) {
                        prop_assert!(peak >= bound);
                    }
                }
                Err(UsmpError::PoolOverflow { pool: 0, needed_bytes, available_bytes, live, .. }) => {
                    prop_assert!(needed_bytes > available_bytes);
                    prop_assert!(!live.is_empty());
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }

    #[test]
    fn best_is_never_worse(problem in any_related_problem()) {
        let cost = |algorithm| match plan(&problem, &params(algorithm)) {
            Ok(found) => (0, spilt(&problem, &found.placement), found.placement.peaks),
            Err(UsmpError::PoolOverflow { needed_bytes, .. }) => (needed_bytes, 0, vec![]),
            Err(other) => panic!("{other}"),
        };
        let best = cost(Algorithm::Best);
        for algorithm in Algorithm::ALL {
            prop_assert!(best <= cost(algorithm), "{}", algorithm.name());
        }
        for searching in [Algorithm::HillClimb, Algorithm::Exact] {
            prop_assert!(cost(searching) <= cost(Algorithm::GreedyBySize).min(cost(Algorithm::GreedyByConflicts)));
        }
    }

    #[test]
    fn best_finds_the_best_order_of_a_few(buffers in prop::collection::vec(any_buffer(), 1..=6)) {
        let buffers = buffers.into_iter().map(|b| Buffer { pools: [0].as_slice().into(), ..b }).collect();
        let problem = one_pool(buffers);
        let search = Params { iterations: 4_000, ..params(Algorithm::Best) };
        let found = plan(&problem, &search).unwrap();
        let least = least_peak_of_all_orders(&problem);
        prop_assert_eq!(found.placement.peaks[0], least);
    }

    #[test]
    fn a_proof_holds(buffers in prop::collection::vec(any_buffer(), 1..=6)) {
        let buffers = buffers.into_iter().map(|b| Buffer { pools: [0].as_slice().into(), ..b }).collect();
        let problem = one_pool(buffers);
        let found = plan(&problem, &params(Algorithm::GreedyBySize)).unwrap();
        if found.optimal {
            prop_assert!(found.placement.peaks[0] <= least_peak_of_all_orders(&problem));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn exact_equals_all_orders_of_seven(buffers in prop::collection::vec(any_solid_buffer(20), 1..=7)) {
        let problem = one_pool(buffers);
        let found = plan(&problem, &params(Algorithm::Exact)).unwrap();
        prop_assert_eq!(check(&problem, &found.placement), Ok(()));
        prop_assert!(found.optimal);
        prop_assert_eq!(found.placement.peaks[0], least_peak_of_all_orders(&problem));
        prop_assert_eq!(found.lower_bounds, found.placement.peaks);
    }

    #[test]
    fn exact_keeps_its_proofs_on_a_dozen(buffers in prop::collection::vec(any_solid_buffer(9), 8..=12)) {
        let problem = one_pool(buffers);
        let [exact, climbed] = [Algorithm::Exact, Algorithm::HillClimb]
            .map(|algorithm| plan(&problem, &Params { iterations: 2_000, ..params(algorithm) }).unwrap());
        prop_assert_eq!(check(&problem, &exact.placement), Ok(()));
        prop_assert!(!exact.optimal || exact.placement.peaks <= climbed.placement.peaks);
        prop_assert!(exact.lower_bounds[0] <= climbed.placement.peaks[0]);
    }
}

prop_compose! {
    fn any_solid_buffer(most: u64)(size in 0..most, alignment in prop::sample::select(vec![1u64, 2, 3, 8]),
                                   lower in 0i64..8, steps in 1i64..6, away in 0i64..5) -> Buffer {
        let gap = Gap { lower: lower + away.min(steps) / 2, upper: lower + away.min(steps), window: None };
        let lifetime = Lifetime::with_gaps(lower, lower + steps, vec![gap]);
        Buffer::new(size, alignment, lifetime)
    }
}

pub(super) fn spilt(problem: &Problem, placement: &Placement) -> u64 {
    let denied = |(spec, slot): (&Buffer, &Slot)| {
        spec.size_bytes * spec.pools.iter().position(|&pool| pool == slot.pool).unwrap() as u64
    };
    problem.buffers.iter().zip(&placement.slots).map(denied).sum()
}

/// The least peak of first fit over every order, found without the crate's own first fit.
fn least_peak_of_all_orders(problem: &Problem) -> u64 {
    fn go(problem: &Problem, left: &mut Vec<usize>, placed: &mut Vec<(usize, u64)>, least: &mut u64) {
        let end = |&(id, offset): &(usize, u64)| {
            let spec = &problem.buffers[id];
            if spec.lifetime.sections(spec.size_bytes).is_empty() {
                0
            } else {
                offset + spec.size_bytes
            }
        };
        let peak = placed.iter().map(end).max().unwrap_or(0);
        if peak >= *least {
            return;
        }
        if left.is_empty() {
            *least = peak;
        }
        for index in 0..left.len() {
            let id = left.remove(index);
            let spec = &problem.buffers[id];
            let clear = |offset: u64| placed.iter().all(|&(other, at)| !clash(problem, (id, offset), (other, at)));
            let offset = (0..).step_by(spec.alignment as usize).find(|&offset| clear(offset)).unwrap();
            placed.push((id, offset));
            go(problem, left, placed, least);
            placed.pop();
            left.insert(index, id);
        }
    }
    let mut least = u64::MAX;
    go(problem, &mut (0..problem.buffers.len()).collect(), &mut Vec::new(), &mut least);
    least
}

fn clash(problem: &Problem, one: (usize, u64), other: (usize, u64)) -> bool {
    let sections = |(id, _): (usize, u64)| problem.buffers[id].lifetime.sections(problem.buffers[id].size_bytes);
    sections(one).iter().any(|a| {
        let meets = |b: &Section| a.meets(b) && one.1 + a.low < other.1 + b.high && other.1 + b.low < one.1 + a.high;
        sections(other).iter().any(meets)
    })
}

#[test]
fn explicit_conflicts_keep_apart_what_lifetimes_would_not() {
    let mut problem = one_pool(vec![buffer(0, 2, 8), buffer(5, 9, 8), buffer(12, 14, 8), buffer(3, 3, 8)]);
    problem.buffers[0].conflicts = vec![1, 3];
    problem.buffers[2].conflicts = vec![1];
    for algorithm in Algorithm::ALL {
        let found = plan(&problem, &params(algorithm)).unwrap();
        assert_eq!(check(&problem, &found.placement), Ok(()));
        assert_eq!(found.placement.peaks, [16]);
        assert!(found.optimal);
    }
    let slots = vec![Slot::default(); 4];
    let wrong = check(&problem, &Placement { slots, peaks: vec![8] });
    assert_eq!(wrong, Err(PlacementComplaint::Conflict { first: 0, second: 1 }));
}

#[test]
fn shares_let_buffers_overlap_where_they_say() {
    let share = |with, low, high| vec![AllowedOverlap { with, low, high }];
    let mut problem = one_pool(vec![buffer(0, 4, 100), buffer(3, 8, 100), buffer(3, 8, 30)]);
    problem.buffers[1].shares = share(0, 0, 0);
    for algorithm in Algorithm::ALL {
        let found = plan(&problem, &params(algorithm)).unwrap();
        assert_eq!(check(&problem, &found.placement), Ok(()));
        assert_eq!((found.placement.peaks[0], found.lower_bounds[0]), (130, 130), "{algorithm:?}");
    }
    let slots = [0, 40, 0].map(|offset| Slot { pool: 0, offset }).to_vec();
    let wrong = check(&problem, &Placement { slots, peaks: vec![140] });
    assert_eq!(wrong, Err(PlacementComplaint::Overlap { first: 0, second: 1 }));
    // An output that may start up to 64 bytes before its input, but no nearer than 16.
    problem.buffers.truncate(2);
    problem.buffers[0].pinned_offset = Some(64);
    problem.buffers[1].shares = share(0, -64, -16);
    let found = plan(&problem, &params(Algorithm::Best)).unwrap();
    assert_eq!(found.placement.slots[1].offset, 0);
    assert_eq!(found.placement.peaks, [164]);
}

#[test]
fn greedy_fills_gaps() {
    // The long one lies on the early one; the late one must come back to offset 0 below it.
    let problem = one_pool(vec![buffer(0, 5, 50), buffer(0, 9, 40), buffer(5, 9, 30)]);
    let solution = plan(&problem, &params(Algorithm::GreedyBySize)).unwrap();
    let offsets: Vec<u64> = solution.placement.slots.iter().map(|slot| slot.offset).collect();
    assert_eq!(offsets, [0, 50, 0]);
    assert!(solution.optimal);
}

#[test]
fn each_buffer_is_aligned_by_its_own_alignment_and_the_pools() {
    let mut problem = one_pool(vec![buffer(0, 9, 17), Buffer::new(10, 24, Lifetime::new(0, 9)), buffer(0, 9, 5)]);
    problem.pools[0] = Pool { limit_bytes: None, alignment: 16, base_address: 8 };
    for algorithm in Algorithm::ALL {
        let solution = plan(&problem, &params(algorithm)).unwrap();
        for (slot, alignment) in solution.placement.slots.iter().zip([16, 48, 16]) {
            assert_eq!((8 + slot.offset) % alignment, 0);
        }
        assert_eq!(check(&problem, &solution.placement), Ok(()));
    }
}

#[test]
fn gaps_in_time_and_space_are_used() {
    let away = Lifetime::with_gaps(0, 9, vec![Gap { lower: 3, upper: 6, window: None }]);
    let problem = one_pool(vec![Buffer::new(100, 1, away), buffer(3, 6, 100)]);
    assert_eq!(plan(&problem, &Params::default()).unwrap().placement.peaks, [100]);
    let shrunk = Lifetime::with_gaps(0, 9, vec![Gap { lower: 3, upper: 9, window: Some((60, 100)) }]);
    let problem = one_pool(vec![Buffer::new(100, 1, shrunk), buffer(3, 9, 60)]);
    assert_eq!(plan(&problem, &Params::default()).unwrap().placement.peaks, [100]);
}

#[test]
fn buffers_fall_back_to_the_next_candidate() {
    let either = |size| Buffer { pools: [0, 1].as_slice().into(), ..buffer(0, 4, size) };
    let small = Pool { limit_bytes: Some(100), ..Pool::unbounded() };
    let problem = Problem { buffers: vec![either(80), either(60), either(15)], pools: vec![small, Pool::unbounded()] };
    let solution = plan(&problem, &Params::default()).unwrap();
    let pools: Vec<u32> = solution.placement.slots.iter().map(|slot| slot.pool).collect();
    assert_eq!(pools, [0, 1, 0]);
    assert_eq!(solution.placement.peaks, [95, 60]);
    assert_eq!(check(&problem, &solution.placement), Ok(()));
}

#[test]
fn an_overflow_says_where_how_much_and_who() {
    let mut problem = one_pool(vec![buffer(0, 4, 80), buffer(2, 6, 60), buffer(6, 9, 15)]);
    problem.pools[0].limit_bytes = Some(100);
    for algorithm in Algorithm::ALL {
        let error = plan(&problem, &params(algorithm)).unwrap_err();
        let live = vec![0, 1];
        let wanted =
            UsmpError::PoolOverflow { pool: 0, needed_bytes: 140, available_bytes: 100, lower_bound_bytes: 140, live };
        assert_eq!(error, wanted);
    }
}

#[test]
fn pins_are_kept_and_must_agree() {
    let pinned = |offset| Buffer { pinned_offset: Some(offset), ..buffer(0, 4, 10) };
    let problem = one_pool(vec![pinned(20), buffer(0, 4, 15), buffer(0, 4, 10)]);
    let solution = plan(&problem, &Params::default()).unwrap();
    assert_eq!(solution.placement.slots[0].offset, 20);
    assert_eq!(check(&problem, &solution.placement), Ok(()));
    let clash = one_pool(vec![pinned(20), pinned(25)]);
    assert_eq!(plan(&clash, &Params::default()).unwrap_err(), UsmpError::PinsOverlap { first: 0, second: 1 });
}

#[test]
fn nonsense_is_refused() {
    let refusal = |change: fn(&mut Problem)| {
        let mut problem = one_pool(vec![buffer(0, 4, 10)]);
        change(&mut problem);
        plan(&problem, &Params::default()).unwrap_err()
    };
    let reversed = refusal(|p| p.buffers[0].lifetime = Lifetime::new(5, 4));
    assert_eq!(reversed, UsmpError::ReversedLifetime { buffer: 0, lower: 5, upper: 4 });
    let beyond = refusal(|p| {
        p.buffers[0].lifetime = Lifetime::with_gaps(0, 4, vec![Gap { lower: 2, upper: 5, window: None }]);
    });
    assert_eq!(beyond, UsmpError::BadGap { buffer: 0, lower: 2, upper: 5 });
    assert_eq!(refusal(|p| p.buffers[0].alignment = 0), UsmpError::BufferAlignment { buffer: 0 });
    assert_eq!(refusal(|p| p.pools[0].alignment = 0), UsmpError::PoolAlignment { pool: 0 });
    assert_eq!(refusal(|p| p.buffers[0].pools.clear()), UsmpError::NoPool { buffer: 0 });
    assert_eq!(refusal(|p| p.buffers[0].conflicts = vec![0]), UsmpError::UnknownPartner { buffer: 0, other: 0 });
    let reversed = refusal(|p| {
        p.buffers.push(buffer(0, 4, 10));
        p.buffers[0].shares = vec![AllowedOverlap { with: 1, low: 3, high: 2 }];
    });
    assert_eq!(reversed, UsmpError::BadShare { buffer: 0, other: 1 });
    let unknown = refusal(|p| p.buffers[0].pools.push(3));
    assert_eq!(unknown, UsmpError::UnknownPool { buffer: 0, pool: 3, pools: 1 });
    assert_eq!(refusal(|p| p.buffers[0].size_bytes = u64::MAX), UsmpError::TooLarge);
    assert_eq!(refusal(|p| p.buffers[0].alignment = u64::MAX), UsmpError::TooLarge);
    let crooked = refusal(|p| {
        p.buffers[0].alignment = 16;
        p.buffers[0].pinned_offset = Some(8);
    });
    assert_eq!(crooked, UsmpError::PinMisaligned { buffer: 0, offset: 8, alignment: 16 });
}

#[test]
fn what_branch_and_bound_does_not_take_on_is_said() {
    let mut random = super::random::Random::new(1);
    let mut draw_items = |count: usize| {
        let mut one = |_| {
            let lower = random.below(count) as i64;
            buffer(lower, lower + 4 + random.below(30) as i64, 1 + random.below(60) as u64)
        };
        one_pool((0..count).map(&mut one).collect())
    };
    let many = draw_items(33_000);
    let mut sharing = draw_items(2_100);
    sharing.buffers[0].shares.push(AllowedOverlap { with: 1, low: 0, high: 0 });
    for problem in [many, sharing] {
        let found = plan(&problem, &params(Algorithm::Exact)).unwrap();
        assert_eq!((found.optimal, found.stop_reason), (false, StopReason::TooLarge));
        assert_eq!(check(&problem, &found.placement), Ok(()));
        let climbed = plan(&problem, &params(Algorithm::HillClimb)).unwrap();
        assert!(climbed.placement.peaks <= found.placement.peaks);
        assert_eq!(check(&problem, &climbed.placement), Ok(()));
    }
}

#[test]
fn the_extremes_of_time_are_fine() {
    let problem = one_pool(vec![buffer(i64::MIN, i64::MAX, 3), buffer(0, 0, 50), buffer(i64::MAX - 1, i64::MAX, 0)]);
    for algorithm in Algorithm::ALL {
        assert_eq!(plan(&problem, &params(algorithm)).unwrap().placement.peaks, [3]);
    }
    let nothing = plan(&Problem::default(), &Params::default()).unwrap();
    assert!(nothing.optimal && nothing.placement.slots.is_empty());
}

#[test]
fn an_overflow_names_who_is_in_use_at_the_peak_of_its_pool() {
    // More bytes are in use in the first steps, and in the other pool, but what sticks out lies elsewhere in time.
    let far = |lower, upper, size| Buffer { pools: [1].as_slice().into(), ..buffer(lower, upper, size) };
    let pinned = Buffer { pinned_offset: Some(95), ..far(4, 6, 10) };
    let buffers = vec![far(0, 2, 60), far(0, 2, 30), pinned, far(5, 8, 7), buffer(0, 9, 400), far(6, 9, 20)];
    let small = Pool { limit_bytes: Some(100), ..Pool::unbounded() };
    let problem = Problem { buffers, pools: vec![Pool::unbounded(), small] };
    for algorithm in Algorithm::ALL {
        let error = plan(&problem, &params(algorithm)).unwrap_err();
        let wanted = UsmpError::PoolOverflow {
            pool: 1,
            needed_bytes: 105,
            available_bytes: 100,
            lower_bound_bytes: 105,
            live: vec![2, 3],
        };
        assert_eq!(error, wanted);
    }
}

#[test]
fn the_bound_counts_padding_that_nothing_can_fill() {
    let aligned = |alignment, size| Buffer::new(size, alignment, Lifetime::new(0, 3));
    let bound = |buffers: Vec<Buffer>, base_address| {
        let problem = Problem { buffers, pools: vec![Pool { base_address, ..Pool::unbounded() }] };
        let found = plan(&problem, &params(Algorithm::Exact)).unwrap();
        assert!(found.optimal);
        assert_eq!(lower_bounds(&problem).unwrap(), found.placement.peaks);
        found.placement.peaks[0]
    };
    // 64 + 64 + 9: a buffer of alignment 1 in use later takes nothing from that.
    let later = Buffer::new(5, 1, Lifetime::new(3, 4));
    assert_eq!(bound(vec![aligned(64, 9), aligned(64, 9), aligned(64, 9), later], 0), 137);
    // The four bytes lie in the padding of one, so that they cost nothing; 119 take the place of one.
    assert_eq!(bound(vec![aligned(64, 9), aligned(64, 9), aligned(64, 9), aligned(1, 4)], 0), 137);
    assert_eq!(bound(vec![aligned(64, 9), aligned(64, 9), aligned(64, 9), aligned(1, 119)], 0), 201);
    // Address 8 is no multiple of 16, so the first of them starts at offset 8.
    assert_eq!(bound(vec![aligned(16, 16), aligned(16, 16)], 8), 40);
    // Alignments 16 and 64: the two of 64 start 64 bytes apart, and 16 bytes fit between.
    assert_eq!(bound(vec![aligned(64, 40), aligned(64, 40), aligned(16, 16)], 0), 104);
}

#[test]
fn rounding_to_the_common_alignment_is_proved_optimal() {
    let odd = |size| Buffer::new(size, 16, Lifetime::new(0, 3));
    let solution = plan(&one_pool(vec![odd(17), odd(33), odd(9)]), &params(Algorithm::Best)).unwrap();
    // 32 + 48 + 16, less the 15 bytes that the topmost need not round up.
    assert_eq!(solution.placement.peaks, [81]);
    assert_eq!(solution.lower_bounds, [81]);
    assert!(solution.optimal);
    assert_eq!(solution.stop_reason, StopReason::Complete);
}

#[test]
fn the_checker_names_what_was_corrupted() {
    let mut problem = one_pool(vec![Buffer::new(10, 4, Lifetime::new(0, 4)), buffer(2, 6, 8), buffer(6, 9, 5)]);
    problem.pools.push(Pool { limit_bytes: Some(12), ..Pool::unbounded() });
    problem.buffers[2].pools.push(1);
    let right = plan(&problem, &Params::default()).unwrap().placement;
    assert_eq!(check(&problem, &right), Ok(()));
    let complaint = |change: &dyn Fn(&mut Problem, &mut Placement)| {
        let (mut problem, mut wrong) = (problem.clone(), right.clone());
        change(&mut problem, &mut wrong);
        check(&problem, &wrong).unwrap_err()
    };
    let other = right.slots[0].offset;
    assert_eq!(complaint(&|_, p| p.slots[1].offset = other), PlacementComplaint::Overlap { first: 0, second: 1 });
    assert_eq!(complaint(&|_, p| p.slots[0].pool = 1), PlacementComplaint::Pool { buffer: 0, pool: 1 });
    let crooked = PlacementComplaint::Alignment { buffer: 0, address: 31, alignment: 4 };
    assert_eq!(complaint(&|_, p| p.slots[0].offset = 31), crooked);
    let beyond = PlacementComplaint::Limit { buffer: 2, pool: 1, end: 13, limit_bytes: 12 };
    assert_eq!(complaint(&|_, p| p.slots[2] = Slot { pool: 1, offset: 8 }), beyond);
    assert_eq!(complaint(&|_, p| p.slots.truncate(2)), PlacementComplaint::Count { wanted: 3, found: 2 });
    assert_eq!(complaint(&|_, p| p.peaks.push(0)), PlacementComplaint::Count { wanted: 2, found: 3 });
    assert_eq!(complaint(&|_, p| p.peaks[0] = 17), PlacementComplaint::Peak { pool: 0, claimed: 17, actual: 18 });
    assert_eq!(complaint(&|_, p| p.peaks[0] = 19), PlacementComplaint::Peak { pool: 0, claimed: 19, actual: 18 });
    assert_eq!(complaint(&|q, _| q.buffers[1].pinned_offset = Some(40)), PlacementComplaint::Pin { buffer: 1 });
    // A pin is a place in the first candidate; a pool's alignment counts beside the buffer's.
    let elsewhere =
        complaint(&|q, p| (q.buffers[2].pinned_offset, p.slots[2]) = (Some(0), Slot { pool: 1, offset: 0 }));
    assert_eq!(elsewhere, PlacementComplaint::Pin { buffer: 2 });
    let coarse = complaint(&|q, p| (q.pools[0].alignment, p.slots[0].offset) = (64, 32));
    assert_eq!(coarse, PlacementComplaint::Alignment { buffer: 0, address: 32, alignment: 64 });
    // One byte is enough to overlap.
    let (first, second) = (right.slots[0].offset, right.slots[1].offset);
    let byte = if first < second { first + 9 } else { first - 7 };
    assert_eq!(complaint(&|_, p| p.slots[1].offset = byte), PlacementComplaint::Overlap { first: 0, second: 1 });
}
