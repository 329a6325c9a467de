static float real_relu(float value, const float* stage)
{
    (void)stage;
    return value < 0.0f ? 0.0f : value;
}
