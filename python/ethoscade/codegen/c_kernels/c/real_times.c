/* A product of its own: volatile, so that no compiler makes one operation of it and a sum. */
static float real_times(float a, float b)
{
    const volatile float product = a * b;

    return product;
}
