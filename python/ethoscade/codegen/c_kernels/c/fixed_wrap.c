/* What a register of 32 bits with a sign keeps of a number. */
static int32_t fixed_wrap(uint32_t value)
{
    int32_t wrapped;

    memcpy(&wrapped, &value, sizeof wrapped);
    return wrapped;
}
