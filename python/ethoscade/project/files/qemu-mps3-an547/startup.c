/* Start-up of a Cortex-M55: vectors, the floating-point and vector unit, .data and .bss. SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

extern uint32_t __stack_top, __data_load, __data_start, __data_end, __bss_start, __bss_end;

extern int main(int argc, char** argv);
void Reset_Handler(void);
void Fault_Handler(void);
void SysTick_Handler(void);

/* Coprocessor Access Control Register: CP10 and CP11 are the floating-point and vector unit. */
#define CPACR (*(volatile uint32_t*)0xE000ED88u)

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
    (uintptr_t)&__stack_top, (uintptr_t)Reset_Handler, (uintptr_t)Fault_Handler, (uintptr_t)Fault_Handler,
    (uintptr_t)Fault_Handler, (uintptr_t)Fault_Handler, (uintptr_t)Fault_Handler, (uintptr_t)Fault_Handler,
    0, 0, 0, (uintptr_t)Fault_Handler, (uintptr_t)Fault_Handler, 0, (uintptr_t)Fault_Handler,
    (uintptr_t)SysTick_Handler};

/* No vector instruction may come before the unit is on: the compiler must not make any of these loops. */
__attribute__((noreturn, optimize("no-tree-vectorize", "no-tree-loop-distribute-patterns"))) void Reset_Handler(void)
{
  uint32_t *from = &__data_load, *to;

  CPACR |= 0xFu << 20;
  __asm volatile("dsb\n\tisb" ::: "memory");
  for (to = &__data_start; to != &__data_end; ++to, ++from) {
    *to = *from;
  }
  for (to = &__bss_start; to != &__bss_end; ++to) {
    *to = 0;
  }
  (void)main(0, 0);
  for (;;) {
  }
}

/* A debugger finds it here. */
__attribute__((noreturn)) void Fault_Handler(void)
{
  for (;;) {
  }
}
