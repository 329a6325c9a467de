//! The simulated NPU behind the C interface of the Ethos-U driver (`python/ethoscade/include`).
//!
//! Owns the driver's refusals, and the copying between host pointers and the machine's memory. With its folder the only
//! code of the crate that is unsafe. A run works on copies of the host's ranges, so aliasing between base addresses is
//! sound: ranges that overlap share one copy, and only bytes that the NPU wrote are written back. So devices may run at
//! the same time, on threads of their own, where none writes what another one reads or writes.
//! Reads of unwritten bytes are not watched here: what the firmware has initialised is not known.

pub mod cycles;
pub mod device;
mod findings;
mod registry;

use std::ffi::{c_char, c_int, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

use super::accelerator::Accelerator;
use super::error::NpuError;
use super::memory::REGION_COUNT;
use super::payload;
use super::run::{Machine, RunReport};
use findings::{guarded, remember_error, remember_run, ERROR, INTERNAL, OK};
use registry::{changed, choose, registry, wait, Device, Job};

const NOT_INVOKED: c_int = -2;
const STILL_RUNNING: c_int = 1;
const ALIGNMENT: u64 = 16;
const FAST_MEMORY_INDEX: usize = 2;

/// Storage that a C program sets aside for a device. All state is in the registry, under the storage's address.
#[repr(C)]
pub struct EthosuDriver {
    opaque: [u64; 8],
}

/// The device that appears if a program never registers one.
static BUILT_IN: EthosuDriver = EthosuDriver { opaque: [0; 8] };

/// Registers a device; see the header.
#[no_mangle]
pub extern "C" fn ethosu_init(
    drv: *mut EthosuDriver,
    _npu_base: *mut c_void,
    fast_memory: *const c_void,
    fast_memory_size: usize,
    _secure_enable: u32,
    _privilege_enable: u32,
) -> c_int {
    guarded(ERROR, || {
        if drv.is_null() {
            return Err("ethosu_init: drv is NULL".to_string());
        }
        registry().add(Device::new(drv as usize, fast_memory as usize as u64, fast_memory_size));
        changed();
        Ok(OK)
    })
}

/// Forgets a device; see the header.
#[no_mangle]
pub extern "C" fn ethosu_deinit(drv: *mut EthosuDriver) {
    guarded(ERROR, || {
        registry().devices.retain(|device| device.address != drv as usize);
        changed();
        Ok(OK)
    });
}

/// Waits for a free device; see the header.
#[no_mangle]
pub extern "C" fn ethosu_reserve_driver() -> *mut EthosuDriver {
    let reserve = || {
        let mut registry = registry();
        if registry.devices.is_empty() {
            registry.add(Device::new(std::ptr::addr_of!(BUILT_IN) as usize, 0, 0));
        }
        loop {
            if let Some(device) = registry.devices.iter_mut().find(|device| !device.reserved) {
                device.reserved = true;
                return device.address as *mut EthosuDriver;
            }
            registry = wait(registry);
        }
    };
    catch_unwind(reserve).unwrap_or(std::ptr::null_mut())
}

/// Gives a device back; see the header.
#[no_mangle]
pub extern "C" fn ethosu_release_driver(drv: *mut EthosuDriver) {
    guarded(ERROR, || {
        if let Some(device) = registry().device(drv as usize) {
            device.reserved = false;
            device.job = Job::Idle;
        }
        changed();
        Ok(OK)
    });
}

/// Nothing to do; see the header.
#[no_mangle]
pub extern "C" fn ethosu_irq_handler(_drv: *mut EthosuDriver) {}

/// Runs a payload and waits for its end; see the header.
///
/// # Safety
/// As for [`ethosu_invoke_async`].
#[no_mangle]
pub unsafe extern "C" fn ethosu_invoke_v3(
    drv: *mut EthosuDriver,
    custom_data_ptr: *const c_void,
    custom_data_size: c_int,
    base_addr: *mut u64,
    base_addr_size: *const usize,
    num_base_addr: c_int,
    user_arg: *mut c_void,
) -> c_int {
    // SAFETY: the caller promises what ethosu_invoke_async asks for.
    let status = unsafe {
        ethosu_invoke_async(drv, custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr, user_arg)
    };
    if status == OK {
        ethosu_wait(drv, true)
    } else {
        status
    }
}

/// Runs a payload; a fault of the stream is kept for [`ethosu_wait`]. See the header.
///
/// # Safety
/// `custom_data_ptr` must be readable for `custom_data_size` bytes; `base_addr` and `base_addr_size` must have
/// `num_base_addr` elements; each base address must be that of `base_addr_size` readable bytes, writable where the
/// stream writes, and no other thread may write them meanwhile.
#[no_mangle]
pub unsafe extern "C" fn ethosu_invoke_async(
    drv: *mut EthosuDriver,
    custom_data_ptr: *const c_void,
    custom_data_size: c_int,
    base_addr: *mut u64,
    base_addr_size: *const usize,
    num_base_addr: c_int,
    _user_arg: *mut c_void,
) -> c_int {
    guarded(ERROR, || {
        let count = usize::try_from(num_base_addr).unwrap_or(usize::MAX);
        if count > REGION_COUNT {
            return Err(format!("{num_base_addr} base addresses; an NPU takes 0 to {REGION_COUNT}"));
        }
        let size = usize::try_from(custom_data_size).map_err(|_| "the payload's size is negative".to_string())?;
        if custom_data_ptr.is_null() || (count > 0 && (base_addr.is_null() || base_addr_size.is_null())) {
            return Err("a NULL pointer among payload, base_addr and base_addr_size".to_string());
        }
        // SAFETY: not NULL, and the caller promises `custom_data_size` readable bytes.
        let bytes = unsafe { std::slice::from_raw_parts(custom_data_ptr.cast::<u8>(), size) };
        // SAFETY: not NULL unless empty, and the caller promises `num_base_addr` elements.
        let bases = if count > 0 { unsafe { std::slice::from_raw_parts_mut(base_addr, count) } } else { &mut [] };
        // SAFETY: as above.
        let sizes = if count > 0 { unsafe { std::slice::from_raw_parts(base_addr_size, count) } } else { &[] };
        let (accelerator, run) = accept(drv as usize, bytes, bases, sizes)?;
        // SAFETY: the caller promises that every range is readable, and writable where the stream writes.
        let played = catch_unwind(AssertUnwindSafe(|| unsafe { execute(accelerator, bytes, bases, sizes) }));
        let (touched, outcome) = played.unwrap_or_else(|_| ([0; REGION_COUNT], Err(INTERNAL.to_string())));
        remember_run(touched, outcome.as_ref().ok());
        let mut registry = registry();
        let job = match outcome {
            Ok(report) => {
                registry.hazards += report.hazards.len();
                Job::Done
            }
            Err(message) => {
                remember_error(&message);
                Job::Failed
            }
        };
        registry.end(drv as usize, run, job);
        changed();
        Ok(OK)
    })
}

/// Result of the last run: -2 none, -1 failed, 0 done, 1 not yet; see the header.
#[no_mangle]
pub extern "C" fn ethosu_wait(drv: *mut EthosuDriver, block: bool) -> c_int {
    let mut registry = registry();
    loop {
        let Some(device) = registry.device(drv as usize) else {
            return NOT_INVOKED;
        };
        let status = match device.job {
            Job::Running(_) if block => {
                registry = wait(registry);
                continue;
            }
            Job::Running(_) => return STILL_RUNNING,
            Job::Idle => NOT_INVOKED,
            Job::Done => OK,
            Job::Failed => ERROR,
        };
        device.job = Job::Idle;
        return status;
    }
}

/// Everything that the driver refuses before it starts the NPU. Replaces base address 2 by the fast memory. The device
/// is running from here on; who runs and as which run is returned.
fn accept(
    address: usize,
    bytes: &[u8],
    bases: &mut [u64],
    sizes: &[usize],
) -> Result<(&'static Accelerator, u64), String> {
    let mut registry = registry();
    let pinned = registry.pinned;
    let device = registry.device(address).ok_or("the driver handle was never registered")?;
    if device.job != Job::Idle {
        return Err("an inference is in progress: its result has not been waited for".to_string());
    }
    let payload = payload::parse(bytes).map_err(|error| NpuError::from(error).to_string())?;
    let stream = bytes.as_ptr() as usize + payload.stream_offset_bytes;
    if stream % ALIGNMENT as usize != 0 {
        return Err(format!("the command stream lies at {stream:#x}, which is not 16-byte aligned"));
    }
    if device.fast_memory != 0 && bases.len() > FAST_MEMORY_INDEX {
        if sizes[FAST_MEMORY_INDEX] > device.fast_memory_size {
            let (needed, size) = (sizes[FAST_MEMORY_INDEX], device.fast_memory_size);
            return Err(format!("the payload needs {needed} bytes of fast memory, the device has {size}"));
        }
        bases[FAST_MEMORY_INDEX] = device.fast_memory;
    }
    for (index, (&base, &size)) in bases.iter().zip(sizes).enumerate() {
        if base % ALIGNMENT != 0 {
            return Err(format!("base address {index} is {base:#x}, which is not 16-byte aligned"));
        }
        if size > 0 && (base == 0 || base.checked_add(size as u64).is_none()) {
            return Err(format!("base address {index} is {base:#x} with {size} bytes, which is no memory"));
        }
    }
    let accelerator = choose(pinned, &payload)?;
    payload::check_device(&payload, accelerator).map_err(|error| NpuError::from(error).to_string())?;
    registry.runs += 1;
    let run = registry.runs;
    if let Some(device) = registry.device(address) {
        device.job = Job::Running(run);
    }
    Ok((accelerator, run))
}

/// Joins ranges that overlap: sorted, disjoint `[start, end)`.
fn disjoint(bases: &[u64], sizes: &[usize]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<_> = bases.iter().zip(sizes).map(|(&base, &size)| (base, base + size as u64)).collect();
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges.into_iter().filter(|(start, end)| start < end) {
        match joined.last_mut() {
            Some(last) if start < last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Runs an accepted payload on copies of the host's ranges and writes back what the NPU wrote, also after a fault.
/// Returns one past the highest byte touched per region, and the report or what was wrong.
///
/// # Safety
/// Every range must be readable, and writable where the stream writes.
unsafe fn execute(
    accelerator: &'static Accelerator,
    bytes: &[u8],
    bases: &[u64],
    sizes: &[usize],
) -> ([usize; REGION_COUNT], Result<RunReport, String>) {
    let mut machine = Machine::new(accelerator, false);
    let ranges = disjoint(bases, sizes);
    for &(start, end) in &ranges {
        // SAFETY: every byte of a joined range belongs to one of the caller's ranges, which are readable.
        let data = unsafe { std::slice::from_raw_parts(start as usize as *const u8, (end - start) as usize) };
        machine.memory.add_buffer(data.to_vec(), true, false);
    }
    let empty = machine.memory.add_buffer(Vec::new(), true, false);
    for (index, (&base, &size)) in bases.iter().zip(sizes).enumerate() {
        let place = ranges.iter().position(|&(start, end)| size > 0 && (start..end).contains(&base));
        let (buffer, offset) = place.map_or((empty, 0), |p| (p, (base - ranges[p].0) as usize));
        if let Err(message) = machine.memory.set_region(index, buffer, offset, size) {
            return ([0; REGION_COUNT], Err(NpuError::Host(message).to_string()));
        }
    }
    let outcome = machine.run(bytes);
    for (buffer, &(start, _)) in ranges.iter().enumerate() {
        machine.memory.for_each_written(buffer, |offset, written| {
            let target = (start as usize + offset) as *mut u8;
            // SAFETY: inside a range of the caller's, where the stream wrote; the copy is ours and cannot overlap.
            unsafe { std::ptr::copy_nonoverlapping(written.as_ptr(), target, written.len()) };
        });
    }
    let touched = std::array::from_fn(|region| machine.memory.touched_end(region));
    (touched, outcome.map_err(|error| error.to_string()))
}

/// Fixes the simulated device; see the header.
///
/// # Safety
/// `name` must be NULL or a string that ends in NUL.
#[no_mangle]
pub unsafe extern "C" fn ethoscade_sim_set_accelerator(name: *const c_char) -> c_int {
    guarded(ERROR, || {
        if name.is_null() {
            registry().pinned = None;
            return Ok(OK);
        }
        // SAFETY: not NULL, and the caller promises a string.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let accelerator = Accelerator::by_name(&name).ok_or_else(|| format!("there is no device '{name}'"))?;
        registry().pinned = Some(accelerator);
        Ok(OK)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::findings::{ethoscade_sim_last_error, ethoscade_sim_touched_end};
    use super::*;

    /// The devices are the process's: one test at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    #[repr(align(16))]
    struct AlignedBytes<const N: usize>([u8; N]);

    /// A payload that copies 16 bytes from region 0 to offset 16 of region 1.
    fn payload(config: u32) -> AlignedBytes<96> {
        let header = [0x3150_4F43, 0x0010_0001, config, 0x1006_0000, 5, 5, 5, 0x000A_0002];
        let stream = [0x0000_0130, 0x0001_0131, 0x4030, 0, 0x4031, 16, 0x4032, 16, 0x0000_0010, 0xFFFF_0000];
        let mut out = AlignedBytes([0; 96]);
        for (bytes, word) in out.0.chunks_exact_mut(4).zip(header.iter().chain(&stream)) {
            bytes.copy_from_slice(&u32::to_le_bytes(*word));
        }
        out
    }

    const PAYLOAD_BYTES: c_int = 18 * 4;

    fn error() -> String {
        // SAFETY: the pointer is that of a live thread-local string.
        unsafe { CStr::from_ptr(ethoscade_sim_last_error()) }.to_string_lossy().into_owned()
    }

    fn invoke(drv: *mut EthosuDriver, payload: &AlignedBytes<96>, bases: &mut [u64], sizes: &[usize]) -> c_int {
        let (data, count) = (payload.0.as_ptr().cast(), bases.len() as c_int);
        // SAFETY: all pointers are those of live arrays of the given sizes.
        unsafe {
            let (bases, sizes) = (bases.as_mut_ptr(), sizes.as_ptr());
            ethosu_invoke_v3(drv, data, PAYLOAD_BYTES, bases, sizes, count, std::ptr::null_mut())
        }
    }

    #[test]
    fn a_life_of_a_device() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let drv = ethosu_reserve_driver();
        assert_eq!(ethosu_wait(drv, true), NOT_INVOKED);
        let constants = AlignedBytes(*b"sixteen bytes...");
        let mut arena = AlignedBytes([0u8; 48]);
        let mut bases = [constants.0.as_ptr() as u64, arena.0.as_mut_ptr() as u64, arena.0.as_mut_ptr() as u64];
        assert_eq!(invoke(drv, &payload(0x3008), &mut bases, &[16, 48, 48]), OK, "{}", error());
        assert_eq!(&arena.0[16..32], b"sixteen bytes...");
        assert_eq!([0, 1, 2].map(|r| ethoscade_sim_touched_end(r)), [16, 32, 0]);

        assert_eq!(invoke(drv, &payload(0x3008), &mut bases, &[16, 31, 48]), ERROR);
        assert!(error().contains("touches bytes [16, 32) of region 1, which has 31 bytes"), "{}", error());
        bases[1] += 8;
        assert_eq!(invoke(drv, &payload(0x3008), &mut bases, &[16, 32, 48]), ERROR);
        assert!(error().contains("base address 1"), "{}", error());
        bases[1] -= 8;
        assert_eq!(invoke(drv, &payload(0x300A), &mut bases, &[16, 48, 48]), ERROR);
        assert!(error().contains("no device has the config word"), "{}", error());
        // SAFETY: a C string literal.
        assert_eq!(unsafe { ethoscade_sim_set_accelerator(c"ethos-u55-128".as_ptr()) }, OK);
        assert_eq!(invoke(drv, &payload(0x3008), &mut bases, &[16, 48, 48]), ERROR);
        assert!(error().contains("MACs per cycle differs"), "{}", error());
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { ethoscade_sim_set_accelerator(std::ptr::null()) }, OK);
        ethosu_release_driver(drv);
        assert_eq!(ethosu_reserve_driver(), drv);
        ethosu_release_driver(drv);
    }

    #[test]
    fn threads_run_at_the_same_time() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for number in 0..4u8 {
                let start = &start;
                scope.spawn(move || {
                    let mut device = EthosuDriver { opaque: [0; 8] };
                    let drv = &raw mut device;
                    assert_eq!(ethosu_init(drv, std::ptr::null_mut(), std::ptr::null(), 0, 1, 1), OK);
                    let constants = AlignedBytes([number; 16]);
                    let mut arena = AlignedBytes([0xFFu8; 48]);
                    start.wait();
                    for turn in 0..200 {
                        let mut bases = [constants.0.as_ptr() as u64, arena.0.as_mut_ptr() as u64];
                        let end = if turn % 2 == 0 { 32 } else { usize::from(number) };
                        let status = invoke(drv, &payload(0x3008), &mut bases, &[16, end]);
                        assert_eq!(status, if turn % 2 == 0 { OK } else { ERROR });
                        if turn % 2 == 0 {
                            assert_eq!(arena.0[16..32], constants.0);
                            assert_eq!(ethoscade_sim_touched_end(1), 32);
                        } else {
                            assert!(error().ends_with(&format!("which has {number} bytes")), "{}", error());
                        }
                    }
                    ethosu_deinit(drv);
                });
            }
        });
    }

    #[test]
    fn a_device_runs_one_payload_at_a_time() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut device = EthosuDriver { opaque: [0; 8] };
        let drv = &raw mut device;
        assert_eq!(ethosu_init(drv, std::ptr::null_mut(), std::ptr::null(), 0, 1, 1), OK);
        let run = |run| registry().device(drv as usize).expect("it was registered").job = Job::Running(run);
        run(7);
        assert_eq!(invoke(drv, &payload(0x3008), &mut [], &[]), ERROR);
        assert!(error().contains("in progress"), "{}", error());
        assert_eq!(ethosu_wait(drv, false), STILL_RUNNING);
        let address = drv as usize;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || ethosu_wait(address as *mut EthosuDriver, true));
            registry().end(address, 6, Job::Done);
            changed();
            assert_eq!(ethosu_wait(drv, false), STILL_RUNNING);
            registry().end(address, 7, Job::Failed);
            changed();
            assert_eq!(waiting.join().expect("it ends"), ERROR);
        });
        run(8);
        assert_eq!(device::ethosu_soft_reset(drv), OK);
        registry().end(address, 8, Job::Done);
        assert_eq!(ethosu_wait(drv, true), NOT_INVOKED);
        ethosu_deinit(drv);
    }

    #[test]
    fn overlapping_ranges_are_one() {
        assert_eq!(disjoint(&[100, 0, 50, 100, 7], &[50, 60, 10, 0, 0]), [(0, 60), (100, 150)]);
    }
}
