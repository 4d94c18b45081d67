// Packs operands of matmuls as AMX reads them. A panel holds 32 lines (rows of A or columns of B). For each 32 elements
// of depth it has two tiles. A row of a tile of A is one line; a row of a tile of B has, for each of its lines, the
// elements of two neighbouring depths.
#pragma once
#include "runtime/panels/operand.h"

/// The attribute of functions that use AMX and AVX-512; they are called only where hasTiles() (runtime/cpu.h) is true.
#define TCC_TILES __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,prfchw")))

namespace tcc::runtime::tiles {

constexpr int64_t panelLines = 32, tileDepth = 32, tileBytes = 1024;

enum class Side : uint8_t { left, right };

/// How many bf16 parts an element has. An f32 x is the exact sum of three: each part is the bf16 nearest to what
/// remains of x after the parts before it, and nothing remains after the third.
constexpr int partsOf(DType dtype) {
  return dtype == DType::f32 ? 3 : 1;
}

/// Some neighbouring panels of one operand, over some of its depth.
struct Stretch {
  int64_t firstPanel = 0, panels = 0;
  int64_t firstDepth = 0, depth = 0;
};

/// Bytes of a panel: for each tile's depth, for each part, two tiles.
constexpr int64_t panelBytes(int64_t depth, int parts) {
  return ceilDiv(depth, tileDepth) * parts * 2 * tileBytes;
}

/// Whether the f32 elements of a panel can be split into three parts. `greatest` are the bits of the greatest
/// magnitude. It must be finite and must not round to infinity. It must also be so large (2^-100) that what remains of
/// it after two parts is a normal number.
constexpr bool splits(uint32_t greatest) {
  return greatest == 0 || (greatest >= 0x0D800000 && greatest < 0x7F000000);
}

/// Writes the panels to `to` (64-byte aligned), with zeros after the operand's end. For f32 it also writes the bits of
/// each panel's greatest magnitude to `greatest`.
void pack(const ProductOperand &operand, Side side, const Stretch &stretch, char *to, uint32_t *greatest);

} // namespace tcc::runtime::tiles
