/* An Ethos-U core driver that computes nothing: it checks what it is given and fills region 1 with a pattern. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A line of the cache that a driver would clean and invalidate. */
#ifndef STUB_LINE_BYTES
#define STUB_LINE_BYTES 32
#endif

struct ethosu_driver {
    int reserved;
};

static struct ethosu_driver only_driver;

struct ethosu_driver* ethosu_reserve_driver(void)
{
    if (only_driver.reserved || getenv("STUB_NO_DRIVER") != NULL) {
        return NULL;
    }
    only_driver.reserved = 1;
    return &only_driver;
}

void ethosu_release_driver(struct ethosu_driver* drv)
{
    drv->reserved = 0;
}

int ethosu_invoke_v3(struct ethosu_driver* drv, const void* custom_data_ptr, const int custom_data_size,
                     uint64_t* const base_addr, const size_t* base_addr_size, const int num_base_addr, void* user_arg)
{
    int i;

    if (getenv("STUB_FAIL") != NULL) {
        return -1;
    }
    if (getenv("STUB_CRASH") != NULL) {
        abort();
    }
    if (drv == NULL ? getenv("STUB_CHOOSES") == NULL : !drv->reserved) {
        return -6;
    }
    if (user_arg != NULL || num_base_addr != 3 || base_addr[2] != base_addr[1]) {
        return -2;
    }
    if (memcmp(custom_data_ptr, "COP1", 4) != 0 || custom_data_size % 4 != 0 || (uintptr_t)custom_data_ptr % 16 != 0) {
        return -3;
    }
    for (i = 0; i < num_base_addr; ++i) {
        if (base_addr[i] % STUB_LINE_BYTES != 0 || base_addr_size[i] % STUB_LINE_BYTES != 0) {
            return -4;
        }
    }
    /* Each byte of the arena becomes its old value plus the first byte of the constants. */
    for (i = 0; i < (int)base_addr_size[1]; ++i) {
        ((uint8_t*)(uintptr_t)base_addr[1])[i] += ((const uint8_t*)(uintptr_t)base_addr[0])[0];
    }
    return 0;
}
