//! Conflict graphs: problems that say who conflicts with whom instead of when each is in use; and hostile problems.

use proptest::prelude::*;

use super::check::check;
use super::tests::spilt;
use super::*;

/// The buffers of two networks among the tests of Apache TVM: sizes, and for each buffer those with which it conflicts and
/// that come behind it.
type Network = [(u64, &'static [u32])];

const RESNET: &Network = &[
    (256, &[4, 8, 11]),
    (256, &[5, 8, 10]),
    (256, &[6, 8, 9]),
    (256, &[7, 9]),
    (720_000, &[8, 11]),
    (758_912, &[8, 10, 11]),
    (720_000, &[8, 9, 10]),
    (720_000, &[8, 9]),
    (720_000, &[9, 10, 11]),
    (5_760_000, &[]),
    (720_000, &[]),
    (720_000, &[]),
];

const SYNTHETIC: &Network = &[
    (48, &[2, 4, 6, 12, 21, 22]),
    (48, &[3, 5, 7, 15, 17]),
    (4, &[4, 6, 12, 21, 22]),
    (4, &[5, 7, 15, 17]),
    (4, &[6, 12, 21, 22]),
    (4, &[7, 15, 17]),
    (48, &[12, 21, 22]),
    (48, &[15, 17]),
    (192, &[9, 13, 14, 16, 17, 18, 22]),
    (192, &[13, 14, 16, 17, 18, 22]),
    (144, &[11, 19, 21, 23]),
    (4_368, &[19, 20, 21, 23, 24]),
    (3_456, &[13, 21, 22]),
    (3_456, &[14, 22]),
    (3_456, &[22]),
    (3_456, &[16, 17]),
    (3_456, &[17, 18]),
    (3_456, &[18, 19, 21]),
    (3_456, &[21]),
    (3_456, &[21]),
    (3_456, &[21]),
    (3_456, &[22]),
    (3_456, &[23]),
    (3_456, &[]),
    (3_456, &[]),
];

/// Each buffer is in use at a step of its own, so that only conflicts count.
fn of_conflicts(sizes: &[u64], conflicts: &[(usize, usize)]) -> Problem {
    let buffer = |(at, &size)| Buffer::new(size, 1, Lifetime::new(at, at + 1));
    let mut buffers: Vec<Buffer> = (0i64..).zip(sizes).map(buffer).collect();
    for &(one, other) in conflicts.iter().filter(|(one, other)| one != other) {
        buffers[one].conflicts.push(other as u32);
    }
    Problem { buffers, pools: vec![Pool::unbounded()] }
}

fn network(network: &Network) -> Problem {
    let sizes: Vec<u64> = network.iter().map(|&(size, _)| size).collect();
    let all = network.iter().enumerate().flat_map(|(one, (_, others))| others.iter().map(move |&o| (one, o as usize)));
    of_conflicts(&sizes, &all.collect::<Vec<_>>())
}

fn params(algorithm: Algorithm) -> Params {
    Params { algorithm, seed: 1, iterations: 500, threads: 1 }
}

#[test]
fn conflict_graphs_of_networks_are_proved_optimal() {
    for (problem, least) in [(network(RESNET), 7_200_256), (network(SYNTHETIC), 11_424)] {
        for algorithm in [Algorithm::Exact, Algorithm::HillClimb, Algorithm::Best] {
            let found = plan(&problem, &params(algorithm)).unwrap();
            assert_eq!(check(&problem, &found.placement), Ok(()));
            assert_eq!((found.placement.peaks[0], found.lower_bounds[0]), (least, least), "{}", algorithm.name());
            assert!(found.optimal);
        }
        assert_eq!(lower_bounds(&problem).unwrap(), [least]);
    }
}

#[test]
fn the_busiest_are_those_with_the_most_conflicts() {
    let problem = network(SYNTHETIC);
    let found = plan(&problem, &params(Algorithm::GreedyByConflicts)).unwrap();
    assert_eq!(found.placement.peaks, [13_824]);
}

#[test]
fn the_bound_of_a_conflict_graph_counts_padding() {
    let mut problem = of_conflicts(&[9, 9, 9, 9], &[(0, 1), (1, 2), (2, 0)]);
    problem.buffers.iter_mut().for_each(|buffer| buffer.alignment = 64);
    assert_eq!(lower_bounds(&problem).unwrap(), [137]);
}

#[test]
fn an_overflow_names_those_that_all_conflict() {
    let mut problem = of_conflicts(&[10, 50, 60, 70, 5], &[(0, 1), (1, 2), (2, 3), (3, 1), (4, 3)]);
    problem.pools[0].limit_bytes = Some(100);
    for algorithm in Algorithm::ALL {
        let Err(UsmpError::PoolOverflow { lower_bound_bytes, live, .. }) = plan(&problem, &params(algorithm)) else {
            panic!("{} placed what does not fit", algorithm.name());
        };
        assert_eq!((lower_bound_bytes, live), (180, vec![1, 2, 3]), "{}", algorithm.name());
    }
}

/// The least peak over all orders in which each buffer lies on top of one that it conflicts with, or on the floor.
fn least_peak(sizes: &[u64], conflicts: &[(usize, usize)]) -> u64 {
    fn go(sizes: &[u64], conflicts: &[(usize, usize)], offsets: &mut Vec<Option<u64>>, least: &mut u64) {
        let peak = offsets.iter().zip(sizes).filter_map(|(&at, size)| Some(at? + size)).max().unwrap_or(0);
        if peak >= *least {
            return;
        }
        let apart = |one, other| conflicts.contains(&(one, other)) || conflicts.contains(&(other, one));
        let left: Vec<usize> = (0..sizes.len()).filter(|&index| offsets[index].is_none()).collect();
        if left.is_empty() {
            *least = peak;
        }
        for index in left {
            let met = |other: &usize| *other != index && offsets[*other].is_some() && apart(index, *other);
            let met: Vec<(u64, u64)> =
                (0..sizes.len()).filter(met).map(|other| (offsets[other].unwrap(), sizes[other])).collect();
            let free = |at: &u64| met.iter().all(|&(there, size)| *at + sizes[index] <= there || there + size <= *at);
            offsets[index] = (0..).find(free);
            go(sizes, conflicts, offsets, least);
            offsets[index] = None;
        }
    }
    let mut least = u64::MAX;
    go(sizes, conflicts, &mut vec![None; sizes.len()], &mut least);
    least
}

/// Sizes and alignments up to far beyond what a sum may reach.
fn any_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..64,
        2 => 0u64..100_000,
        1 => (0u32..64).prop_map(|bits| 1 << bits),
        1 => any::<u64>(),
    ]
}

