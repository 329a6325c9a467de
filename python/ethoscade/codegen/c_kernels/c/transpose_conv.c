/* uses: load.c TYPE=TYPE, load.c TYPE=WEIGHT, store.c TYPE=TYPE, sumSUM.c, fixed_clamp.c */
/* TRANSPOSE_CONV of NHWC tensors, weights OHWI. Each output sums over the input pixels whose kernels reach it.
 *
 * shapes: input 4, weights 4, output 4. window: strides (height, width), dilations, which are 1, padding at the top
 * and left. stage: zero points of input, weights and output, smallest and largest result. Output channel c has the
 * factor number c * channel_step.
 */
static void transpose_conv_TYPE_SUM(const uint8_t* input, const uint8_t* weights, const uint8_t* bias, uint8_t* output,
                                    const int32_t* shapes, const int32_t* window, const int32_t* stage,
                                    const int32_t* multipliers, const int32_t* shifts, size_t channel_step)
{
    const int32_t height = shapes[1];
    const int32_t width = shapes[2];
    const int32_t kernel_height = shapes[5];
    const int32_t kernel_width = shapes[6];
    const size_t depth = (size_t)shapes[3];
    const size_t channels = (size_t)shapes[11];
    int32_t n;
    int32_t row;
    int32_t column;
    size_t c;

    for (n = 0; n < shapes[8]; ++n) {
        for (row = 0; row < shapes[9]; ++row) {
            for (column = 0; column < shapes[10]; ++column) {
                for (c = 0; c < channels; ++c) {
                    sumSUM sum = sumSUM_bias(bias, c);
                    int32_t ky;
                    int32_t kx;
                    size_t i;

                    for (ky = 0; ky < kernel_height; ++ky) {
                        const int32_t down = row + window[4] - ky;
                        const int32_t y = down / window[0];

                        if (down < 0 || down % window[0] != 0 || y >= height) {
                            continue;
                        }
                        for (kx = 0; kx < kernel_width; ++kx) {
                            const int32_t right = column + window[5] - kx;
                            const int32_t x = right / window[1];
                            const size_t pixel = ((size_t)n * (size_t)height + (size_t)y) * (size_t)width + (size_t)x;
                            const size_t tap = (c * (size_t)kernel_height + (size_t)ky) * (size_t)kernel_width + (size_t)kx;

                            if (right < 0 || right % window[1] != 0 || x >= width) {
                                continue;
                            }
                            for (i = 0; i < depth; ++i) {
                                sum = sumSUM_add(sum, load_TYPE(input, pixel * depth + i) - stage[0],
                                                 load_WEIGHT(weights, tap * depth + i) - stage[1]);
                            }
                        }
                    }
                    store_TYPE(output, 0,
                               fixed_clamp((int64_t)sumSUM_scaled(sum, multipliers[c * channel_step],
                                                                  shifts[c * channel_step]) + stage[2],
                                           stage[3], stage[4]));
                    output += sizeof(STORED);
                }
            }
        }
    }
}
