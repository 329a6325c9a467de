/* A stand-in for CMSIS-NN by its documented behaviour: plain loops, sums of 64 bits. STANDIN_CORE says for which core
 * it gives sizes of scratch (0 plain, 1 DSP, 2 MVE); all of the scratch is written to, and sums of weights are read
 * from it where the core wants them there. STANDIN_FAILS has convolutions refuse their arguments. */
#include "arm_nnfunctions.h"

#include <stddef.h>
#include <string.h>

#ifndef STANDIN_CORE
#define STANDIN_CORE 0
#endif

struct work {
  const cmsis_nn_dims *input, *filter, *output;
  cmsis_nn_tile stride, padding, dilation;
  cmsis_nn_activation clamp;
  int32_t input_offset, filter_offset, output_offset;
  const int32_t *multiplier, *shift;
  int step, bits;
  const void *data, *bias;
  const int8_t *weights;
  void *out;
};

static int32_t up(int32_t count, int32_t step) { return (count + step - 1) / step * step; }

/* Round half up twice, as TensorFlow Lite does by default; of sums of 64 bits once, by 15 bits of the multiplier. */
static int64_t scaled(int64_t sum, int32_t multiplier, int32_t shift, int bits)
{
  if (bits == 16) {
    const int64_t reduced = multiplier < 0x7FFF0000 ? (multiplier + (1 << 15)) >> 16 : 0x7FFF;
    return (sum * reduced + ((int64_t)1 << (14 - shift))) >> (15 - shift);
  }
  {
    const int64_t high = (sum * multiplier + ((int64_t)1 << 30)) >> 31;
    const int64_t mask = ((int64_t)1 << -shift) - 1;
    return (high >> -shift) + ((high & mask) > (mask >> 1) + (high < 0));
  }
}

static int64_t loaded(const struct work *w, size_t at)
{
  return w->bits == 16 ? ((const int16_t *)w->data)[at] : ((const int8_t *)w->data)[at];
}

static void stored(const struct work *w, size_t at, int64_t sum, int32_t channel)
{
  int64_t value;
  if (w->bias != NULL) {
    sum += w->bits == 16 ? ((const int64_t *)w->bias)[channel] : ((const int32_t *)w->bias)[channel];
  }
  value = scaled(sum, w->multiplier[channel * w->step], w->shift[channel * w->step], w->bits) + w->output_offset;
  value = value < w->clamp.min ? w->clamp.min : value > w->clamp.max ? w->clamp.max : value;
  if (w->bits == 16) {
    ((int16_t *)w->out)[at] = (int16_t)value;
  } else {
    ((int8_t *)w->out)[at] = (int8_t)value;
  }
}

/* `multiplier` outputs for each input channel, 0 for a convolution over all of them. */
static void convolve(const struct work *w, int32_t multiplier)
{
  const cmsis_nn_dims *in = w->input, *k = w->filter, *o = w->output;
  int32_t n, y, x, c, i, j, d;
  for (n = 0; n < o->n; ++n)
    for (y = 0; y < o->h; ++y)
      for (x = 0; x < o->w; ++x)
        for (c = 0; c < o->c; ++c) {
          int64_t sum = 0;
          for (i = 0; i < k->h; ++i)
            for (j = 0; j < k->w; ++j) {
              const int32_t row = y * w->stride.h - w->padding.h + i * w->dilation.h;
              const int32_t column = x * w->stride.w - w->padding.w + j * w->dilation.w;
              if (row < 0 || row >= in->h || column < 0 || column >= in->w) continue;
              for (d = 0; d < (multiplier ? 1 : in->c); ++d) {
                const int32_t depth = multiplier ? c / multiplier : d;
                const size_t at = (size_t)(((n * in->h + row) * in->w + column) * in->c + depth);
                const size_t tap = multiplier ? (size_t)((i * k->w + j) * o->c + c)
                                              : (size_t)(((c * k->h + i) * k->w + j) * in->c + d);
                sum += (loaded(w, at) + w->input_offset) * w->weights[tap];
              }
            }
          stored(w, (size_t)(((n * o->h + y) * o->w + x) * o->c + c), sum, c);
        }
}

