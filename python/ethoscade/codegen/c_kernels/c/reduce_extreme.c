/* uses: load.c TYPE=TYPE, store.c TYPE=TYPE, box_offset.c, WORK.c TYPE=TYPE */
/* The largest or smallest (WORK) along dimensions. Kept and reduced ones come apart, with sizes and strides. */
static void reduce_WORK_TYPE(const uint8_t* input, uint8_t* output, int32_t kept_rank, const int32_t* kept_sizes,
                             const int32_t* kept_strides, int32_t outputs, int32_t rank, const int32_t* sizes,
                             const int32_t* strides, int32_t count)
{
    int32_t o;
    int32_t r;

    for (o = 0; o < outputs; ++o) {
        const size_t start = box_offset(kept_rank, kept_sizes, kept_strides, o);
        VALUE found = load_TYPE(input, start);

        for (r = 1; r < count; ++r) {
            found = WORK_of_TYPE(found, load_TYPE(input, start + box_offset(rank, sizes, strides, r)), NULL);
        }
        store_TYPE(output, (size_t)o, found);
    }
}
