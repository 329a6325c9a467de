/* uses: load.c TYPE=int64, fixed_wrap.c, fixed_floor_shift.c */
/* Sums of products in 64 bits. Factors have 15 bits (`multiplier` / 2^15), shifts are -31..14. */
typedef int64_t sum64;

static sum64 sum64_bias(const uint8_t* bias, size_t channel)
{
    return bias == NULL ? 0 : load_int64(bias, channel);
}

static sum64 sum64_add(sum64 sum, int32_t a, int32_t b)
{
    return sum + (int64_t)a * b;
}

static int32_t sum64_scaled(sum64 sum, int32_t multiplier, int32_t shift)
{
    const int32_t right = 15 - shift;

    return fixed_wrap((uint32_t)(uint64_t)fixed_floor_shift(sum * multiplier + ((int64_t)1 << (right - 1)), right));
}