fn any_step() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -5i64..20, 1 => any::<i64>(), 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

prop_compose! {
    fn any_hostile_buffer()(
        size in any_bytes(),
        alignment in prop_oneof![6 => prop::sample::select(vec![1u64, 1, 2, 3, 16]), 1 => any_bytes()],
        steps in (any_step(), any_step()),
        gaps in prop::collection::vec((-5i64..20, 0i64..4, prop::option::of((0u64..30, 0u64..30))), 0..3),
        pools in prop::collection::vec(0u32..4, 1..4),
        pin in prop_oneof![6 => Just(None), 1 => (0u64..20).prop_map(|at| Some(48 * at)), 1 => any_bytes().prop_map(Some)],
        conflicts in prop::collection::vec(0u32..24, 0..6),
        shares in prop::collection::vec((0u32..24, -70i64..70, 0i64..90), 0..3),
    ) -> Buffer {
        let gaps = gaps.into_iter().map(|(lower, steps, window)| Gap { lower, upper: lower + steps, window }).collect();
        let shares = shares.into_iter().map(|(with, low, span)| AllowedOverlap { with, low, high: low + span });
        Buffer {
            pools: pools.into(),
            pinned_offset: pin,
            conflicts,
            shares: shares.collect(),
            ..Buffer::new(size, alignment, Lifetime::with_gaps(steps.0.min(steps.1), steps.0.max(steps.1), gaps))
        }
    }
}

prop_compose! {
    fn any_hostile_problem()(
        buffers in prop::collection::vec(any_hostile_buffer(), 0..24),
        pools in prop::collection::vec((prop::option::of(any_bytes()), 1u64..20, 0u64..40), 1..4),
        tame in prop::bool::weighted(0.9),
    ) -> Problem {
        let pools: Vec<Pool> = pools
            .into_iter()
            .map(|(limit_bytes, alignment, base_address)| Pool { limit_bytes, alignment, base_address })
            .collect();
        let mut problem = Problem { buffers, pools };
        if tame {
            make_sense(&mut problem);
        }
        problem
    }
}

