/* uses: load.c TYPE=TYPE, store.c TYPE=TYPE, fixed_clamp.c */
/* AVERAGE_POOL_2D, or MAX_POOL_2D, of NHWC tensors; the padding takes no part.
 *
 * window: kernel, strides (height, width), padding at the top and left.
 */
static void pool_TYPE(const uint8_t* input, uint8_t* output, const int32_t* input_shape, const int32_t* output_shape,
                      const int32_t* window, int is_average, int32_t smallest, int32_t largest)
{
    const int32_t height = input_shape[1];
    const int32_t width = input_shape[2];
    const size_t depth = (size_t)input_shape[3];
    int32_t n;
    int32_t row;
    int32_t column;
    size_t c;

    for (n = 0; n < output_shape[0]; ++n) {
        for (row = 0; row < output_shape[1]; ++row) {
            for (column = 0; column < output_shape[2]; ++column) {
                for (c = 0; c < depth; ++c) {
                    int32_t total = is_average ? 0 : INT32_MIN;
                    int32_t count = 0;
                    int32_t ky;
                    int32_t kx;

                    for (ky = 0; ky < window[0]; ++ky) {
                        const int32_t y = row * window[2] - window[4] + ky;

                        for (kx = 0; y >= 0 && y < height && kx < window[1]; ++kx) {
                            const int32_t x = column * window[3] - window[5] + kx;

                            if (x >= 0 && x < width) {
                                const size_t pixel =
                                    ((size_t)n * (size_t)height + (size_t)y) * (size_t)width + (size_t)x;
                                const int32_t value = load_TYPE(input, pixel * depth + c);
                                total = is_average ? total + value : value > total ? value : total;
                                ++count;
                            }
                        }
                    }
                    if (is_average && count > 0) {
                        total = total > 0 ? (total + count / 2) / count : (total - count / 2) / count;
                    }
                    store_TYPE(output, 0, fixed_clamp(total, smallest, largest));
                    output += sizeof(STORED);
                }
            }
        }
    }
}
