// Kernel: matmuls of bf16 operands on CPUs that have VDPBF16PS. Each 32-bit lane holds two bf16 numbers that follow one
// another in depth (the dimension that is summed over); one instruction adds both of a lane's products to an f32 sum.
// It treats numbers of magnitude below 2^-126 as zeros and rounds to nearest. Matmuls of few rows use f32 FMA instead.
#include "runtime/panels/kernel.h"
#include "runtime/panels/vectors.h"
#include <algorithm>
#include <array>
#include <bit>
#include <immintrin.h>
#include <type_traits>
#include <utility>

#define TCC_VECTOR_CODE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c,avx512bf16")))
#define TCC_INLINE                                                                                                     \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c,avx512bf16"), always_inline)) inline

namespace tcc::runtime::panels {
namespace {

// The code is included here so that it is compiled for these instructions; the parts use one another in this order.
#include "runtime/panels/avx512_code.h"

constexpr int64_t packedDepth = 2; // bf16 numbers of depth that a 32-bit word of a packed panel holds

TCC_INLINE Vector multiplyPacked(Vector a, Vector b, Vector c) {
  return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
/// Eight numbers of depth, which are four words of a packed panel, of each of four lines (joinBytes).
template <typename T>
TCC_INLINE Vector joinPacked(const T *const *lines, int64_t at) {
  return joinBytes(lines, at);
}

#include "runtime/panels/vector_code.h"

#include "runtime/panels/few_rows_code.h"

} // namespace

const Kernel avx512Bf16Kernel{"avx512bf16",       blockRows, blockColumns, packedDepth, pack<blockRows>,
                              pack<blockColumns>, multiply,  multiplyFew,  widen,       multiplyInRegisters};

} // namespace tcc::runtime::panels
