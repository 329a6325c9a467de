/* A stand-in for the Ethos-U core driver on boards without an NPU: it writes each job into a mailbox in memory that the
 * host sees as well, rings, and waits; the host has the job executed by the simulator on the same memory.
 * On a board with an NPU leave this file out and link the core driver. SPDX-License-Identifier: Apache-2.0 */
#include "platform.h"

#include <string.h>

#define REGIONS 8
#define LINE_BYTES 64u

enum { IDLE = 0, RUNG = 1, ANSWERED = 2 };

/* All places are offsets from the mailbox itself. */
struct mailbox {
  volatile uint32_t bell;
  volatile int32_t result;
  uint32_t regions;
  uint32_t program_bytes;
  uint64_t program;
  uint64_t bases[REGIONS];
  uint64_t sizes[REGIONS];
};

struct ethosu_driver {
  int is_reserved;
};

struct ethosu_driver* ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver* drv);
int ethosu_invoke_v3(struct ethosu_driver* drv, const void* custom_data_ptr, const int custom_data_size,
                     uint64_t* const base_addr, const size_t* base_addr_size, const int num_base_addr, void* user_arg);

static struct ethosu_driver device;

struct ethosu_driver* ethosu_reserve_driver(void)
{
  device.is_reserved = 1;
  return &device;
}

void ethosu_release_driver(struct ethosu_driver* drv)
{
  drv->is_reserved = 0;
}

/* Where the host finds memory: its own place, or that of a copy, from `*scratch` on. 0 if there is neither. */
static uint64_t place(const struct platform_shared* shared, uintptr_t from, size_t bytes, size_t* scratch)
{
  const uintptr_t start = (uintptr_t)shared->start;
  uint64_t found;

  if (from >= start && from - start <= shared->bytes && bytes <= shared->bytes - (from - start)) {
    return (uint64_t)(from - start);
  }
  if (shared->scratch == 0 || *scratch > shared->bytes || bytes > shared->bytes - *scratch) {
    return 0;
  }
  found = *scratch;
  memcpy(shared->start + found, (const void*)from, bytes);
  *scratch += (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
  return found;
}

int ethosu_invoke_v3(struct ethosu_driver* drv, const void* custom_data_ptr, const int custom_data_size,
                     uint64_t* const base_addr, const size_t* base_addr_size, const int num_base_addr, void* user_arg)
{
  const struct platform_shared shared = platform_shared();
  struct mailbox* mailbox = (struct mailbox*)(void*)shared.start;
  size_t scratch = shared.scratch;
  int i, j;

  (void)drv;
  (void)user_arg;
  if (custom_data_size < 0 || num_base_addr < 0 || num_base_addr > REGIONS) {
    return -1;
  }
  mailbox->program_bytes = (uint32_t)custom_data_size;
  mailbox->program = place(&shared, (uintptr_t)custom_data_ptr, (size_t)custom_data_size, &scratch);
  if (mailbox->program == 0) {
    return -1;
  }
  mailbox->regions = (uint32_t)num_base_addr;
  for (i = 0; i < num_base_addr; ++i) {
    mailbox->sizes[i] = base_addr_size[i];
    mailbox->bases[i] = 0;
    /* Two regions may be one memory, and are one copy then. */
    for (j = 0; j < i; ++j) {
      if (base_addr[j] == base_addr[i] && base_addr_size[j] >= base_addr_size[i]) {
        mailbox->bases[i] = mailbox->bases[j];
      }
    }
    if (base_addr_size[i] != 0 && mailbox->bases[i] == 0) {
      mailbox->bases[i] = place(&shared, (uintptr_t)base_addr[i], base_addr_size[i], &scratch);
      if (mailbox->bases[i] == 0) {
        return -1;
      }
    }
  }
  __sync_synchronize();
  mailbox->bell = RUNG;
  while (mailbox->bell != ANSWERED) {
    platform_idle();
  }
  __sync_synchronize();
  mailbox->bell = IDLE;
  /* Region 0 is read only. */
  for (i = 1; i < num_base_addr && shared.scratch != 0; ++i) {
    if (mailbox->bases[i] >= shared.scratch) {
      memcpy((void*)(uintptr_t)base_addr[i], shared.start + mailbox->bases[i], base_addr_size[i]);
    }
  }
  return mailbox->result;
}
