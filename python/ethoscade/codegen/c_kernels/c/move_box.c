/* Copies boxes of any elements, `run` bytes at a time: sizes of `rank` dimensions, and for each of them how many bytes
 * the input and the output go on, the input perhaps backwards. */
static void move_box(const uint8_t* input, uint8_t* output, int32_t rank, const int32_t* sizes, const int32_t* strides,
                     size_t run)
{
    int32_t count = 1;
    int32_t number;
    int32_t d;

    for (d = 0; d < rank; ++d) {
        count *= sizes[d];
    }
    for (number = 0; number < count; ++number) {
        ptrdiff_t from = 0;
        ptrdiff_t to = 0;
        int32_t rest = number;

        for (d = rank - 1; d >= 0; --d) {
            from += (ptrdiff_t)(rest % sizes[d]) * strides[2 * d];
            to += (ptrdiff_t)(rest % sizes[d]) * strides[2 * d + 1];
            rest /= sizes[d];
        }
        memcpy(output + to, input + from, run);
    }
}
