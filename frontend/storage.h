// ArrayStorage and StateStorage: what all copies of an Array or a State (array.h) share.
#pragma once
#include "frontend/array.h"
#include "runtime/device/mirrored_tensor.h"
#include <vector>

namespace tcc::detail {

struct ArrayStorage {
  Shape shape;
  DType dtype;
  runtime::MirroredTensor memory;
  bool sharesMemory = false; ///< whether the host's bytes are those that Array::wrap() was given
};

struct StateStorage {
  std::string name;
  Shape shape;
  DType dtype;
  runtime::MirroredTensor memory;
  std::vector<int64_t> partBytes = {}; ///< of each rank, one after the other; empty: the memory has the whole
};

} // namespace tcc::detail
