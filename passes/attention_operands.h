// The operands of flash_attention out of those of a matched attention: heads behind tokens, keys below their
// repetition for groups, factors of queries and keys in the scale. All are views but for what was computed anyway.
#pragma once
#include "passes/attention_pattern.h"

namespace tcc {

struct AttentionOperands {
  mlir::Value q, k, v; // [B, T, H, d], [B, S, G, d]
  double scale;
};

/// Values that a gradient is asked for are kept on the way.
AttentionOperands attentionOperands(Emit &emit, LiteralRows &rows, const AttentionPattern &pattern);
/// `out` [B, T, H, d] in the shape that the product with the values has.
mlir::Value mixOf(Emit &emit, const AttentionPattern &pattern, mlir::Value out);

} // namespace tcc
