// Attention and its gradient, a row of scores at a time.
#include "ir/reference/registry.h"

using namespace mlir;

namespace tcc::reference {
namespace {

/// [B, rows, heads, width] read by coordinates.
struct Heads {
  const RefTensor &x;
  int64_t rows, heads, width;
  explicit Heads(const RefTensor &x) : x(x), rows(x.shape()[1]), heads(x.shape()[2]), width(x.shape()[3]) {}
  int64_t at(int64_t b, int64_t row, int64_t head) const { return ((b * rows + row) * heads + head) * width; }
  const double *row(int64_t b, int64_t r, int64_t head) const { return x.data.data() + at(b, r, head); }
};

double dot(RefMode mode, const double *a, const double *b, int64_t width) {
  Sum sum(mode);
  for (int64_t i = 0; i < width; ++i)
    sum.add(a[i] * b[i]);
  return sum.get();
}

template <typename Op>
bool sees(Op op, int64_t t, int64_t s) {
  if (!op.getDiagonal())
    return true;
  const __int128 last = __int128{t} + static_cast<int64_t>(*op.getDiagonal()); // any number may be written
  return s <= last && (!op.getWindow() || s > last - static_cast<int64_t>(*op.getWindow()));
}

/// What dropout makes of a probability or of its gradient.
class ProbabilityDropout {
public:
  /// `shape` is [B, H, T, S]; `next` is the number of the operand after the last tensor.
  template <typename Op>
  ProbabilityDropout(Call &call, Op op, ArrayRef<int64_t> shape, unsigned next) : shape(shape) {
    rate = op.getRate() ? op.getRate()->convertToDouble() : 0;
    if (rate > 0)
      random.emplace(call.in(next), *op.getStream(), op.getFirst() ? &call.in(next + 1) : nullptr);
  }
  double operator()(double p, int64_t b, int64_t h, int64_t t, int64_t s) const {
    if (!random)
      return p;
    return random->keeps(rate, shape, {b, h, t, s}) ? p / (1 - std::floor(std::ldexp(rate, 32)) / std::ldexp(1.0, 32))
                                                    : 0;
  }

private:
  Shape shape;
  double rate;
  std::optional<RandomElements> random;
};

/// 0 where there is no bias.
double biasAt(const RefTensor *bias, ArrayRef<int64_t> index) {
  return bias ? bias->data[offsetOf(bias->shape(), index)] : 0;
}

void forward(Call &call, FlashAttentionOp op) {
  Heads q(call.in(0)), k(call.in(1)), v(call.in(2));
  int64_t batch = q.x.shape()[0], group = k.heads == 0 ? 1 : q.heads / k.heads;
  RefTensor &out = call.addResult(q.x.shape()), &lse = call.addResult({batch, q.heads, q.rows});
  double scale = op.getScale().convertToDouble();
  const RefTensor *bias = op.getBias() ? &call.in(3) : nullptr;
  ProbabilityDropout dropped(call, op, {batch, q.heads, q.rows, k.rows}, bias ? 4 : 3);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < q.heads; ++h)
      for (int64_t t = 0; t < q.rows; ++t) {
        std::vector<double> scores;
        std::vector<int64_t> keys;
        double top = -std::numeric_limits<double>::infinity();
        for (int64_t s = 0; s < k.rows; ++s)
          if (sees(op, t, s)) {
            keys.push_back(s);
            scores.push_back(scale * dot(call.mode, q.row(b, t, h), k.row(b, s, h / group), q.width) +
                             biasAt(bias, {b, h, t, s}));
            top = largerOf(top, scores.back());
          }
        if (top == -std::numeric_limits<double>::infinity()) // a bias may hide every key
          keys.clear();
        double sum = 0;
        for (double score : scores)
          sum += std::exp(score - top);
        lse.data[(b * q.heads + h) * q.rows + t] = keys.empty() ? top : top + std::log(sum);
        std::vector<Sum> row(q.width, Sum(call.mode));
        for (size_t i = 0; i < keys.size(); ++i) {
          double p = dropped(std::exp(scores[i] - top) / sum, b, h, t, keys[i]);
          if (call.mode == RefMode::rounding)
            p = roundToElement(p, q.x.element());
          for (int64_t d = 0; d < q.width; ++d)
            row[d].add(p * v.row(b, keys[i], h / group)[d]);
        }
        for (int64_t d = 0; d < q.width; ++d)
          out.data[q.at(b, t, h) + d] = row[d].get();
      }
}

template <typename Op>
void addGradients(Call &call, Op op, RefTensor &dQ, RefTensor &dK, RefTensor &dV) {
  Heads q(call.in(0)), k(call.in(1)), v(call.in(2)), out(call.in(3)), dOut(call.in(5));
  const RefTensor &lse = call.in(4);
  int64_t batch = q.x.shape()[0], group = k.heads == 0 ? 1 : q.heads / k.heads;
  double scale = op.getScale().convertToDouble();
  const RefTensor *bias = op.getBias() ? &call.in(6) : nullptr;
  ProbabilityDropout dropped(call, op, {batch, q.heads, q.rows, k.rows}, bias ? 7 : 6);
  auto narrow = [&](double value) {
    return call.mode == RefMode::rounding ? roundToElement(value, q.x.element()) : value;
  };
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < q.heads; ++h)
      for (int64_t t = 0; t < q.rows; ++t) {
        double delta = dot(call.mode, dOut.row(b, t, h), out.row(b, t, h), q.width);
        for (int64_t s = 0; s < k.rows; ++s) {
          if (!sees(op, t, s))
            continue;
          const double *query = q.row(b, t, h), *key = k.row(b, s, h / group);
          double score = scale * dot(call.mode, query, key, q.width) + biasAt(bias, {b, h, t, s});
          if (score == -std::numeric_limits<double>::infinity())
            continue;
          double p = std::exp(score - lse.data[(b * q.heads + h) * q.rows + t]);
          double dP = dropped(dot(call.mode, dOut.row(b, t, h), v.row(b, s, h / group), q.width), b, h, t, s);
          double dS = narrow(p * (dP - delta)), left = narrow(dropped(p, b, h, t, s));
          for (int64_t d = 0; d < q.width; ++d) {
            dQ.data[q.at(b, t, h) + d] += scale * dS * key[d];
            dK.data[k.at(b, s, h / group) + d] += scale * dS * query[d];
            dV.data[k.at(b, s, h / group) + d] += left * dOut.row(b, t, h)[d];
          }
        }
      }
}

