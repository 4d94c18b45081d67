// What one instruction set does for products by panels: packing of operands, and the product of packed panels.
#pragma once
#include "runtime/panels/operand.h"

namespace tcc::runtime::panels {

/// Panels of an operand over some of its depth, widened to f32: element (line, depth) of a panel of `width` lines is
/// number depth * width + line of it. Of a kernel with packedDepth 2 a float holds two numbers of bf16 instead, those
/// of depths 2 i and 2 i + 1, where the second is 0 behind the last depth.
struct Panels {
  float *data = nullptr; // 64-byte aligned
  int64_t stride = 0;    // floats from one panel to the next: panelFloats
};

/// Floats of a panel: whole lines of the caches, with room for a vector that begins at its last elements.
constexpr int64_t panelFloats(int64_t width, int64_t depth) {
  return ceilDiv(width * depth + 8, 16) * 16;
}

/// What becomes of the sums of a block of C.
struct Results {
  void *c = nullptr;           // the block's first element
  DType dtype = DType::f32;    // f32, bf16 or f16
  int64_t stride = 0;          // elements between rows
  const float *bias = nullptr; // a number a column, whole vectors; added where it is not null
  bool accumulate = false;     // what C has is added
  // Of 16-bit results over more than one stretch of depth: what has been summed, in whole blocks of registers.
  float *sums = nullptr;
  int64_t sumsStride = 0;
  bool isBegun = false, isLast = true; // whether sums are added to, and whether C is written
};

/// A block of C: rows of some left panels times columns of some right ones.
struct Block {
  Panels left, right; // from the block's first panels on
  int64_t rows = 0, columns = 0;
  int64_t depth = 0; // of the panels, in floats
  Results results;
};

/// Some columns of a product of few rows.
struct FewRows {
  const float *left = nullptr; // a row after another, widened
  int64_t leftStride = 0, rows = 0;
  ProductOperand right; // its lines are the columns
  Results results;
};

/// Columns of such a product that are multiplied at once: where a thread's part begins at a multiple of it, an
/// element's sum is the same whatever the part.
constexpr int64_t fewColumns = 192;

/// Rows of A up to which a product is one of few rows.
constexpr int64_t mostFewRows = 8;

struct Kernel {
  const char *name;
  int64_t rows, columns; // of C that registers hold: the widths of left and right panels
  int64_t packedDepth;   // numbers of depth that a float of a panel holds
  /// Writes panels [firstPanel, firstPanel + panels) of the operand to their places. Lines that it does not have are
  /// filled with what does no harm: no result reads them.
  void (*packLeft)(const ProductOperand &operand, int64_t firstPanel, int64_t panels, const Panels &to);
  void (*packRight)(const ProductOperand &operand, int64_t firstPanel, int64_t panels, const Panels &to);
  /// Each element's products are added in the order of depth, whatever the block is.
  void (*multiply)(const Block &block);
  void (*multiplyFew)(const FewRows &few);
  /// The operand's lines one after another.
  void (*widen)(const ProductOperand &operand, float *to);
};

/// Any x86-64 CPU runs it: products and sums are rounded one after another.
extern const Kernel sse2Kernel;
/// Of CPUs with avx2, fma and f16c.
extern const Kernel avx2Kernel;
/// Of CPUs with AVX-512 as x86-64-v4 has it.
extern const Kernel avx512Kernel;

/// Of those that multiply bf16 too; it takes no other operands.
extern const Kernel avx512Bf16Kernel;

/// The best one of this CPU for operands of a type.
const Kernel &bestKernel(DType dtype);

} // namespace tcc::runtime::panels
