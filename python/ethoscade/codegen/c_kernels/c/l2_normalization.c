/* uses: load.c TYPE=TYPE, store.c TYPE=TYPE, fixed_multiply.c, inverse_root.c, fixed_clamp.c */
/* L2_NORMALIZATION over rows, in units of 1/128. `raise_first` says that values are raised by 7 bits ahead of the
 * product, as the kernel of uint8 does, and not together with the root's shift. */
static void l2_normalization_TYPE(const uint8_t* input, uint8_t* output, size_t rows, size_t depth, int32_t zero,
                                  int raise_first, int32_t result_zero, int32_t lowest, int32_t highest)
{
    size_t row;
    size_t c;

    for (row = 0; row < rows; ++row) {
        int32_t total = 0;
        int32_t factor;
        int32_t shift;

        for (c = 0; c < depth; ++c) {
            const int32_t value = load_TYPE(input, row * depth + c) - zero;
            total += value * value;
        }
        factor = inverse_root(total, &shift);
        for (c = 0; c < depth; ++c) {
            const int32_t value = load_TYPE(input, row * depth + c) - zero;
            const int32_t result = raise_first ? fixed_round_shift(fixed_high_mul(128 * value, factor), shift)
                                               : fixed_multiply(value, factor, 7 - shift);

            store_TYPE(output, row * depth + c, fixed_clamp((int64_t)result + result_zero, lowest, highest));
        }
    }
}
