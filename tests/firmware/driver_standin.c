/* A stand-in for the Ethos-U core driver; ethosu_driver.h beside it says which releases. What it does is what their
 * src/ethosu_driver.c and ethosu_device_u55_u65.c do: fields of ID and CONFIG, what of a program is compared with them,
 * which memory cache hooks get and when, what is returned. It has cache hooks that want whole lines, and has programs
 * executed by somebody else. What it dislikes it says by standin_complaint, and refuses. */
#include "ethosu_driver.h"

#include <string.h>

#ifndef STANDIN_LINE_BYTES
#define STANDIN_LINE_BYTES 32
#endif
/* Times that a driver which is asked, and not waited for, answers that the NPU is at work. */
#define POLLS 2
/* Of a custom operator payload: its first word, and driver actions (ethosu_driver.c: ETHOSU_FOURCC, DRIVER_ACTION_e). */
#define FOURCC ('1' << 24 | 'P' << 16 | 'O' << 8 | 'C')
#define OPTIMIZER_CONFIG 1
#define COMMAND_STREAM 2
#define NOP 5
/* SCRATCH_BASE_ADDR_INDEX and FAST_MEMORY_BASE_ADDR_INDEX. */
#define SCRATCH 1
#define FAST_MEMORY 2

typedef int execute_function(const void *payload, int size, uint64_t *bases, const size_t *sizes, int count);
enum fault { NO_FAULT, NPU_ERROR, TIME_OUT };

static struct ethosu_driver device;
static bool has_device = true;
static execute_function *execute;
static const char *complaint = "";
static uint32_t id, config;
static uintptr_t user_arg_begun, user_arg_ended;
static size_t fast_memory_size;
static enum fault fault;
static unsigned told[STANDIN_REGIONS], flushed[STANDIN_REGIONS], invalidated[STANDIN_REGIONS];

void standin_set_up(execute_function *function, uint32_t id_word, uint32_t config_word, size_t fast_memory,
                    int32_t there_is_one, int32_t the_fault);
const char *standin_complaint(void);
uintptr_t standin_user_arg(void);
unsigned standin_told(int region);
unsigned standin_flushed(int region);
unsigned standin_invalidated(int region);
int standin_is_reserved(void);

void standin_set_up(execute_function *function, uint32_t id_word, uint32_t config_word, size_t fast_memory,
                    int32_t there_is_one, int32_t the_fault)
{
  execute = function;
  id = id_word;
  config = config_word;
  fast_memory_size = fast_memory;
  has_device = there_is_one != 0;
  fault = (enum fault)the_fault;
}

const char *standin_complaint(void) { return complaint; }
uintptr_t standin_user_arg(void) { return user_arg_begun == user_arg_ended ? user_arg_ended : 0; }
unsigned standin_told(int region) { return told[region]; }
unsigned standin_flushed(int region) { return flushed[region]; }
unsigned standin_invalidated(int region) { return invalidated[region]; }
int standin_is_reserved(void) { return device.reserved; }

static int refuse(const char *why)
{
  complaint = why;
  return -1;
}

static uint32_t field(uint32_t word, int low, int bits) { return word >> low & ((1u << bits) - 1u); }

/* --- devices ------------------------------------------------------------------------------------------------------ */

/* The drivers up to 1.0 block until a device is free. Nobody frees one here, so that this one returns. */
static struct ethosu_driver *reserve(void)
{
  if (!has_device || device.reserved) {
    return NULL;
  }
  device.reserved = true;
  return &device;
}

#if STANDIN_RELEASE == 19900
/* CONFIG's product (ETHOSU_PRODUCT_U55 0, _U65 1) and the power of two. */
struct ethosu_driver *ethosu_reserve_driver_ex(uint32_t product, uint32_t log2_macs)
{
  return product == field(config, 28, 4) && log2_macs == field(config, 0, 4) ? reserve() : NULL;
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
  if (!drv->reserved || drv->is_busy) {
    complaint = "released a driver that is not reserved, or at work";
  }
  drv->reserved = false;
}

/* The fields of `struct id_r` and `struct config_r` in ethosu55_interface.h and ethosu65_interface.h. */
void ethosu_get_hw_info(struct ethosu_driver *drv, struct ethosu_hw_info *hw)
{
  (void)drv->reserved;
  hw->version.version_status = field(id, 0, 4);
  hw->version.version_minor = field(id, 4, 4);
  hw->version.version_major = field(id, 8, 4);
  hw->version.product_major = field(id, 12, 4);
  hw->version.arch_patch_rev = field(id, 16, 4);
  hw->version.arch_minor_rev = field(id, 20, 8);
  hw->version.arch_major_rev = field(id, 28, 4);
  hw->cfg.macs_per_cc = field(config, 0, 4);
  hw->cfg.cmd_stream_version = field(config, 4, 4);
  hw->cfg.custom_dma = field(config, 27, 1);
}

/* ethosu_dev_verify_optimizer_config: product, MACs and the stream's version are equal, the architecture is not newer. */
static bool is_made_for_it(uint32_t the_config, uint32_t the_id)
{
  return field(the_config, 28, 4) == field(config, 28, 4) && field(the_config, 0, 8) == field(config, 0, 8) &&
         field(the_id, 28, 4) == field(id, 28, 4) && field(the_id, 20, 8) <= field(id, 20, 8);
}

