"""The Ethos-U core driver as the emitted C sees it: releases, declarations, which NPU it has, how a run is asked of it.

Owns all text that names the driver. What the releases do is in docs/firmware.md, where these numbers come from in
docs/sources.md.
"""

from __future__ import annotations

from ...targets.target import SIMULATED
from . import status
from .module import Module

# The field `product_major` of the ID register, which `ethosu_get_hw_info` tells, and `product` of the CONFIG register,
# which `ethosu_reserve_driver_ex` wants (id_r and config_r of the driver's src/ethosu55_interface.h and
# src/ethosu65_interface.h).
_ID_PRODUCTS = {"u55": 4, "u65": 6}
_CONFIG_PRODUCTS = {"u55": 0, "u65": 1}

ASYNC_DEFAULT = """/* Define ETHOSCADE_ETHOSU_ASYNC as 1 for runs that do not wait for the NPU. The driver must have
 * ethosu_invoke_async and ethosu_wait. */
#ifndef ETHOSCADE_ETHOSU_ASYNC
#define ETHOSCADE_ETHOSU_ASYNC 0
#endif"""


def declarations() -> str:
    """The driver's functions and how its versions differ."""
    return """/* The Ethos-U core driver. Define ETHOSCADE_ETHOSU_DRIVER_H as its header, e.g. <ethosu_driver.h> or
 * "ethosu_driver.h", to use that in place of these declarations. */
#ifdef ETHOSCADE_ETHOSU_DRIVER_H
#include ETHOSCADE_ETHOSU_DRIVER_H
#else
#ifdef __cplusplus
extern "C" {
#endif
struct ethosu_driver;
struct ethosu_driver* ethosu_reserve_driver(void);
void ethosu_release_driver(struct ethosu_driver* drv);
int ethosu_invoke_v3(struct ethosu_driver* drv, const void* custom_data_ptr, const int custom_data_size,
                     uint64_t* const base_addr, const size_t* base_addr_size, const int num_base_addr,
                     void* user_arg);
#if ETHOSCADE_ETHOSU_ASYNC
int ethosu_invoke_async(struct ethosu_driver* drv, const void* custom_data_ptr, const int custom_data_size,
                        uint64_t* const base_addr, const size_t* base_addr_size, const int num_base_addr,
                        void* user_arg);
int ethosu_wait(struct ethosu_driver* drv, bool block);
#endif
#ifdef __cplusplus
}
#endif
#endif

/* Drivers for several NPUs (from version 1.99 on) reserve none and choose by the program: NULL is theirs to run, and
 * the status tells. To older ones NULL is no device: define it as 0 for one of these used without its header. */
#ifndef ETHOSCADE_ETHOSU_NULL_RUNS
#if defined(ETHOSU_DRIVER_VERSION_MAJOR) && defined(ETHOSU_DRIVER_VERSION_MINOR)
#define ETHOSCADE_ETHOSU_NULL_RUNS (ETHOSU_DRIVER_VERSION_MAJOR * 100 + ETHOSU_DRIVER_VERSION_MINOR >= 199)
#else
#define ETHOSCADE_ETHOSU_NULL_RUNS 1
#endif
#endif

/* Whether to ask the driver, before each run, which NPU it has. It takes the driver's header. */
#ifndef ETHOSCADE_ETHOSU_CHECK_NPU
#ifdef ETHOSCADE_ETHOSU_DRIVER_H
#define ETHOSCADE_ETHOSU_CHECK_NPU 1
#else
#define ETHOSCADE_ETHOSU_CHECK_NPU 0
#endif
#endif"""


def reserve(module: Module) -> str:
    """The functions that get a driver for a run and give it back."""
    prefix, macro = module.prefix, module.macro
    ok, none, wrong = (f"{macro}_{s.name}" for s in (status.OK, status.NO_DRIVER, status.WRONG_NPU))
    chip = SIMULATED.get(module.artifact.accelerator)
    check = ""
    if chip is not None:
        check = f"""
#if ETHOSCADE_ETHOSU_CHECK_NPU
  if (job->driver != NULL) {{
    struct ethosu_hw_info found;

    ethosu_get_hw_info(job->driver, &found);
    if (found.version.product_major != {_ID_PRODUCTS[chip.product]}u || found.cfg.macs_per_cc != \
{chip.macs.bit_length() - 1}u) {{
      {prefix}_release(job);
      return {wrong};
    }}
  }}
#endif"""
    return f"""static void {prefix}_release(struct {prefix}_job* job)
{{
  if (job->is_reserved && job->driver != NULL) {{
    ethosu_release_driver(job->driver);
  }}
  job->is_reserved = 0;
  job->driver = NULL;
}}

static int32_t {prefix}_reserve(struct {prefix}_job* job, const struct {prefix}_devices* devices)
{{
  job->user_arg = devices != NULL ? devices->user_arg : NULL;
  job->driver = devices != NULL ? (struct ethosu_driver*)devices->ethos_u : NULL;
  job->is_reserved = job->driver == NULL;
  if (job->is_reserved) {{
    job->driver = ethosu_reserve_driver();
  }}
  if (job->driver == NULL && !ETHOSCADE_ETHOSU_NULL_RUNS) {{
    return {none};
  }}{check}
  return {ok};
}}"""


def invoke(module: Module, regions: int) -> str:
    """The function that has the driver run a program and waits for it."""
    prefix, macro = module.prefix, module.macro
    ok, failed, refused = (f"{macro}_{s.name}" for s in (status.OK, status.NPU_FAILED, status.NPU_REFUSED))
    arguments = f"job->driver, call->payload, call->payload_size, job->base_addr, job->base_addr_size, {regions}"
    return f"""static int32_t {prefix}_invoke(struct {prefix}_job* job, const struct {prefix}_call* call)
{{
  {prefix}_set_bases(job, call->regions);
/* The driver's two steps, which tell a refusal from an error. Releases with this macro, from 24.02 on, have both. */
#ifdef ETHOSU_SEMAPHORE_WAIT_FOREVER
  if (job->driver != NULL) {{
    job->driver_result = ethosu_invoke_async(
        {arguments}, job->user_arg);
    if (job->driver_result < 0) {{
      return {refused};
    }}
    job->driver_result = ethosu_wait(job->driver, true);
    return job->driver_result == 0 ? {ok} : {failed};
  }}
#endif
  job->driver_result = ethosu_invoke_v3(
      {arguments}, job->user_arg);
  return job->driver_result == 0 ? {ok} : {failed};
}}"""


def chosen(module: Module) -> str:
    """Lines for a run that does not wait: a driver for several NPUs, which reserves none, must choose beforehand."""
    prefix, macro = module.prefix, module.macro
    chip = SIMULATED.get(module.artifact.accelerator)
    choice = ""
    if chip is not None:
        choice = f"""#if defined(ETHOSCADE_ETHOSU_DRIVER_H) && ETHOSCADE_ETHOSU_NULL_RUNS
  if (job->driver == NULL) {{
    job->driver = ethosu_reserve_driver_ex({_CONFIG_PRODUCTS[chip.product]}u, {chip.macs.bit_length() - 1}u);
    job->is_reserved = 1;
  }}
#endif
"""
    return f"""{choice}  if (job->driver == NULL) {{
    {prefix}_release(job);
    return {macro}_{status.NO_DRIVER.name};
  }}"""
