/* QUANTIZE from one 8-bit type or scale to another. `sign` is 128 for int8 and 0 for uint8. */
static void requantise_8bit(const uint8_t* input, uint8_t* output, int32_t count, int32_t input_sign,
                            int32_t output_sign, int32_t input_zero, int32_t output_zero, int32_t multiplier, int shift)
{
    const int left = shift > 0 ? shift : 0;
    const int right = shift > 0 ? 0 : -shift;
    int32_t i;

    for (i = 0; i < count; ++i) {
        const int32_t value = (int32_t)(input[i] ^ (uint8_t)input_sign) - input_sign - input_zero;
        int32_t result = fixed_round_shift(fixed_high_mul(value * ((int32_t)1 << left), multiplier), right);

        result += output_zero + output_sign;
        result = result < 0 ? 0 : result > 255 ? 255 : result;
        output[i] = (uint8_t)((uint8_t)result ^ (uint8_t)output_sign);
    }
}