/* Scratch of a call is its own: whatever is in it, and of the size that was told. */
static int worked_in(const cmsis_nn_context *ctx, int32_t size)
{
#ifdef STANDIN_FAILS
  return 0;
#endif
  if (ctx->size != size || (size > 0 && ctx->buf == NULL)) return 0;
  if (size > 0) memset(ctx->buf, 0x5A, (size_t)size);
  return 1;
}

#define CONVOLVE(NAME, PARAMS, SUFFIX, TYPE, BIAS, BITS, BIASED, MULTIPLIER)                                           \
  arm_cmsis_nn_status NAME(const cmsis_nn_context *ctx, const PARAMS *p, const cmsis_nn_per_channel_quant_params *q,   \
                           const cmsis_nn_dims *in, const TYPE *data, const cmsis_nn_dims *filter,                     \
                           const int8_t *weights, const cmsis_nn_dims *bias_dims, const BIAS *bias,                    \
                           const cmsis_nn_dims *output, TYPE *out)                                                     \
  {                                                                                                                    \
    const struct work w = {in, filter, output, p->stride, p->padding, p->dilation, p->activation, p->input_offset, 0,  \
                           p->output_offset, q->multiplier, q->shift, 1, BITS, data, BIASED, weights, out};            \
    if (!worked_in(ctx, NAME##_get_buffer_size(p, in, filter, output)) || bias_dims->c != output->c)                   \
      return ARM_CMSIS_NN_ARG_ERROR;                                                                                   \
    convolve(&w, MULTIPLIER);                                                                                          \
    return ARM_CMSIS_NN_SUCCESS;                                                                                       \
  }

static int32_t of_convolution(const cmsis_nn_conv_params *p, const cmsis_nn_dims *in, const cmsis_nn_dims *k)
{
  const int32_t summed = k->h * k->w * in->c;
  if (k->h == 1 && k->w == 1 && p->padding.h == 0 && p->padding.w == 0 && p->dilation.h == 1 && p->dilation.w == 1) {
    return STANDIN_CORE == 1 ? 4 * in->c : 0;
  }
  return STANDIN_CORE == 2 ? 4 * up(summed, 16) : 4 * up(summed, 4);
}

int32_t arm_convolve_wrapper_s8_get_buffer_size(const cmsis_nn_conv_params *p, const cmsis_nn_dims *in,
                                                const cmsis_nn_dims *k, const cmsis_nn_dims *o)
{
  (void)o;
  return of_convolution(p, in, k);
}

int32_t arm_convolve_wrapper_s16_get_buffer_size(const cmsis_nn_conv_params *p, const cmsis_nn_dims *in,
                                                 const cmsis_nn_dims *k, const cmsis_nn_dims *o)
{
  const int32_t summed = k->h * k->w * in->c;
  (void)p, (void)o;
  return STANDIN_CORE == 2 ? 8 * up(summed, 8) : 4 * summed;
}

int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size(const cmsis_nn_dw_conv_params *p, const cmsis_nn_dims *in,
                                                      const cmsis_nn_dims *k, const cmsis_nn_dims *o)
{
  const cmsis_nn_conv_params as_convolution = {
      p->input_offset, p->output_offset, p->stride, p->padding, p->dilation, p->activation};
  if (STANDIN_CORE == 2 && in->c == 1 && o->c > 8) return of_convolution(&as_convolution, in, k) + k->c * k->h * k->w;
  if (STANDIN_CORE == 0 || in->c != o->c || in->n != 1 || p->dilation.w != 1 || p->dilation.h != 1) return 0;
  return STANDIN_CORE == 2 ? 4 * 124 * k->h * k->w : 2 * in->c * k->h * k->w;
}

int32_t arm_depthwise_conv_wrapper_s16_get_buffer_size(const cmsis_nn_dw_conv_params *p, const cmsis_nn_dims *in,
                                                       const cmsis_nn_dims *k, const cmsis_nn_dims *o)
{
  (void)o;
  if (STANDIN_CORE == 0 || p->ch_mult != 1 || p->dilation.w != 1 || p->dilation.h != 1) return 0;
  return STANDIN_CORE == 2 ? 8 * in->c * k->h * k->w + 8 : 2 * in->c * k->h * k->w;
}

CONVOLVE(arm_convolve_wrapper_s8, cmsis_nn_conv_params, s8, int8_t, int32_t, 8, bias, 0)
CONVOLVE(arm_convolve_wrapper_s16, cmsis_nn_conv_params, s16, int16_t, cmsis_nn_bias_data, 16,
         bias->is_int32_bias ? NULL : bias->data, 0)
CONVOLVE(arm_depthwise_conv_wrapper_s8, cmsis_nn_dw_conv_params, s8, int8_t, int32_t, 8, bias, p->ch_mult)
CONVOLVE(arm_depthwise_conv_wrapper_s16, cmsis_nn_dw_conv_params, s16, int16_t, int64_t, 16, bias, p->ch_mult)

int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *filter_dims)
{
  return STANDIN_CORE == 2 ? 4 * filter_dims->c : 0;
}

int32_t arm_fully_connected_s16_get_buffer_size(const cmsis_nn_dims *filter_dims)
{
  (void)filter_dims;
  return 0;
}

arm_cmsis_nn_status arm_vector_sum_s8(int32_t *sums, const int32_t columns, const int32_t rows, const int8_t *data,
                                      const int32_t lhs_offset, const int32_t rhs_offset, const int32_t *bias)
{
  int32_t row, column;
  for (row = 0; row < rows; ++row) {
    int32_t sum = 0;
    for (column = 0; column < columns; ++column) sum += data[row * columns + column] + rhs_offset;
    sums[row] = sum * lhs_offset + (bias != NULL ? bias[row] : 0);
  }
  return ARM_CMSIS_NN_SUCCESS;
}

/* With MVE the sums that the caller put into the scratch stand for the offset of the input, and for the bias. */
static arm_cmsis_nn_status dense(const struct work *w, const cmsis_nn_context *ctx)
{
  const int32_t depth = w->filter->n, channels = w->output->c;
  const int32_t *sums = STANDIN_CORE == 2 && w->bits == 8 ? ctx->buf : NULL;
  int32_t n, c, i;
  if (STANDIN_CORE == 2 && w->bits == 8 && ctx->buf == NULL) return ARM_CMSIS_NN_ARG_ERROR;
  for (n = 0; n < w->input->n; ++n)
    for (c = 0; c < channels; ++c) {
      int64_t sum = sums != NULL ? sums[c] : 0;
      struct work without = *w;
      if (sums != NULL) without.bias = NULL;
      for (i = 0; i < depth; ++i) {
        const int64_t weight = w->weights[c * depth + i] + w->filter_offset;
        sum += (loaded(w, (size_t)(n * depth + i)) + (sums != NULL ? 0 : w->input_offset)) * weight;
      }
      stored(&without, (size_t)(n * channels + c), sum, c);
    }
  return ARM_CMSIS_NN_SUCCESS;
}

#define DENSE(NAME, QUANT, TYPE, BIAS, BITS, MULTIPLIER, SHIFT, STEP)                                                  \
  arm_cmsis_nn_status NAME(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *p, const QUANT *q,                   \
                           const cmsis_nn_dims *in, const TYPE *data, const cmsis_nn_dims *filter,                     \
                           const int8_t *weights, const cmsis_nn_dims *bias_dims, const BIAS *bias,                    \
                           const cmsis_nn_dims *output, TYPE *out)                                                     \
  {                                                                                                                    \
    const cmsis_nn_tile one = {1, 1};                                                                                  \
    const struct work w = {in, filter, output, one, one, one, p->activation, p->input_offset, p->filter_offset,        \
                           p->output_offset, MULTIPLIER, SHIFT, STEP, BITS, data, bias, weights, out};                 \
    (void)bias_dims;                                                                                                   \
    return dense(&w, ctx);                                                                                             \
  }

DENSE(arm_fully_connected_s8, cmsis_nn_per_tensor_quant_params, int8_t, int32_t, 8, &q->multiplier, &q->shift, 0)
DENSE(arm_fully_connected_s16, cmsis_nn_per_tensor_quant_params, int16_t, int64_t, 16, &q->multiplier, &q->shift, 0)
DENSE(arm_fully_connected_per_channel_s8, cmsis_nn_per_channel_quant_params, int8_t, int32_t, 8, q->multiplier,
      q->shift, 1)
