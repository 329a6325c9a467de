/* See ethoscade_link.h. SPDX-License-Identifier: Apache-2.0 */
#include "ethoscade_link.h"

#include <string.h>

#define VERSION 1u

#define HEAD_BYTES 8u
#define CRC_BYTES 4u
#define FRAME_BYTES (HEAD_BYTES + ETHOSCADE_LINK_PAYLOAD_BYTES + CRC_BYTES)

/* Commands; an answer bears its command and REPLY. */
enum { HELLO = 1, WRITE = 2, READ = 3, RUN = 4, TIMES = 5, RESET = 6, DAMAGED = 0x7F, REPLY = 0x80 };

/* How a command ended. */
enum { DONE = 0, UNKNOWN_COMMAND = 1, WRONG_ARGUMENT = 2, OUT_OF_ORDER = 3, BUSY = 4 };

/* A run as a whole, in place of the number of the call to stop after. */
#define TO_THE_END 0xFFFFFFFFu

static struct {
  const struct ethoscade_link_network* network;
  const struct ethoscade_link_port* port;
  /* The frame that is coming in, decoded: COBS has a count in front of each piece without zeros. */
  uint8_t in[FRAME_BYTES];
  size_t in_count;
  uint32_t left;      /* bytes of the piece that are still to come */
  int begun, zero_due, spoilt;
  /* The last answer, which a request that comes again gets again. */
  uint8_t out[FRAME_BYTES];
  size_t out_count;
  uint32_t sequence, request_crc;
  int has_host;
  /* The run. */
  int running, has_ended;
  uint32_t stop_after, done_calls;
  uint64_t begin;
} link;

