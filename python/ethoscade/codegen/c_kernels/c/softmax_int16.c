/* uses: load.c TYPE=int16, store.c TYPE=int16, fixed_multiply.c, fixed_floor_shift.c, fixed_clamp.c */
/* Between two of 513 samples, 128 apart. */
static int32_t softmax_looked_up(int32_t value, const int16_t* samples)
{
    const int32_t place = value + 32768;
    const int32_t base = samples[place / 128];

    return base + (int32_t)fixed_floor_shift((samples[place / 128 + 1] - base) * (place % 128) + 64, 7);
}

/* SOFTMAX over rows of int16: exponentials and a reciprocal by samples. Q0.15. */
static void softmax_int16(const uint8_t* input, uint8_t* output, size_t rows, size_t depth, int32_t multiplier,
                          int32_t shift, const int16_t* exponentials, const int16_t* reciprocals)
{
    size_t row;
    size_t c;

    for (row = 0; row < rows; ++row) {
        int32_t largest = INT32_MIN;
        int64_t sum = 0;
        int32_t zeros = 0;
        int32_t place;
        int32_t inverse;

        for (c = 0; c < depth; ++c) {
            const int32_t value = load_int16(input, row * depth + c);
            largest = value > largest ? value : largest;
        }
        for (c = 0; c < depth; ++c) {
            const int32_t down = fixed_multiply(load_int16(input, row * depth + c) - largest, multiplier, shift);
            const int32_t power = softmax_looked_up(fixed_clamp((int64_t)down + 32767, -32768, 32767), exponentials);

            sum += power;
        }
        while (!((((uint32_t)sum) << zeros) & 0x80000000u)) {
            ++zeros;
        }
        /* The sum between 1 and 2, less 1, from the smallest int16 on. */
        place = fixed_clamp((int64_t)((((uint32_t)sum << zeros >> 1) + (1u << 13)) >> 14) - 32768 - 65536, -32768, 32767);
        inverse = softmax_looked_up(place, reciprocals);
        for (c = 0; c < depth; ++c) {
            const int32_t down = fixed_multiply(load_int16(input, row * depth + c) - largest, multiplier, shift);
            const int32_t power = softmax_looked_up(fixed_clamp((int64_t)down + 32767, -32768, 32767), exponentials);
            const int32_t right = 31 - zeros;
            const int64_t product = (int64_t)power * inverse + ((int64_t)1 << (right - 1));

            store_int16(output, row * depth + c, fixed_clamp(fixed_floor_shift(product, right), 0, 32767));
        }
    }
}
