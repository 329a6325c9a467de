//! The devices that a process has registered, what each of them is doing, and which accelerator is simulated.
//!
//! Owns the one lock of the driver. It is never held while a payload runs, so devices run at the same time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::npu::accelerator::Accelerator;
use crate::npu::payload::Payload;

const ACCELERATOR_VARIABLE: &str = "ETHOSCADE_SIM_ACCELERATOR";

/// What a device is doing. A run has a number, so that the end of one that was given up is not taken for another's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    Idle,
    Running(u64),
    Done,
    Failed,
}

pub(super) struct Device {
    pub address: usize,
    pub reserved: bool,
    pub job: Job,
    pub fast_memory: u64,
    pub fast_memory_size: usize,
}

impl Device {
    /// A device that is idle and not reserved.
    pub fn new(address: usize, fast_memory: u64, fast_memory_size: usize) -> Device {
        Device { address, reserved: false, job: Job::Idle, fast_memory, fast_memory_size }
    }
}

pub(super) struct Registry {
    pub devices: Vec<Device>,
    pub runs: u64,
    pub hazards: usize,
    pub pinned: Option<&'static Accelerator>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { devices: Vec::new(), runs: 0, hazards: 0, pinned: None });
/// Notified of every change a thread may wait for: a device that is free, or a run that is over.
static CHANGED: Condvar = Condvar::new();

/// The registry, also after a panic elsewhere: every change to it is a single assignment.
pub(super) fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes all who wait for a device or a run.
pub(super) fn changed() {
    CHANGED.notify_all();
}

/// Lets others change the registry until one of them says that it has changed.
pub(super) fn wait(registry: MutexGuard<'static, Registry>) -> MutexGuard<'static, Registry> {
    CHANGED.wait(registry).unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    pub fn device(&mut self, address: usize) -> Option<&mut Device> {
        self.devices.iter_mut().find(|device| device.address == address)
    }

    pub fn add(&mut self, device: Device) {
        self.devices.retain(|other| other.address != device.address);
        self.devices.push(device);
    }

    /// Ends a run, unless it was given up meanwhile.
    pub fn end(&mut self, address: usize, run: u64, job: Job) {
        if let Some(device) = self.device(address).filter(|device| device.job == Job::Running(run)) {
            device.job = job;
        }
    }
}

/// The accelerator that does not depend on the payload: the pinned one, else the environment's.
pub(super) fn fixed(pinned: Option<&'static Accelerator>) -> Result<Option<&'static Accelerator>, String> {
    match (pinned, std::env::var(ACCELERATOR_VARIABLE)) {
        (None, Ok(name)) => match Accelerator::by_name(&name) {
            None => Err(format!("{ACCELERATOR_VARIABLE} is '{name}': no such device")),
            found => Ok(found),
        },
        _ => Ok(pinned),
    }
}

/// The accelerator to simulate: the fixed one, else the payload's own.
pub(super) fn choose(pinned: Option<&'static Accelerator>, payload: &Payload) -> Result<&'static Accelerator, String> {
    if let Some(accelerator) = fixed(pinned)? {
        return Ok(accelerator);
    }
    let word = payload.config_word;
    Accelerator::by_config(word).ok_or_else(|| format!("no device has the config word {word:#010x}"))
}
