/* The C interface of the Ethos-U driver, implemented by ethoscade's simulated NPU.
 *
 * Firmware sources that call the driver compile against this header and link with the simulator instead of the
 * hardware's driver. The functions have the driver's names, arguments, results and refusals. Base addresses are host
 * pointers. The simulated device is the one that the payload was made for, unless ethoscade_sim_set_accelerator or the
 * environment variable ETHOSCADE_SIM_ACCELERATOR says otherwise. What the simulator can tell besides, hazards among it,
 * is declared in ethoscade_npu.h: whoever includes this header alone has nothing that the hardware's driver has not.
 *
 * Not here: the driver's weak hooks (caches, mutexes, semaphores, address remapping, begin and end of an
 * inference) and the performance counters. Firmware may define the hooks; they are never called.
 */
#ifndef ETHOSU_DRIVER_H
#define ETHOSU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The driver's version whose interface this is. */
#define ETHOSU_DRIVER_VERSION_MAJOR 0
#define ETHOSU_DRIVER_VERSION_MINOR 16
#define ETHOSU_DRIVER_VERSION_PATCH 0

/* The simulated device becomes the one that a payload wants: emitted C need not ask beforehand which one it is. */
#ifndef ETHOSCADE_ETHOSU_CHECK_NPU
#define ETHOSCADE_ETHOSU_CHECK_NPU 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct ethosu_driver_version {
    uint8_t major;
    uint8_t minor;
    uint8_t patch;
};

/* Fields of the NPU's ID and CONFIG registers; `macs_per_cc` is the power of two. */
struct ethosu_id {
    uint32_t version_status;
    uint32_t version_minor;
    uint32_t version_major;
    uint32_t product_major;
    uint32_t arch_patch_rev;
    uint32_t arch_minor_rev;
    uint32_t arch_major_rev;
};

struct ethosu_config {
    uint32_t macs_per_cc;
    uint32_t cmd_stream_version;
    uint32_t custom_dma;
};

struct ethosu_hw_info {
    struct ethosu_id version;
    struct ethosu_config cfg;
};

/* A device. The contents belong to the implementation; the object must stay where it is while it is registered. */
struct ethosu_driver {
    uint64_t opaque[8];
};

/* Registers a device. `fast_memory` replaces base address 2 of every run if it is not NULL. 0, or -1 if drv is NULL. */
int ethosu_init(struct ethosu_driver *drv, void *const npu_base, const void *fast_memory, size_t fast_memory_size,
                uint32_t secure_enable, uint32_t privilege_enable);

/* Forgets a device. */
void ethosu_deinit(struct ethosu_driver *drv);

/* Waits for a registered device that nobody has reserved. If none was ever registered, a device appears by itself. */
struct ethosu_driver *ethosu_reserve_driver(void);

/* Gives a device back. */
void ethosu_release_driver(struct ethosu_driver *drv);

/* Runs a payload. `base_addr_size` is in bytes here and bounds what may be touched. 0, or -1 for a refusal or a fault;
 * ethoscade_sim_last_error (ethoscade_npu.h) says which. */
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                     void *user_arg);

/* The same in two steps. The simulator is done when the first one returns; a fault of the stream shows in the second.
 * ethosu_wait: -2 nothing was invoked, -1 the run failed, 0 done; if `block` is false, 1 while another thread's run
 * lasts. */
int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                        uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                        void *user_arg);
int ethosu_wait(struct ethosu_driver *drv, bool block);

/* The older names, without a user argument and without a driver. */
#define ethosu_invoke(drv, custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr) \
    ethosu_invoke_v3(drv, custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr, 0)

static inline int ethosu_invoke_v2(const void *custom_data_ptr, const int custom_data_size, uint64_t *const base_addr,
                                   const size_t *base_addr_size, const int num_base_addr)
{
    struct ethosu_driver *device = ethosu_reserve_driver();
    int status = -1;
    if (device) {
        status = ethosu_invoke(device, custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr);
        ethosu_release_driver(device);
    }
    return status;
}

/* Drops the result of a run that nobody has waited for. 0, or -1 if drv was never registered. */
int ethosu_soft_reset(struct ethosu_driver *drv);

/* The simulated device always has power. 0, or -1 if drv was never registered. */
int ethosu_request_power(struct ethosu_driver *drv);
void ethosu_release_power(struct ethosu_driver *drv);

void ethosu_get_driver_version(struct ethosu_driver_version *ver);

/* Of the device that is fixed (see above); of an ethos-u55-256 while the payload decides. */
void ethosu_get_hw_info(struct ethosu_driver *drv, struct ethosu_hw_info *hw);

/* Nothing is left to do in an interrupt. */
void ethosu_irq_handler(struct ethosu_driver *drv);

#ifdef __cplusplus
}
#endif

#endif
