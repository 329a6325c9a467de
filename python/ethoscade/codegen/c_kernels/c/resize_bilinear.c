/* uses: load.c TYPE=TYPE, store.c TYPE=TYPE, bilinear_place.c, fixed_clamp.c */
/* RESIZE_BILINEAR of NHWC tensors in fixed point. steps: how far rows and columns of the output are apart, where the
 * first ones lie, in 1/1024 of the input's. */
static void resize_bilinear_TYPE(const uint8_t* input, uint8_t* output, const int32_t* input_shape,
                                 const int32_t* output_shape, const int32_t* steps)
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
            int32_t y0;
            int32_t y1;
            const int32_t down = bilinear_place(row, steps[0], steps[2], height, &y0, &y1);

            for (column = 0; column < output_shape[2]; ++column) {
                int32_t x0;
                int32_t x1;
                const int32_t right = bilinear_place(column, steps[1], steps[3], width, &x0, &x1);
                const size_t upper = ((size_t)n * (size_t)height + (size_t)y0) * (size_t)width;
                const size_t lower = ((size_t)n * (size_t)height + (size_t)y1) * (size_t)width;

                for (c = 0; c < depth; ++c) {
                    const int64_t left_sum = (int64_t)load_TYPE(input, (upper + (size_t)x0) * depth + c) * (1024 - down) +
                                             (int64_t)load_TYPE(input, (lower + (size_t)x0) * depth + c) * down;
                    const int64_t right_sum = (int64_t)load_TYPE(input, (upper + (size_t)x1) * depth + c) * (1024 - down) +
                                              (int64_t)load_TYPE(input, (lower + (size_t)x1) * depth + c) * down;
                    const int64_t sum = left_sum * (1024 - right) + right_sum * right;
                    const int64_t half = (int64_t)1 << 19;

                    store_TYPE(output, 0, fixed_clamp((sum + (sum > 0 ? half : -half)) / ((int64_t)1 << 20), LEAST, MOST));
                    output += sizeof(STORED);
                }
            }
        }
    }
}
