// Makes the operands of flash_attention from those of a matched attention. The dim of heads is moved after that of
// tokens. Keys and values are taken before they are repeated for groups of heads. Factors of queries and keys become
// part of the scale. All operands are views of values that the graph computes anyway.
#pragma once
#include "passes/attention_pattern.h"

namespace tcc {

struct AttentionOperands {
  mlir::Value q, k, v; // [B, T, H, d], [B, S, G, d]
  double scale;
};

/// The operands of `pattern`. If a tcc.gradient asks for the gradient of a value on the way, the operands are still
/// computed from that value.
AttentionOperands attentionOperands(Emit &emit, LiteralRows &rows, const AttentionPattern &pattern);
/// `out`, which is [B, T, H, d], in the shape of the result of `pattern.mix`.
mlir::Value mixOf(Emit &emit, const AttentionPattern &pattern, mlir::Value out);

} // namespace tcc
