/* uses: load.c TYPE=FROM, store.c TYPE=INTO, fixed_multiply.c, fixed_clamp.c */
/* Integers times a factor, one for what is above the zero point and one for what is below, each with its shift.
 *
 * stage: zero points of input and output, smallest and largest result, factor and shift above, factor and shift below,
 * sign of the rounded product below.
 */
static void rescale_FROM_INTO(const uint8_t* input, uint8_t* output, size_t count, const int32_t* stage)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        const int32_t value = load_FROM(input, i) - stage[0];
        const int64_t scaled = value >= 0 ? fixed_multiply(value, stage[4], stage[5])
                                          : (int64_t)fixed_multiply(value, stage[6], stage[7]) * stage[8];

        store_INTO(output, i, fixed_clamp(scaled + stage[1], stage[2], stage[3]));
    }
}
