/* What the function of a custom op in a shared object sees; plain C. A function has the type tcc_custom_function and
   default visibility. It reads the inputs and writes every element of the outputs, whose memory is there; all are dense,
   row-major, aligned to 64 bytes, and overlap nowhere. It gives 0, or anything else and a text in `message`, which ends
   the step; states keep their values. Equal inputs give equal outputs. It is called on one thread of the process. */
#ifndef TCC_CUSTOM_H
#define TCC_CUSTOM_H
#include <stdint.h>

enum tcc_dtype { TCC_F32, TCC_BF16, TCC_F16, TCC_F8E4M3, TCC_F8E5M2, TCC_I1, TCC_I32, TCC_I64 };

typedef struct {
  void *data;           /* of an input, read alone */
  const int64_t *sizes; /* `rank` of them, outermost first */
  int32_t rank;
  int32_t dtype; /* tcc_dtype */
} tcc_tensor;

typedef struct {
  int32_t input_count, output_count;
  const tcc_tensor *inputs, *outputs;
  char *message; /* of a failure: room for message_bytes, the 0 at its end included */
  int64_t message_bytes;
} tcc_custom_call;

typedef int (*tcc_custom_function)(const tcc_custom_call *call);

#endif
