#include <math.h>

/* Root and quotient are rounded as IEEE 754 says: all machines agree. */
static float real_rsqrt(float value, const float* stage)
{
    (void)stage;
    return 1.0f / sqrtf(value);
}
