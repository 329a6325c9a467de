/* MIRROR_PAD of a tensor of `rank` dimensions, `element_bytes` at a time. What lies beyond an edge is what lies as far
 * within it: `offset` 1 leaves the outermost elements out, 0 takes them too. */
static void mirror_pad(const uint8_t* input, uint8_t* output, int32_t rank, const int32_t* input_shape,
                       const int32_t* before, const int32_t* output_shape, size_t element_bytes, int32_t offset)
{
    int32_t count = 1;
    int32_t number;
    int32_t d;

    for (d = 0; d < rank; ++d) {
        count *= output_shape[d];
    }
    for (number = 0; number < count; ++number) {
        size_t place = 0;
        size_t stride = 1;
        int32_t rest = number;

        for (d = rank - 1; d >= 0; --d) {
            int32_t at = rest % output_shape[d] - before[d];

            at = at < 0 ? offset - 1 - at : at;
            at = at >= input_shape[d] ? 2 * input_shape[d] - 1 - offset - at : at;
            place += (size_t)at * stride;
            stride *= (size_t)input_shape[d];
            rest /= output_shape[d];
        }
        memcpy(output + (size_t)number * element_bytes, input + place * element_bytes, element_bytes);
    }
}
