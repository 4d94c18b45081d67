// Operands of products as AMX reads them. A panel is 32 lines, rows of A or columns of B, as two tiles for each 32
// elements of depth: tiles of A have a line in each row, those of B pairs of elements of depth, a line after another.
#pragma once
#include "runtime/panels/operand.h"

/// Of functions with AMX's and AVX-512's instructions: called only where hasTiles() (runtime/cpu.h) holds.
#define TCC_TILES __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,prfchw")))

namespace tcc::runtime::tiles {

constexpr int64_t panelLines = 32, tileDepth = 32, tileBytes = 1024;

enum class Side : uint8_t { left, right };

/// Of f32 three: x is the sum of three bf16, each the nearest to what is left of it; then their residue is 0.
constexpr int partsOf(DType dtype) {
  return dtype == DType::f32 ? 3 : 1;
}

/// A stretch of panels of one operand over some of its depth.
struct Stretch {
  int64_t firstPanel = 0, panels = 0;
  int64_t firstDepth = 0, depth = 0;
};

/// Bytes of a panel: for each tile's depth, for each part, two tiles.
constexpr int64_t panelBytes(int64_t depth, int parts) {
  return ceilDiv(depth, tileDepth) * parts * 2 * tileBytes;
}

/// Whether a panel's three parts say what its f32 elements are, by the bits of the greatest magnitude: it is finite and
/// rounds to no infinity, and so large (2^-100) that what is left of its like after two parts is a normal number.
constexpr bool splits(uint32_t greatest) {
  return greatest == 0 || (greatest >= 0x0D800000 && greatest < 0x7F000000);
}

/// Writes the panels to `to` (64-byte aligned), zeros where the operand ends, and of f32 the bits of each panel's
/// greatest magnitude to `greatest`.
void pack(const ProductOperand &operand, Side side, const Stretch &stretch, char *to, uint32_t *greatest);

} // namespace tcc::runtime::tiles
