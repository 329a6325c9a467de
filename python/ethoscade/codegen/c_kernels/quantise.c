/* QUANTIZE from float32 to 8 bits: round(value / scale) + zero point, ties away from zero. `sign` is 128
 * for int8 and 0 for uint8. */
static void quantise_8bit(const uint8_t* input, uint8_t* output, int32_t count, float scale, int32_t zero, int32_t sign)
{
    int32_t i;

    for (i = 0; i < count; ++i) {
        float value;
        float fraction;
        int32_t result;

        memcpy(&value, input + 4 * (size_t)i, sizeof value);
        value /= scale;
        /* Beyond these every result saturates; the first test also catches what is not a number. */
        value = value > -1024.0f ? value : -1024.0f;
        value = value < 1024.0f ? value : 1024.0f;
        result = (int32_t)value;
        fraction = value - (float)result;
        result += fraction >= 0.5f ? 1 : fraction <= -0.5f ? -1 : 0;
        result += zero + sign;
        result = result < 0 ? 0 : result > 255 ? 255 : result;
        output[i] = (uint8_t)((uint8_t)result ^ (uint8_t)sign);
    }
}
