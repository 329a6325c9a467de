/* Element number `index` of an array of TYPE, which need not be aligned. */
static VALUE load_TYPE(const uint8_t* data, size_t index)
{
    STORED value;

    memcpy(&value, data + index * sizeof value, sizeof value);
    return value;
}
