/* uses: load.c TYPE=TYPE, store.c TYPE=float32 */
/* DEQUANTIZE to float32. From front to back: the input may end where the output does. */
static void dequantise_TYPE(const uint8_t* input, uint8_t* output, size_t count, float scale, int32_t zero)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        store_float32(output, i, scale * (float)(load_TYPE(input, i) - zero));
    }
}
