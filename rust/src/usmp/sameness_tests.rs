//! What must change nothing: the order in which buffers are given, the number of threads, how first fit finds neighbours.

use proptest::prelude::*;

use super::arithmetic::gcd;
use super::random::Random;
use super::tests::any_related_problem;
use super::*;

/// `problem` with its buffers in another order: buffer `order[i]` comes in place `i`.
fn reordered(problem: &Problem, order: &[usize]) -> Problem {
    let mut place = vec![0u32; order.len()];
    order.iter().zip(0u32..).for_each(|(&from, to)| place[from] = to);
    let moved = |&from: &usize| {
        let mut buffer = problem.buffers[from].clone();
        buffer.conflicts.iter_mut().for_each(|other| *other = place[*other as usize]);
        buffer.shares.iter_mut().for_each(|share| share.with = place[share.with as usize]);
        buffer
    };
    Problem { buffers: order.iter().map(moved).collect(), pools: problem.pools.clone() }
}

/// An order of `count` that `seed` stands for.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..count).collect();
    (1..count).for_each(|last| order.swap(last, random.below(last + 1)));
    order
}

/// Everything about an answer; which of several equal buffers lies where is no part of it.
type Answer = (Vec<(String, u32, u64)>, Vec<u64>, Vec<u64>, bool, StopReason, u64);

/// What a buffer demands beside its partners, however its lifetime and its alignment are written.
fn demands(problem: &Problem, buffer: &Buffer) -> String {
    let used = buffer.lifetime.sections(buffer.size_bytes);
    let common = |a: u64, b: u64| a / gcd(a, b) * b;
    let alignments = buffer.pools.iter().map(|&pool| common(buffer.alignment, problem.pools[pool as usize].alignment));
    let alignments: Vec<u64> = alignments.collect();
    format!("{} {used:?} {alignments:?} {:?} {:?}", buffer.size_bytes, buffer.pools, buffer.pinned_offset)
}

