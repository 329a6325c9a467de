/* uses: fixed_high_mul.c, fixed_round_shift.c, fixed_saturate.c, fixed_reciprocal.c */
/* Leading zeros of a positive number of 32 bits. */
static int32_t fixed_zeros(int32_t value)
{
    int32_t zeros = 0;

    while (!(((uint32_t)value << zeros) & 0x80000000u)) {
        ++zeros;
    }
    return zeros;
}

/* The natural logarithm in Q5.26 of 1 or more in Q12.19. Constants are Q0.31. */
static int32_t fixed_logarithm(int32_t total)
{
    const int32_t root_half = 1518500250;
    const int32_t fourth_root_half = 1805811301;
    const int32_t quarter = (int32_t)1 << 23; /* Q6.25 */
    const int32_t zeros = fixed_zeros(total);
    const int32_t headroom = fixed_zeros(fixed_high_mul(total, root_half)) - 1;
    const int32_t first = fixed_saturate(
        fixed_high_mul((int32_t)((int64_t)total * ((int64_t)1 << (zeros > 0 ? zeros - 1 : 0))), root_half), 1);
    const int32_t second = fixed_saturate(total, headroom);
    const int32_t r = first < second ? first : second;
    const int32_t by_zeros = (12 - zeros) * ((int32_t)1 << 25) + quarter;
    const int32_t by_headroom = (12 - headroom) * ((int32_t)1 << 25) - quarter;
    const int32_t power = by_zeros > by_headroom ? by_zeros : by_headroom;
    const int32_t p = (int32_t)(((int64_t)r + fourth_root_half + 1) / 2);
    const int32_t q = 2 * (r - fourth_root_half);
    const int32_t square = fixed_high_mul(q, q);
    const int32_t numerator = fixed_high_mul(q, r) + fixed_high_mul(fixed_high_mul(q, square), 117049297);
    const int32_t denominator =
        fixed_high_mul(p, 1057819769 + q + fixed_high_mul(square, 127690142)) + fixed_high_mul(q, 638450708);
    const int32_t scaled = fixed_high_mul(fixed_round_shift(numerator, 6), fixed_reciprocal(denominator));

    return fixed_saturate((int64_t)fixed_high_mul(power, 1488522236) + scaled, 1);
}
