// Attention as people write it, and what is near to it but none: traced programs of q, k and v for the tests of
// match-attention.
#pragma once
#include "ir/ops/attention.h"
#include <functional>
#include <limits>
#include <tcc/tcc.h>

namespace tcc::test {

struct AttentionShape {
  int64_t batch = 2, heads = 4, queries = 6, keys = 6, width = 8;
  int64_t keyHeads = 4;
  DType dtype = DType::f32;
};

/// What a spelling is given: q [B, H, T, d], k and v [B, G, S, d], and data of the user's.
struct AttentionInputs {
  AttentionShape shape;
  Tensor q, k, v;
  Tensor bias{};   // [T, S] f32
  Tensor factor{}; // [H, 1, 1] f32
  Tensor seed{};   // i32 scalar

  Shape square() const { return {shape.queries, shape.keys}; }
  Shape heads() const { return {shape.batch, shape.heads, shape.queries, shape.width}; }
};

struct Spelling {
  std::string name;
  AttentionShape shape;
  std::function<Tensor(const AttentionInputs &)> write;
  AttentionMask mask = {};  // that it is matched with
  std::string refusal = {}; // a part of the remark where it is none
  int64_t keyHeads = 0;     // that it is matched with; 0: as many as heads
  double tolerance = 1e-9;  // of fp64 results
  double rate = 0;          // of dropout that it is matched with
};

// What most of them share.
inline constexpr double infinity = std::numeric_limits<double>::infinity();
Tensor scoresOf(const AttentionInputs &in);                                            ///< q·kᵀ / √d
Tensor causalMask(const AttentionInputs &in, int64_t diagonal = 0);                    ///< s <= t + diagonal as [T, S]
Tensor hidden(const AttentionInputs &in, const Tensor &seen, double fill = -infinity); ///< scores, masked
Tensor mix(const Tensor &shares, const AttentionInputs &in);
Tensor softmaxByHand(const Tensor &x, int64_t dim = -1);

/// Spellings that are attention.
std::vector<Spelling> attentionSpellings();
/// Those that are not, or are not to be matched, with the reason.
std::vector<Spelling> nearAttentionSpellings();

} // namespace tcc::test
