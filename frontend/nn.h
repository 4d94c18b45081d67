// Layers as plain functions of Tensors; what a layer needs (weights, sizes, the seed of its dropout) is an argument.
#pragma once
#include "frontend/tensor.h"

namespace tcc::nn {

/// Rows of `table` [vocabulary, width]; tokens [...] are i32 or i64; the result is [..., width].
Tensor embedding(const Tensor &table, const Tensor &tokens, Loc loc = Loc::current());

/// The dropout at one place of a model; different streams give different places different masks. Without a seed nothing
/// is dropped. Where a call sees only a part of a batch, `first` (i32 scalar) is the number of the part's first row.
struct Dropout {
  double rate = 0;
  Tensor seed = {};
  int64_t stream = 0;
  Tensor first = {};
};
Tensor dropout(const Tensor &x, const Dropout &dropout, Loc loc = Loc::current());

struct Linear {
  Tensor weight, bias = {}; ///< [in, out] and [out]; the bias may be absent
};
Tensor linear(const Tensor &x, const Linear &layer, Loc loc = Loc::current());

struct Norm {
  Tensor weight, bias = {}; ///< of the last size; the bias may be absent: rmsNorm
};
Tensor norm(const Tensor &x, const Norm &layer, double eps = 1e-5, Loc loc = Loc::current());

/// contract(gelu(expand(x))).
Tensor mlp(const Tensor &x, const Linear &expand, const Linear &contract, Loc loc = Loc::current());

/// x [B, T, C]; qkv is [C, 3C], project [C, C]. Throws Error unless C is a multiple of `heads`.
Tensor causalSelfAttention(const Tensor &x, const Linear &qkv, const Linear &project, int64_t heads,
                           Loc loc = Loc::current());

/// logits = x · tableᵀ with a table [vocabulary, width] that the embedding shares.
Tensor tiedHead(const Tensor &x, const Tensor &table, Loc loc = Loc::current());

} // namespace tcc::nn
