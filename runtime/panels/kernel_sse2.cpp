// Matmuls by what every x86-64 CPU has, and the choice among instruction sets.
#include "runtime/cpu.h"
#include "runtime/panels/kernel.h"
#include "runtime/panels/vectors.h"
#include <algorithm>
#include <array>
#include <bit>
#include <emmintrin.h>
#include <type_traits>
#include <utility>

#define TCC_VECTOR_CODE
#define TCC_INLINE __attribute__((always_inline)) inline

namespace tcc::runtime::panels {
namespace {

constexpr int64_t lanes = 4, registers = 16, blockRows = 4;
using Vector = Vectors<lanes>::Vector;
using Bits = Vectors<lanes>::Bits;
using Halves = Vectors<lanes>::Halves;
using LooseVector = Vectors<lanes>::LooseVector;
using LooseHalves = Vectors<lanes>::LooseHalves;

TCC_INLINE Vector broadcast(const float *x) {
  return _mm_set1_ps(*x);
}
TCC_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) {
  return a * b + c;
}
TCC_INLINE Vector lowPairs(Vector a, Vector b) {
  return _mm_unpacklo_ps(a, b);
}
TCC_INLINE Vector highPairs(Vector a, Vector b) {
  return _mm_unpackhi_ps(a, b);
}
TCC_INLINE Vector lowHalves(Vector a, Vector b) {
  return _mm_movelh_ps(a, b);
}
TCC_INLINE Vector highHalves(Vector a, Vector b) {
  return _mm_movehl_ps(b, a);
}
TCC_INLINE Vector widen(Halves x, Bf16);

/// Exponents of f16 are moved to f32's by a product, which makes normal numbers of subnormal ones.
TCC_INLINE Vector widen(Halves x, F16) {
  const Bits bits = __builtin_convertvector(x, Bits);
  const Vector number = reinterpret_cast<Vector>((bits & 0x7FFF) << 13) * 0x1p112f;
  const Bits isSpecial = reinterpret_cast<Bits>((bits & 0x7C00) == 0x7C00);
  return reinterpret_cast<Vector>(reinterpret_cast<Bits>(number) | (isSpecial & 0x7F800000) | (bits & 0x8000) << 16);
}
TCC_INLINE Halves narrow(Vector x, F16) {
  Halves result;
  for (int64_t i = 0; i < lanes; ++i)
    result[i] = floatToF16(x[i]);
  return result;
}

TCC_INLINE Vector joinFours(const float *const *lines, int64_t at) {
  return _mm_loadu_ps(lines[0] + at);
}
template <typename Half>
TCC_INLINE Vector joinFours(const Half *const *lines, int64_t at) {
  return widen(*reinterpret_cast<const LooseHalves *>(lines[0] + at), Half());
}

#include "runtime/panels/unpacked_code.h"

#include "runtime/panels/vector_code.h"

#include "runtime/panels/few_rows_code.h"

} // namespace

const Kernel sse2Kernel{"sse2",   blockRows,   blockColumns, packedDepth,        pack<blockRows>, pack<blockColumns>,
                        multiply, multiplyFew, widen,        multiplyInRegisters};

/// Only AMD's CPUs multiply pairs of bf16 faster than f32. Intel's have AMX for that, which a virtual machine may hide;
/// there the f32 kernel multiplies bf16 operands at 1.8 times the speed (Emerald Rapids).
static bool hasFastPairs() {
  return !requireCpuFeatures("avx512bf16") && __builtin_cpu_is("amd") != 0;
}

const Kernel &bestKernel(DType dtype) {
  if (!requireCpuFeatures("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c"))
    return dtype == DType::bf16 && hasFastPairs() ? avx512Bf16Kernel : avx512Kernel;
  return requireCpuFeatures("avx2,fma,f16c") ? sse2Kernel : avx2Kernel;
}

} // namespace tcc::runtime::panels
