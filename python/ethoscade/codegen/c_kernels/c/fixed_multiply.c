/* uses: fixed_wrap.c, fixed_high_mul.c, fixed_round_shift.c */
/* value * multiplier * 2^(shift - 31), shift -31..31: to the left first, which wraps, or to the right at the end. */
static int32_t fixed_multiply(int32_t value, int32_t multiplier, int32_t shift)
{
    const int32_t left = shift > 0 ? shift : 0;
    const int32_t right = shift > 0 ? 0 : -shift;

    return fixed_round_shift(fixed_high_mul(fixed_wrap((uint32_t)value << left), multiplier), right);
}
