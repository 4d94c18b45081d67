/* Kernels with the emitted signature, for the executable tests. */
#include <stdint.h>
#include <string.h>
#include <xmmintrin.h>

/* args: x, factor (one float), y; y[i] = x[i] * factor */
void scale(int64_t begin, int64_t end, void *const *args) {
  const float *x = args[0], *factor = args[1];
  float *y = args[2];
  for (int64_t i = begin; i < end; ++i)
    y[i] = x[i] * *factor;
}

/* args: x, bias [40], y; rows of 40: y = max(x + bias, 0) */
void bias_relu(int64_t begin, int64_t end, void *const *args) {
  const float *x = args[0], *bias = args[1];
  float *y = args[2];
  for (int64_t row = begin; row < end; ++row)
    for (int64_t column = 0; column < 40; ++column) {
      const float value = x[row * 40 + column] + bias[column];
      y[row * 40 + column] = value > 0 ? value : 0;
    }
}

/* args: gradient, state; state -= 0.5 * gradient, in place */
void descend(int64_t begin, int64_t end, void *const *args) {
  const float *gradient = args[0];
  float *state = args[1];
  for (int64_t i = begin; i < end; ++i)
    state[i] -= 0.5f * gradient[i];
}

/* args: y; marks each index once more, so that a doubled or a missing index shows */
void mark(int64_t begin, int64_t end, void *const *args) {
  float *y = args[0];
  for (int64_t i = begin; i < end; ++i)
    y[i] = (float)i + 1;
}

/* args: y; turns on flush-to-zero, as code built with fast-math start-up would */
void flush_to_zero(int64_t begin, int64_t end, void *const *args) {
  (void)begin, (void)end, (void)args;
  _mm_setcsr(_mm_getcsr() | 0x8000);
}

/* args: x, y; writes into what it should only read */
void write_operand(int64_t begin, int64_t end, void *const *args) {
  float *x = args[0], *y = args[1];
  for (int64_t i = begin; i < end; ++i)
    y[i] = x[i], x[i] = 7;
}

/* args: y; one element beyond its end */
void overrun(int64_t begin, int64_t end, void *const *args) {
  float *y = args[0];
  for (int64_t i = begin; i <= end; ++i)
    ((volatile float *)y)[i] = 1;
}

/* args: y; writes only the first half, as a kernel that lost its tail would */
void half(int64_t begin, int64_t end, void *const *args) {
  float *y = args[0];
  for (int64_t i = begin; i < (begin + end) / 2; ++i)
    y[i] = 1;
}
