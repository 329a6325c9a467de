/* MEAN of 8-bit values. Kept and reduced dimensions come apart, each with sizes and strides in elements; the division
 * by their number is part of the multiplier. `sign` is 128 for int8 and 0 for uint8. */
struct mean_dimensions {
    int rank;
    int32_t sizes[8];
    int32_t strides[8];
};

/* Where element number `position` of these dimensions lies, the last one counting fastest. */
static size_t mean_offset(const struct mean_dimensions* dimensions, int32_t position)
{
    size_t offset = 0;
    int d;

    for (d = dimensions->rank - 1; d >= 0; --d) {
        offset += (size_t)(position % dimensions->sizes[d]) * (size_t)dimensions->strides[d];
        position /= dimensions->sizes[d];
    }
    return offset;
}

static void mean_8bit(const uint8_t* input, uint8_t* output, const struct mean_dimensions* kept, int32_t outputs,
                      const struct mean_dimensions* reduced, int32_t count, int32_t input_zero, int32_t output_zero,
                      int32_t multiplier, int right_shift, int32_t sign)
{
    int32_t o;
    int32_t r;

    for (o = 0; o < outputs; ++o) {
        const uint8_t* start = input + mean_offset(kept, o);
        int32_t sum = -count * (sign + input_zero);
        int32_t result;

        for (r = 0; r < count; ++r) {
            sum += start[mean_offset(reduced, r)] ^ (uint8_t)sign;
        }
        result = fixed_round_shift(fixed_high_mul(sum, multiplier), right_shift) + output_zero + sign;
        result = result < 0 ? 0 : result > 255 ? 255 : result;
        output[o] = (uint8_t)((uint8_t)result ^ (uint8_t)sign);
    }
}
