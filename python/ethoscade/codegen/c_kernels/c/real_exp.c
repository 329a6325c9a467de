#include <math.h>

/* The C library's, whose last bit is each library's own. */
static float real_exp(float value, const float* stage)
{
    (void)stage;
    return expf(value);
}
