/* Functions of custom ops that are wrong, for tests. */
#include "runtime/tcc_custom.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE __attribute__((visibility("default")))

static void square(const tcc_custom_call *call, int64_t count) {
  const float *from = call->inputs->data;
  float *to = call->outputs->data;
  for (int64_t i = 0; i < count; ++i)
    to[i] = from[i] * from[i];
}

static int64_t elements(const tcc_custom_call *call) {
  int64_t count = 1;
  for (int32_t dim = 0; dim < call->inputs->rank; ++dim)
    count *= call->inputs->sizes[dim];
  return count;
}

VISIBLE int beyond(const tcc_custom_call *call) {
  square(call, elements(call));
  ((float *)call->outputs->data)[elements(call)] = 1;
  return 0;
}

VISIBLE int cube(const tcc_custom_call *call) {
  square(call, elements(call));
  ((float *)call->outputs->data)[9] *= ((const float *)call->inputs->data)[9];
  return 0;
}

/* Another function on another day, in the same file. */
VISIBLE int moody(const tcc_custom_call *call) {
  return getenv("TCC_TEST_MOOD") ? cube(call) : (square(call, elements(call)), 0);
}

VISIBLE int refuses(const tcc_custom_call *call) {
  snprintf(call->message, (size_t)call->message_bytes, "it is Sunday");
  return 7;
}

VISIBLE int silent(const tcc_custom_call *call) { return call->input_count; }
