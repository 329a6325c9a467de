#include <math.h>

/* Rounded as IEEE 754 says: all machines agree. */
static float real_sqrt(float value, const float* stage)
{
    (void)stage;
    return sqrtf(value);
}