fn answer(problem: &Problem, params: &Params) -> Result<Answer, (u64, u64)> {
    match plan(problem, params) {
        Ok(found) => {
            let placed = problem.buffers.iter().zip(&found.placement.slots);
            let placed = placed.map(|(buffer, slot)| (demands(problem, buffer), slot.pool, slot.offset));
            let mut placed: Vec<_> = placed.collect();
            placed.sort();
            let bounds = found.lower_bounds;
            Ok((placed, found.placement.peaks, bounds, found.optimal, found.stop_reason, found.iterations))
        }
        Err(UsmpError::PoolOverflow { needed_bytes, lower_bound_bytes, .. }) => Err((needed_bytes, lower_bound_bytes)),
        Err(other) => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn the_order_of_buffers_changes_nothing(problem in any_related_problem(), seed in any::<u64>()) {
        let other = reordered(&problem, &shuffled(problem.buffers.len(), seed));
        for algorithm in Algorithm::ALL {
            let params = Params { algorithm, seed: 1, iterations: 300, threads: 1 };
            prop_assert_eq!(answer(&problem, &params), answer(&other, &params), "{}", algorithm.name());
        }
    }
}

#[test]
fn equal_buffers_are_told_apart_by_their_partners_partners() {
    // Two of four equal pairs are in place; their partners are told apart by what they share, not by size or steps.
    let one = |lower, upper| Buffer::new(64, 16, Lifetime::new(lower, upper));
    let mut buffers: Vec<Buffer> = (0..4).map(|_| one(0, 3)).chain((0..4).map(|_| one(2, 5))).collect();
    for (input, output) in [(0, 4), (1, 5)] {
        buffers[output].shares.push(AllowedOverlap { with: input, low: 0, high: 0 });
    }
    buffers[2].conflicts.push(6);
    let problem = Problem { buffers, pools: vec![Pool::unbounded()] };
    for algorithm in Algorithm::ALL {
        let params = Params { algorithm, iterations: 300, ..Params::default() };
        let wanted = answer(&problem, &params);
        for seed in 0..40 {
            assert_eq!(answer(&reordered(&problem, &shuffled(8, seed)), &params), wanted, "{}", algorithm.name());
        }
    }
}

/// Buffers that no heuristic packs well: all in use for a third of the time or so, of all sizes.
fn hard(count: usize, seed: u64, grain: u64, windows: bool) -> Problem {
    let mut random = Random::new(seed);
    let mut buffers = Vec::with_capacity(count);
    for _ in 0..count {
        let (lower, steps) = (random.below(60) as i64, 4 + random.below(30) as i64);
        let size = grain * (1 + random.below(60) as u64);
        let gap = Gap { lower: lower + 1, upper: lower + 3, window: Some((0, size / 2)) };
        let lifetime = Lifetime::with_gaps(lower, lower + steps, if windows { vec![gap] } else { vec![] });
        buffers.push(Buffer::new(size, 1, lifetime));
    }
    Problem { buffers, pools: vec![Pool::unbounded()] }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let problems = [hard(60, 1, 1, false), hard(120, 2, 16, false), hard(60, 3, 4, true), hard(600, 4, 1, false)];
    let mut spent = 0;
    for (problem, iterations) in problems.iter().zip([9_000, 9_000, 9_000, 500]) {
        for algorithm in [Algorithm::HillClimb, Algorithm::Exact, Algorithm::Best] {
            let with = |threads| plan(problem, &Params { algorithm, seed: 7, iterations, threads }).unwrap();
            let alone = with(1);
            spent += u32::from(alone.stop_reason != StopReason::Complete);
            for threads in [2, 4] {
                let found = with(threads);
                assert_eq!(found.placement, alone.placement);
                assert_eq!((found.optimal, found.stop_reason), (alone.optimal, alone.stop_reason));
                assert_eq!((found.iterations, found.lower_bounds), (alone.iterations, alone.lower_bounds.clone()));
            }
        }
    }
    // Some of these searches must have come to their limits, else this shows nothing.
    assert!(spent >= 4, "{spent}");
}

#[test]
fn answers_behind_the_one_that_ends_the_matter_are_forgotten() {
    for threads in [0, 1, 2, 3, 8] {
        let run = |job: u64, wanted: &dyn Fn() -> bool| {
            // A job that is not wanted may return early; the first ones always are.
            assert!(job > 3 || wanted());
            job * job
        };
        assert_eq!(parallel::until(threads, (0..9).collect(), run, |&answer| answer >= 9), [0, 1, 4, 9]);
        assert_eq!(parallel::until(threads, (0..3).collect(), run, |_| false), [0, 1, 4]);
        assert!(parallel::until(threads, vec![], run, |_| false).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    #[test]
    fn first_fit_is_the_same_however_neighbours_are_found(problem in any_related_problem(), copies in 1i64..300) {
        // Copies one after the other in time: enough of them are too many for a table of pairs.
        let buffers = (0..copies).flat_map(|copy| problem.buffers.iter().map(move |buffer| {
            let moved = |step: i64| step + 20 * copy;
            let gaps = buffer.lifetime.sections(buffer.size_bytes).windows(2).flat_map(|pair| {
                let gap = Gap { lower: moved(pair[0].upper), upper: moved(pair[1].lower), window: None };
                (gap.lower < gap.upper).then_some(gap)
            }).collect();
            let lifetime = Lifetime::with_gaps(moved(buffer.lifetime.lower()), moved(buffer.lifetime.upper()), gaps);
            Buffer { lifetime, conflicts: vec![], shares: vec![], ..buffer.clone() }
        }));
        let problem = Problem { buffers: buffers.collect(), pools: problem.pools };
        let instance = Instance::new(&problem).unwrap();
        for order in orders::GreedyOrder::ALL {
            let mut placer = placer::Placer::new(&instance);
            let quick = orders::first_fit(&instance, placer.as_mut(), order.sort(&instance));
            let plain = Arrangement::first_fit(&instance, &order.sort(&instance));
            prop_assert_eq!(plain.slots(), &quick.slots[..]);
            prop_assert_eq!(plain.cost(), &quick.cost);
        }
    }
}
