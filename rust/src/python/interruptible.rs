//! Work that may take long, run so that Python can stop it: by a signal, or by a callback that raises.
//!
//! The work has a thread of its own and knows nothing of Python. The caller's thread waits without the interpreter's lock
//! and wakes at intervals to look. What it learns never reaches the work but as the wish to stop; how much of the work is
//! done comes back.

use std::sync::mpsc::{sync_channel, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread::{scope, Builder};
use std::time::Duration;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use crate::util::interrupt::{Interrupt, WHOLE};

/// How often the caller looks whether the work is to stop.
const INTERVAL: Duration = Duration::from_millis(50);
/// What a main thread usually has.
const STACK_BYTES: usize = 8 << 20;

/// What `work` returns, which must ask its interrupt in every loop that may run for long.
///
/// `tick` is called now and then, on the caller's thread, with the part that is done if the work says so (0 to 1), else
/// without an argument; what it raises stops the work and is raised. So does what a
/// signal's handler raises, on the main thread.
pub fn run<T: Send>(py: Python<'_>, tick: Option<&Py<PyAny>>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let call = |py: Python<'_>, reached: u64| {
        tick.map_or(Ok(()), |tick| match reached {
            0 => tick.call0(py).map(drop),
            parts => tick.call1(py, (parts as f64 / WHOLE as f64,)).map(drop),
        })
    };
    run_calling(py, &call, work)
}

/// As [`run`], with a function in place of the tick; it is given how many parts of [`WHOLE`] are done.
pub fn run_calling<T: Send>(py: Python<'_>, tick: &Tick, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| wait(tick, work))
}

/// What is called now and then, on the caller's thread.
type Tick<'a> = dyn Fn(Python<'_>, u64) -> PyResult<()> + Sync + 'a;

fn wait<T: Send>(tick: &Tick, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let (token, work) = (Interrupt::default(), Mutex::new(Some(work)));
    let once = || {
        let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.and_then(|work| token.run(work))
    };
    let (done, ended) = sync_channel::<()>(0);
    let (result, raised) = scope(|scope| {
        let spawned = Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, || {
            // Dropped when the work ends, however it does.
            let _done = done;
            once()
        });
        // Where no thread can be had, nobody can stop the work.
        let Ok(thread) = spawned else { return (once(), Ok(())) };
        let mut raised = Ok(());
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(INTERVAL) {
            if raised.is_ok() {
                raised = look(tick, token.reached());
            }
            if raised.is_err() {
                token.raise();
            }
        }
        (thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause)), raised)
    });
    raised?;
    result.ok_or_else(|| PyKeyboardInterrupt::new_err(()))
}

fn look(tick: &Tick, reached: u64) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        tick(py, reached)
    })
}
