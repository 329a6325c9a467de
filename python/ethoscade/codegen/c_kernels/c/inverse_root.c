/* uses: fixed_wrap.c, fixed_high_mul.c, fixed_round_shift.c, fixed_saturate.c */
/* One over the root of a sum: a significand below 2^31 and a shift to the right, by Newton's steps in Q3.28. */
static int32_t inverse_root(int32_t total, int32_t* shift)
{
    const int32_t three_halves = (int32_t)3 << 27;
    const int32_t half_root_of_two = 1518500250; /* Q0.31 */
    int32_t x = (int32_t)1 << 28;
    int32_t pairs = 0;
    int32_t half;
    int step;

    *shift = 0;
    if (total <= 1) {
        return INT32_MAX;
    }
    *shift = 11;
    while (total >= (int32_t)1 << 29) {
        total /= 4;
        ++*shift;
    }
    while (total < (int32_t)1 << 27) {
        total *= 4;
        ++pairs;
    }
    half = fixed_round_shift(total / 2, 1);
    for (step = 0; step < 5; ++step) {
        const int32_t cube = fixed_saturate(fixed_high_mul(fixed_high_mul(x, x), x), 6);
        x = fixed_saturate((int64_t)fixed_high_mul(x, three_halves) - fixed_high_mul(half, cube), 3);
    }
    x = fixed_high_mul(x, half_root_of_two);
    *shift -= pairs;
    if (*shift < 0) {
        x = fixed_wrap((uint32_t)x << -*shift);
        *shift = 0;
    }
    return x;
}
