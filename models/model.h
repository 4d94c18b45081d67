// A model as plain functions on Tensors: forward, loss, gradients and the whole training step. Its parameters have
// Hugging Face's names and layout. The files gpt2, llama and modern have what differs between kinds of models.
#pragma once
#include "models/adapter.h"
#include "models/checkpoint.h"
#include "models/key_value_cache.h"
#include "models/model_config.h"
#include <tcc/tcc.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tcc::models {

/// The parameters of a model, in the order, names and layout of config.parameters(), and those of its adapter: f32, or
/// bf16, which computes in f32 too. Copies share the values.
class Model {
public:
  /// Zeros. Throws tcc::Error where there is no memory for them.
  explicit Model(const ModelConfig &config, std::optional<AdapterConfig> adapter = {}, DType dtype = DType::f32);

  /// The values that training starts from: a pure function of configuration and seed.
  void initialize(uint64_t seed);
  /// The same for the adapter alone; with these values it does not change the model's results.
  void initializeAdapter(uint64_t seed);
  /// Copies a folder's weights; its configuration must be this one's.
  void load(const ModelFolder &folder);
  void load(const AdapterFolder &folder);

  const ModelConfig &config() const { return sizes; }
  const std::optional<AdapterConfig> &adapter() const { return low; }
  const std::vector<Parameter> &parameters() const { return values; }
  /// What training changes: the adapter where there is one, else all.
  const std::vector<Parameter> &trained() const { return low ? lowRank : values; }
  /// Elements of trained().
  int64_t trainedCount() const;
  /// Names, shapes and values of trained() in f32, for checkpoints; the values live as long as both the list and the
  /// parameters.
  std::vector<NamedTensor> named() const;

  // For traced functions.
  /// The parameter's value in f32.
  Tensor at(std::string_view name) const;
  /// A copy of this model in which each parameter's f32 value is one tensor, which at() gives at every call, so that
  /// gradients can be taken with respect to it.
  Model widened() const;
  /// For a widened model: the f32 values of trained().
  std::vector<Tensor> trainedValues() const;
  bool has(std::string_view name) const;
  /// x · weightᵀ + bias of the linear layer `name`, whose weight is [out, in]; the bias may be absent.
  Tensor linear(const Tensor &x, const std::string &name) const;
  /// The same for GPT-2's layers, whose weights are [in, out]; their bias may be absent too.
  Tensor conv1d(const Tensor &x, const std::string &name) const;
  /// From here on attention reads its causal mask from memory, for up to `length` tokens, instead of comparing
  /// positions.
  void storeMask(int64_t length);
  /// The stored mask [T, T] that is added to scores: 0 where a query sees a key, else -infinity. Undefined where none
  /// is stored.
  Tensor storedMask(int64_t length) const;

private:
  ModelConfig sizes;
  std::optional<AdapterConfig> low;
  std::optional<State> mask;
  std::vector<Parameter> values, lowRank;
  std::unordered_map<std::string, Parameter> byName;
  std::unordered_map<std::string, Tensor> wide; // of a widened model whose parameters are not f32

  /// `y` of the linear layer `name` on `x`, with the adapter's share.
  Tensor adapted(const Tensor &y, const Tensor &x, const std::string &name) const;
};

/// The dropout of a training step: its rates, and a seed (i32 scalar), which is an input of the function. If the seed
/// is undefined, nothing is dropped.
struct TrainingDropout {
  DropoutRates rates = {};
  Tensor seed = {};
  Tensor first = {};      ///< the number of the batch's first row in the step (i32 scalar); undefined: 0
  int64_t nextStream = 0; ///< the stream for the next place; each place has its own

  Tensor operator()(const Tensor &x, double rate) { return nn::dropout(x, {rate, seed, nextStream++, first}); }
  explicit operator bool() const { return seed.defined() && rates.any(); }
};

/// What a forward pass is part of, beside its tokens: a training step that drops out, a text whose keys and values are
/// kept, or nothing.
struct ForwardPass {
  TrainingDropout *dropout = nullptr;
  CachedText *text = nullptr;

  DropoutRates rates() const { return dropout ? dropout->rates : DropoutRates{}; }
  Tensor dropped(const Tensor &x, double rate) const { return dropout ? (*dropout)(x, rate) : x; }
};

// What follows is for traced functions. Tokens and targets are i32 [B, T] with T up to config().positions() (tcc::Error
// above it).

