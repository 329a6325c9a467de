/* uses: load.c TYPE=int8, load.c TYPE=int32, load.c TYPE=STATE, store.c TYPE=STATE, load.c TYPE=TIME, store.c TYPE=int8, fixed_multiply.c, fixed_clamp.c */
/* SVDF: each filter remembers `memory` sums, the newest last. Before and after may be the same bytes.
 *
 * shape: batches, inputs, filters, memory, filters of one unit. stage: zero points of input, state and output, factor
 * and shift of sums to remember and of sums over time, smallest and largest value of the state and of the output.
 */
static void svdf_STATE(const uint8_t* input, const uint8_t* weights, const uint8_t* times, const uint8_t* bias,
                       const uint8_t* before, uint8_t* output, uint8_t* after, const int32_t* shape,
                       const int32_t* stage)
{
    const size_t inputs = (size_t)shape[1];
    const size_t filters = (size_t)shape[2];
    const size_t memory = (size_t)shape[3];
    const size_t rank = (size_t)shape[4];
    size_t batch;
    size_t f;
    size_t i;

    for (batch = 0; batch < (size_t)shape[0]; ++batch) {
        uint32_t total = 0;

        for (f = 0; f < filters; ++f) {
            const size_t start = (batch * filters + f) * memory;
            uint32_t sum = 0;
            int32_t newest;

            for (i = 0; i < inputs; ++i) {
                sum += (uint32_t)((load_int8(input, batch * inputs + i) - stage[0]) * load_int8(weights, f * inputs + i));
            }
            newest = fixed_clamp(fixed_multiply(fixed_wrap(sum), stage[3], stage[4]), stage[7], stage[8]) + stage[1];
            /* What leaves the type behind the zero point wraps. */
            newest = newest > stage[8] ? newest - (stage[8] - stage[7] + 1) : newest;
            newest = newest < stage[7] ? newest + (stage[8] - stage[7] + 1) : newest;
            if (f % rank == 0) {
                total = bias == NULL ? 0 : (uint32_t)load_int32(bias, f / rank);
            }
            for (i = 0; i < memory; ++i) {
                const int32_t value = i + 1 < memory ? load_STATE(before, start + i + 1) : newest;

                store_STATE(after, start + i, value);
                total += (uint32_t)((value - stage[1]) * load_TIME(times, f * memory + i));
            }
            if (f % rank == rank - 1) {
                const int32_t scaled = fixed_multiply(fixed_wrap(total), stage[5], stage[6]);

                store_int8(output, (batch * filters + f) / rank,
                           fixed_clamp((int64_t)scaled + stage[2], stage[9], stage[10]));
            }
        }
    }
}
