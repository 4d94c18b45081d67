// The types of vector code, which depend on the number of floats in a vector.
#pragma once
#include "runtime/dtype.h"

namespace tcc::runtime::panels {

/// 16-bit floats, told apart by type.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

/// Calls fn with a number of the C++ type for `dtype`: float, Bf16 or F16.
template <typename Fn>
void byType(DType dtype, Fn &&fn) {
  if (dtype == DType::f32)
    fn(float());
  else if (dtype == DType::bf16)
    fn(Bf16());
  else
    fn(F16());
}

template <int64_t lanes>
struct Vectors {
  typedef float Vector __attribute__((vector_size(lanes * 4)));
  typedef uint32_t Bits __attribute__((vector_size(lanes * 4)));
  typedef uint16_t Halves __attribute__((vector_size(lanes * 2)));
  // For vectors anywhere in memory, without alignment.
  typedef float LooseVector __attribute__((vector_size(lanes * 4), aligned(4), may_alias));
  typedef uint16_t LooseHalves __attribute__((vector_size(lanes * 2), aligned(2), may_alias));
};

} // namespace tcc::runtime::panels
