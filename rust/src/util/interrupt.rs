//! Work that may be stopped from outside: the token that says so, and where work asks for it.
//!
//! A loop that may run for long calls [`ask`] once in each turn. A turn is bounded work, far below a second. Without
//! a request to stop, asking changes nothing: no result depends on it. With one, the stack unwinds to
//! [`Interrupt::run`], as the searches have no use for an answer "stopped" in the type of every function. Whatever they
//! own is dropped on the way; what they were lent stays half done, so only work that is then thrown away may ask.
//!
//! The token also carries the other way how much of the work is done: a loop that knows says [`reach`], and what runs a
//! piece of something larger is marked by [`portion`]. No result depends on that either.
//! Owns the token. Knows nothing of who stops whom, and why.

use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

thread_local! {
    /// What work on this thread asks.
    static CURRENT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
    /// Which part of the token's work is done on this thread now: from, to, in parts of `WHOLE`.
    static SPAN: Cell<(u64, u64)> = const { Cell::new((0, WHOLE)) };
}

/// Parts in all of a piece of work.
pub const WHOLE: u64 = 1_000_000;

/// Says whether work is to stop. Clones are the same token.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    raised: AtomicBool,
    /// How many parts of `WHOLE` are done, as far as anybody said.
    reached: AtomicU64,
    /// How often work asked.
    #[cfg(test)]
    asked: AtomicU64,
    /// The turn at which it stops; 0 for none.
    #[cfg(test)]
    last: AtomicU64,
}

impl State {
    fn is_raised(&self) -> bool {
        #[cfg(test)]
        if self.asked.fetch_add(1, Ordering::Relaxed) + 1 == self.last.load(Ordering::Relaxed) {
            self.raised.store(true, Ordering::Relaxed);
        }
        self.raised.load(Ordering::Relaxed)
    }
}

/// What unwinds the stack of work that is stopped.
struct StopSignal;

impl Interrupt {
    /// The token of work on this thread; one that is never raised if there is none.
    pub fn current() -> Interrupt {
        CURRENT.with_borrow(|current| current.clone()).unwrap_or_default()
    }

    /// Stops the work that asks this token, on whatever threads.
    pub fn raise(&self) {
        self.0.raised.store(true, Ordering::Relaxed);
    }

    /// How many parts of [`WHOLE`] of its work are done, as far as that is known; it never becomes less.
    pub fn reached(&self) -> u64 {
        self.0.reached.load(Ordering::Relaxed)
    }

    /// What `work` returns, None if it was stopped. On this thread it asks this token meanwhile.
    ///
    /// # Panics
    /// Whenever `work` does.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let _restored = TokenGuard(CURRENT.replace(Some(self.clone())));
        let _span = SpanGuard(SPAN.replace((0, WHOLE)));
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => Some(result),
            Err(cause) if cause.is::<StopSignal>() => None,
            Err(cause) => resume_unwind(cause),
        }
    }
}

/// Brings back the token that was asked before.
struct TokenGuard(Option<Interrupt>);

impl Drop for TokenGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Brings back the span that was worked on before.
struct SpanGuard((u64, u64));

impl Drop for SpanGuard {
    fn drop(&mut self) {
        SPAN.set(self.0);
    }
}

/// Says that `done` of `of` equal steps of the work on this thread are done, of the portion of it that runs now.
pub fn reach(done: u64, of: u64) {
    let (begin, end) = SPAN.get();
    let parts = begin + (end - begin) * done.min(of) / of.max(1);
    CURRENT.with_borrow(|current| current.as_ref().map(|token| token.0.reached.fetch_max(parts, Ordering::Relaxed)));
}

/// What `work` returns, which is the steps from `begin` to `end` of `of` equal ones.
pub fn portion<T>(begin: u64, end: u64, of: u64, work: impl FnOnce() -> T) -> T {
    let (from, to) = SPAN.get();
    let at = |step: u64| from + (to - from) * step / of;
    let _span = SpanGuard(SPAN.replace((at(begin), at(end))));
    reach(0, 1);
    work()
}

