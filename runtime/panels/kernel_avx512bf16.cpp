// Products of bf16 by the instructions that AVX-512 has for them: two numbers of depth in a lane. They take numbers
// below 2^-126 for zeros, and round each sum to nearest.
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

#include "runtime/panels/avx512_code.h"

constexpr int64_t packedDepth = 2;

TCC_INLINE Vector multiplyPacked(Vector a, Vector b, Vector c) {
  return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
template <typename T>
TCC_INLINE Vector joinPacked(const T *const *lines, int64_t at) {
  return joinBytes(lines, at);
}

#include "runtime/panels/vector_code.h"

#include "runtime/panels/few_rows_code.h"

} // namespace

const Kernel avx512Bf16Kernel{"avx512bf16",       blockRows, blockColumns, packedDepth, pack<blockRows>,
                              pack<blockColumns>, multiply,  multiplyFew,  widen};

} // namespace tcc::runtime::panels
