/* Fixed-point steps that TFLite's integer kernels are defined in. Rounding follows gemmlowp's definitions. */

/* Half the product's high word: round(a * b / 2^31), ties away from zero; the one overflow saturates. */
static int32_t fixed_high_mul(int32_t a, int32_t b)
{
    int64_t product;

    if (a == INT32_MIN && b == INT32_MIN) {
        return INT32_MAX;
    }
    product = (int64_t)a * (int64_t)b;
    product += product >= 0 ? ((int64_t)1 << 30) : (1 - ((int64_t)1 << 30));
    return (int32_t)(product / ((int64_t)1 << 31));
}

/* round(value / 2^exponent), ties away from zero, for exponents 0..31. */
static int32_t fixed_round_shift(int32_t value, int exponent)
{
    const int64_t half = exponent > 0 ? (int64_t)1 << (exponent - 1) : 0;
    const int64_t wide = value;

    return (int32_t)(wide >= 0 ? (wide + half) / ((int64_t)1 << exponent) : -((half - wide) / ((int64_t)1 << exponent)));
}
