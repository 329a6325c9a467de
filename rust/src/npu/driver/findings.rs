//! What a thread can ask about its last run: why it failed, which bytes it touched, which hazards and warnings it had.
//!
//! Owns these answers, by thread, so that threads which run at the same time do not read each other's.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

use super::registry::registry;
use crate::npu::memory::REGION_COUNT;
use crate::npu::run::RunReport;

pub(super) const OK: c_int = 0;
pub(super) const ERROR: c_int = -1;
/// What is said of a fault of our own.
pub(super) const INTERNAL: &str = "internal error of the simulator";

#[derive(Default)]
struct Findings {
    error: CString,
    touched: [usize; REGION_COUNT],
    hazards: Vec<CString>,
    warnings: Vec<CString>,
}

thread_local! {
    static LAST: RefCell<Findings> = RefCell::default();
}

fn text(message: &str) -> CString {
    CString::new(message.replace('\0', " ")).unwrap_or_default()
}

pub(super) fn remember_error(message: &str) {
    LAST.with_borrow_mut(|last| last.error = text(message));
}

/// Keeps what a run did; a run that a fault ended has no report.
pub(super) fn remember_run(touched: [usize; REGION_COUNT], report: Option<&RunReport>) {
    LAST.with_borrow_mut(|last| {
        last.touched = touched;
        last.hazards = report.map_or_else(Vec::new, |r| r.hazards.iter().map(|h| text(&h.message)).collect());
        last.warnings = report.map_or_else(Vec::new, |r| r.warnings.iter().map(|w| text(&w.message)).collect());
    });
}

/// Runs `body`, turning an error into its text and `failed`. No panic crosses the C boundary.
pub(super) fn guarded<T>(failed: T, body: impl FnOnce() -> Result<T, String>) -> T {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(INTERNAL.to_string()));
    result.unwrap_or_else(|message| {
        remember_error(&message);
        failed
    })
}

fn sentence(sentences: &[CString], index: usize) -> *const c_char {
    sentences.get(index).map_or(ptr::null(), |sentence| sentence.as_ptr())
}

/// Text about the last failed call on this thread; see the header.
#[no_mangle]
pub extern "C" fn ethoscade_sim_last_error() -> *const c_char {
    LAST.with_borrow(|last| last.error.as_ptr())
}

/// One past the highest byte of a region that this thread's last run touched; see the header.
#[no_mangle]
pub extern "C" fn ethoscade_sim_touched_end(region: c_int) -> usize {
    let region = usize::try_from(region).unwrap_or(usize::MAX);
    LAST.with_borrow(|last| last.touched.get(region).copied().unwrap_or(0))
}

/// Hazards of all runs of this process; see the header.
#[no_mangle]
pub extern "C" fn ethoscade_sim_hazards() -> usize {
    registry().hazards
}

/// A hazard of this thread's last run; see the header.
#[no_mangle]
pub extern "C" fn ethoscade_sim_hazard(index: usize) -> *const c_char {
    LAST.with_borrow(|last| sentence(&last.hazards, index))
}

/// A warning of this thread's last run; see the header.
#[no_mangle]
pub extern "C" fn ethoscade_sim_warning(index: usize) -> *const c_char {
    LAST.with_borrow(|last| sentence(&last.warnings, index))
}
