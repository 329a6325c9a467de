/* A stand-in for the Ethos-U core driver (versions by ethosu_driver.h beside it). It checks what a driver is given, has
 * cache hooks that want whole lines, and has payloads executed by somebody else. What it dislikes it says by
 * standin_complaint, and refuses. */
#include "ethosu_driver.h"

#include <string.h>

#ifndef STANDIN_LINE_BYTES
#define STANDIN_LINE_BYTES 32
#endif
/* Times that a driver which is asked, and not waited for, answers that the NPU is at work. */
#define POLLS 2
#define BASES 3

typedef int execute_function(const void *payload, int size, uint64_t *bases, const size_t *sizes, int count);

struct ethosu_driver {
  bool is_reserved, is_busy;
  int polls, result;
  const uint64_t *base_addr;
  const size_t *base_addr_size;
  uint64_t bases[BASES];
  size_t sizes[BASES];
  void *user_arg;
};

static struct ethosu_driver device;
static bool has_device = true;
static execute_function *execute;
static const char *complaint = "";
static uint32_t product, log2_macs;
static uintptr_t user_arg_begun, user_arg_ended;
static size_t fast_memory_size;
static unsigned flushed[BASES];

void standin_set_up(execute_function *function, uint32_t the_product, uint32_t the_log2_macs, size_t fast_memory,
                    int32_t there_is_one);
const char *standin_complaint(void);
uintptr_t standin_user_arg(void);
unsigned standin_flushed(int region);
int standin_is_reserved(void);

void standin_set_up(execute_function *function, uint32_t the_product, uint32_t the_log2_macs, size_t fast_memory,
                    int32_t there_is_one)
{
  execute = function;
  product = the_product;
  log2_macs = the_log2_macs;
  fast_memory_size = fast_memory;
  has_device = there_is_one != 0;
}

const char *standin_complaint(void) { return complaint; }
uintptr_t standin_user_arg(void) { return user_arg_begun == user_arg_ended ? user_arg_ended : 0; }
unsigned standin_flushed(int region) { return flushed[region]; }
int standin_is_reserved(void) { return device.is_reserved; }

static int refuse(const char *why)
{
  complaint = why;
  return -1;
}

static struct ethosu_driver *reserve(void)
{
  if (!has_device || device.is_reserved) {
    return NULL;
  }
  device.is_reserved = true;
  return &device;
}

#if STANDIN_VERSION == 199
struct ethosu_driver *ethosu_reserve_driver_ex(uint32_t wanted_product, uint32_t wanted_log2_macs)
{
  return wanted_product == product && wanted_log2_macs == log2_macs ? reserve() : NULL;
}
#endif

struct ethosu_driver *ethosu_reserve_driver(void)
{
#ifdef STANDIN_MULTI
  return NULL;
#else
  return reserve();
#endif
}

void ethosu_release_driver(struct ethosu_driver *drv)
{
  if (!drv->is_reserved || drv->is_busy) {
    complaint = "released a driver that is not reserved, or at work";
  }
  drv->is_reserved = false;
}

void ethosu_get_hw_info(struct ethosu_driver *drv, struct ethosu_hw_info *hw)
{
  (void)drv->is_reserved;
  memset(hw, 0, sizeof *hw);
  hw->version.product_major = product;
  hw->cfg.macs_per_cc = log2_macs;
}

/* A cache hook: whole lines, or it would touch a neighbour's. */
static int maintain(const uint64_t *base_addr, const size_t *base_addr_size, int count)
{
  int i;

  for (i = 0; i < count; ++i) {
    if (base_addr_size[i] > 0 && (base_addr[i] % STANDIN_LINE_BYTES != 0 || base_addr_size[i] % STANDIN_LINE_BYTES != 0)) {
      return refuse("a base or its size is no whole cache lines");
    }
  }
  return 0;
}

int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                        STANDIN_BASES base_addr, const size_t *base_addr_size, const int num_base_addr,
                        void *user_arg)
{
  int i;

  if (drv == NULL || !drv->is_reserved || drv->is_busy || num_base_addr != BASES) {
    return refuse("no driver, a driver that is not reserved or at work, or other bases than three");
  }
  if ((uintptr_t)custom_data_ptr % 16 != 0 || custom_data_size % 4 != 0) {
    return refuse("the payload is not aligned");
  }
  for (i = 0; i < num_base_addr; ++i) {
    if (base_addr[i] % 16 != 0) {
      return refuse("a base is not aligned");
    }
    drv->bases[i] = base_addr[i];
    drv->sizes[i] = base_addr_size[i];
    flushed[i] += base_addr_size[i] > 0;
  }
  if (fast_memory_size > 0 && base_addr_size[2] > fast_memory_size) {
    return refuse("the fast memory is too small");
  }
  if (maintain(base_addr, base_addr_size, num_base_addr) != 0) {
    return -1;
  }
  drv->base_addr = base_addr;
  drv->base_addr_size = base_addr_size;
  drv->user_arg = user_arg;
  user_arg_begun = (uintptr_t)user_arg;
  drv->is_busy = true;
  drv->polls = POLLS;
  drv->result = execute(custom_data_ptr, custom_data_size, drv->bases, drv->sizes, num_base_addr);
  return 0;
}

int ethosu_wait(struct ethosu_driver *drv, bool block)
{
  if (!drv->is_busy) {
    return -2;
  }
  if (!block && drv->polls-- > 0) {
    return 1;
  }
  /* The driver looks at the caller's arrays once more: they must still be there. */
  if (memcmp(drv->base_addr_size, drv->sizes, sizeof drv->sizes) != 0 ||
      memcmp(drv->base_addr, drv->bases, sizeof drv->bases) != 0) {
    drv->result = refuse("the bases changed while the NPU was at work");
  }
  maintain(drv->base_addr, drv->base_addr_size, BASES);
  user_arg_ended = (uintptr_t)drv->user_arg;
  drv->is_busy = false;
  return drv->result == 0 ? 0 : -1;
}

int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     STANDIN_BASES base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg)
{
  struct ethosu_driver *const used =
#ifdef STANDIN_MULTI
      drv == NULL ? reserve() : drv;
#else
      drv;
#endif
  int status = ethosu_invoke_async(used, custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr,
                                   user_arg);

  if (status == 0) {
    status = ethosu_wait(used, true);
  }
  if (used != NULL && drv == NULL) {
    ethosu_release_driver(used);
  }
  return status;
}
