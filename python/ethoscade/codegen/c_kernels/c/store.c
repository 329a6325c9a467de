/* Makes `value` element number `index` of an array of TYPE, which need not be aligned. The type holds it. */
static void store_TYPE(uint8_t* data, size_t index, VALUE value)
{
    const STORED stored = (STORED)value;

    memcpy(data + index * sizeof stored, &stored, sizeof stored);
}
