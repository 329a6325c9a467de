/* DEQUANTIZE from 8 bits to float32. `sign` is 128 for int8 and 0 for uint8. */
static void dequantise_8bit(const uint8_t* input, uint8_t* output, int32_t count, float scale, int32_t zero,
                            int32_t sign)
{
    int32_t i;

    for (i = 0; i < count; ++i) {
        const float value = scale * (float)((int32_t)(input[i] ^ (uint8_t)sign) - sign - zero);
        memcpy(output + 4 * (size_t)i, &value, sizeof value);
    }
}
