// What vector code may use, apart from lane_builder.h, so that the header of the target brings in no LLVM dialect.
#pragma once

namespace tcc::cpu {

/// What the target offers to vector code.
struct VectorTarget {
  unsigned lanes = 4;           // of 32 bits
  bool hasAvx512 = false;       // masks and scalef
  bool hasFma = false;          // x · y + z in one rounding
  bool hasF16 = false;          // conversions to and from f16
  bool hasBf16Products = false; // products of pairs of bf16, 16 lanes at once
  bool hasTiles = false;        // products of tiles of bf16 by AMX
  bool steady = false;          // EmitOptions::steady

  /// Whether whole vectors have an instruction for x · 2^n that is right for each n.
  bool hasScaling() const { return hasAvx512 && lanes == 16; }
};

} // namespace tcc::cpu
