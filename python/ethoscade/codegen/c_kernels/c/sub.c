/* uses: fixed_multiply.c, fixed_clamp.c */
/* SUB. stage: both zero points, the output's, smallest and largest result, bits of headroom, then factor and shift of
 * both operands and of the difference. */
static int32_t sub_of_TYPE(int32_t a, int32_t b, const int32_t* stage)
{
    const int32_t headroom = (int32_t)1 << stage[5];
    const int32_t difference = fixed_multiply((a - stage[0]) * headroom, stage[6], stage[7]) -
                               fixed_multiply((b - stage[1]) * headroom, stage[8], stage[9]);

    return fixed_clamp((int64_t)fixed_multiply(difference, stage[10], stage[11]) + stage[2], stage[3], stage[4]);
}
