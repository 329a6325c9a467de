/* Where element number `position` of a box lies, the last of its dimensions counting fastest. */
static size_t box_offset(int32_t rank, const int32_t* sizes, const int32_t* strides, int32_t position)
{
    size_t offset = 0;
    int32_t d;

    for (d = rank - 1; d >= 0; --d) {
        offset += (size_t)(position % sizes[d]) * (size_t)strides[d];
        position /= sizes[d];
    }
    return offset;
}
