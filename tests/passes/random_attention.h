// Random programs around a softmax between two matmuls: attention in many forms, and what only looks like it.
#pragma once
#include "tests/passes/attention_spellings.h"

namespace tcc::test {

/// Sizes of the program of a seed.
AttentionShape randomAttentionShape(uint64_t seed);

struct RandomAttention {
  Tensor out;
  std::vector<Tensor> wrt;  ///< values that gradients are asked for, q, k and v among them
  std::vector<Tensor> more; ///< values that are returned besides
};

/// The program of a seed, the same everywhere; its shape is that of the seed.
RandomAttention randomAttention(uint64_t seed, const AttentionInputs &in);

} // namespace tcc::test
