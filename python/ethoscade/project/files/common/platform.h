/* What main.c and the NPU's stand-in want of a board. SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_H
#define PLATFORM_H

#include "ethoscade_link.h"

/* Memory that the host sees as well. It begins with the mailbox of the NPU's stand-in. */
struct platform_shared {
  uint8_t* start;
  size_t bytes;
  size_t scratch; /* from here on it is free for copies of memory that the host cannot see; 0: nothing is copied */
};

/* Make the board ready: clocks, stream, timer. */
void platform_start(int argc, char** argv);

/* ByteStream and timer. */
extern const struct ethoscade_link_port platform_port;

struct platform_shared platform_shared(void);

/* Called again and again while the NPU is waited for. */
void platform_idle(void);

#endif
