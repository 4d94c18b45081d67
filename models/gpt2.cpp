#include "models/gpt2.h"

#include <cassert>

namespace tcc::models {

namespace {

/// Hands out the parameters in the order of gpt2Parameters.
class Weights {
public:
  explicit Weights(const Gpt2 &model) : next(model.parameters().begin()), end(model.parameters().end()) {}

  Tensor take() {
    assert(next != end);
    return *next++;
  }
  nn::Norm norm() { return {take(), take()}; } // braces evaluate from left to right: weight, bias
  nn::Linear linear() { return {take(), take()}; }

private:
  std::vector<Parameter>::const_iterator next, end;
};

/// One block: attention and MLP, each behind a LayerNorm and added to the residual stream.
Tensor block(const Tensor &x, Weights &weights, const Gpt2Config &config) {
  const nn::Norm attentionNorm = weights.norm();
  const nn::Linear qkv = weights.linear(), project = weights.linear();
  const nn::Norm mlpNorm = weights.norm();
  const nn::Linear expand = weights.linear(), contract = weights.linear();

  const Tensor mixed =
      nn::causalSelfAttention(nn::norm(x, attentionNorm, config.layerNormEpsilon), qkv, project, config.heads);
  const Tensor attended = x + mixed;
  const Tensor transformed = nn::mlp(nn::norm(attended, mlpNorm, config.layerNormEpsilon), expand, contract);
  return attended + transformed;
}

const Parameter &tokenEmbedding(const Gpt2 &model) {
  return model.parameters().front();
}

} // namespace

Gpt2::Gpt2(const Gpt2Config &config) : sizes(config) {
  for (const Gpt2Parameter &parameter : gpt2Parameters(config))
    values.emplace_back(parameter.name, Shape(parameter.shape));
}

void Gpt2::initialize(uint64_t seed) {
  const std::vector<Gpt2Parameter> list = gpt2Parameters(sizes);
  for (size_t i = 0; i < list.size(); ++i)
    fillInitial(list[i], seed, values[i].data<float>());
}

void Gpt2::load(const Gpt2Folder &folder) {
  assert(folder.config() == sizes);
  const std::vector<Gpt2Parameter> list = gpt2Parameters(sizes);
  for (size_t i = 0; i < list.size(); ++i)
    folder.read(list[i], values[i].data<float>());
}

std::vector<NamedTensor> Gpt2::named() const {
  std::vector<NamedTensor> list;
  for (const Parameter &value : values)
    list.push_back({value.name(), {value.shape().begin(), value.shape().end()}, value.data<float>()});
  return list;
}

Tensor gpt2Hidden(const Gpt2 &model, const Tensor &tokens) {
  const Gpt2Config &config = model.config();
  if (tokens.rank() != 2 || tokens.dim(1) > config.sequence)
    throw Error("tokens " + tokens.shape().text() + " for a position table of " + std::to_string(config.sequence) +
                " rows; they are [batch, T] with T up to its length");
  Weights weights(model);
  const Tensor embedding = nn::embedding(weights.take(), tokens);
  const Tensor positions = slice(weights.take(), 0, 0, tokens.dim(1));
  Tensor x = embedding + positions;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    x = block(x, weights, config);
  return nn::norm(x, weights.norm(), config.layerNormEpsilon);
}

Tensor gpt2Logits(const Gpt2 &model, const Tensor &tokens) {
  return nn::tiedHead(gpt2Hidden(model, tokens), tokenEmbedding(model));
}

Tensor gpt2NextLogits(const Gpt2 &model, const Tensor &tokens, const Tensor &last) {
  // The row is chosen before the head: a product with one row instead of T.
  const Tensor rows = reshape(gpt2Hidden(model, tokens), {tokens.dim(1), model.config().width});
  return nn::tiedHead(gather(rows, last), tokenEmbedding(model));
}

Tensor gpt2Loss(const Gpt2 &model, const Tensor &tokens, const Tensor &targets) {
  return crossEntropy(gpt2Logits(model, tokens), targets);
}

std::vector<Tensor> gpt2Gradients(const Gpt2 &model, const Tensor &tokens, const Tensor &targets) {
  return gradient(gpt2Loss(model, tokens, targets), model.parameters());
}

Gpt2Step gpt2TrainingStep(const Gpt2 &model, optim::Adamw &optimizer, const Tensor &tokens, const Tensor &targets,
                          const Tensor &lr, const Tensor &step, int64_t accumulate) {
  const auto parts = [&](const Tensor &x) { return accumulate > 1 ? split(x, 0, accumulate) : std::vector{x}; };
  const std::vector<Tensor> tokenParts = parts(tokens), targetParts = parts(targets);
  Tensor loss;
  std::vector<Tensor> gradients;
  for (int64_t part = 0; part < accumulate; ++part) {
    const Tensor partLoss = gpt2Loss(model, tokenParts[size_t(part)], targetParts[size_t(part)]);
    const Tensor share = accumulate > 1 ? partLoss * (1.0 / double(accumulate)) : partLoss;
    const std::vector<Tensor> partGradients = gradient(share, model.parameters());
    loss = part == 0 ? share : loss + share;
    for (size_t i = 0; i < partGradients.size(); ++i)
      if (part == 0)
        gradients.push_back(partGradients[i]);
      else
        gradients[i] = gradients[i] + partGradients[i];
  }
  const Tensor norm = optimizer.step(loss, gradients, lr, step).norm;
  return {loss, norm};
}

} // namespace tcc::models
