/* See network_link.h. SPDX-License-Identifier: Apache-2.0 */
#include "network_link.h"

#include "network.h"

/* The arena is ours, so that the link can read and write it. */
uint8_t network_arena[NETWORK_MACRO(WORKSPACE_SIZE)]
    __attribute__((section(NETWORK_ARENA_SECTION), aligned(NETWORK_MACRO(CACHE_LINE_BYTES))));

static uint64_t ticks[NETWORK_MACRO(CALLS) + 1];

static int32_t run(void)
{
#if NETWORK_IS_STREAMED
  static struct NETWORK(job) job;
  int32_t status = NETWORK(begin)(&job, NULL);

  /* The host has a run stand behind a call that hands rows over, and writes or reads them. */
  while (status == NETWORK_MACRO(RUNNING)) {
    status = NETWORK(step)(&job);
  }
  return status;
#elif NETWORK_MACRO(NPU)
  return NETWORK(run)(NULL);
#else
  return NETWORK(run)();
#endif
}

#if NETWORK_HAS_STATE
static int32_t reset(void)
{
  return NETWORK(reset)();
}
#endif

void network_serve(const struct ethoscade_link_port* port)
{
  const struct ethoscade_link_network network = {
    NETWORK_BUILD, NETWORK_MACRO(CALLS), network_arena, NETWORK_MACRO(ARENA_BYTES), run,
#if NETWORK_HAS_STATE
    reset,
#else
    NULL,
#endif
    ticks,
  };

  ethoscade_link_serve(&network, port);
}
