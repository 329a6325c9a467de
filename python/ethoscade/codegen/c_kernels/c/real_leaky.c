/* stage: the slope below zero. */
static float real_leaky(float value, const float* stage)
{
    return value > 0.0f ? value : value * stage[0];
}
