/* The board mps3-an547 as QEMU has it: UART 0, SysTick, and the DDR, which the host maps.
 * SPDX-License-Identifier: Apache-2.0 */
#include "platform.h"

/* The CMSDK UART in its secure place. */
#define UART ((volatile uint32_t*)0x59303000u)
enum { UART_DATA = 0, UART_STATE = 1, UART_CTRL = 2, UART_BAUDDIV = 4 };
#define UART_TX_FULL 1u
#define UART_RX_FULL 2u

#define SYSTICK_CTRL (*(volatile uint32_t*)0xE000E010u)
#define SYSTICK_LOAD (*(volatile uint32_t*)0xE000E014u)
#define SYSTICK_VALUE (*(volatile uint32_t*)0xE000E018u)
#define SYSTICK_BITS 24
#define CLOCK_HZ 32000000u

/* DDR begins with the mailbox; linker.ld leaves these bytes free. */
#define DDR_START 0x60000000u
#define DDR_BYTES 0x10000000u

static volatile uint32_t wraps;

void SysTick_Handler(void);
void SysTick_Handler(void)
{
  ++wraps;
}

static uint64_t ticks(void)
{
  uint32_t high, value;

  do {
    high = wraps;
    value = SYSTICK_VALUE;
  } while (high != wraps);
  /* It counts down, and the interrupt comes with 0. */
  return ((uint64_t)high << SYSTICK_BITS) + (value == 0 ? 0u : (1u << SYSTICK_BITS) - value);
}

static int get(void)
{
  while ((UART[UART_STATE] & UART_RX_FULL) == 0) {
    int moment;

    /* QEMU brings the next byte sooner if it is not asked all the time. */
    for (moment = 0; moment < 300; ++moment) {
      __asm volatile("");
    }
  }
  return (int)(UART[UART_DATA] & 0xFFu);
}

static void put(const uint8_t* bytes, size_t count)
{
  size_t i;

  for (i = 0; i < count; ++i) {
    while ((UART[UART_STATE] & UART_TX_FULL) != 0) {
    }
    UART[UART_DATA] = bytes[i];
  }
}

const struct ethoscade_link_port platform_port = {get, put, ticks, CLOCK_HZ};

void platform_start(int argc, char** argv)
{
  (void)argc;
  (void)argv;
  UART[UART_BAUDDIV] = 16;
  UART[UART_CTRL] = 3; /* transmit and receive */
  SYSTICK_LOAD = (1u << SYSTICK_BITS) - 1u;
  SYSTICK_VALUE = 0;
  SYSTICK_CTRL = 7; /* the CPU's clock, with an interrupt, on */
}

struct platform_shared platform_shared(void)
{
  const struct platform_shared shared = {(uint8_t*)DDR_START, DDR_BYTES, 0};

  return shared;
}

void platform_idle(void)
{
}
