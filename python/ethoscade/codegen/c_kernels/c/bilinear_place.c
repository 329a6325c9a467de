/* Where output number `output` lies, in 1/1024 of input rows or columns, and between which two of them. */
static int32_t bilinear_place(int32_t output, int32_t step, int32_t offset, int32_t extent, int32_t* first,
                              int32_t* second)
{
    const int32_t place = output * step + offset;

    *first = place > 0 ? place / 1024 : 0;
    *second = place > -1023 ? (place + 1023) / 1024 : 0;
    *second = *second < extent - 1 ? *second : extent - 1;
    return place - 1024 * *first;
}
