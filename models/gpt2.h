// GPT-2 as plain functions on Tensors: forward, loss, gradients and the whole training step, over parameters that have
// Hugging Face's names and layout.
#pragma once
#include "frontend/tcc.h"
#include "models/checkpoint.h"

#include <cstdint>
#include <vector>

namespace tcc::models {

/// The parameters of a GPT-2: f32, in the order, names and layout of gpt2Parameters(config). Copies share the values.
class Gpt2 {
public:
  /// Zeros. Throws tcc::Error where there is no memory for them.
  explicit Gpt2(const Gpt2Config &config);

  /// The values that training starts from: a pure function of configuration and seed.
  void initialize(uint64_t seed);
  /// Copies a folder's weights; its configuration must be this one's.
  void load(const Gpt2Folder &folder);

  const Gpt2Config &config() const { return sizes; }
  const std::vector<Parameter> &parameters() const { return values; }
  /// Names, shapes and values, for checkpoints; the spans live as long as the parameters.
  std::vector<NamedTensor> named() const;

private:
  Gpt2Config sizes;
  std::vector<Parameter> values;
};

// What follows is for traced functions. Tokens and targets are i32 [B, T] with T up to config().sequence (tcc::Error
// above it).

/// The residual stream after the last LayerNorm: [B, T, width].
Tensor gpt2Hidden(const Gpt2 &model, const Tensor &tokens);
/// [B, T, vocabulary].
Tensor gpt2Logits(const Gpt2 &model, const Tensor &tokens);
/// Logits of the token after position `last` (i32 [1]) of the only row of `tokens` [1, T]: [1, vocabulary]. Tokens
/// behind that position do not matter.
Tensor gpt2NextLogits(const Gpt2 &model, const Tensor &tokens, const Tensor &last);
/// Mean cross-entropy over all positions, an f32 scalar.
Tensor gpt2Loss(const Gpt2 &model, const Tensor &tokens, const Tensor &targets);
/// The loss's gradients, unclipped, aligned with parameters().
std::vector<Tensor> gpt2Gradients(const Gpt2 &model, const Tensor &tokens, const Tensor &targets);

/// Forward, loss, backward, clipping and AdamW: the loss before the update and the gradients' norm before clipping, f32
/// scalars. lr and step (from 1) are f32 scalars and inputs of the function. `optimizer` has the model's parameters; a
/// loss or norm that is not finite leaves them and the moments as they were. Tokens and targets [N*B, T] with
/// `accumulate` N are N batches, one after the other; loss and gradients are the means of theirs.
struct Gpt2Step {
  Tensor loss, norm;
};
Gpt2Step gpt2TrainingStep(const Gpt2 &model, optim::Adamw &optimizer, const Tensor &tokens, const Tensor &targets,
                          const Tensor &lr, const Tensor &step, int64_t accumulate = 1);

} // namespace tcc::models
