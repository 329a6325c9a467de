/* uses: load.c TYPE=TYPE, store.c TYPE=TYPE, fixed_clamp.c */
#include <math.h>

/* SQRT in float32, without what is behind the point. Kernels end the inference below zero; here the root is 0. */
static void square_root_TYPE(const uint8_t* input, uint8_t* output, size_t count, int32_t zero, int32_t output_zero,
                             float scale, float output_scale)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        const int32_t value = load_TYPE(input, i) - zero;
        float units = sqrtf((float)(value > 0 ? value : 0) * scale) / output_scale;

        /* Beyond this every result saturates. */
        units = units < 131072.0f ? units : 131072.0f;
        store_TYPE(output, i, fixed_clamp((int64_t)units + output_zero, LEAST, MOST));
    }
}
