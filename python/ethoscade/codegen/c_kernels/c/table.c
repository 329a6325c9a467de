/* A function of one byte: its result for each of 256. From front to back, so that output and input may be one. */
static void table_8bit(const uint8_t* input, uint8_t* output, size_t count, const uint8_t* results)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        output[i] = results[input[i]];
    }
}
