/* uses: fixed_wrap.c, fixed_clamp.c */
/* ADD of int32, which wraps. stage: smallest and largest result. */
static int32_t words_add_of_int32(int32_t a, int32_t b, const int32_t* stage)
{
    return fixed_clamp(fixed_wrap((uint32_t)a + (uint32_t)b), stage[0], stage[1]);
}
