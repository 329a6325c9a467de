/* floor(value / 2^exponent): an arithmetic shift, which C leaves open for what is negative. */
static int64_t fixed_floor_shift(int64_t value, int32_t exponent)
{
    return value >= 0 ? value >> exponent : ~(~value >> exponent);
}