void backward(Call &call, FlashAttentionBackwardOp op) {
  ArrayRef<int64_t> q = call.in(0).shape(), k = call.in(1).shape();
  RefTensor &dQ = call.addResult(q), &dK = call.addResult(k), &dV = call.addResult(k);
  addGradients(call, op, dQ, dK, dV);
}

/// The three gradients, joined along the heads.
void packedGradient(Call &call, FlashAttentionPackedGradientOp op) {
  RefTensor parts[] = {splatTensor(call.in(0).type, 0), splatTensor(call.in(1).type, 0),
                       splatTensor(call.in(1).type, 0)};
  addGradients(call, op, parts[0], parts[1], parts[2]);
  ArrayRef<int64_t> q = call.in(0).shape();
  int64_t keyHeads = call.in(1).shape()[2], at = 0;
  RefTensor &packed = call.addResult({q[0], q[1], q[2] + 2 * keyHeads, q[3]});
  for (int64_t row = 0; row < q[0] * q[1]; ++row)
    for (const RefTensor &part : parts)
      for (int64_t width = part.shape()[2] * q[3], i = 0; i < width; ++i)
        packed.data[at++] = part.data[row * width + i];
}

} // namespace

void addAttention(Registry &registry) {
  add<FlashAttentionOp>(registry, forward);
  add<FlashAttentionBackwardOp>(registry, backward);
  add<FlashAttentionPackedGradientOp>(registry, packedGradient);
}

} // namespace tcc::reference
