// Packs operands of matmuls as AMX reads them. A panel holds 32 lines (rows of A or columns of B) in two tiles for each
// 32 elements of depth. Each row of a tile of A is a line; each row of a tile of B is a pair of elements of depth of
// one line after another.
#pragma once
#include "runtime/panels/operand.h"

/// The attribute of functions that use AMX and AVX-512; they are called only where hasTiles() (runtime/cpu.h) is true.
#define TCC_TILES __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,prfchw")))

namespace tcc::runtime::tiles {

constexpr int64_t panelLines = 32, tileDepth = 32, tileBytes = 1024;

enum class Side : uint8_t { left, right };

/// How many bf16 parts an element has. An f32 has three: x is the sum of three bf16, each the nearest to what the ones
/// before leave of x; nothing is left after the third.
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

/// Whether three parts stand for a panel's f32 elements. `greatest` are the bits of the greatest magnitude: it must be
/// finite, must not round to infinity, and must be so large (2^-100) that what two parts leave of it is a normal
/// number.
constexpr bool splits(uint32_t greatest) {
  return greatest == 0 || (greatest >= 0x0D800000 && greatest < 0x7F000000);
}

/// Writes the panels to `to` (64-byte aligned), with zeros after the operand's end. For f32 it also writes the bits of
/// each panel's greatest magnitude to `greatest`.
void pack(const ProductOperand &operand, Side side, const Stretch &stretch, char *to, uint32_t *greatest);

} // namespace tcc::runtime::tiles
