/* uses: fixed_high_mul.c, fixed_round_shift.c, fixed_saturate.c */
/* exp(x) for x in [-1/4, 0): a Taylor polynomial of degree 4 around -1/8. Q0.31 in and out. */
static int32_t fixed_exp_small(int32_t x)
{
    const int32_t exp_of_centre = 1895147668; /* exp(-1/8) */
    const int32_t one_third = 715827883;
    const int32_t t = x + ((int32_t)1 << 28);
    const int32_t t2 = fixed_high_mul(t, t);
    const int32_t t3 = fixed_high_mul(t2, t);
    const int32_t t4_over_4 = fixed_round_shift(fixed_high_mul(t2, t2), 2);
    const int32_t high_terms = fixed_round_shift(fixed_high_mul(t4_over_4 + t3, one_third) + t2, 1);

    return exp_of_centre + fixed_high_mul(exp_of_centre, t + high_terms);
}

/* exp(x) for x <= 0 in Q5.26; the result is Q0.31. x = a quarter's remainder - sum of powers of two. */
static int32_t fixed_exp(int32_t x)
{
    /* exp(-2^k) for k = -2 .. 4 in Q0.31 */
    static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int32_t quarter = (int32_t)1 << 24;
    const int32_t small = (int32_t)((uint32_t)x & (uint32_t)(quarter - 1)) - quarter;
    const uint32_t rest = (uint32_t)small - (uint32_t)x;
    int32_t result;
    int k;

    if (x == 0) {
        return INT32_MAX;
    }
    result = fixed_exp_small(fixed_saturate(small, 5));
    for (k = 0; k < 7; ++k) {
        if (rest & ((uint32_t)quarter << k)) {
            result = fixed_high_mul(result, factors[k]);
        }
    }
    return result;
}
