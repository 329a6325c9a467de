/* uses: fixed_multiply.c, fixed_clamp.c */
/* PRELU. stage: zero points of input, slopes and output, smallest and largest result, factor and shift of what is above
 * zero, and of products with slopes. */
static int32_t prelu_of_TYPE(int32_t a, int32_t b, const int32_t* stage)
{
    const int32_t value = a - stage[0];
    const int32_t result = value >= 0 ? fixed_multiply(value, stage[5], stage[6])
                                      : fixed_multiply(value * (b - stage[1]), stage[7], stage[8]);

    return fixed_clamp((int64_t)result + stage[2], stage[3], stage[4]);
}
