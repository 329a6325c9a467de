/* uses: load.c TYPE=FROM, store.c TYPE=INTO, fixed_multiply.c, fixed_clamp.c */
/* Integers times a factor, one for what is above the zero point and one for what is below, each with its shift.
 *
 * stage: zero points of input and output, smallest and largest result, factor and shift above, factor and shift below.
 */
static void rescale_FROM_INTO(const uint8_t* input, uint8_t* output, size_t count, const int32_t* stage)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        const int32_t value = load_FROM(input, i) - stage[0];
        const int32_t* factor = stage + (value >= 0 ? 4 : 6);

        store_INTO(output, i,
                   fixed_clamp((int64_t)fixed_multiply(value, factor[0], factor[1]) + stage[1], stage[2], stage[3]));
    }
}
