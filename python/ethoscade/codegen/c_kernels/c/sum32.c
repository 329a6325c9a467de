/* uses: load.c TYPE=int32, fixed_multiply.c */
/* Sums of products in 32 bits, which wrap. */
typedef uint32_t sum32;

static sum32 sum32_bias(const uint8_t* bias, size_t channel)
{
    return bias == NULL ? 0 : (sum32)load_int32(bias, channel);
}

static sum32 sum32_add(sum32 sum, int32_t a, int32_t b)
{
    return sum + (sum32)(a * b);
}

static int32_t sum32_scaled(sum32 sum, int32_t multiplier, int32_t shift)
{
    return fixed_multiply(fixed_wrap(sum), multiplier, shift);
}
