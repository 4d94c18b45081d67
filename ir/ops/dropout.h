// Dropout written in primitives. The dropout op, attention's expansion and the passes that look for dropout share it.
#pragma once
#include "ir/emit.h"

namespace tcc {

/// Which elements are dropped: those whose random bits (seed, stream, first), as an unsigned number, are below
/// rate · 2^32, rounded down.
struct Dropout {
  double rate = 0; ///< 0 <= rate < 1
  mlir::Value seed;
  uint64_t stream = 0;
  mlir::Value first; ///< the operand `first` of random_bits; may be null
};

/// rate · 2^32, rounded down.
uint32_t dropThreshold(double rate);
/// What kept elements are multiplied by: 1 / (1 - dropThreshold(rate) / 2^32).
double keepScale(double rate);

/// x · keepScale where the element is kept, else 0; x is f32.
mlir::Value dropOut(Emit &b, mlir::Value x, const Dropout &dropout);

/// Recognises what dropOut() has made: gives the x and the dropout whose result `value` is. The rate that it finds is
/// dropThreshold / 2^32, which drops the same elements.
struct DroppedOut {
  mlir::Value x;
  Dropout dropout;
};
std::optional<DroppedOut> matchDropOut(mlir::Value value);

} // namespace tcc