/* The program must say for which NPU it is before it says what that does. */
static int look_at(const uint32_t *words, int count)
{
  bool is_verified = false;
  int at;

  if (words[0] != FOURCC) {
    return refuse("the payload's first word");
  }
  for (at = 1; at < count;) {
    switch (words[at] & 0xFF) {
    case OPTIMIZER_CONFIG:
      if (!is_made_for_it(words[at + 1], words[at + 2])) {
        return refuse("the program is for another NPU");
      }
      is_verified = true;
      at += 3;
      break;
    case COMMAND_STREAM:
      if ((uintptr_t)(words + at + 1) % 16 != 0 || !is_verified) {
        return refuse("the command stream is not aligned, or for nobody");
      }
      at += 1 + (int)(words[at] >> 16 | (words[at] & 0xFF00) << 8);
      break;
    case NOP:
      at += 1;
      break;
    default:
      return refuse("an unknown driver action");
    }
  }
  return at == count ? 0 : refuse("the payload's length");
}

/* --- caches ------------------------------------------------------------------------------------------------------- */

/* A cache hook: whole lines, or it would touch a neighbour's. */
static int maintain(uint64_t base, size_t size, unsigned *count)
{
  if (size > 0 && (base % STANDIN_LINE_BYTES != 0 || size % STANDIN_LINE_BYTES != 0)) {
    return refuse("a base or its size is no whole cache lines");
  }
  *count += size > 0;
  return 0;
}

/* All regions; 24.11 alone has masks, of the scratch region unless ethosu_set_basep_cache_mask says otherwise. */
static int maintain_all(const uint64_t *bases, const size_t *sizes, unsigned *counts)
{
  int i;

  for (i = 0; i < STANDIN_REGIONS; ++i) {
#if STANDIN_RELEASE == 2411
    if (i != SCRATCH) {
      continue;
    }
#endif
    if (maintain(bases[i], sizes[i], counts + i) != 0) {
      return -1;
    }
  }
  return 0;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

/* Firmware may have hooks of its own, as in the driver. */
void __attribute__((weak)) ethosu_inference_begin(struct ethosu_driver *drv, void *user_arg)
{
  (void)drv;
  user_arg_begun = (uintptr_t)user_arg;
}

void __attribute__((weak)) ethosu_inference_end(struct ethosu_driver *drv, void *user_arg)
{
  (void)drv;
  user_arg_ended = (uintptr_t)user_arg;
}

static int begin(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                 STANDIN_BASES base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg)
{
  int i;

  if (drv == NULL || !drv->reserved || drv->is_busy || num_base_addr != STANDIN_REGIONS) {
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
    told[i] += base_addr_size[i] > 0;
  }
  if (fast_memory_size > 0 && base_addr_size[FAST_MEMORY] > fast_memory_size) {
    return refuse("the fast memory is too small");
  }
  if (look_at(custom_data_ptr, custom_data_size / 4) != 0 || maintain_all(base_addr, base_addr_size, flushed) != 0) {
    return -1;
  }
  drv->job.custom_data_ptr = custom_data_ptr;
  drv->job.custom_data_size = custom_data_size;
  drv->job.base_addr = base_addr;
  drv->job.base_addr_size = base_addr_size;
  drv->job.num_base_addr = num_base_addr;
  drv->job.user_arg = user_arg;
  ethosu_inference_begin(drv, user_arg);
  drv->is_busy = true;
  drv->polls = POLLS;
  drv->job.result = fault == NO_FAULT && execute(custom_data_ptr, custom_data_size, drv->bases, drv->sizes, num_base_addr) == 0
                        ? (enum ethosu_job_result)0
                        : fault == TIME_OUT ? (enum ethosu_job_result)1 : (enum ethosu_job_result)2;
  return 0;
}

/* -2 for no run, 1 for one that goes on, -1 for whatever went wrong. */
static int wait(struct ethosu_driver *drv, bool block)
{
  int result;

  if (!drv->is_busy) {
    return -2;
  }
  if (!block && drv->polls-- > 0) {
    return 1;
  }
  /* The driver looks at the caller's arrays once more: they must still be there. */
  if (memcmp(drv->job.base_addr_size, drv->sizes, sizeof drv->sizes) != 0 ||
      memcmp(drv->job.base_addr, drv->bases, sizeof drv->bases) != 0) {
    refuse("the bases changed while the NPU was at work");
    drv->job.result = (enum ethosu_job_result)2;
  }
  ethosu_inference_end(drv, drv->job.user_arg);
  /* Up to 24.08 a run that failed leaves the caches alone. */
  if (STANDIN_RELEASE >= 2411 || drv->job.result == 0) {
    maintain_all(drv->job.base_addr, drv->job.base_addr_size, invalidated);
  }
  result = drv->job.result == 0 ? 0 : -1;
  memset(&drv->job, 0, sizeof drv->job);
  drv->is_busy = false;
  return result;
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
  int status = begin(used, custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr, user_arg);

  if (status == 0) {
    status = wait(used, true);
  }
  if (used != NULL && drv == NULL) {
    ethosu_release_driver(used);
  }
  return status;
}

#if STANDIN_RELEASE >= 2205
int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                        STANDIN_BASES base_addr, const size_t *base_addr_size, const int num_base_addr,
                        void *user_arg)
{
  return begin(drv, custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr, user_arg);
}

int ethosu_wait(struct ethosu_driver *drv, bool block) { return wait(drv, block); }
#endif
