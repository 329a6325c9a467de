/* uses: load.c TYPE=TYPE, load.c TYPE=OTHER, store.c TYPE=TYPE, WORK.c TYPE=TYPE */
/* WORK of two operands, the smaller one repeated. sizes: of `rank` dimensions, the last one counting fastest. strides:
 * for each dimension by how many elements the first and the second operand go on, 0 where one repeats. */
static void WORK_TYPE_OTHER(const uint8_t* first, const uint8_t* second, uint8_t* output, int32_t rank,
                            const int32_t* sizes, const int32_t* strides, const VALUE* stage)
{
    const int32_t length = sizes[rank - 1];
    const size_t step_a = (size_t)strides[2 * rank - 2];
    const size_t step_b = (size_t)strides[2 * rank - 1];
    int32_t rows = 1;
    int32_t row;
    int32_t i;
    int32_t d;

    for (d = 0; d < rank - 1; ++d) {
        rows *= sizes[d];
    }
    for (row = 0; row < rows; ++row) {
        size_t a = 0;
        size_t b = 0;
        int32_t rest = row;

        for (d = rank - 2; d >= 0; --d) {
            a += (size_t)(rest % sizes[d]) * (size_t)strides[2 * d];
            b += (size_t)(rest % sizes[d]) * (size_t)strides[2 * d + 1];
            rest /= sizes[d];
        }
        for (i = 0; i < length; ++i) {
            store_TYPE(output, 0, WORK_of_TYPE(load_TYPE(first, a), load_OTHER(second, b), stage));
            output += sizeof(STORED);
            a += step_a;
            b += step_b;
        }
    }
}
