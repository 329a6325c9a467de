/* PAD of a tensor of `rank` dimensions with an element `fill`: the frame first, then the input's innermost rows. */
static void pad_tensor(const uint8_t* input, uint8_t* output, int32_t rank, const int32_t* input_shape,
                       const int32_t* before, const int32_t* output_shape, size_t element_bytes, const uint8_t* fill)
{
    size_t count = 1;
    const size_t row_bytes = (size_t)input_shape[rank - 1] * element_bytes;
    size_t i;
    int32_t rows = 1;
    int32_t row;
    int32_t d;

    for (d = 0; d < rank; ++d) {
        count *= (size_t)output_shape[d];
    }
    for (d = 0; d < rank - 1; ++d) {
        rows *= input_shape[d];
    }
    for (i = 0; i < count * element_bytes; ++i) {
        output[i] = fill[i % element_bytes];
    }
    for (row = 0; row < rows; ++row) {
        size_t place = (size_t)before[rank - 1];
        size_t stride = (size_t)output_shape[rank - 1];
        int32_t rest = row;

        for (d = rank - 2; d >= 0; --d) {
            place += ((size_t)(rest % input_shape[d]) + (size_t)before[d]) * stride;
            stride *= (size_t)output_shape[d];
            rest /= input_shape[d];
        }
        memcpy(output + place * element_bytes, input + (size_t)row * row_bytes, row_bytes);
    }
}
