/* uses: load.c TYPE=TYPE, store.c TYPE=TYPE, box_offset.c, fixed_multiply.c, fixed_clamp.c */
/* MEAN and SUM: a mean's division is part of the factor. Kept and reduced dimensions come apart, each with sizes and
 * strides in elements. stage: zero points of input and output, smallest and largest result, factor and shift. */
static void reduce_sum_TYPE(const uint8_t* input, uint8_t* output, int32_t kept_rank, const int32_t* kept_sizes,
                            const int32_t* kept_strides, int32_t outputs, int32_t rank, const int32_t* sizes,
                            const int32_t* strides, int32_t count, const int32_t* stage)
{
    int32_t o;
    int32_t r;

    for (o = 0; o < outputs; ++o) {
        const size_t start = box_offset(kept_rank, kept_sizes, kept_strides, o);
        uint32_t sum = 0;

        for (r = 0; r < count; ++r) {
            sum += (uint32_t)(load_TYPE(input, start + box_offset(rank, sizes, strides, r)) - stage[0]);
        }
        store_TYPE(output, (size_t)o,
                   fixed_clamp((int64_t)fixed_multiply(fixed_wrap(sum), stage[4], stage[5]) + stage[1], stage[2], stage[3]));
    }
}
