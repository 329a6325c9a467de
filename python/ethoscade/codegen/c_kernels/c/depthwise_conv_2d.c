/* uses: load.c TYPE=TYPE, load.c TYPE=WEIGHT, store.c TYPE=TYPE, sumSUM.c, fixed_clamp.c */
/* DEPTHWISE_CONV_2D of NHWC tensors, weights 1HWC: output channel c reads input channel c / (outputs per input).
 *
 * shapes: input 4, weights 4, output 4. window: strides, dilations (height, width), padding at the top and left.
 * stage: zero points of input, weights and output, smallest and largest result. Output channel c has the factor
 * number c * channel_step.
 */
static void depthwise_conv_2d_TYPE_SUM(const uint8_t* input, const uint8_t* weights, const uint8_t* bias,
                                       uint8_t* output, const int32_t* shapes, const int32_t* window,
                                       const int32_t* stage, const int32_t* multipliers, const int32_t* shifts,
                                       size_t channel_step)
{
    const int32_t height = shapes[1];
    const int32_t width = shapes[2];
    const int32_t kernel_height = shapes[5];
    const int32_t kernel_width = shapes[6];
    const size_t channels = (size_t)shapes[11];
    const size_t multiplier = channels / (size_t)shapes[3];
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

                    for (ky = 0; ky < kernel_height; ++ky) {
                        const int32_t y = row * window[0] - window[4] + ky * window[2];

                        for (kx = 0; y >= 0 && y < height && kx < kernel_width; ++kx) {
                            const int32_t x = column * window[1] - window[5] + kx * window[3];
                            const size_t pixel = ((size_t)n * (size_t)height + (size_t)y) * (size_t)width + (size_t)x;
                            const size_t tap = (size_t)ky * (size_t)kernel_width + (size_t)kx;

                            if (x >= 0 && x < width) {
                                sum = sumSUM_add(sum, load_TYPE(input, pixel * (size_t)shapes[3] + c / multiplier) - stage[0],
                                                 load_WEIGHT(weights, tap * channels + c) - stage[1]);
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
