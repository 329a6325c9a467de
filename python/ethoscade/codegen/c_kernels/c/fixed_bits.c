/* Bits of a number that is not negative. */
static int32_t fixed_bits(int32_t value)
{
    int32_t bits = 0;

    while (bits < 31 && (value >> bits) != 0) {
        ++bits;
    }
    return bits;
}
