/* A stand-in for include/ethosu_driver.h and ethosu_types.h of the Ethos-U core driver, as far as emitted C and firmware
 * use them: what is declared, and what of it differs between releases, is theirs. STANDIN_RELEASE is a release as
 * year * 100 + month (2202 to 2411, read at the tags 22.02 to 24.11-rc2), 10000 for 1.0 (commit 0356707) or 19900 for
 * 1.99, which with STANDIN_MULTI is built for several NPUs (the driver's ETHOSU_MULTI_VARIANT). */
#ifndef STANDIN_ETHOSU_DRIVER_H
#define STANDIN_ETHOSU_DRIVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All releases from 22.02 to 24.11 call themselves 0.16. */
#if STANDIN_RELEASE < 10000
#define ETHOSU_DRIVER_VERSION_MAJOR 0
#define ETHOSU_DRIVER_VERSION_MINOR 16
#elif STANDIN_RELEASE == 10000
#define ETHOSU_DRIVER_VERSION_MAJOR 1
#define ETHOSU_DRIVER_VERSION_MINOR 0
#elif STANDIN_RELEASE == 19900
#define ETHOSU_DRIVER_VERSION_MAJOR 1
#define ETHOSU_DRIVER_VERSION_MINOR 99
#else
#error "STANDIN_RELEASE is a release of the core driver"
#endif

/* The type of base_addr: constant up to 22.11. */
#if STANDIN_RELEASE <= 2211
#define STANDIN_BASES const uint64_t *
#else
#define STANDIN_BASES uint64_t *const
#endif

struct ethosu_driver;

/* Fields of ID and CONFIG; CONFIG's `product` is not among them, `macs_per_cc` is the power of two. */
struct ethosu_id {
  uint32_t version_status, version_minor, version_major, product_major, arch_patch_rev, arch_minor_rev, arch_major_rev;
};
struct ethosu_config {
  uint32_t macs_per_cc, cmd_stream_version, custom_dma;
};
struct ethosu_hw_info {
  struct ethosu_id version;
  struct ethosu_config cfg;
};

struct ethosu_driver *ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver *drv);
void ethosu_get_hw_info(struct ethosu_driver *drv, struct ethosu_hw_info *hw);
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     STANDIN_BASES base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg);

/* Hooks, weak in the driver. */
void ethosu_inference_begin(struct ethosu_driver *drv, void *user_arg);
void ethosu_inference_end(struct ethosu_driver *drv, void *user_arg);

#if STANDIN_RELEASE >= 2205
int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                        STANDIN_BASES base_addr, const size_t *base_addr_size, const int num_base_addr,
                        void *user_arg);
int ethosu_wait(struct ethosu_driver *drv, bool block);
#endif

/* From 24.02 on a run may time out, and the driver's hooks can read how it ended. */
#if STANDIN_RELEASE >= 2402
#define ETHOSU_SEMAPHORE_WAIT_FOREVER (UINT64_MAX)
enum ethosu_job_result { ETHOSU_JOB_RESULT_OK = 0, ETHOSU_JOB_RESULT_TIMEOUT, ETHOSU_JOB_RESULT_ERROR };
#else
enum ethosu_job_result { STANDIN_OK = 0, STANDIN_TIMEOUT, STANDIN_ERROR };
#endif

/* Constants, arena, fast memory; more with external inputs. */
#ifndef STANDIN_REGIONS
#define STANDIN_REGIONS 3
#endif

struct ethosu_job {
  volatile enum ethosu_job_result result;
  const void *custom_data_ptr;
  int custom_data_size;
  const uint64_t *base_addr;
  const size_t *base_addr_size;
  int num_base_addr;
  void *user_arg;
};

/* The driver's struct is declared in full, too; what is behind `job` is the stand-in's own. */
struct ethosu_driver {
  struct ethosu_job job;
  bool reserved, is_busy;
  int polls;
  uint64_t bases[STANDIN_REGIONS];
  size_t sizes[STANDIN_REGIONS];
};

#if STANDIN_RELEASE == 19900
struct ethosu_driver *ethosu_reserve_driver_ex(uint32_t product, uint32_t log2_macs);
#endif
#endif
