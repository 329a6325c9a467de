/* uses: load.c TYPE=TYPE, store.c TYPE=TYPE, sumSUM.c, fixed_clamp.c */
/* BATCH_MATMUL. shape: number of products, and rows, depth and columns of one. places: of the left operand, then of the
 * right, how many elements lie between products (a list `left_starts`, `right_starts`), and along `steps`: left rows
 * and depth, right depth and columns. stage: zero points of left, right and output, smallest and largest result.
 */
static void batch_matmul_TYPE_SUM(const uint8_t* left, const uint8_t* right, uint8_t* output, const int32_t* shape,
                                  const int32_t* left_starts, const int32_t* right_starts, const int32_t* steps,
                                  const int32_t* stage, int32_t multiplier, int32_t shift)
{
    int32_t number;
    int32_t row;
    int32_t column;
    int32_t i;

    for (number = 0; number < shape[0]; ++number) {
        for (row = 0; row < shape[1]; ++row) {
            for (column = 0; column < shape[3]; ++column) {
                sumSUM sum = sumSUM_bias(NULL, 0);

                for (i = 0; i < shape[2]; ++i) {
                    const int32_t a = left_starts[number] + row * steps[0] + i * steps[1];
                    const int32_t b = right_starts[number] + i * steps[2] + column * steps[3];

                    sum = sumSUM_add(sum, load_TYPE(left, (size_t)a) - stage[0], load_TYPE(right, (size_t)b) - stage[1]);
                }
                store_TYPE(output, 0,
                           fixed_clamp((int64_t)sumSUM_scaled(sum, multiplier, shift) + stage[2], stage[3], stage[4]));
                output += sizeof(STORED);
            }
        }
    }
}
