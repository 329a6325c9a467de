static float real_neg(float value, const float* stage)
{
    (void)stage;
    return -value;
}
