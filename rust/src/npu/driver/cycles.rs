//! The timing model behind the C interface: what a payload takes on an NPU with given memories. Owns the layout in which
//! memories are given, which the header declares.

use std::ffi::{c_int, c_void};

use super::findings::guarded;
use super::registry::{choose, registry};
use crate::npu::error::NpuError;
use crate::npu::payload;
use crate::npu::timing::{simulate, Port, Rules, System};

/// A memory behind a port of the NPU; see the header.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SimMemory {
    bytes: u32,
    cycles: u32,
    read_latency: u32,
    write_latency: u32,
    burst_bytes: u32,
}

impl SimMemory {
    fn port(&self, name: &str) -> Port {
        Port {
            name: name.to_string(),
            bytes_per_cycle: (self.bytes, self.cycles),
            read_latency: self.read_latency,
            write_latency: self.write_latency,
            burst_bytes: self.burst_bytes,
        }
    }
}

/// Cycles of a payload; see the header.
///
/// # Safety
/// `custom_data_ptr` must be NULL or readable for `custom_data_size` bytes.
#[no_mangle]
pub unsafe extern "C" fn ethoscade_sim_cycles(
    custom_data_ptr: *const c_void,
    custom_data_size: c_int,
    constants: Option<&SimMemory>,
    arena: Option<&SimMemory>,
) -> i64 {
    guarded(-1, || {
        let size = usize::try_from(custom_data_size).map_err(|_| "the payload's size is negative".to_string())?;
        let (Some(constants), Some(arena), false) = (constants, arena, custom_data_ptr.is_null()) else {
            return Err("a NULL pointer among payload, constants and arena".to_string());
        };
        // SAFETY: not NULL, and the caller promises `custom_data_size` readable bytes.
        let bytes = unsafe { std::slice::from_raw_parts(custom_data_ptr.cast::<u8>(), size) };
        let parsed = payload::parse(bytes).map_err(|error| NpuError::from(error).to_string())?;
        let accelerator = choose(registry().pinned, &parsed)?;
        // One name for both: memories that are alike are one.
        let system = System::of_two(constants.port("memory"), arena.port("memory"))?;
        let timing = simulate(bytes, accelerator, &system, &Rules::default()).map_err(|error| error.to_string())?;
        i64::try_from(timing.totals.cycles.ceil()).map_err(|_| "the cycles exceed 63 bits".to_string())
    })
}
