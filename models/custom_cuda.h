// An example of a custom op with CUDA text.
#pragma once
#include <tcc/tcc.h>

namespace tcc::models {

/// x [rows, columns] with row i multiplied by factors[i]. A block has a row. The text is of the primitives that
/// codegen/cuda/device/README.md lists, so that the emulator runs it as well as NVRTC compiles it.
inline Custom scaleRows() {
  return customOp(
      {.name = "scale_rows",
       .body = [](const Tensor &x, const Tensor &factors) { return x * reshape(factors, {factors.dim(0), 1}); },
       .gradient =
           [](const Tensor &x, const Tensor &factors, const Tensor &, const Tensor &dy) {
             return std::pair(dy * reshape(factors, {factors.dim(0), 1}), sum(dy * x, 1));
           },
       .cuda = {.text = R"(// x [rows, columns], row i times factors[i]; a block a row
KERNEL(scale_rows, 128, 1)(const float *RESTRICT x, const float *RESTRICT factors, float *RESTRICT out, i64 columns) {
  i64 row = block_x();
  for (i64 column = thread_x(); column < columns; column += block_size())
    out[row * columns + column] = x[row * columns + column] * factors[row];
}
)",
                .kernel = "scale_rows",
                .launch = [](ValueTypes operands, ValueTypes) -> CudaLaunch {
                  const Shape &shape = operands[0].shape;
                  return {.grid = {shape[0], 1, 1}, .block = {128, 1, 1}, .arguments = {shape[1]}};
                }}});
}

} // namespace tcc::models
