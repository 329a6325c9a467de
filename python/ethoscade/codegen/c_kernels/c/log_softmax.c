/* uses: load.c TYPE=TYPE, store.c TYPE=TYPE, fixed_multiply.c, fixed_exp.c, fixed_logarithm.c, fixed_clamp.c */
/* LOG_SOFTMAX over rows of 8-bit values; results are in units of 1/16 below the largest value of the type.
 * `reverse` and `right` bring Q5.26 back to the input's units. */
static void log_softmax_TYPE(const uint8_t* input, uint8_t* output, size_t rows, size_t depth, int32_t multiplier,
                             int32_t shift, int32_t smallest_difference, int32_t reverse, int32_t right, int32_t lowest)
{
    size_t row;
    size_t c;

    for (row = 0; row < rows; ++row) {
        int32_t largest = INT32_MIN;
        int32_t sum = 0;
        int32_t log;
        int32_t least;

        for (c = 0; c < depth; ++c) {
            const int32_t value = load_TYPE(input, row * depth + c);
            largest = value > largest ? value : largest;
        }
        for (c = 0; c < depth; ++c) {
            const int32_t difference = load_TYPE(input, row * depth + c) - largest;

            if (difference >= smallest_difference) {
                sum += fixed_round_shift(fixed_exp(fixed_multiply(difference, multiplier, shift)), 12);
            }
        }
        log = fixed_logarithm(sum);
        least = fixed_multiply((int32_t)((int64_t)log + INT32_MIN), reverse, right);
        least = smallest_difference - 1 > least ? smallest_difference - 1 : least;
        for (c = 0; c < depth; ++c) {
            const int32_t difference = load_TYPE(input, row * depth + c) - largest;
            int32_t value = lowest;

            if (difference > least) {
                const int32_t scaled = fixed_multiply(difference, multiplier, shift);
                value = fixed_clamp((int64_t)fixed_round_shift(fixed_clamp((int64_t)scaled - log, INT32_MIN, INT32_MAX), 22) + lowest + 255, lowest, lowest + 255);
            }
            store_TYPE(output, row * depth + c, value);
        }
    }
}
