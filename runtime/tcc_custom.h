/* The interface of a custom op's function in a shared object, in plain C. The function has the type tcc_custom_function
   and default visibility. It reads the inputs and writes every element of the outputs, for which the caller has memory.
   All tensors are dense, row-major and aligned to 64 bytes, and none overlaps another. The function returns 0 if it
   succeeds. Any other value is a failure, which `message` explains: the step ends, and states keep their values. Equal
   inputs must give equal outputs. The function is called on one thread of the process. */
#ifndef TCC_CUSTOM_H
#define TCC_CUSTOM_H
#include <stdint.h>

enum tcc_dtype { TCC_F32, TCC_BF16, TCC_F16, TCC_F8E4M3, TCC_F8E5M2, TCC_I1, TCC_I32, TCC_I64 };

typedef struct {
  void *data;           /* of an input: only to be read */
  const int64_t *sizes; /* `rank` of them, outermost first */
  int32_t rank;
  int32_t dtype; /* tcc_dtype */
} tcc_tensor;

typedef struct {
  int32_t input_count, output_count;
  const tcc_tensor *inputs, *outputs;
  char *message; /* where a failure writes its text: message_bytes bytes, of which the last is for a 0 */
  int64_t message_bytes;
} tcc_custom_call;

typedef int (*tcc_custom_function)(const tcc_custom_call *call);

#endif
