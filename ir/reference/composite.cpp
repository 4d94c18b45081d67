// Composites, each said directly: the oracle of their decompositions. All are computed in double and rounded once.
#include "ir/reference/registry.h"
#include <numbers>

using namespace mlir;

namespace tcc::reference {
namespace {

/// The sizes of a tensor as rows over its last dim; a scalar is one row of one.
struct Rows {
  int64_t columns, rows;
  explicit Rows(const RefTensor &x)
      : columns(x.shape().empty() ? 1 : x.shape().back()),
        rows(x.shape().empty() ? 1 : elementCount(x.shape().drop_back())) {}
};

/// log(sum(exp(x))) - picked, without overflow or cancellation.
double logSumExp(ArrayRef<double> x, double picked) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (double value : x)
    top = largerOf(top, value);
  for (double value : x)
    sum += std::exp(value - top);
  return std::log(sum) - (picked - top);
}

void softmaxRow(ArrayRef<double> x, MutableArrayRef<double> y) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (double value : x)
    top = largerOf(top, value);
  for (auto [from, to] : llvm::zip_equal(x, y))
    sum += to = std::exp(from - top);
  for (double &value : y)
    value /= sum;
}

void addNorms(Registry &registry) {
  add<LayerNormOp>(registry, [](Call &call, LayerNormOp op) {
    const RefTensor &x = call.in(0), &weight = call.in(1), &bias = call.in(2);
    RefTensor &result = call.addResult(x.shape());
    auto [columns, rows] = Rows(x);
    for (int64_t r = 0; r < rows; ++r) {
      ArrayRef<double> row(x.data.data() + r * columns, columns);
      double mean = 0, variance = 0;
      for (double value : row)
        mean += value / columns;
      for (double value : row)
        variance += (value - mean) * (value - mean) / columns;
      double deviation = std::sqrt(variance + op.getEps().convertToDouble());
      for (int64_t c = 0; c < columns; ++c)
        result.data[r * columns + c] = (row[c] - mean) / deviation * weight.data[c] + bias.data[c];
    }
  });
  add<RmsNormOp>(registry, [](Call &call, RmsNormOp op) {
    const RefTensor &x = call.in(0), &weight = call.in(1);
    RefTensor &result = call.addResult(x.shape());
    auto [columns, rows] = Rows(x);
    for (int64_t r = 0; r < rows; ++r) {
      ArrayRef<double> row(x.data.data() + r * columns, columns);
      double square = 0;
      for (double value : row)
        square += value * value / columns;
      double scale = std::sqrt(square + op.getEps().convertToDouble());
      for (int64_t c = 0; c < columns; ++c)
        result.data[r * columns + c] = row[c] / scale * weight.data[c];
    }
  });
  add<SoftmaxOp>(registry, [](Call &call, SoftmaxOp) {
    const RefTensor &x = call.in(0);
    RefTensor &result = call.addResult(x.shape());
    auto [columns, rows] = Rows(x);
    for (int64_t r = 0; r < rows; ++r)
      softmaxRow({x.data.data() + r * columns, static_cast<size_t>(columns)},
                 {result.data.data() + r * columns, static_cast<size_t>(columns)});
  });
}

void addLinear(Registry &registry) {
  add<LinearOp>(registry, [](Call &call, LinearOp op) {
    const RefTensor &x = call.in(0), &weight = call.in(1);
    int64_t in = weight.shape()[0], out = weight.shape()[1];
    if (x.shape().back() != in)
      return call.refuse("weight is " + typeText(weight.type) + " for x " + typeText(x.type) + " (linear_c1)");
    Shape shape(x.shape());
    shape.back() = out;
    RefTensor &result = call.addResult(shape);
    int64_t rows = elementCount(x.shape().drop_back());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < out; ++o) {
        Sum sum(call.mode);
        for (int64_t i = 0; i < in; ++i)
          sum.add(x.data[r * in + i] * weight.data[i * out + o]);
        result.data[r * out + o] = sum.get() + (op.getBias() ? call.in(2).data[o] : 0);
      }
  });
}

/// Adds to the scores of query t of a batch's element what the mask has for it, -inf where it hides a key.
void addMask(const RefTensor &mask, ArrayRef<int64_t> batch, int64_t element, int64_t t, std::vector<double> &scores) {
  Shape index(mask.shape().size(), 0);
  for (size_t dim = batch.size(); dim-- > 0; element /= batch[dim])
    index[dim] = mask.shape()[dim] == 1 ? 0 : element % batch[dim];
  index[batch.size()] = mask.shape()[batch.size()] == 1 ? 0 : t;
  for (size_t s = 0; s < scores.size(); ++s) {
    index.back() = mask.shape().back() == 1 ? 0 : static_cast<int64_t>(s);
    const double value = mask.data[offsetOf(mask.shape(), index)];
    if (!mask.element().isInteger(1))
      scores[s] += value;
    else if (value == 0)
      scores[s] = -std::numeric_limits<double>::infinity();
  }
}

