/* uses: load.c TYPE=TYPE, store.c TYPE=TYPE, load.c TYPE=int32, fixed_wrap.c, fixed_clamp.c */
/* FULLY_CONNECTED whose kernels multiply by `factor` in double and round once, halves away from zero: that of uint8.
 *
 * stage: zero points of input, weights and output, smallest and largest result.
 */
static void fully_connected_once_TYPE(const uint8_t* input, const uint8_t* weights, const uint8_t* bias,
                                      uint8_t* output, size_t rows, size_t depth, size_t channels,
                                      const int32_t* stage, double factor)
{
    size_t row;
    size_t c;
    size_t i;

    for (row = 0; row < rows; ++row) {
        for (c = 0; c < channels; ++c) {
            uint32_t sum = bias == NULL ? 0 : (uint32_t)load_int32(bias, c);
            /* Volatile, so that no compiler makes one operation of the product and what follows. */
            volatile double product;
            double fraction;
            int32_t result;

            for (i = 0; i < depth; ++i) {
                sum += (uint32_t)((load_TYPE(input, row * depth + i) - stage[0]) *
                                  (load_TYPE(weights, c * depth + i) - stage[1]));
            }
            product = (double)fixed_wrap(sum) * factor;
            /* Beyond these every result saturates. */
            product = product > 65536.0 ? 65536.0 : product < -65536.0 ? -65536.0 : product;
            result = (int32_t)product;
            fraction = product - (double)result;
            result += fraction >= 0.5 ? 1 : fraction <= -0.5 ? -1 : 0;
            store_TYPE(output, row * channels + c, fixed_clamp((int64_t)result + stage[2], stage[3], stage[4]));
        }
    }
}
