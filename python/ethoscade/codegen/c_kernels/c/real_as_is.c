static float real_as_is(float value)
{
    return value;
}