/// The residual stream after the last norm: [B, T, width].
Tensor modelHidden(const Model &model, const Tensor &tokens, const ForwardPass &pass = {});
/// hidden [..., width] to logits [..., vocabulary].
Tensor modelHead(const Model &model, const Tensor &hidden);
/// [B, T, vocabulary].
Tensor modelLogits(const Model &model, const Tensor &tokens);
/// Logits of the token after position `last` (i32 [1]) of the only row of `tokens` [1, T]: [1, vocabulary]. Tokens
/// after that position do not matter.
Tensor modelNextLogits(const Model &model, const Tensor &tokens, const Tensor &last);
/// The same for a text that begins with the first `count` (i32 [1]) of `tokens`. `cache` then has their keys and
/// values.
Tensor modelNextLogits(const Model &model, const KeyValueCache &cache, const Tensor &tokens, const Tensor &count);
/// The logits after one more token (i32 [1, 1]) at `position` (i32 [1], below `rows`) of the text whose keys and values
/// `cache` has. `cache` then has those of the token too. Attention reads the cache's first `rows` rows.
Tensor modelGoOn(const Model &model, const KeyValueCache &cache, const Tensor &token, const Tensor &position,
                 int64_t rows);
/// Mean cross-entropy over all positions, an f32 scalar.
Tensor modelLoss(const Model &model, const Tensor &tokens, const Tensor &targets, TrainingDropout *dropout = nullptr);
/// The loss's gradients, unclipped, aligned with trained().
std::vector<Tensor> modelGradients(const Model &model, const Tensor &tokens, const Tensor &targets,
                                   TrainingDropout dropout = {});

/// Forward, loss, backward, clipping and the update: the loss before the update and the gradients' norm before
/// clipping, f32 scalars. lr and step (from 1) are f32 scalars and inputs of the function. `optimizer` has the model's
/// trained parameters; a loss or norm that is not finite leaves them and the moments as they were. Tokens and targets
/// [N*B, T] with `accumulate` N are N batches, one after the other; loss and gradients are the means of theirs, and
/// dropout is that of the N·B rows at once. With several `lanes` their rows are shared out evenly, in order, and each
/// lane has N batches of its own (tcc::lanes); B is a multiple of them.
/// `countsTargets`, with one lane: batches may have different numbers of targets that count (cross_entropy), and each
/// weighs by its own.
struct ModelStep {
  Tensor loss, norm;
};
ModelStep trainingStep(const Model &model, optim::Optimizer &optimizer, const Tensor &tokens, const Tensor &targets,
                       const Tensor &lr, const Tensor &step, int64_t accumulate = 1, TrainingDropout dropout = {},
                       int64_t lanes = 1, bool countsTargets = false);

// The kinds, each in its own file: the stream after the last norm. `tokens` is [B, T] with T within the positions.

Tensor gpt2Hidden(const Gpt2Config &config, const Model &model, const Tensor &tokens, const ForwardPass &pass);
Tensor llamaHidden(const LlamaConfig &config, const Model &model, const Tensor &tokens, const ForwardPass &pass);
Tensor modernHidden(const ModernConfig &config, const Model &model, const Tensor &tokens, const ForwardPass &pass);

// Parts that kinds share.

/// [B, T, heads * size] to [B, heads, T, size] and back.
Tensor splitHeads(const Tensor &x, int64_t heads);
Tensor joinHeads(const Tensor &x);

/// Each key or value head [B, heads, T, size] for `times` query heads.
Tensor repeatHeads(const Tensor &x, int64_t times);

/// Causal attention of q [B, heads, T, size], k and v [B, key heads, T, size], whose heads divide q's; its weights are
/// dropped out if the pass has a rate for them. If the pass has a text whose keys and values are kept, the text's
/// earlier tokens are seen too. If the model stores a mask, positions are not compared.
Tensor causalAttention(const Model &model, const Tensor &q, const Tensor &k, const Tensor &v,
                       const ForwardPass &pass = {});

/// Rotary embedding (Su et al. 2021) as transformers pairs the values: i with i + size/2 turns by position ·
/// frequencies[i]. Made once for a forward pass, applied to queries and keys [B, heads, T, size].
class Rotary {
public:
  /// For `length` tokens from position 0 on, or for the one token that the pass has.
  Rotary(const std::vector<double> &frequencies, int64_t length, const ForwardPass &pass);
  Tensor operator()(const Tensor &x) const;

private:
  Tensor cosine, sine; // [T, size / 2]
};

} // namespace tcc::models
