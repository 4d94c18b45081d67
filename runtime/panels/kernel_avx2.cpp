// Matmuls by AVX2 and FMA. Widths are 6 rows by 16 columns: 12 registers of sums leave 4 for operands, and the sums
// are more than two pipes of multiply-adds have under way.
#include "runtime/panels/kernel.h"
#include "runtime/panels/vectors.h"
#include <algorithm>
#include <array>
#include <bit>
#include <immintrin.h>
#include <type_traits>
#include <utility>

#define TCC_VECTOR_CODE __attribute__((target("avx2,fma,f16c")))
#define TCC_INLINE __attribute__((target("avx2,fma,f16c"), always_inline)) inline

namespace tcc::runtime::panels {
namespace {

constexpr int64_t lanes = 8, registers = 16, blockRows = 6;
using Vector = Vectors<lanes>::Vector;
using Bits = Vectors<lanes>::Bits;
using Halves = Vectors<lanes>::Halves;
using LooseVector = Vectors<lanes>::LooseVector;
using LooseHalves = Vectors<lanes>::LooseHalves;

TCC_INLINE Vector broadcast(const float *x) {
  return _mm256_broadcast_ss(x);
}
TCC_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) {
  return _mm256_fmadd_ps(a, b, c);
}
TCC_INLINE Vector lowPairs(Vector a, Vector b) {
  return _mm256_unpacklo_ps(a, b);
}
TCC_INLINE Vector highPairs(Vector a, Vector b) {
  return _mm256_unpackhi_ps(a, b);
}
TCC_INLINE Vector lowHalves(Vector a, Vector b) {
  return _mm256_shuffle_ps(a, b, 0x44);
}
TCC_INLINE Vector highHalves(Vector a, Vector b) {
  return _mm256_shuffle_ps(a, b, 0xEE);
}
TCC_INLINE Vector widen(Halves x, F16) {
  return _mm256_cvtph_ps(reinterpret_cast<__m128i>(x));
}
TCC_INLINE Halves narrow(Vector x, F16) {
  return reinterpret_cast<Halves>(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
TCC_INLINE Vector widen(Halves x, Bf16);

TCC_INLINE Vector joinFours(const float *const *lines, int64_t at) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(lines[0] + at)), _mm_loadu_ps(lines[4] + at), 1);
}
template <typename Half>
TCC_INLINE Vector joinFours(const Half *const *lines, int64_t at) {
  const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(lines[0] + at));
  const __m128i high = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(lines[4] + at));
  return widen(reinterpret_cast<Halves>(_mm_unpacklo_epi64(low, high)), Half());
}

#include "runtime/panels/unpacked_code.h"

#include "runtime/panels/vector_code.h"

#include "runtime/panels/few_rows_code.h"

} // namespace

const Kernel avx2Kernel{"avx2",   blockRows,   blockColumns, packedDepth,        pack<blockRows>, pack<blockColumns>,
                        multiply, multiplyFew, widen,        multiplyInRegisters};

} // namespace tcc::runtime::panels