static uint32_t get32(const uint8_t* from)
{
  return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static void put32(uint8_t* to, uint32_t value)
{
  to[0] = (uint8_t)(value & 0xFFu);
  to[1] = (uint8_t)(value >> 8 & 0xFFu);
  to[2] = (uint8_t)(value >> 16 & 0xFFu);
  to[3] = (uint8_t)(value >> 24);
}

static void put64(uint8_t* to, uint64_t value)
{
  put32(to, (uint32_t)(value & 0xFFFFFFFFu));
  put32(to + 4, (uint32_t)(value >> 32));
}

/* The CRC-32 of IEEE 802.3, four bits at a time. */
static uint32_t crc32(const uint8_t* bytes, size_t count)
{
  static const uint32_t table[16] = {
      0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u, 0x4DB26158u, 0x5005713Cu,
      0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu, 0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu};
  uint32_t crc = 0xFFFFFFFFu;
  size_t i;

  for (i = 0; i < count; ++i) {
    crc = table[(crc ^ bytes[i]) & 15u] ^ crc >> 4;
    crc = table[(crc ^ (uint32_t)(bytes[i] >> 4)) & 15u] ^ crc >> 4;
  }
  return ~crc;
}

/* --- frames ------------------------------------------------------------------------------------------- */

/* Send raw bytes as one frame: pieces without zeros, each behind its count, between two zeros. */
static void send(const uint8_t* raw, size_t count)
{
  static const uint8_t zero = 0;
  size_t from = 0;
  int more = 1;

  link.port->put(&zero, 1);
  while (more) {
    size_t length = 0;
    uint8_t code;

    while (length < 254 && from + length < count && raw[from + length] != 0) {
      ++length;
    }
    code = (uint8_t)(length + 1);
    link.port->put(&code, 1);
    link.port->put(raw + from, length);
    from += length;
    more = from < count;
    if (more && length < 254) {
      ++from; /* the zero that the count stands for */
    }
  }
  link.port->put(&zero, 1);
}

static void answer(uint8_t command, uint8_t status, size_t count)
{
  put32(link.out, link.sequence);
  link.out[4] = (uint8_t)(command | REPLY);
  link.out[5] = status;
  link.out[6] = (uint8_t)(count & 0xFFu);
  link.out[7] = (uint8_t)(count >> 8 & 0xFFu);
  put32(link.out + HEAD_BYTES + count, crc32(link.out, HEAD_BYTES + count));
  link.out_count = HEAD_BYTES + count + CRC_BYTES;
  send(link.out, link.out_count);
}

/* Answer without a payload to what is no request; the last answer stays what it is. */
static void refuse(uint32_t sequence, uint8_t command, uint8_t status)
{
  uint8_t raw[HEAD_BYTES + CRC_BYTES];

  put32(raw, sequence);
  raw[4] = (uint8_t)(command | REPLY);
  raw[5] = status;
  raw[6] = 0;
  raw[7] = 0;
  put32(raw + HEAD_BYTES, crc32(raw, HEAD_BYTES));
  send(raw, sizeof raw);
}

static void keep(uint8_t byte)
{
  if (link.in_count < FRAME_BYTES) {
    link.in[link.in_count++] = byte;
  } else {
    link.spoilt = 1;
  }
}

static int is_whole(void)
{
  size_t count;

  if (link.spoilt || link.left != 0 || link.in_count < HEAD_BYTES + CRC_BYTES) {
    return 0;
  }
  count = (size_t)link.in[6] | (size_t)link.in[7] << 8;
  return link.in_count == HEAD_BYTES + count + CRC_BYTES &&
         get32(link.in + link.in_count - CRC_BYTES) == crc32(link.in, link.in_count - CRC_BYTES);
}

/* Take bytes until a whole frame is there: 1; 0 if the stream ended. */
static int receive(void)
{
  for (;;) {
    const int byte = link.port->get();

    if (byte < 0) {
      link.has_ended = 1;
      return 0;
    }
    if (byte == 0) {
      const int was_begun = link.begun, whole = was_begun && is_whole();

      if (!whole) {
        link.in_count = 0;
      }
      link.begun = link.zero_due = link.spoilt = 0;
      link.left = 0;
      if (whole) {
        return 1;
      }
      if (was_begun) {
        refuse(link.sequence, DAMAGED, DONE);
      }
      continue;
    }
    if (!link.begun) {
      link.in_count = 0;
      link.begun = 1;
    }
    if (link.left == 0) {
      if (link.zero_due) {
        keep(0);
      }
      link.left = (uint32_t)byte - 1u;
      link.zero_due = byte != 0xFF;
    } else {
      keep((uint8_t)byte);
      --link.left;
    }
  }
}

/* --- commands ----------------------------------------------------------------------------------------- */

static void answer_run(int32_t status)
{
  put32(link.out + HEAD_BYTES, (uint32_t)status);
  put32(link.out + HEAD_BYTES + 4, link.done_calls);
  answer(RUN, DONE, 8);
}

static void hello(void)
{
  uint8_t* out = link.out + HEAD_BYTES;

  put32(out, VERSION);
  put32(out + 4, link.network->build);
  put32(out + 8, link.network->calls);
  put32(out + 12, link.network->arena_bytes);
  put32(out + 16, ETHOSCADE_LINK_PAYLOAD_BYTES);
  put32(out + 20, link.running ? link.done_calls : 0u);
  put64(out + 24, link.port->ticks_per_second);
  answer(HELLO, DONE, 32);
}

/* Whether `count` bytes from `offset` lie in the arena. */
static int in_arena(uint32_t offset, uint32_t count)
{
  return offset <= link.network->arena_bytes && count <= link.network->arena_bytes - offset;
}

static void write_bytes(const uint8_t* payload, uint32_t count)
{
  if (count < 4 || !in_arena(get32(payload), count - 4)) {
    answer(WRITE, WRONG_ARGUMENT, 0);
    return;
  }
  memcpy(link.network->arena + get32(payload), payload + 4, count - 4);
  answer(WRITE, DONE, 0);
}

static void read_bytes(const uint8_t* payload, uint32_t count)
{
  if (count != 8 || get32(payload + 4) > ETHOSCADE_LINK_PAYLOAD_BYTES ||
      !in_arena(get32(payload), get32(payload + 4))) {
    answer(READ, WRONG_ARGUMENT, 0);
    return;
  }
  memcpy(link.out + HEAD_BYTES, link.network->arena + get32(payload), get32(payload + 4));
  answer(READ, DONE, get32(payload + 4));
}

static void tell_times(const uint8_t* payload, uint32_t count)
{
  uint32_t first, number, i;

  if (count != 8) {
    answer(TIMES, WRONG_ARGUMENT, 0);
    return;
  }
  first = get32(payload);
  number = get32(payload + 4);
  if (number > ETHOSCADE_LINK_PAYLOAD_BYTES / 8 || first > link.network->calls ||
      number > link.network->calls - first) {
    answer(TIMES, WRONG_ARGUMENT, 0);
    return;
  }
  for (i = 0; i < number; ++i) {
    put64(link.out + HEAD_BYTES + 8 * i, link.network->ticks[first + i]);
  }
  answer(TIMES, DONE, 8 * (size_t)number);
}

/* Begin a run, or go on with the one that stands: 1 if what stands is to go on. */
static int run(const uint8_t* payload, uint32_t count)
{
  const uint32_t stop_after = count == 4 ? get32(payload) : 0;

  if (count != 4 || (stop_after != TO_THE_END && stop_after >= link.network->calls) ||
      (link.running && stop_after < link.done_calls)) {
    answer(RUN, WRONG_ARGUMENT, 0);
    return 0;
  }
  link.stop_after = stop_after;
  if (link.running) {
    return 1;
  }
  link.running = 1;
  link.done_calls = 0;
  {
    const int32_t status = link.network->run();

    link.running = 0;
    answer_run(status);
  }
  return 0;
}

static void reset(void)
{
  if (link.running) {
    answer(RESET, BUSY, 0);
    return;
  }
  put32(link.out + HEAD_BYTES, link.network->reset == NULL ? 0u : (uint32_t)link.network->reset());
  answer(RESET, DONE, 4);
}

/* A whole frame: 1 if the run that stands is to go on. A request that came before is answered and not done again. */
static int handle(void)
{
  const uint32_t sequence = get32(link.in), crc = get32(link.in + link.in_count - CRC_BYTES);
  const uint32_t count = (uint32_t)(link.in_count - HEAD_BYTES - CRC_BYTES);
  const uint8_t* payload = link.in + HEAD_BYTES;
  const uint8_t command = link.in[4];

  if (link.has_host && sequence == link.sequence && crc == link.request_crc) {
    send(link.out, link.out_count);
    return 0;
  }
  if (command != HELLO && (!link.has_host || sequence != link.sequence + 1u)) {
    refuse(sequence, command, OUT_OF_ORDER);
    return 0;
  }
  link.has_host = 1;
  link.sequence = sequence;
  link.request_crc = crc;
  switch (command) {
    case HELLO:
      hello();
      break;
    case WRITE:
      write_bytes(payload, count);
      break;
    case READ:
      read_bytes(payload, count);
      break;
    case RUN:
      return run(payload, count);
    case TIMES:
      tell_times(payload, count);
      break;
    case RESET:
      reset();
      break;
    default:
      answer(command, UNKNOWN_COMMAND, 0);
      break;
  }
  return 0;
}

void ethoscade_link_serve(const struct ethoscade_link_network* network, const struct ethoscade_link_port* port)
{
  memset(&link, 0, sizeof link);
  link.network = network;
  link.port = port;
  while (receive()) {
    (void)handle();
  }
}

void ethoscade_link_before_call(uint32_t number)
{
  (void)number;
  if (link.running) {
    link.begin = link.port->ticks();
  }
}

void ethoscade_link_after_call(uint32_t number, int32_t status)
{
  if (!link.running || number >= link.network->calls) {
    return;
  }
  link.network->ticks[number] = link.port->ticks() - link.begin;
  link.done_calls = number + 1u;
  /* A call that failed ends the run, whose status is the answer. */
  if (number == link.stop_after && status == 0 && !link.has_ended) {
    answer_run(0);
    while (receive()) {
      if (handle()) {
        break;
      }
    }
  }
}
