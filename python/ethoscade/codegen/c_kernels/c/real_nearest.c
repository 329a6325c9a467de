/* The nearest integer to what is not negative, halves up. */
static int32_t real_nearest(float value)
{
    return (int32_t)(value + 0.5f);
}
