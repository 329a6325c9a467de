/* SOFTMAX over rows of 8-bit values, the integer definition of TFLite's reference kernel.
 *
 * Differences to the row's maximum are Q5.26, exponentials Q0.31, their sum Q12.19. `sign` is 0x80 for int8 and 0 for
 * uint8: flipping the top bit makes int8 compare like uint8, and only differences count.
 */

/* value * 2^exponent, saturated. */
static int32_t softmax_shift_up(int32_t value, int exponent)
{
    const int64_t wide = (int64_t)value * ((int64_t)1 << exponent);

    if (wide > INT32_MAX) {
        return INT32_MAX;
    }
    return wide < INT32_MIN ? INT32_MIN : (int32_t)wide;
}

/* exp(x) for x in [-1/4, 0): a Taylor polynomial of degree 4 around -1/8. Q0.31 in and out. */
static int32_t softmax_exp_small(int32_t x)
{
    const int32_t exp_of_centre = 1895147668; /* exp(-1/8) */
    const int32_t one_third = 715827883;
    const int32_t t = x + ((int32_t)1 << 28);
    const int32_t t2 = fixed_high_mul(t, t);
    const int32_t t3 = fixed_high_mul(t2, t);
    const int32_t t4_over_4 = fixed_round_shift(fixed_high_mul(t2, t2), 2);
    const int32_t high_terms = fixed_round_shift(fixed_high_mul(t4_over_4 + t3, one_third) + t2, 1);

    return exp_of_centre + fixed_high_mul(exp_of_centre, t + high_terms);
}

/* exp(x) for x <= 0 in Q5.26; the result is Q0.31. x = a quarter's remainder - sum of powers of two. */
static int32_t softmax_exp(int32_t x)
{
    /* exp(-2^k) for k = -2 .. 4 in Q0.31 */
    static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int32_t quarter = (int32_t)1 << 24;
    const int32_t small = (int32_t)((uint32_t)x & (uint32_t)(quarter - 1)) - quarter;
    const uint32_t rest = (uint32_t)small - (uint32_t)x;
    int32_t result;
    int k;

    if (x == 0) {
        return INT32_MAX;
    }
    result = softmax_exp_small(softmax_shift_up(small, 5));
    for (k = 0; k < 7; ++k) {
        if (rest & ((uint32_t)quarter << k)) {
            result = fixed_high_mul(result, factors[k]);
        }
    }
    return result;
}

/* 1 / (1 + a) for a in [0, 1), Q0.31: Newton's method on the halved denominator, three steps. */
static int32_t softmax_reciprocal(int32_t a)
{
    const int32_t half_denominator = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + fixed_high_mul(half_denominator, -1010580540); /* 48/17 - 32/17 * d, Q2.29 */
    int step;

    for (step = 0; step < 3; ++step) {
        const int32_t error = ((int32_t)1 << 29) - fixed_high_mul(half_denominator, x);
        x += softmax_shift_up(fixed_high_mul(x, error), 2);
    }
    return softmax_shift_up(x, 1);
}

/* A difference to the maximum in Q5.26. LiteRT aborts where the shift is negative; the meaning is clear all the same. */
static int32_t softmax_scaled(int32_t difference, int32_t multiplier, int shift)
{
    const int left = shift > 0 ? shift : 0;
    const int right = shift > 0 ? 0 : -shift;

    return fixed_round_shift(fixed_high_mul(difference * ((int32_t)1 << left), multiplier), right);
}

static void softmax_8bit(const uint8_t* input, uint8_t* output, int32_t rows, int32_t depth, int32_t multiplier,
                         int shift, int32_t smallest_difference, uint8_t sign)
{
    int32_t row;
    int32_t c;

    for (row = 0; row < rows; ++row, input += depth, output += depth) {
        int32_t largest = 0;
        int32_t sum = 0;
        int32_t scale;
        int headroom = 0;

        for (c = 0; c < depth; ++c) {
            const int32_t value = (uint8_t)(input[c] ^ sign);
            largest = value > largest ? value : largest;
        }
        for (c = 0; c < depth; ++c) {
            const int32_t difference = (int32_t)(uint8_t)(input[c] ^ sign) - largest;
            if (difference >= smallest_difference) {
                const int32_t scaled = softmax_scaled(difference, multiplier, shift);
                sum += fixed_round_shift(softmax_exp(scaled), 12);
            }
        }
        /* The largest value's own exponential is 1, so the sum is positive. */
        while (!(((uint32_t)sum << headroom) & 0x80000000u)) {
            ++headroom;
        }
        scale = softmax_reciprocal((int32_t)(((uint32_t)sum << headroom) - 0x80000000u));
        for (c = 0; c < depth; ++c) {
            const int32_t difference = (int32_t)(uint8_t)(input[c] ^ sign) - largest;
            int32_t value = 0;
            if (difference >= smallest_difference) {
                const int32_t scaled = softmax_scaled(difference, multiplier, shift);
                /* 12 integer bits of the sum less its headroom, and 31 fraction bits down to 8. */
                value = fixed_round_shift(fixed_high_mul(scale, softmax_exp(scaled)), 12 - headroom + 31 - 8);
                value = value > 255 ? 255 : value;
            }
            output[c] = (uint8_t)((uint8_t)value ^ sign);
        }
    }
}
