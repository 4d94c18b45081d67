// Types of vector code, by the number of floats of a vector.
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

/// fn of a number of the type: float, Bf16 or F16.
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
  // Anywhere in memory.
  typedef float LooseVector __attribute__((vector_size(lanes * 4), aligned(4), may_alias));
  typedef uint16_t LooseHalves __attribute__((vector_size(lanes * 2), aligned(2), may_alias));
};

} // namespace tcc::runtime::panels
