/* round(a * b / 2^31), ties towards plus infinity; the one overflow saturates. As gemmlowp defines it. */
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
