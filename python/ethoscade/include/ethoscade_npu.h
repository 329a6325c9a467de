/* ethoscade's simulated Ethos-U NPU as a C library, libethoscade_npu: the driver's functions (ethosu_driver.h), and what
 * a simulator can tell besides. It needs neither Python nor a device.
 *
 *   cc firmware.c $(pkg-config --cflags --libs ethoscade-npu)
 *
 * Threads. Every function may be called on any thread at any time. Devices that different threads have reserved run at
 * the same time. One device runs one payload: a second one is refused (-1) until ethosu_wait has had the first one's
 * result. Who passes memory to a run promises that nobody else writes there before it has ended, and that nobody reads
 * what it writes; constants may be shared. "The last run" below is that of the calling thread: the last payload that an
 * ethosu_invoke of this thread did not refuse, whichever thread waits for it. ethosu_init, ethosu_deinit and the choice
 * of the accelerator are the process's.
 */
#ifndef ETHOSCADE_NPU_H
#define ETHOSCADE_NPU_H

#include "ethosu_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One sentence about the last call on this thread that failed, in UTF-8; empty if none did. It stays when later calls
 * succeed, and is valid until the next failure on this thread. Never NULL. */
const char *ethoscade_sim_last_error(void);

/* One past the highest byte of a region (0 to 7, the number of the base address) that the last run touched, in bytes
 * from the base address; 0 if none, or for a region that there is not. Counts what a run touched before it failed. */
size_t ethoscade_sim_touched_end(int region);

/* Hazards that all runs of this process showed, on all threads: pairs of commands that the stream's waits do not order
 * although they touch the same bytes. A device may compute something else there; the simulator ran them in order. */
size_t ethoscade_sim_hazards(void);

/* One sentence about a hazard of the last run, by number from 0; NULL if it had no more. Valid until this thread runs
 * another payload. Of a run there are 1000 at most, and none if it failed. */
const char *ethoscade_sim_hazard(size_t index);

/* The same for warnings: findings that did not stop the run, such as a sum that the accumulator cannot hold. */
const char *ethoscade_sim_warning(size_t index);

/* Fixes the accelerator for all devices of the process, for example "ethos-u55-256"; payloads for another one are then
 * refused. NULL returns to the payload's own choice, and to the environment variable ETHOSCADE_SIM_ACCELERATOR. 0, or -1
 * if there is no such accelerator. */
int ethoscade_sim_set_accelerator(const char *name);

/* A memory as the NPU sees it, in NPU cycles: `bytes` move in `cycles`, reads and writes together; what is read arrives
 * `read_latency` cycles later, what is written is acknowledged after `write_latency`; bursts of `burst_bytes` are what
 * it is efficient with. */
struct ethoscade_sim_memory {
    uint32_t bytes;
    uint32_t cycles;
    uint32_t read_latency;
    uint32_t write_latency;
    uint32_t burst_bytes;
};

/* NPU cycles that a payload takes, by the timing model of ethoscade's documentation: region 0 and the commands in the
 * memory `constants`, all other regions in `arena`. Nothing is run. -1 for a payload that ethosu_invoke would refuse or
 * fail, NULL pointers and memories that never move anything. */
int64_t ethoscade_sim_cycles(const void *custom_data_ptr, const int custom_data_size,
                             const struct ethoscade_sim_memory *constants, const struct ethoscade_sim_memory *arena);

#ifdef __cplusplus
}
#endif

#endif
