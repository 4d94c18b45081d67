// Gemm: matmuls on the CPU, by AMX's tiles or by panels: C[b] = A[b] * B[b] (+ bias) (+ C[b]). Each operand has
// strides, counted in elements. Equal inputs give equal bits for any number of threads.
#pragma once
#include "runtime/dtype.h"
#include "runtime/error.h"
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace tcc::runtime {

/// How one operand lies in memory; strides are in elements and at least 0.
struct MatrixLayout {
  DType dtype = DType::f32;
  int64_t rowStride = 0;
  int64_t columnStride = 1;
  std::array<int64_t, 2> batchStrides{0, 0}; ///< of the outer and inner batch dims; 0 broadcasts (a and b only)

  bool operator==(const MatrixLayout &) const = default;
};

/// A is [batch..., m, k], B is [batch..., k, n], C is [batch..., m, n]. There are two batch dims, so that heads inside
/// a packed [batch, tokens, heads * width] tensor need no copy. A transpose is a swap of an operand's two strides.
/// Dtypes: all f32, or a and b bf16 (or f16) with c of their type or f32; products accumulate in f32.
struct GemmDesc {
  std::array<int64_t, 2> batch{1, 1};
  int64_t m = 0, n = 0, k = 0;
  MatrixLayout a, b, c;
  bool accumulate = false;   ///< beta: C += instead of C =
  std::optional<DType> bias; ///< dtype of a dense [n] row that is added to every row of C, if any
  bool tf32 = false;         ///< f32 operands may be rounded to TF32 where a device has it
  /// Whether each sum is multiplied by GELU's slope (in its tanh form) at the same element of a further tensor, which
  /// has C's type and layout. This needs a 16-bit C, and no batches, bias or accumulation. The CPU does not have it.
  bool geluGradient = false;

  int64_t batchCount() const { return batch[0] * batch[1]; }
  int64_t flops() const { return 2 * batchCount() * m * n * k; }

  bool operator==(const GemmDesc &) const = default;
};

/// Bytes from an operand's first element to the end of its last one.
struct GemmExtents {
  int64_t a = 0, b = 0, c = 0, bias = 0;
};

/// Checks sizes, strides and dtypes, and gives the bytes that each operand must have. Errors: a negative or overflowing
/// size or stride, a C that is broadcast or overlaps itself, a combination of dtypes that is not supported.
Expected<GemmExtents> gemmExtents(const GemmDesc &desc);

/// The layout with strides that make a matrix with one row or one column look dense: such a dim may have any stride.
MatrixLayout normalized(MatrixLayout layout, int64_t rows, int64_t columns);

/// The same matmul as C^T = B^T A^T. If C has unit row stride, its transpose has unit column stride.
GemmDesc transposed(const GemmDesc &desc);

/// "f32 1x1 4096x384x1536 a[384,1] b[1,1536] c[1536,1] +c +bias *gelu'": for labels and errors.
std::string describe(const GemmDesc &desc);

/// Memory for B as panels, which is packed once for several matmuls. Those have equal descriptions and thread counts,
/// and the same B.
struct PackedOperand {
  void *data = nullptr;  ///< Gemm::packedBytes() bytes, 64-byte aligned; null: B is packed into scratch
  bool isPacked = false; ///< whether a matmul before has packed B there; otherwise this one does
};

/// A matmul that is ready to run. It is built once and runs any number of times, on one thread at a time.
class Gemm {
public:
  /// `threads` is the number of threads that run() will use. Errors: those of gemmExtents; an operand without a unit
  /// stride, which the error names so that the compiler copies it.
  static Expected<Gemm> create(const GemmDesc &desc, int threads);

  Gemm(Gemm &&) noexcept;
  Gemm &operator=(Gemm &&) noexcept;
  ~Gemm();

  /// Bytes of 64-byte aligned scratch that run() needs; 0 for none.
  int64_t scratchpadBytes() const;
  /// What computes the matmul: "amx bf16", "amx 3 x bf16" (for f32), "avx512 f32", "avx512bf16 bf16", "avx2 f32", "sse2
  /// bf16"; "zero" or "none" for empty matmuls.
  const std::string &implementation() const;
  /// Bytes of a PackedOperand; 0 if this matmul keeps none: it has few rows or several batches, or is by tiles.
  int64_t packedBytes() const;
  /// Runs it once. `bias` may be null if the description has none, and `scratch` if scratchpadBytes() is 0. `packed`
  /// has no data if packedBytes() is 0.
  void run(const void *a, const void *b, void *c, const void *bias, void *scratch, PackedOperand packed = {}) const;

private:
  struct Impl;
  explicit Gemm(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// The names of the instruction sets that matmuls use on this CPU. A measured speed holds for these.
std::string productInstructions();

/// Whether this CPU has instructions that multiply bf16. If not, bf16 is widened to f32, and is no faster.
bool multipliesBf16();

/// Bytes of scratch that a matmul needs at this thread count, for the compiler's memory plan. Errors as for
/// Gemm::create.
Expected<int64_t> scratchpadBytes(const GemmDesc &desc, int threads);

/// Gemm::packedBytes(), for the compiler's memory plan. Errors as for Gemm::create.
Expected<int64_t> packedBytes(const GemmDesc &desc, int threads);

} // namespace tcc::runtime
