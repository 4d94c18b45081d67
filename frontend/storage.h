// What the handles of array.h share.
#pragma once
#include "frontend/array.h"
#include "runtime/device/mirrored_tensor.h"
#include <vector>

namespace tcc::detail {

struct ArrayStorage {
  Shape shape;
  DType dtype;
  runtime::MirroredTensor memory;
  bool sharesMemory = false; ///< with whom it was wrapped for
};

struct StateStorage {
  std::string name;
  Shape shape;
  DType dtype;
  runtime::MirroredTensor memory;
  std::vector<int64_t> partBytes = {}; ///< of each rank, one after the other; empty: the memory has the whole
};

} // namespace tcc::detail
