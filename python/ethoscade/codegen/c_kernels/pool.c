/* AVERAGE_POOL_2D and MAX_POOL_2D of 8-bit NHWC tensors; the padding takes no part. `sign` is 128 for int8, else 0. */
struct pool_window {
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
};

static void pool_8bit(const uint8_t* input, uint8_t* output, const int32_t* input_shape, const int32_t* output_shape,
                      struct pool_window window, int is_average, int32_t smallest, int32_t largest, int32_t sign)
{
    const int32_t height = input_shape[1];
    const int32_t width = input_shape[2];
    const int32_t depth = input_shape[3];
    int32_t n;
    int32_t oy;
    int32_t ox;
    int32_t c;

    for (n = 0; n < output_shape[0]; ++n) {
        for (oy = 0; oy < output_shape[1]; ++oy) {
            for (ox = 0; ox < output_shape[2]; ++ox) {
                for (c = 0; c < depth; ++c) {
                    int32_t total = is_average ? 0 : -256;
                    int32_t count = 0;
                    int32_t ky;
                    int32_t kx;

                    for (ky = 0; ky < window.kernel_h; ++ky) {
                        for (kx = 0; kx < window.kernel_w; ++kx) {
                            const int32_t y = oy * window.stride_h - window.pad_top + ky;
                            const int32_t x = ox * window.stride_w - window.pad_left + kx;
                            if (y >= 0 && y < height && x >= 0 && x < width) {
                                const int32_t value =
                                    (int32_t)(input[((n * height + y) * width + x) * depth + c] ^ (uint8_t)sign) - sign;
                                total = is_average ? total + value : value > total ? value : total;
                                ++count;
                            }
                        }
                    }
                    if (is_average && count > 0) {
                        total = total > 0 ? (total + count / 2) / count : (total - count / 2) / count;
                    }
                    total = total < smallest ? smallest : total > largest ? largest : total;
                    *output++ = (uint8_t)((uint8_t)(total + sign) ^ (uint8_t)sign);
                }
            }
        }
    }
}
