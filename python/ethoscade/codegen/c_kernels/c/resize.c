/* RESIZE_NEAREST_NEIGHBOR: `rows` and `columns` say which pixel of the input each pixel of the output is. */
static void resize_nearest(const uint8_t* input, uint8_t* output, int32_t batches, int32_t input_rows,
                           int32_t input_columns, size_t pixel_bytes, const int32_t* rows, int32_t row_count,
                           const int32_t* columns, int32_t column_count)
{
    int32_t batch;
    int32_t row;
    int32_t column;

    for (batch = 0; batch < batches; ++batch) {
        for (row = 0; row < row_count; ++row) {
            const uint8_t* line =
                input + ((size_t)batch * (size_t)input_rows + (size_t)rows[row]) * (size_t)input_columns * (size_t)pixel_bytes;
            for (column = 0; column < column_count; ++column) {
                memcpy(output, line + (size_t)columns[column] * (size_t)pixel_bytes, (size_t)pixel_bytes);
                output += pixel_bytes;
            }
        }
    }
}
