// Philox: emits calls of the generator of random bits (see random_bits in ir/Ops.td).
#pragma once
#include "codegen/cpu/lane_builder.h"
#include <array>

namespace tcc::cpu {

/// Philox4x32-10 (Salmon et al. 2011). Its words of 32 bits stand in the low halves of 64 bits, and high halves are
/// anything: no step of a round then takes more than one instruction.
class Philox {
public:
  using Words = std::array<mlir::Value, 4>;

  /// `type` is i64, or a vector of it.
  Philox(LaneBuilder &b, mlir::Type type) : b(b), type(type) {}

  Words operator()(Words counter, mlir::Value key0, mlir::Value key1);
  /// The word with a high half of 0.
  mlir::Value low(mlir::Value word);

private:
  LaneBuilder &b;
  mlir::Type type;

  mlir::Value integer(int64_t value) { return b.integer(type, value); }
  mlir::Value product(mlir::Value word, int64_t factor);
  mlir::Value mix(mlir::Value product, mlir::Value word, mlir::Value key);
};

} // namespace tcc::cpu