/// Leaves out what is refused anyway, so that most problems are planned.
fn make_sense(problem: &mut Problem) {
    let (count, pools) = (problem.buffers.len() as u32, problem.pools.len() as u32);
    for id in 0..problem.buffers.len() {
        let buffer = &mut problem.buffers[id];
        buffer.size_bytes %= 1 << 40;
        buffer.alignment = buffer.alignment % (1 << 20) + u64::from(buffer.alignment % (1 << 20) == 0);
        buffer.pools.iter_mut().for_each(|pool| *pool %= pools);
        buffer.conflicts.iter_mut().for_each(|other| *other %= count);
        buffer.conflicts.retain(|other| *other as usize != id);
        buffer.shares.iter_mut().for_each(|share| share.with %= count);
        buffer.shares.retain(|share| share.with as usize != id);
        let alone = Problem { buffers: vec![], pools: problem.pools.clone() };
        let lifetime = buffer.lifetime.clone();
        let mut only = Buffer { conflicts: vec![], shares: vec![], ..buffer.clone() };
        let refused = |only: &Buffer| Problem { buffers: vec![only.clone()], ..alone.clone() }.validate().err();
        if let Some(UsmpError::BadGap { .. }) = refused(&only) {
            buffer.lifetime = Lifetime::new(lifetime.lower(), lifetime.upper());
            only.lifetime = buffer.lifetime.clone();
        }
        if refused(&only).is_some() {
            buffer.pinned_offset = None;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn conflict_graphs_are_searched_to_the_end(
        sizes in prop::collection::vec(1u64..12, 2..=7),
        conflicts in prop::collection::vec((0usize..7, 0usize..7), 0..20),
    ) {
        let count = sizes.len();
        let conflicts: Vec<(usize, usize)> = conflicts.into_iter().map(|(a, b)| (a % count, b % count)).collect();
        let problem = of_conflicts(&sizes, &conflicts);
        let least = least_peak(&sizes, &conflicts);
        prop_assert!(lower_bounds(&problem).unwrap()[0] <= least);
        let found = plan(&problem, &params(Algorithm::Exact)).unwrap();
        prop_assert_eq!(check(&problem, &found.placement), Ok(()));
        prop_assert_eq!(found.placement.peaks[0], least);
        prop_assert!(found.optimal);
    }

    #[test]
    fn lifetimes_told_as_conflicts_are_the_same_problem(
        buffers in prop::collection::vec((1u64..30, 0i64..12, 1i64..6), 1..12),
    ) {
        let lives: Vec<Buffer> =
            buffers.iter().map(|&(size, at, steps)| Buffer::new(size, 1, Lifetime::new(at, at + steps))).collect();
        let sizes: Vec<u64> = buffers.iter().map(|&(size, ..)| size).collect();
        let meet = |one: usize, other: usize| {
            let ((_, a, n), (_, b, m)) = (buffers[one], buffers[other]);
            a < b + m && b < a + n
        };
        let pairs = (0..sizes.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        let conflicts: Vec<(usize, usize)> = pairs.filter(|&(one, other)| meet(one, other)).collect();
        let timed = Problem { buffers: lives, pools: vec![Pool::unbounded()] };
        let graph = of_conflicts(&sizes, &conflicts);
        prop_assert_eq!(lower_bounds(&timed), lower_bounds(&graph));
        let [timed, graph] = [timed, graph].map(|problem| plan(&problem, &params(Algorithm::Exact)).unwrap());
        if timed.optimal && graph.optimal {
            prop_assert_eq!(timed.placement.peaks, graph.placement.peaks);
        }
    }

    #[test]
    fn hostile_problems_are_planned_or_refused(problem in any_hostile_problem()) {
        let costs = Algorithm::ALL.map(|algorithm| match plan(&problem, &Params { iterations: 60, ..params(algorithm) }) {
            Ok(found) => {
                assert_eq!(check(&problem, &found.placement), Ok(()));
                for (peak, bound) in found.placement.peaks.iter().zip(&found.lower_bounds) {
                    assert!(peak >= bound, "{} says {bound}, needs {peak}", algorithm.name());
                }
                Ok((spilt(&problem, &found.placement), found.placement.peaks, found.optimal))
            }
            Err(UsmpError::PoolOverflow { needed_bytes, available_bytes, live, .. }) => {
                assert!(needed_bytes > available_bytes && !live.is_empty());
                Err(None)
            }
            Err(other) => Err(Some(other)),
        });
        for one in &costs {
            for other in &costs {
                match (one, other) {
                    (Ok((spill, peaks, true)), Ok(found)) => prop_assert!((spill, peaks) <= (&found.0, &found.1)),
                    (Err(Some(refused)), other) => prop_assert_eq!(Some(refused), other.as_ref().unwrap_err().as_ref()),
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn problems_without_anything_are_planned() {
    for problem in [Problem::default(), Problem { buffers: vec![], pools: vec![Pool::unbounded(); 3] }] {
        for algorithm in Algorithm::ALL {
            let found = plan(&problem, &params(algorithm)).unwrap();
            assert!(found.optimal && found.placement.peaks.iter().all(|&peak| peak == 0));
        }
    }
}

/// The same numbers on every machine.
fn below(state: &mut u64, most: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*state >> 33) % most
}

#[test]
fn dense_problems_are_searched_for_as_long_as_the_work_is_worth() {
    let (mut state, count) = (1, 900);
    let mut lives = || {
        let (one, other) = (below(&mut state, 1_800) as i64, below(&mut state, 1_800) as i64);
        Buffer::new(1 + below(&mut state, 100_000), 1, Lifetime::new(one.min(other), one.max(other) + 1))
    };
    let problem = Problem { buffers: (0..count).map(|_| lives()).collect(), pools: vec![Pool::unbounded()] };
    let greedy = plan(&problem, &params(Algorithm::GreedyBySize)).unwrap();
    let found = plan(&problem, &Params { iterations: 3_000, ..params(Algorithm::Exact) }).unwrap();
    assert_eq!(check(&problem, &found.placement), Ok(()));
    assert_eq!(found.stop_reason, StopReason::NodeLimit);
    assert!(found.placement.peaks <= greedy.placement.peaks);
    // Of four nodes for each iteration only those whose looks are granted.
    assert!(found.iterations < 3_000, "{}", found.iterations);
}
