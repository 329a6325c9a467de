/* uses: fixed_high_mul.c, fixed_saturate.c */
/* 1 / (1 + a) for a in [0, 1), Q0.31: Newton's method on the halved denominator, three steps. */
static int32_t fixed_reciprocal(int32_t a)
{
    const int32_t half_denominator = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + fixed_high_mul(half_denominator, -1010580540); /* 48/17 - 32/17 * d, Q2.29 */
    int step;

    for (step = 0; step < 3; ++step) {
        const int32_t error = ((int32_t)1 << 29) - fixed_high_mul(half_denominator, x);
        x += fixed_saturate(fixed_high_mul(x, error), 2);
    }
    return fixed_saturate(x, 1);
}
