// Attention as people write it, and what is near to it and none: one block of a random graph.
#pragma once
#include "ir/emit.h"
#include "tests/random_graphs/dice.h"

namespace tcc::test {

struct HandwrittenAttention {
  mlir::Value result;
  mlir::Value probabilities; // where others read them too; mostly null
};

/// softmax(scale · q·kᵀ, masked)·v in one of many spellings. q is [batch, heads, queries, width], k and v
/// [batch, heads, keys, width], of one float type; `seed` is a dropout's, if one is drawn.
HandwrittenAttention writeAttention(Emit &emit, Dice &dice, mlir::Value q, mlir::Value k, mlir::Value v,
                                    mlir::Value seed);

} // namespace tcc::test
