/* uses: load.c TYPE=float32, store.c TYPE=TYPE, fixed_clamp.c */
/* QUANTIZE from float32: round(value / scale) + zero point, ties away from zero. From front to back, as the output may
 * begin where the input does. */
static void quantise_TYPE(const uint8_t* input, uint8_t* output, size_t count, float scale, int32_t zero)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        float value = load_float32(input, i) / scale;
        float fraction;
        int32_t result;

        /* Beyond these every result saturates; the first test also catches what is not a number. */
        value = value > -131072.0f ? value : -131072.0f;
        value = value < 131072.0f ? value : 131072.0f;
        result = (int32_t)value;
        fraction = value - (float)result;
        result += fraction >= 0.5f ? 1 : fraction <= -0.5f ? -1 : 0;
        store_TYPE(output, i, fixed_clamp((int64_t)result + zero, LEAST, MOST));
    }
}
