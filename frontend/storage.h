// What the handles of array.h share.
#pragma once
#include "frontend/array.h"
#include "runtime/device/mirrored_tensor.h"

namespace tcc::detail {

struct ArrayStorage {
  Shape shape;
  DType dtype;
  runtime::MirroredTensor memory;
};

struct StateStorage {
  std::string name;
  Shape shape;
  DType dtype;
  runtime::MirroredTensor memory;
  // Where the running recording has put it (trace.h): saves a look-up at every use.
  uint32_t trace = 0, value = 0, argument = 0;
};

} // namespace tcc::detail
