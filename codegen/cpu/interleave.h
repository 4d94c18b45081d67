// interleaveVectors: the order of a loop's ops where one turn computes several vectors that do not need each other.
#pragma once
#include "codegen/cpu/lane_builder.h"

namespace tcc::cpu {

/// Says of the loop that was emitted last that the vectors of a turn may be computed in any order, and side by side:
/// none reads memory that another one writes.
void mayInterleave(LaneBuilder &b);

/// Orders such loops below `root` by steps, where a vector's computation is long: the first step of each vector, then
/// the second of each. A CPU looks one or two hundred instructions ahead. These are three vectors of a long
/// computation, each of which would wait for its last step most of the time. Call it after expandMath().
void interleaveVectors(mlir::Operation *root);

} // namespace tcc::cpu
