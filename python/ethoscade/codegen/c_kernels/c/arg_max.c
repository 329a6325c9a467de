/* uses: load.c TYPE=FROM, store.c TYPE=INTO */
/* ARG_MAX: where along an axis of `extent` the first of the largest elements is. */
static void arg_max_FROM_INTO(const uint8_t* input, uint8_t* output, size_t blocks, size_t extent, size_t inner)
{
    size_t block;
    size_t i;
    size_t place;

    for (block = 0; block < blocks; ++block) {
        for (i = 0; i < inner; ++i) {
            const uint8_t* column = input + (block * extent * inner + i) * sizeof(STORED_FROM);
            size_t best = 0;

            for (place = 1; place < extent; ++place) {
                if (load_FROM(column, place * inner) > load_FROM(column, best * inner)) {
                    best = place;
                }
            }
            store_INTO(output, block * inner + i, (VALUE_INTO)best);
        }
    }
}
