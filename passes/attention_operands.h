// Makes the operands of flash_attention from those of a matched attention: heads are moved after tokens, keys and
// values are taken before their repetition for groups, and factors of queries and keys go into the scale. All operands
// are views of values that the graph computes anyway.
#pragma once
#include "passes/attention_pattern.h"

namespace tcc {

struct AttentionOperands {
  mlir::Value q, k, v; // [B, T, H, d], [B, S, G, d]
  double scale;
};

/// The operands of `pattern`. A value that a tcc.gradient asks for stays part of the computation.
AttentionOperands attentionOperands(Emit &emit, LiteralRows &rows, const AttentionPattern &pattern);
/// `out` [B, T, H, d] in the shape that the result of `pattern.mix` has.
mlir::Value mixOf(Emit &emit, const AttentionPattern &pattern, mlir::Value out);

} // namespace tcc
