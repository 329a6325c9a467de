/* uses: load.c TYPE=int16, store.c TYPE=int16, logistic_int16.c */
/* LOGISTIC or TANH of int16, brought to units of 1/12288 by `factor` / 2^shift first. */
static void logistic_int16(const uint8_t* input, uint8_t* output, size_t count, int32_t factor, int32_t shift,
                           int is_tanh)
{
    const int64_t half = shift > 0 ? (int64_t)1 << (shift - 1) : 0;
    size_t i;

    for (i = 0; i < count; ++i) {
        const int64_t scaled = fixed_floor_shift((int64_t)load_int16(input, i) * factor + half, shift);

        store_int16(output, i, logistic_of((int32_t)scaled, is_tanh));
    }
}