void addPlainAttention(Registry &registry) {
  add<AttentionOp>(registry, [](Call &call, AttentionOp op) {
    const RefTensor &q = call.in(0), &k = call.in(1), &v = call.in(2);
    int64_t width = q.shape().back();
    int64_t queries = q.shape().drop_back().back(), keys = k.shape().drop_back().back();
    int64_t batch = elementCount(q.shape().drop_back(2));
    if (op.getCausal() && queries != keys)
      return call.refuse("causal with " + Twine(queries) + " queries and " + Twine(keys) + " keys (attention_c2)");
    RefTensor &result = call.addResult(q.shape());
    double scale = op.getScale().convertToDouble();
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < queries; ++t) {
        int64_t visible = op.getCausal() ? t + 1 : keys;
        const double *query = q.data.data() + (b * queries + t) * width;
        std::vector<double> scores(visible, 0.0);
        for (int64_t s = 0; s < visible; ++s)
          for (int64_t d = 0; d < width; ++d)
            scores[s] += scale * query[d] * k.data[(b * keys + s) * width + d];
        if (op.getMask())
          addMask(call.in(3), q.shape().drop_back(2), b, t, scores);
        if (llvm::all_of(scores, [](double score) { return score == -std::numeric_limits<double>::infinity(); }))
          continue; // a query that sees no key, if there are keys
        softmaxRow(scores, scores);
        for (int64_t s = 0; s < visible; ++s)
          for (int64_t d = 0; d < width; ++d)
            result.data[(b * queries + t) * width + d] += scores[s] * v.data[(b * keys + s) * width + d];
      }
  });
}

void addLoss(Registry &registry) {
  add<CrossEntropyOp>(registry, [](Call &call, CrossEntropyOp) {
    const RefTensor &logits = call.in(0), &targets = call.in(1);
    RefTensor &result = call.addResult({});
    auto [columns, rows] = Rows(logits);
    double count = 0;
    for (double target : targets.data)
      count += target >= 0;
    for (int64_t r = 0; r < rows; ++r) {
      ArrayRef<double> row(logits.data.data() + r * columns, columns);
      double target = targets.data[r];
      bool known = target >= 0 && target < static_cast<double>(columns);
      double loss =
          known ? logSumExp(row, row[static_cast<int64_t>(target)]) : std::numeric_limits<double>::quiet_NaN();
      result.data[0] += target >= 0 ? loss : 0;
    }
    result.data[0] /= count; // no row counts: 0 / 0 = NaN
  });
}

void addDropout(Registry &registry) {
  add<DropoutOp>(registry, [](Call &call, DropoutOp op) {
    const RefTensor &x = call.in(0);
    RefTensor &result = call.addResult(x.shape());
    RandomElements random(call.in(1), op.getStream(), op.getFirst() ? &call.in(2) : nullptr);
    double rate = op.getRate().convertToDouble(), share = std::floor(std::ldexp(rate, 32)) / std::ldexp(1.0, 32);
    int64_t next = 0;
    forEachIndex(x.shape(), [&](ArrayRef<int64_t> index) {
      result.data[next] = random.keeps(rate, x.shape(), index) ? x.data[next] / (1 - share) : 0;
      ++next;
    });
  });
}

void addStochasticCast(Registry &registry) {
  add<StochasticCastOp>(registry, [](Call &call, StochasticCastOp op) {
    const RefTensor &x = call.in(0);
    RefTensor &result = call.addResult(x.shape());
    RandomElements random(call.in(1), op.getStream(), nullptr);
    int64_t next = 0;
    forEachIndex(x.shape(), [&](ArrayRef<int64_t> index) {
      result.data[next] = roundedByBits(x.data[next], random.at(x.shape(), index));
      ++next;
    });
  });
}

void addAdamw(Registry &registry) {
  add<AdamwOp>(registry, [](Call &call, AdamwOp op) {
    double lr = call.in(4).data[0], step = call.in(5).data[0], scale = call.in(6).data[0];
    bool apply = call.in(7).data[0] != 0;
    double beta1 = op.getBeta1().convertToDouble(), beta2 = op.getBeta2().convertToDouble();
    double eps = op.getEps().convertToDouble(), decay = op.getWeightDecay().convertToDouble();
    ArrayRef<int64_t> shape = call.in(0).shape();
    RefTensor &newP = call.addResult(shape), &newM = call.addResult(shape), &newV = call.addResult(shape);
    for (int64_t i = 0; i < newP.size(); ++i) {
      double p = call.in(0).data[i], g = call.in(1).data[i] * scale, m = call.in(2).data[i], v = call.in(3).data[i];
      if (apply) {
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g * g;
        double mHat = m / (1 - std::pow(beta1, step)), vHat = v / (1 - std::pow(beta2, step));
        p = p - lr * decay * p - lr * mHat / (std::sqrt(vHat) + eps);
      }
      newP.data[i] = p;
      newM.data[i] = m;
      newV.data[i] = v;
    }
  });
}

} // namespace

void addComposites(Registry &registry) {
  addNorms(registry);
  addLinear(registry);
  addPlainAttention(registry);
  addLoss(registry);
  addDropout(registry);
  addStochasticCast(registry);
  addAdamw(registry);
}

} // namespace tcc::reference
