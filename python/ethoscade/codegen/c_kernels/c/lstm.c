/* uses: load.c TYPE=TYPE, load.c TYPE=int8, store.c TYPE=TYPE, load.c TYPE=int16, store.c TYPE=int16, logistic_int16.c, sumSUM.c, fixed_multiply.c, fixed_clamp.c */
/* Sums of a gate's weights and `count` values, in 1/4096 and 16 bits. factor: multiplier and shift. */
static int32_t lstm_sum_TYPE(const uint8_t* values, int32_t zero, const uint8_t* weights, const uint8_t* bias,
                             size_t count, size_t unit, const int32_t* factor)
{
    sumSUM sum = sumSUM_bias(bias, unit);
    size_t i;

    for (i = 0; i < count; ++i) {
        sum = sumSUM_add(sum, load_TYPE(values, i) - zero, load_int8(weights, unit * count + i));
    }
    return fixed_clamp(sumSUM_scaled(sum, factor[0], factor[1]), -32768, 32767);
}

/* UNIDIRECTIONAL_SEQUENCE_LSTM. The output has the hidden state of each step, which the next one reads there.
 *
 * constants: weights of the input, weights of the state and bias of each of the gates input, forget, cell, output.
 * shape: batches, steps, inputs, units, values from the input (output) of one step to the next, and of one batch.
 * stage: zero points of input and hidden state, smallest and largest hidden state, largest cell (0: any), power of two
 * by which a cell's units are raised to 1/4096, then factors and shifts: of the input's sums and of the state's sums of
 * each gate in turn, of what is kept, of what is added, of the hidden state.
 */
static void lstm_TYPE(const uint8_t* input, const uint8_t* hidden, const uint8_t* cell, uint8_t* output,
                      uint8_t* hidden_after, uint8_t* cell_after, const uint8_t* const* constants, const int32_t* shape,
                      const int32_t* stage)
{
    const size_t inputs = (size_t)shape[2];
    const size_t units = (size_t)shape[3];
    const int32_t* factors = stage + 6;
    size_t batch;
    size_t step;
    size_t u;
    int g;

    for (batch = 0; batch < (size_t)shape[0]; ++batch) {
        const uint8_t* before = hidden + batch * units * sizeof(STORED);
        const uint8_t* memory = cell + batch * units * 2;
        uint8_t* remembered = cell_after + batch * units * 2;

        for (step = 0; step < (size_t)shape[1]; ++step) {
            const uint8_t* x = input + (step * (size_t)shape[4] + batch * (size_t)shape[6]) * sizeof(STORED);
            uint8_t* made = output + (step * (size_t)shape[5] + batch * (size_t)shape[7]) * sizeof(STORED);

            for (u = 0; u < units; ++u) {
                int32_t gates[4];
                int32_t value;
                int32_t in_units;

                for (g = 0; g < 4; ++g) {
                    const int32_t sum =
                        lstm_sum_TYPE(x, stage[0], constants[3 * g], constants[3 * g + 2], inputs, u, factors + 4 * g) +
                        lstm_sum_TYPE(before, stage[1], constants[3 * g + 1], NULL, units, u, factors + 4 * g + 2);

                    gates[g] = logistic_of(3 * fixed_clamp(sum, -32768, 32767), g == 2);
                }
                value = fixed_clamp(fixed_multiply(gates[1] * load_int16(memory, u), factors[16], factors[17]), -32768, 32767) +
                        fixed_clamp(fixed_multiply(gates[0] * gates[2], factors[18], factors[19]), -32768, 32767);
                value = fixed_clamp(value, -32768, 32767);
                if (stage[4] > 0) {
                    value = fixed_clamp(value, -stage[4], stage[4]);
                }
                store_int16(remembered, u, value);
                in_units = stage[5] >= 0 ? 3 * value * ((int32_t)1 << stage[5])
                                         : (int32_t)fixed_floor_shift(3 * value + ((int32_t)1 << (-stage[5] - 1)), -stage[5]);
                value = fixed_multiply(logistic_of(in_units, 1) * gates[3], factors[20], factors[21]);
                store_TYPE(made, u, fixed_clamp((int64_t)value + stage[1], stage[2], stage[3]));
            }
            before = made;
            memory = remembered;
        }
        memmove(hidden_after + batch * units * sizeof(STORED), before, units * sizeof(STORED));
    }
}
