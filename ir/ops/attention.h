// What flash_attention and its gradient share: sizes by name, and which keys a query sees.
#pragma once
#include "ir/dialect.h"

namespace tcc {

/// The sizes of q [B, T, H, d] and k, v [B, S, G, d].
struct AttentionSizes {
  int64_t batch, queries, keys, heads, keyHeads, width;
  int64_t group() const { return heads / keyHeads; }
};

/// Which keys a query sees: s <= t + diagonal, and with a window also s > t + diagonal - window.
struct AttentionMask {
  std::optional<int64_t> diagonal, window;

  /// The keys [first, end) that query `t` of a row of `keys` keys sees; first >= end where it sees none.
  std::pair<int64_t, int64_t> visibleKeys(int64_t t, int64_t keys) const;
  /// How many pairs of a query and a key are visible in one head.
  int64_t visiblePairs(int64_t queries, int64_t keys) const;
  /// {before, last} of the keys that query t sees, which are (t + before, t + last]. Both are clamped to the number of
  /// queries and keys together, beyond which a bound changes nothing.
  std::pair<int64_t, int64_t> bounds(int64_t queries, int64_t keys) const;
  /// Whether a query sees no key at all.
  bool hidesWholeRows(int64_t queries, int64_t keys) const;
};

/// The bias of flash_attention or of one of its gradients; null where it has none.
mlir::Value attentionBias(mlir::Operation *op);
AttentionSizes attentionSizes(FlashAttentionOp op);
AttentionSizes attentionSizes(FlashAttentionBackwardOp op);
AttentionSizes attentionSizes(FlashAttentionPackedGradientOp op);
AttentionMask attentionMask(FlashAttentionOp op);
AttentionMask attentionMask(FlashAttentionBackwardOp op);
AttentionMask attentionMask(FlashAttentionPackedGradientOp op);

} // namespace tcc
