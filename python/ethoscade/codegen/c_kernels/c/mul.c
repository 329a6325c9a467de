/* uses: fixed_multiply.c, fixed_clamp.c */
/* MUL. stage: both zero points, the output's, smallest and largest result, factor and shift of the product. */
static int32_t mul_of_TYPE(int32_t a, int32_t b, const int32_t* stage)
{
    const int32_t product = (a - stage[0]) * (b - stage[1]);

    return fixed_clamp((int64_t)fixed_multiply(product, stage[5], stage[6]) + stage[2], stage[3], stage[4]);
}
