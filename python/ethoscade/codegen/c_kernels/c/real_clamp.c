/* stage: smallest and largest result; what is no number stays. */
static float real_clamp(float value, const float* stage)
{
    return value < stage[0] ? stage[0] : stage[1] < value ? stage[1] : value;
}
