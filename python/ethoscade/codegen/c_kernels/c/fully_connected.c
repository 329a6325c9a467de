/* uses: load.c TYPE=TYPE, load.c TYPE=WEIGHT, store.c TYPE=TYPE, sumSUM.c, fixed_clamp.c */
/* FULLY_CONNECTED: `rows` of `depth` values by weights (channels, depth).
 *
 * stage: zero points of input, weights and output, smallest and largest result. Output channel c has the factor
 * number c * channel_step.
 */
static void fully_connected_TYPE_SUM(const uint8_t* input, const uint8_t* weights, const uint8_t* bias, uint8_t* output,
                                     size_t rows, size_t depth, size_t channels, const int32_t* stage,
                                     const int32_t* multipliers, const int32_t* shifts, size_t channel_step)
{
    size_t row;
    size_t c;
    size_t i;

    for (row = 0; row < rows; ++row) {
        for (c = 0; c < channels; ++c) {
            sumSUM sum = sumSUM_bias(bias, c);

            for (i = 0; i < depth; ++i) {
                sum = sumSUM_add(sum, load_TYPE(input, row * depth + i) - stage[0],
                                 load_WEIGHT(weights, c * depth + i) - stage[1]);
            }
            store_TYPE(output, row * channels + c,
                       fixed_clamp((int64_t)sumSUM_scaled(sum, multipliers[c * channel_step], shifts[c * channel_step]) +
                                       stage[2],
                                   stage[3], stage[4]));
        }
    }
}
