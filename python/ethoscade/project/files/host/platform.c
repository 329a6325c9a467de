/* A process on this machine: standard input and output are the stream, a file that the host maps as well is the
 * memory in common. SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "platform.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAILBOX_BYTES 4096u

static struct platform_shared shared;

static uint64_t ticks(void)
{
  struct timespec now;

  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int get(void)
{
  static uint8_t buffer[4096];
  static size_t next, count;

  if (next == count) {
    const ssize_t found = read(STDIN_FILENO, buffer, sizeof buffer);

    if (found <= 0) {
      return -1;
    }
    next = 0;
    count = (size_t)found;
  }
  return buffer[next++];
}

static void put(const uint8_t* bytes, size_t count)
{
  while (count > 0) {
    const ssize_t written = write(STDOUT_FILENO, bytes, count);

    if (written <= 0) {
      exit(1);
    }
    bytes += written;
    count -= (size_t)written;
  }
}

const struct ethoscade_link_port platform_port = {get, put, ticks, 1000000000u};

#ifdef NETWORK_STANDALONE
/* The simulated NPU is in this process: nothing is in common with another one. */
void platform_start(int argc, char** argv)
{
  (void)argc;
  (void)argv;
}
#else
void platform_start(int argc, char** argv)
{
  struct stat found;
  int file;

  if (argc != 2) {
    (void)fprintf(stderr, "usage: firmware SHARED_FILE; `ethoscade run` starts it\n");
    exit(2);
  }
  file = open(argv[1], O_RDWR);
  if (file < 0 || fstat(file, &found) != 0) {
    perror(argv[1]);
    exit(1);
  }
  shared.bytes = (size_t)found.st_size;
  shared.start = mmap(NULL, shared.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared.start == MAP_FAILED) {
    perror(argv[1]);
    exit(1);
  }
  shared.scratch = MAILBOX_BYTES;
}
#endif

struct platform_shared platform_shared(void)
{
  return shared;
}

void platform_idle(void)
{
  const struct timespec moment = {0, 50000};

  (void)nanosleep(&moment, NULL);
}
