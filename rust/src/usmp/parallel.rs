//! Jobs in order on several threads, with the answer that one thread would give.
//!
//! Jobs know nothing of one another. Those behind the first that ends the matter are forgotten, whether they ran or not,
//! so neither the number of threads nor their luck shows in what comes back. Owns that; knows nothing of planning.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::util::interrupt::{self, Interrupt};

/// What `run` makes of `jobs`, in order, up to the first answer that `ends` the matter.
///
/// `run` may ask its second argument whether its answer is still wanted; when it is not, any answer will do.
pub(crate) fn until<J: Send, T: Send>(
    threads: u32,
    jobs: Vec<J>,
    run: impl Fn(J, &dyn Fn() -> bool) -> T + Sync,
    ends: impl Fn(&T) -> bool + Sync,
) -> Vec<T> {
    let helpers = (threads as usize).min(jobs.len()).saturating_sub(1);
    let end = AtomicUsize::new(usize::MAX);
    let queue = Mutex::new(jobs.into_iter().enumerate());
    let answers = Mutex::new(Vec::new());
    let work = || loop {
        interrupt::ask();
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some((index, job)) = next.filter(|&(index, _)| index < end.load(Ordering::Relaxed)) else { return };
        let answer = run(job, &|| index < end.load(Ordering::Relaxed));
        if ends(&answer) {
            end.fetch_min(index, Ordering::Relaxed);
        }
        answers.lock().unwrap_or_else(PoisonError::into_inner).push((index, answer));
    };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            // Where no thread can be had, the others do its work.
            let token = Interrupt::current();
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || token.run(work));
        }
        work();
    });
    // Helpers that were stopped left no answers.
    interrupt::ask();
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_unstable_by_key(|&(index, _)| index);
    let end = end.into_inner();
    answers.into_iter().take_while(|&(index, _)| index <= end).map(|(_, answer)| answer).collect()
}
