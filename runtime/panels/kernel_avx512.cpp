// Matmuls by AVX-512, widened to f32.
#include "runtime/panels/kernel.h"
#include "runtime/panels/vectors.h"
#include <algorithm>
#include <array>
#include <bit>
#include <immintrin.h>
#include <type_traits>
#include <utility>

#define TCC_VECTOR_CODE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")))
#define TCC_INLINE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c"), always_inline)) inline

namespace tcc::runtime::panels {
namespace {

#include "runtime/panels/avx512_code.h"

#include "runtime/panels/unpacked_code.h"

#include "runtime/panels/vector_code.h"

#include "runtime/panels/few_rows_code.h"

} // namespace

const Kernel avx512Kernel{"avx512",           blockRows, blockColumns, packedDepth, pack<blockRows>,
                          pack<blockColumns>, multiply,  multiplyFew,  widen,       multiplyInRegisters};

} // namespace tcc::runtime::panels
