/* A stand-in for the Ethos-U core driver's header in three variants, by its documented behaviour: STANDIN_VERSION 16,
 * 100 or 199, and with STANDIN_MULTI (1.99 alone) several NPUs behind one driver. */
#ifndef STANDIN_ETHOSU_DRIVER_H
#define STANDIN_ETHOSU_DRIVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if STANDIN_VERSION == 16
#define ETHOSU_DRIVER_VERSION_MAJOR 0
#define ETHOSU_DRIVER_VERSION_MINOR 16
#define STANDIN_BASES const uint64_t *
#elif STANDIN_VERSION == 100
#define ETHOSU_DRIVER_VERSION_MAJOR 1
#define ETHOSU_DRIVER_VERSION_MINOR 0
#define STANDIN_BASES uint64_t *const
#elif STANDIN_VERSION == 199
#define ETHOSU_DRIVER_VERSION_MAJOR 1
#define ETHOSU_DRIVER_VERSION_MINOR 99
#define STANDIN_BASES uint64_t *const
struct ethosu_driver *ethosu_reserve_driver_ex(uint32_t product, uint32_t log2_macs);
#else
#error "STANDIN_VERSION is 16, 100 or 199"
#endif

struct ethosu_driver;

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
int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                        STANDIN_BASES base_addr, const size_t *base_addr_size, const int num_base_addr,
                        void *user_arg);
int ethosu_wait(struct ethosu_driver *drv, bool block);
#endif
