#include "models/model.h"
#include "runtime/dtype.h"
#include "runtime/overload.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>

namespace tcc::models {

namespace {

/// Lets `write` fill the parameter's values, as floats.
template <typename Write>
void fill(const Parameter &parameter, Write write) {
  if (parameter.dtype() == DType::f32)
    return write(parameter.data<float>());
  std::vector<float> values(size_t(parameter.shape().elements()));
  write(std::span(values));
  std::ranges::transform(values, parameter.data<uint16_t>().begin(), runtime::floatToBf16);
}

} // namespace

Model::Model(const ModelConfig &config, std::optional<AdapterConfig> adapter, DType dtype)
    : sizes(config), low(std::move(adapter)) {
  const auto make = [&](const std::vector<ParameterSpec> &list, std::vector<Parameter> &made) {
    for (const ParameterSpec &parameter : list)
      byName.emplace(parameter.name, made.emplace_back(parameter.name, Shape(parameter.shape), dtype));
  };
  make(config.parameters(), values);
  if (low)
    make(adapterParameters(config, *low), lowRank);
}

void Model::initialize(uint64_t seed) {
  const std::vector<ParameterSpec> list = sizes.parameters();
  for (size_t i = 0; i < list.size(); ++i)
    fill(values[i], [&](std::span<float> out) { fillInitial(list[i], seed, out); });
}

void Model::initializeAdapter(uint64_t seed) {
  const std::vector<ParameterSpec> list = adapterParameters(sizes, *low);
  for (size_t i = 0; i < list.size(); ++i)
    fill(lowRank[i], [&](std::span<float> out) { fillInitial(list[i], seed, out); });
}

void Model::load(const ModelFolder &folder) {
  assert(folder.config() == sizes);
  const std::vector<ParameterSpec> list = sizes.parameters();
  for (size_t i = 0; i < list.size(); ++i)
    fill(values[i], [&](std::span<float> out) { folder.read(list[i], out); });
}

void Model::load(const AdapterFolder &folder) {
  assert(folder.config() == *low);
  const std::vector<ParameterSpec> list = adapterParameters(sizes, *low);
  for (size_t i = 0; i < list.size(); ++i)
    fill(lowRank[i], [&](std::span<float> out) { folder.read(list[i], out); });
}

int64_t Model::trainedCount() const {
  int64_t count = 0;
  for (const Parameter &parameter : trained())
    count += parameter.shape().elements();
  return count;
}

std::vector<NamedTensor> Model::named() const {
  std::vector<NamedTensor> list;
  for (const Parameter &value : trained()) {
    NamedTensor &tensor = list.emplace_back();
    tensor.name = value.name();
    tensor.shape = {value.shape().begin(), value.shape().end()};
    if (value.dtype() == DType::f32) {
      tensor.values = value.read<float>();
      continue;
    }
    const auto floats = std::make_shared<std::vector<float>>();
    std::ranges::transform(value.read<uint16_t>(), std::back_inserter(*floats), runtime::bf16ToFloat);
    tensor.values = *floats;
    tensor.owner = floats;
  }
  return list;
}

Tensor Model::at(std::string_view name) const {
  const std::string key(name);
  if (const auto made = wide.find(key); made != wide.end())
    return made->second;
  const auto found = byName.find(key);
  assert(found != byName.end());
  return optim::inF32(found->second);
}

void Model::storeMask(int64_t length) {
  mask.emplace("causal_mask", Shape{length, length});
  const std::span<float> values = mask->data<float>();
  for (int64_t query = 0; query < length; ++query)
    for (int64_t key = query + 1; key < length; ++key)
      values[size_t(query * length + key)] = -std::numeric_limits<float>::infinity();
}

Tensor Model::storedMask(int64_t length) const {
  if (!mask)
    return {};
  const Tensor whole = optim::inF32(*mask);
  return length == whole.dim(0) ? whole : slice(slice(whole, 0, 0, length), 1, 0, length);
}

Model Model::widened() const {
  Model model = *this;
  const auto widen = [&](const std::vector<Parameter> &list) { // recorded in the order of the parameters
    for (const Parameter &parameter : list)
      if (parameter.dtype() != DType::f32)
        model.wide[parameter.name()] = optim::inF32(parameter);
  };
  widen(values);
  widen(lowRank);
  return model;
}

std::vector<Tensor> Model::trainedValues() const {
  std::vector<Tensor> list;
  for (const Parameter &parameter : trained())
    list.push_back(at(parameter.name()));
  return list;
}

bool Model::has(std::string_view name) const {
  return byName.contains(std::string(name));
}

Tensor Model::adapted(const Tensor &y, const Tensor &x, const std::string &name) const {
  if (!has(name + ".lora_A.weight"))
    return y;
  const Tensor inner = matmul(x, at(name + ".lora_A.weight"), {.transposeB = true});
  return y + matmul(inner, at(name + ".lora_B.weight"), {.transposeB = true}) * low->scale();
}

Tensor Model::linear(const Tensor &x, const std::string &name) const {
  const Scope scope(name);
  const Tensor product = matmul(x, at(name + ".weight"), {.transposeB = true});
  return adapted(has(name + ".bias") ? product + at(name + ".bias") : product, x, name);
}

Tensor Model::conv1d(const Tensor &x, const std::string &name) const {
  const Scope scope(name);
  const Tensor bias = has(name + ".bias") ? at(name + ".bias") : Tensor();
  return adapted(nn::linear(x, {at(name + ".weight"), bias}), x, name);
}

Tensor modelHidden(const Model &model, const Tensor &tokens, const ForwardPass &pass) {
  const ModelConfig &config = model.config();
  if (tokens.rank() != 2 || tokens.dim(1) > config.positions())
    throw Error("tokens " + tokens.shape().text() + " for a model of " + std::to_string(config.positions()) +
                " positions; they are [batch, T] with T up to that");
  return std::visit(
      runtime::Overload{[&](const Gpt2Config &kind) { return gpt2Hidden(kind, model, tokens, pass); },
                        [&](const LlamaConfig &kind) { return llamaHidden(kind, model, tokens, pass); },
                        [&](const ModernConfig &kind) { return modernHidden(kind, model, tokens, pass); }},
      config.kind);
}

Tensor modelHead(const Model &model, const Tensor &hidden) {
  const ModelConfig &config = model.config();
  const Scope scope("head");
  const Tensor logits = nn::tiedHead(hidden, model.at(config.tied() ? config.embeddingName() : "lm_head.weight"));
  return std::visit(
      runtime::Overload{[&](const Gpt2Config &) { return logits; }, [&](const LlamaConfig &) { return logits; },
                        [&](const ModernConfig &kind) { return tanh(logits * (1 / kind.softcap)) * kind.softcap; }},
      config.kind);
}

Tensor modelLogits(const Model &model, const Tensor &tokens) {
  return modelHead(model, modelHidden(model, tokens));
}

namespace {

/// The logits of row `last` of `hidden` [1, T, width]. The row is chosen before the head: a matmul with one row
/// instead of T.
Tensor headOfRow(const Model &model, const Tensor &hidden, const Tensor &last) {
  return modelHead(model, gather(reshape(hidden, {hidden.dim(1), hidden.dim(2)}), last));
}

} // namespace

Tensor modelNextLogits(const Model &model, const Tensor &tokens, const Tensor &last) {
  return headOfRow(model, modelHidden(model, tokens), last);
}

Tensor modelNextLogits(const Model &model, const KeyValueCache &cache, const Tensor &tokens, const Tensor &count) {
  CachedText text = CachedText::beginning(cache, count);
  return headOfRow(model, modelHidden(model, tokens, {.text = &text}), count - 1);
}

Tensor modelGoOn(const Model &model, const KeyValueCache &cache, const Tensor &token, const Tensor &position,
                 int64_t rows) {
  CachedText text = CachedText::next(cache, position, rows);
  const Tensor hidden = modelHidden(model, token, {.text = &text});
  return modelHead(model, reshape(hidden, {1, hidden.dim(2)}));
}

Tensor modelLoss(const Model &model, const Tensor &tokens, const Tensor &targets, TrainingDropout *dropout) {
  const Tensor logits = modelHead(model, modelHidden(model, tokens, {.dropout = dropout}));
  const Scope scope("loss");
  return crossEntropy(logits, targets);
}

std::vector<Tensor> modelGradients(const Model &model, const Tensor &tokens, const Tensor &targets,
                                   TrainingDropout dropout) {
  const Model wide = model.widened();
  return gradient(modelLoss(wide, tokens, targets, &dropout), wide.trainedValues());
}

namespace {

/// The loss of some batches and its gradients with respect to `trained`.
struct LossAndGradients {
  Tensor loss;
  std::vector<Tensor> gradients;
};

/// Number of targets that count, as f32.
Tensor countedTargets(const Tensor &targets) {
  return sum(cast(targets >= 0, DType::f32));
}

/// Loss and gradients of `accumulate` batches, which are computed one after the other. Each batch's loss has the weight
/// `share`, or, without one, the batch's part of all targets that count. `dropout.first` is the number of their first
/// row.
LossAndGradients sumOfBatches(const Model &wide, std::span<const Tensor> trained, const Tensor &tokens,
                              const Tensor &targets, int64_t accumulate, std::optional<double> share,
                              const TrainingDropout &dropout) {
  const auto parts = [&](const Tensor &x) { return accumulate > 1 ? split(x, 0, accumulate) : std::vector{x}; };
  const std::vector<Tensor> tokenParts = parts(tokens), targetParts = parts(targets);
  LossAndGradients sum;
  for (int64_t part = 0; part < accumulate; ++part) {
    TrainingDropout partDropout = dropout;
    if (part > 0 && dropout) {
      const Tensor before = full(double(part * tokenParts[0].dim(0)), {}, DType::i32);
      partDropout.first = dropout.first.defined() ? dropout.first + before : before;
    }
    const Tensor partLoss = modelLoss(wide, tokenParts[size_t(part)], targetParts[size_t(part)], &partDropout);
    Tensor counted = partLoss;
    if (!share)
      counted = partLoss * (countedTargets(targetParts[size_t(part)]) / countedTargets(targets));
    else if (*share != 1)
      counted = partLoss * *share;
    const std::vector<Tensor> partGradients = gradient(counted, trained);
    sum.loss = part == 0 ? counted : sum.loss + counted;
    for (size_t i = 0; i < partGradients.size(); ++i)
      if (part == 0)
        sum.gradients.push_back(partGradients[i]);
      else
        sum.gradients[i] = sum.gradients[i] + partGradients[i];
  }
  return sum;
}

/// Loss and gradients of all lanes, among which tokens and targets are divided.
LossAndGradients sumOfLanes(const Model &wide, std::span<const Tensor> trained, const Tensor &tokens,
                            const Tensor &targets, int64_t accumulate, int64_t count, const TrainingDropout &dropout) {
  const int64_t rows = tokens.dim(0) / count;
  const Shape shape{count, rows, tokens.dim(1)};
  Tensors scanned{reshape(tokens, shape), reshape(targets, shape)};
  if (dropout) {
    std::vector<double> first;
    for (int64_t lane = 0; lane < count; ++lane)
      first.push_back(double(lane * rows));
    scanned.push_back(literal(first, {count}, DType::i32));
  }
  const Tensors sums = lanes(count, scanned, [&](const Tensors &parts) {
    TrainingDropout own = dropout;
    if (dropout)
      own.first = parts[2];
    const LossAndGradients lane =
        sumOfBatches(wide, trained, parts[0], parts[1], accumulate, 1.0 / double(accumulate * count), own);
    Tensors results{lane.loss};
    results.insert(results.end(), lane.gradients.begin(), lane.gradients.end());
    return results;
  });
  return {sums[0], {sums.begin() + 1, sums.end()}};
}

} // namespace

ModelStep trainingStep(const Model &model, optim::Optimizer &optimizer, const Tensor &tokens, const Tensor &targets,
                       const Tensor &lr, const Tensor &step, int64_t accumulate, TrainingDropout dropout, int64_t lanes,
                       bool countsTargets) {
  const Model wide = model.widened();
  const std::vector<Tensor> trained = wide.trainedValues();
  std::optional<double> share = 1.0 / double(accumulate);
  if (countsTargets && accumulate > 1)
    share.reset();
  const LossAndGradients sum = lanes > 1 ? sumOfLanes(wide, trained, tokens, targets, accumulate, lanes, dropout)
                                         : sumOfBatches(wide, trained, tokens, targets, accumulate, share, dropout);
  return {sum.loss, optimizer.step(sum.loss, sum.gradients, lr, step).norm};
}

Tensor splitHeads(const Tensor &x, int64_t heads) {
  return transpose(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}

Tensor joinHeads(const Tensor &x) {
  return reshape(transpose(x, {0, 2, 1, 3}), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

Tensor repeatHeads(const Tensor &x, int64_t times) {
  if (times == 1)
    return x;
  const int64_t batch = x.dim(0), heads = x.dim(1), length = x.dim(2), size = x.dim(3);
  const Tensor repeated = broadcast(reshape(x, {batch, heads, 1, length, size}), {batch, heads, times, length, size});
  return reshape(repeated, {batch, heads * times, length, size});
}

Tensor causalAttention(const Model &model, const Tensor &q, const Tensor &ofKeys, const Tensor &ofValues,
                       const ForwardPass &pass) {
  if (pass.text)
    return pass.text->attention(model, q, ofKeys, ofValues);
  const int64_t length = q.dim(2), group = q.dim(1) / ofKeys.dim(1);
  const Tensor k = repeatHeads(ofKeys, group), v = repeatHeads(ofValues, group), mask = model.storedMask(length);
  TrainingDropout *dropout = pass.dropout;
  if (!dropout || !dropout->seed.defined() || dropout->rates.attention == 0)
    return mask.defined() ? attention(q, k, v, mask) : attention(q, k, v, true);
  const Shape square = {length, length};
  const Tensor scores = matmul(q, k, {.transposeB = true}) * (1 / std::sqrt(double(q.dim(3))));
  const auto compared = [&] {
    const Tensor seen = lessEqual(iota(1, square), iota(0, square));
    return select(seen, scores, -std::numeric_limits<double>::infinity());
  };
  const Tensor shares = softmax(mask.defined() ? scores + mask : compared());
  return matmul((*dropout)(shares, dropout->rates.attention), v);
}

Rotary::Rotary(const std::vector<double> &frequencies, int64_t length, const ForwardPass &pass) {
  const Scope scope("rotary");
  const auto pairs = int64_t(frequencies.size());
  const bool isOne = pass.text && pass.text->position().defined();
  const Tensor positions =
      isOne ? reshape(cast(pass.text->position(), DType::f32), {1, 1}) : iota(0, {length, pairs}, DType::f32);
  const Tensor angles = positions * literal(frequencies, {pairs});
  cosine = cos(angles);
  sine = sin(angles);
}

Tensor Rotary::operator()(const Tensor &x) const {
  const Scope scope("rotary");
  const std::vector<Tensor> halves = split(x, -1, 2);
  return concat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, -1);
}

} // namespace tcc::models
