//! What firmware asks the driver of besides inference: identity, reset, power. Owns the layout of the answers, which
//! the header declares.

use std::ffi::c_int;

use super::findings::{guarded, ERROR, OK};
use super::registry::{changed, fixed, registry, Job};
use super::EthosuDriver;
use crate::npu::accelerator::Accelerator;

/// The device that is reported while none is fixed and the payload's own would be simulated.
const UNFIXED: &str = "ethos-u55-256";

/// Version of the driver whose interface this is.
#[repr(C)]
pub struct DriverVersion {
    major: u8,
    minor: u8,
    patch: u8,
}

/// Fields of the ID register.
#[repr(C)]
pub struct Id {
    version_status: u32,
    version_minor: u32,
    version_major: u32,
    product_major: u32,
    arch_patch_rev: u32,
    arch_minor_rev: u32,
    arch_major_rev: u32,
}

/// Fields of the CONFIG register.
#[repr(C)]
pub struct Config {
    macs_per_cc: u32,
    cmd_stream_version: u32,
    custom_dma: u32,
}

/// What the hardware says of itself. As in the driver, `macs_per_cc` is the register's field: a power of two.
#[repr(C)]
pub struct HwInfo {
    version: Id,
    cfg: Config,
}

impl HwInfo {
    fn of(accelerator: &Accelerator) -> HwInfo {
        let (id, config) = (accelerator.id_word, accelerator.config_word);
        let field = |word: u32, low: u32, bits: u32| word >> low & ((1 << bits) - 1);
        HwInfo {
            version: Id {
                version_status: field(id, 0, 4),
                version_minor: field(id, 4, 4),
                version_major: field(id, 8, 4),
                product_major: field(id, 12, 4),
                arch_patch_rev: field(id, 16, 4),
                arch_minor_rev: field(id, 20, 8),
                arch_major_rev: field(id, 28, 4),
            },
            cfg: Config {
                macs_per_cc: field(config, 0, 4),
                cmd_stream_version: field(config, 4, 4),
                custom_dma: field(config, 27, 1),
            },
        }
    }
}

/// `body` on the state of a registered device.
fn with_job(drv: *mut EthosuDriver, body: impl FnOnce(&mut Job)) -> c_int {
    guarded(ERROR, || {
        let mut registry = registry();
        let device = registry.device(drv as usize).ok_or("the driver handle was never registered")?;
        body(&mut device.job);
        changed();
        Ok(OK)
    })
}

/// Drops the result of a run without a waiter; see the header.
#[no_mangle]
pub extern "C" fn ethosu_soft_reset(drv: *mut EthosuDriver) -> c_int {
    with_job(drv, |job| *job = Job::Idle)
}

/// The simulated device is always powered; see the header.
#[no_mangle]
pub extern "C" fn ethosu_request_power(drv: *mut EthosuDriver) -> c_int {
    with_job(drv, |_| ())
}

/// Nothing to do; see the header.
#[no_mangle]
pub extern "C" fn ethosu_release_power(_drv: *mut EthosuDriver) {}

/// The version of the interface; see the header.
#[no_mangle]
pub extern "C" fn ethosu_get_driver_version(version: Option<&mut DriverVersion>) {
    if let Some(version) = version {
        *version = DriverVersion { major: 0, minor: 16, patch: 0 };
    }
}

/// What the fixed device says of itself; see the header.
#[no_mangle]
pub extern "C" fn ethosu_get_hw_info(_drv: *mut EthosuDriver, hw: Option<&mut HwInfo>) {
    guarded(ERROR, || {
        let pinned = registry().pinned;
        let accelerator = fixed(pinned)?.or_else(|| Accelerator::by_name(UNFIXED));
        if let (Some(hw), Some(accelerator)) = (hw, accelerator) {
            *hw = HwInfo::of(accelerator);
        }
        Ok(OK)
    });
}
