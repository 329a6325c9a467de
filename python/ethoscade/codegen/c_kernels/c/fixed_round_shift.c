/* round(value / 2^exponent), ties away from zero, for exponents 0..31. */
static int32_t fixed_round_shift(int32_t value, int32_t exponent)
{
    const int64_t half = exponent > 0 ? (int64_t)1 << (exponent - 1) : 0;
    const int64_t wide = value;

    return (int32_t)(wide >= 0 ? (wide + half) / ((int64_t)1 << exponent) : -((half - wide) / ((int64_t)1 << exponent)));
}
