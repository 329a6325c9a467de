/* A link over any byte stream by which a host drives a network: it writes inputs, runs all calls or one after the
 * other, reads any bytes of the arena and asks how long calls took. Strict C99, no heap. The frames are described in
 * docs/projects.md. SPDX-License-Identifier: Apache-2.0 */
#ifndef ETHOSCADE_LINK_H
#define ETHOSCADE_LINK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Most bytes that one frame carries. The link keeps two frames. */
#ifndef ETHOSCADE_LINK_PAYLOAD_BYTES
#define ETHOSCADE_LINK_PAYLOAD_BYTES 1024
#endif

/* What is driven. */
struct ethoscade_link_network {
  uint32_t build;       /* a number that the host knows these very sources by */
  uint32_t calls;       /* of a run */
  uint8_t* arena;
  uint32_t arena_bytes;
  int32_t (*run)(void);   /* a run; around each call it calls the two functions below */
  int32_t (*reset)(void); /* sets the state up anew; NULL for a network without state */
  uint64_t* ticks;        /* as many as there are calls: what each took in the last run */
};

/* What it is driven over. */
struct ethoscade_link_port {
  int (*get)(void); /* the next byte, waited for; -1 if there will be none */
  void (*put)(const uint8_t* bytes, size_t count);
  uint64_t (*ticks)(void); /* a timer that only goes up */
  uint64_t ticks_per_second;
};

/* Answer the host until the stream ends. There is one link in a program. */
void ethoscade_link_serve(const struct ethoscade_link_network* network, const struct ethoscade_link_port* port);

/* For the macros ETHOSCADE_BEFORE_CALL and ETHOSCADE_AFTER_CALL of the network's sources. */
void ethoscade_link_before_call(uint32_t number);
void ethoscade_link_after_call(uint32_t number, int32_t status);

#ifdef __cplusplus
}
#endif

#endif
