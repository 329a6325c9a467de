/* uses: real_times.c */
/* Where output number `output` lies among input rows or columns, and between which two of them. */
static float bilinear_real_place(int32_t output, float step, float half, int32_t extent, int32_t* first, int32_t* second)
{
    const float place = real_times((float)output + half, step) - half;
    const int32_t whole = (int32_t)place;

    *first = place > 0.0f ? whole : 0;
    *second = place > (float)whole ? whole + 1 : whole;
    *second = *second < extent - 1 ? *second : extent - 1;
    return place - (float)*first;
}