/// Ends the work on this thread on request. Takes a few nanoseconds otherwise.
#[inline]
pub fn ask() {
    if CURRENT.with_borrow(|current| current.as_ref().is_some_and(|token| token.0.is_raised())) {
        // No panic hook: nothing is wrong.
        resume_unwind(Box::new(StopSignal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Costs;
    use crate::plans::options::Options;
    use crate::plans::options::MOVES;
    use crate::search::arena::placer;
    use crate::search::{search, uncascaded, Goal, Search};
    use crate::testing::networks::mobilenet_v1;
    use crate::usmp::{self, Algorithm, Buffer, Lifetime, Params, Pool, Problem};

    /// How often `work` asks, on whatever threads.
    fn asks(work: impl FnOnce()) -> u64 {
        let token = Interrupt::default();
        token.run(work);
        token.0.asked.load(Ordering::Relaxed)
    }

    /// What becomes of `work` that is stopped when it asks for the `turn`-th time, counted from 1.
    fn stopped_at<T>(turn: u64, work: impl FnOnce() -> T) -> Option<T> {
        let token = Interrupt::default();
        token.0.last.store(turn, Ordering::Relaxed);
        token.run(work)
    }

    /// Wherever `work` asks, it can be stopped, and it asks at least so often.
    fn stops_anywhere<T>(least: u64, work: impl Fn() -> T) {
        let count = asks(|| drop(work()));
        assert!(count >= least, "{count}");
        for turn in [1, 2, count / 3, count / 2, count] {
            assert!(stopped_at(turn, &work).is_none(), "{turn} of {count}");
        }
        assert!(stopped_at(count + 1, &work).is_some());
    }

    #[test]
    fn searches_for_schedules_ask_at_every_group_and_proposal() {
        let graph = mobilenet_v1();
        let considered = search(&graph, &Options::default()).expect("blocks fit").plans_considered;
        stops_anywhere(considered / 1000, || search(&graph, &Options::default()).is_ok());
        let whole = Arc::new(graph.clone());
        let within = |bytes| Search::new(Arc::clone(&whole), Options::default()).run(Goal::Within(bytes)).is_ok();
        stops_anywhere(considered / 1000, || within(300_000));
        stops_anywhere(10, || within(1 << 30));
        let program = crate::schedule::interleave::interleave(&graph, &uncascaded(&graph), &mut Costs::default());
        let program = program.expect("blocks fit");
        stops_anywhere(program.steps.len() as u64, || crate::checker::check(&graph, &program).is_ok());
        let placement = placer(&graph)(&program, MOVES).expect("it has a place");
        let cycles = || Costs::default().program(&graph, &program, &placement);
        stops_anywhere(program.steps.len() as u64, cycles);
    }

    fn buffers(count: u64) -> Problem {
        let buffer = |n: u64| {
            let lower = (n * 7919 % count) as i64;
            Buffer::new(1 + n * 104_729 % 997, 1, Lifetime::new(lower, lower + 2 + (n % 13) as i64))
        };
        Problem { buffers: (0..count).map(buffer).collect(), pools: vec![Pool::unbounded()] }
    }

    #[test]
    fn memory_is_planned_asking_at_every_placement_and_node() {
        for (count, iterations) in [(60, 4_000), (700, 1_000)] {
            let problem = buffers(count);
            for algorithm in Algorithm::ALL {
                stops_anywhere(count, || usmp::plan(&problem, &Params { algorithm, seed: 1, iterations, threads: 1 }));
                let on_threads = || usmp::plan(&problem, &Params { algorithm, seed: 1, iterations, threads: 4 });
                // How often several threads ask is up to them.
                for part in 1..4 {
                    let turn = asks(|| drop(on_threads())) * part / 8;
                    assert!(stopped_at(turn, on_threads).is_none(), "{} at {turn}", algorithm.name());
                }
            }
        }
    }

    /// Read wherever the search is stopped, the gap only narrows.
    #[test]
    fn memory_planning_reports_its_gap_while_it_runs() {
        // A third of all pairs in conflict, as good as at random: no plan is soon proved optimal.
        let scattered = |n: u64| n * n * 7919 % 10_007;
        for (count, iterations, algorithm) in [(90, 8_000, Algorithm::Exact), (120, 8_000, Algorithm::Best)] {
            let mut problem = buffers(count);
            for (n, buffer) in (0..count).zip(&mut problem.buffers) {
                buffer.lifetime = Lifetime::new(n as i64, n as i64 + 1);
                buffer.conflicts =
                    (0..n as u32).filter(|&other| scattered(n * count + u64::from(other)) % 3 == 0).collect();
            }
            let params = Params { algorithm, seed: 1, iterations, threads: 1 };
            let whole = usmp::OptimalityGap::default();
            let turns = asks(|| drop(usmp::plan_reporting(&problem, &params, &whole)));
            let mut seen: Vec<(u64, u64)> = Vec::new();
            for turn in (1..=32).map(|part| turns * part / 32) {
                let gap = usmp::OptimalityGap::default();
                assert!(stopped_at(turn, || usmp::plan_reporting(&problem, &params, &gap)).is_none());
                seen.extend(gap.read());
            }
            let solution = usmp::plan(&problem, &params).expect("the pool has no limit");
            let end = (solution.placement.peaks[0], solution.lower_bounds[0]);
            assert_eq!(whole.read(), Some(end));
            seen.push(end);
            assert!(seen.is_sorted_by(|one, next| one.0 >= next.0 && one.1 <= next.1), "{seen:?}");
            assert!(seen.iter().all(|&(peak, bound)| bound <= peak), "{seen:?}");
            // More than a first plan and the answer is read.
            seen.dedup();
            assert!(seen.len() > 2, "{seen:?}");
        }
    }

    #[test]
    fn work_that_nobody_stops_comes_to_its_end() {
        let token = Interrupt::default();
        assert_eq!(token.run(|| (0..10).inspect(|_| ask()).sum::<u32>()), Some(45));
        // Outside of such work there is nothing to stop.
        token.raise();
        ask();
    }

    #[test]
    fn work_stops_where_it_asks_next() {
        let mut turns = 0;
        let token = Interrupt::default();
        let end = token.run(|| loop {
            ask();
            turns += 1;
            if turns == 3 {
                Interrupt::current().raise();
            }
        });
        assert_eq!((end, turns), (None::<()>, 3));
        // It stays stopped.
        assert_eq!(token.run(ask), None);
        assert_eq!(stopped_at(3, || (0..3).for_each(|_| ask())), None);
        assert_eq!(stopped_at(4, || (0..3).for_each(|_| ask())), Some(()));
    }

    #[test]
    fn what_is_done_never_becomes_less_and_pieces_count_as_pieces() {
        let token = Interrupt::default();
        let seen = token.run(|| {
            let read = || Interrupt::current().reached();
            let mut seen = vec![read()];
            portion(0, 1, 4, || {
                reach(1, 2);
                seen.push(read());
                portion(1, 2, 2, || reach(1, 2));
                seen.push(read());
            });
            reach(1, 10);
            seen.push(read());
            portion(2, 4, 4, || seen.push(read()));
            // Other work has its own count.
            Interrupt::default().run(|| reach(9, 10));
            seen.push(read());
            reach(5, 3);
            seen.push(read());
            seen
        });
        assert_eq!(seen, Some(vec![0, 125_000, 187_500, 187_500, 500_000, 500_000, WHOLE]));
        assert_eq!(SPAN.get(), (0, WHOLE));
        reach(1, 1);
    }

    #[test]
    fn searches_say_how_much_they_have_done() {
        let graph = mobilenet_v1();
        let token = Interrupt::default();
        assert!(token.run(|| search(&graph, &Options::default()).is_ok()) == Some(true));
        assert_eq!(token.reached(), WHOLE);
        // Not only at its end: wherever it is stopped, there is less.
        let count = asks(|| drop(search(&graph, &Options::default())));
        let at = |turn: u64| {
            let token = Interrupt::default();
            token.0.last.store(turn, Ordering::Relaxed);
            token.run(|| drop(search(&graph, &Options::default())));
            token.reached()
        };
        let seen: Vec<u64> = (1..8).map(|eighth| at(count * eighth / 8)).collect();
        assert!(seen.is_sorted() && 0 < seen[0] && seen[0] < seen[6] && seen[6] < WHOLE, "{seen:?}");
    }

    #[test]
    fn inner_work_has_a_token_of_its_own() {
        let (outer, inner) = (Interrupt::default(), Interrupt::default());
        inner.raise();
        let found = outer.run(|| {
            let stopped = inner.run(ask);
            ask();
            stopped
        });
        assert_eq!(found, Some(None));
    }

    #[test]
    fn a_panic_is_no_interrupt() {
        let caught = catch_unwind(|| Interrupt::default().run(|| resume_unwind(Box::new("a bug"))));
        assert_eq!(caught.map(|_: Option<()>| ()).map_err(|cause| cause.is::<&str>()), Err(true));
    }
}
