/* uses: load.c TYPE=float32, store.c TYPE=float32, WORK.c */
/* A function of each element; `stage` has its parameters. */
static void WORK_float32(const uint8_t* input, uint8_t* output, size_t count, const float* stage)
{
    size_t i;

    for (i = 0; i < count; ++i) {
        store_float32(output, i, WORK(load_float32(input, i), stage));
    }
}
