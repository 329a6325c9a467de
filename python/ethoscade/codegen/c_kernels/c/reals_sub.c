/* uses: real_clamp.c */
/* stage: smallest and largest result. */
static float reals_sub_of_float32(float a, float b, const float* stage)
{
    return real_clamp(a - b, stage);
}
