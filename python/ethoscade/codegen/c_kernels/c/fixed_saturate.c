/* value * 2^exponent, saturated. */
static int32_t fixed_saturate(int64_t value, int32_t exponent)
{
    const int64_t wide = value * ((int64_t)1 << exponent);

    if (wide > INT32_MAX) {
        return INT32_MAX;
    }
    return wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}
