/* Copies boxes of bytes, each byte's result by a table of 256: sizes of `rank` dimensions, and for each of them how many
 * bytes the input and the output go on. */
static void move_by_table(const uint8_t* input, uint8_t* output, int32_t rank, const int32_t* sizes,
                          const int32_t* strides, size_t run, const uint8_t* results)
{
    int32_t count = 1;
    int32_t number;
    int32_t d;
    size_t i;

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
        for (i = 0; i < run; ++i) {
            output[to + (ptrdiff_t)i] = results[input[from + (ptrdiff_t)i]];
        }
    }
}
