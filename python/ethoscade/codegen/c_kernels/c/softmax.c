/* uses: load.c TYPE=FROM, store.c TYPE=INTO, fixed_multiply.c, fixed_exp.c, fixed_reciprocal.c, fixed_clamp.c */
/* SOFTMAX over rows of 8-bit values, the integer definition of TFLite's reference kernel.
 *
 * Differences to the row's maximum are Q5.26, exponentials Q0.31, their sum Q12.19. Results have `bits` bits and are
 * `lowest` more.
 */
static void softmax_FROM_INTO(const uint8_t* input, uint8_t* output, size_t rows, size_t depth, int32_t multiplier,
                              int32_t shift, int32_t smallest_difference, int32_t bits, int32_t lowest)
{
    size_t row;
    size_t c;

    for (row = 0; row < rows; ++row) {
        int32_t largest = INT32_MIN;
        uint32_t sum = 0;
        int32_t scale;
        int32_t headroom = 0;

        for (c = 0; c < depth; ++c) {
            const int32_t value = load_FROM(input, row * depth + c);
            largest = value > largest ? value : largest;
        }
        for (c = 0; c < depth; ++c) {
            const int32_t difference = load_FROM(input, row * depth + c) - largest;

            if (difference >= smallest_difference) {
                sum += (uint32_t)fixed_round_shift(fixed_exp(fixed_multiply(difference, multiplier, shift)), 12);
            }
        }
        /* The largest value's own exponential is 1, so the sum is positive. */
        while (!((sum << headroom) & 0x80000000u)) {
            ++headroom;
        }
        scale = fixed_reciprocal((int32_t)((sum << headroom) - 0x80000000u));
        for (c = 0; c < depth; ++c) {
            const int32_t difference = load_FROM(input, row * depth + c) - largest;
            int32_t value = 0;

            if (difference >= smallest_difference) {
                const int32_t power = fixed_exp(fixed_multiply(difference, multiplier, shift));
                /* 12 integer bits of the sum less its headroom, and 31 fraction bits down to those of the result. */
                const int32_t down = 12 - headroom + 31 - bits;
                value = fixed_round_shift(fixed_high_mul(scale, power), down);
            }
            store_INTO(output, row * depth + c, fixed_clamp((int64_t)value + lowest, lowest, lowest + ((int32_t)1 << bits) - 1));
        }
    }
}
