/* uses: fixed_high_mul.c, fixed_round_shift.c, fixed_reciprocal.c, fixed_bits.c, fixed_clamp.c */
/* DIV by a reciprocal in fixed point. stage: both zero points, the output's, smallest and largest result, factor and
 * shift of quotients. Kernels end the inference at a divisor of 0; here the quotient is the largest with its sign. */
static int32_t divide_of_TYPE(int32_t a, int32_t b, const int32_t* stage)
{
    int32_t dividend = a - stage[0];
    int32_t divisor = b - stage[1];
    int32_t over_one;
    int32_t headroom;
    int32_t right;
    int32_t quotient;

    if (divisor == 0) {
        return dividend < 0 ? stage[3] : stage[4];
    }
    if (divisor < 0) {
        dividend = -dividend;
        divisor = -divisor;
    }
    over_one = fixed_bits(divisor) - 1;
    headroom = 31 - fixed_bits(dividend < 0 ? -dividend - 1 : dividend);
    right = headroom + over_one - stage[6];
    right = right < 0 ? 0 : right > 31 ? 31 : right;
    quotient = fixed_high_mul((int32_t)((int64_t)dividend * ((int64_t)1 << headroom)),
                              fixed_reciprocal((int32_t)(((int64_t)divisor << (31 - over_one)) - ((int64_t)1 << 31))));
    return fixed_clamp((int64_t)fixed_round_shift(fixed_high_mul(quotient, stage[5]), right) + stage[2], stage[3],
                       stage[4]);
}
