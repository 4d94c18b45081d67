// The layers of nn.h, written in ops of tensor.h.
#include "frontend/nn.h"

namespace tcc::nn {

Tensor embedding(const Tensor &table, const Tensor &tokens, Loc loc) {
  return gather(table, tokens, loc);
}

Tensor dropout(const Tensor &x, const Dropout &dropout, Loc loc) {
  if (!dropout.seed.defined() || dropout.rate == 0)
    return x;
  return tcc::dropout(x, dropout.rate, dropout.seed, dropout.stream, dropout.first, loc);
}

Tensor linear(const Tensor &x, const Linear &layer, Loc loc) {
  return tcc::linear(x, layer.weight, layer.bias, loc);
}

Tensor norm(const Tensor &x, const Norm &layer, double eps, Loc loc) {
  return layer.bias.defined() ? layerNorm(x, layer.weight, layer.bias, eps, loc) : rmsNorm(x, layer.weight, eps, loc);
}

Tensor mlp(const Tensor &x, const Linear &expand, const Linear &contract, Loc loc) {
  return linear(gelu(linear(x, expand, loc), loc), contract, loc);
}

Tensor causalSelfAttention(const Tensor &x, const Linear &qkv, const Linear &project, int64_t heads, Loc loc) {
  const Shape shape = x.shape();
  if (shape.rank() != 3 || heads < 1 || shape[2] % heads != 0)
    throw Error("causalSelfAttention of x " + shape.text() + " with " + std::to_string(heads) +
                    " heads; x is [batch, T, width] and the width a multiple of the heads",
                loc);
  const int64_t batch = shape[0], length = shape[1], width = shape[2];
  const std::vector<Tensor> parts = split(linear(x, qkv, loc), 2, 3, loc);
  auto byHead = [&](const Tensor &part) { // [B, T, C] to [B, heads, T, C / heads]
    return transpose(reshape(part, {batch, length, heads, width / heads}, loc), {0, 2, 1, 3}, loc);
  };
  const Tensor mixed = attention(byHead(parts[0]), byHead(parts[1]), byHead(parts[2]), true, 0, loc);
  return linear(reshape(transpose(mixed, {0, 2, 1, 3}, loc), shape, loc), project, loc);
}

Tensor tiedHead(const Tensor &x, const Tensor &table, Loc loc) {
  return matmul(x, table, {.transposeB = true}, loc);
}

} // namespace tcc::nn
