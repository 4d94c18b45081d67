// Kernel: the functions with which one instruction set computes matmuls by panels. They pack operands, and multiply
// packed panels.
#pragma once
#include "runtime/panels/operand.h"

namespace tcc::runtime::panels {

/// Panels of an operand over some of its depth, widened to f32. In a panel of `width` lines, element (line, depth) is
/// float number depth * width + line. If the kernel's packedDepth is 2, float number i * width + line holds two bf16
/// numbers instead, those of depths 2 i and 2 i + 1; the second is 0 after the last depth.
struct Panels {
  float *data = nullptr; // 64-byte aligned
  int64_t stride = 0;    // floats from one panel to the next: panelFloats
};

/// Floats of a panel: a whole number of cache lines, with room for a vector that begins at the panel's last elements.
constexpr int64_t panelFloats(int64_t width, int64_t depth) {
  return ceilDiv(width * depth + 8, 16) * 16;
}

/// What becomes of the sums of a block of C.
struct Results {
  void *c = nullptr;           // the block's first element
  DType dtype = DType::f32;    // f32, bf16 or f16
  int64_t stride = 0;          // elements between rows
  const float *bias = nullptr; // one number for each column, in whole vectors; null: no bias
  bool accumulate = false;     // whether the sums are added to what C holds
  // For 16-bit results whose depth has several stretches: the sums so far, in whole blocks of registers.
  float *sums = nullptr;
  int64_t sumsStride = 0;
  bool isBegun = false, isLast = true; // whether sums are added to, and whether C is written
};

/// Memory that will be packed after a block, which is brought near while the block is multiplied: `rows` pieces of
/// `bytes` bytes, `stride` bytes apart.
struct Upcoming {
  const char *data = nullptr;
  int64_t rows = 0, bytes = 0, stride = 0;
};

/// A block of C: the rows of some left panels times the columns of some right panels.
struct Block {
  Panels left, right; // from the block's first panels on
  int64_t rows = 0, columns = 0;
  int64_t depth = 0; // of the panels, in floats
  Results results;
  Upcoming upcoming;
};

/// Some columns of a matmul of few rows.
struct FewRows {
  const float *left = nullptr; // the rows of A one after another, widened to f32
  int64_t leftStride = 0, rows = 0;
  ProductOperand right; // its lines are the columns
  Results results;
};

/// How many columns of a matmul of few rows are multiplied at once. If each thread's part begins at a multiple of it,
/// an element's sum does not depend on how the columns are divided.
constexpr int64_t fewColumns = 192;

/// The most rows of A for which a matmul counts as one of few rows.
constexpr int64_t mostFewRows = 8;

struct Kernel {
  const char *name;
  int64_t rows, columns; // the rows and columns of C that registers hold: the widths of left and right panels
  int64_t packedDepth;   // for how many depths a float of a panel holds numbers
  /// Writes panels [firstPanel, firstPanel + panels) of the operand to their places. Lines that the operand does not
  /// have are filled with any numbers; no result reads them.
  void (*packLeft)(const ProductOperand &operand, int64_t firstPanel, int64_t panels, const Panels &to);
  void (*packRight)(const ProductOperand &operand, int64_t firstPanel, int64_t panels, const Panels &to);
  /// Each element's products are added in the order of depth, whatever the block is.
  void (*multiply)(const Block &block);
  void (*multiplyFew)(const FewRows &few);
  /// Writes the operand's lines as f32, one after another.
  void (*widen)(const ProductOperand &operand, float *to);
  /// A bare loop of multiply-adds, which is what a matmul's speed is a share of. Gives the number of operations.
  double (*multiplyInRegisters)(int64_t turns);
};

/// For any x86-64 CPU. It has no fused multiply-add: a product is rounded before it is added.
extern const Kernel sse2Kernel;
/// For CPUs with avx2, fma and f16c.
extern const Kernel avx2Kernel;
/// For CPUs with AVX-512 as x86-64-v4 has it.
extern const Kernel avx512Kernel;

/// For CPUs that also multiply bf16. It takes operands of bf16 alone.
extern const Kernel avx512Bf16Kernel;

/// The best kernel of this CPU for operands of a type.
const Kernel &bestKernel(DType dtype);

} // namespace tcc::runtime::panels
