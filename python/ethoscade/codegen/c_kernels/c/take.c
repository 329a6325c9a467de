/* GATHER along an axis: pieces of `piece` bytes, `extent` of them in each of `blocks`, by their numbers. */
static void take_pieces(const uint8_t* input, uint8_t* output, size_t blocks, size_t extent, size_t piece,
                        const int32_t* numbers, size_t count)
{
    size_t block;
    size_t i;

    for (block = 0; block < blocks; ++block) {
        for (i = 0; i < count; ++i) {
            memcpy(output, input + (block * extent + (size_t)numbers[i]) * piece, piece);
            output += piece;
        }
    }
}
