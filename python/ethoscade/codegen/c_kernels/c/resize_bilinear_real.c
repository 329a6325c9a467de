/* uses: load.c TYPE=TYPE, store.c TYPE=TYPE, real_times.c, bilinear_real_place.c, WORK.c */
/* RESIZE_BILINEAR of NHWC tensors in float32. steps: how far rows and columns of the output are apart; `half` is 1/2
 * if pixels are taken at their centres, else 0. */
static void resize_bilinear_TYPE(const uint8_t* input, uint8_t* output, const int32_t* input_shape,
                                 const int32_t* output_shape, const float* steps, float half)
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
            const float down = bilinear_real_place(row, steps[0], half, height, &y0, &y1);

            for (column = 0; column < output_shape[2]; ++column) {
                int32_t x0;
                int32_t x1;
                const float right = bilinear_real_place(column, steps[1], half, width, &x0, &x1);
                const size_t upper = ((size_t)n * (size_t)height + (size_t)y0) * (size_t)width;
                const size_t lower = ((size_t)n * (size_t)height + (size_t)y1) * (size_t)width;

                for (c = 0; c < depth; ++c) {
                    const float a = (float)load_TYPE(input, (upper + (size_t)x0) * depth + c);
                    const float b = (float)load_TYPE(input, (lower + (size_t)x0) * depth + c);
                    const float d = (float)load_TYPE(input, (upper + (size_t)x1) * depth + c);
                    const float e = (float)load_TYPE(input, (lower + (size_t)x1) * depth + c);

                    store_TYPE(output, 0, WORK(real_times(real_times(a, 1.0f - down), 1.0f - right) +
                                               real_times(real_times(b, down), 1.0f - right) +
                                               real_times(real_times(d, 1.0f - down), right) +
                                               real_times(real_times(e, down), right)));
                    output += sizeof(STORED);
                }
            }
        }
    }
}
