/* uses: load.c TYPE=int16, store.c TYPE=int16, fixed_floor_shift.c */
/* A function of int16 by 513 samples, 128 inputs apart: LiteRT's look-up with interpolation. */
static void interpolate_int16(const uint8_t* input, uint8_t* output, size_t count, const int16_t* samples)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        const int32_t place = load_int16(input, i) + 32768;
        const int32_t base = samples[place / 128];
        const int32_t step = samples[place / 128 + 1] - base;

        store_int16(output, i, base + (int32_t)fixed_floor_shift(step * (place % 128) + 64, 7));
    }
}
