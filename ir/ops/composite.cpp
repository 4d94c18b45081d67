// Composites: what users write by name, said once in terms of other ops. 16-bit floats are computed in f32.
#include "ir/emit.h"
#include "ir/names.h"
#include "ir/ops/dropout.h"
#include "ir/ops/numbers.h"
#include "ir/ops/shapes.h"
#include <limits>

using namespace mlir;

namespace tcc {
namespace {

int64_t lastDim(Value x) {
  return tensorType(x).getRank() - 1;
}

Value mean(Emit &b, Value x, ArrayRef<int64_t> axes) {
  double count = 1;
  for (int64_t axis : axes)
    count *= tensorType(x).getDimSize(axis);
  return b.div(b.reduceSum(x, axes), count);
}

/// x over its last dim's softmax. The maximum is detached: the result does not depend on it.
Value softmax(Emit &b, Value x) {
  ArrayRef<int64_t> shape = tensorType(x).getShape();
  Value shifted = b.sub(x, b.broadcast(b.reduceMax(b.detach(x), {lastDim(x)}), shape));
  Value e = b.exp(shifted);
  return b.div(e, b.broadcast(b.reduceSum(e, {lastDim(x)}), shape));
}

LogicalResult verifyLastSize(Operation *op, Value x, Value vector, StringRef name, StringRef label) {
  RankedTensorType type = tensorType(vector), data = tensorType(x);
  if (data.getRank() >= 1 && type.getRank() == 1 && sameSize(type.getDimSize(0), data.getShape().back()))
    return success();
  return op->emitOpError() << name << " is " << typeText(type) << " for x " << typeText(data)
                           << "; it must be a vector of x's last size (" << label << ")";
}

/// What is added to a mean of squares before its root is taken.
LogicalResult verifyEps(Operation *op, double eps, StringRef label) {
  if (eps >= 0 && isFiniteF32(eps))
    return success();
  return op->emitOpError() << "eps is " << numberText(eps) << "; it must be at least 0 and finite in f32 (" << label
                           << ")";
}

} // namespace

//===- softmax -------------------------------------------------------------------------------------------------===//

SmallVector<Value> SoftmaxOp::decompose(Emit &b) {
  RankedTensorType type = tensorType(getX());
  Value x = b.cast(getX(), b.f32());
  if (type.getRank() == 0) // a scalar is one row of one
    x = b.reshape(x, {1});
  return {b.cast(b.reshape(softmax(b, x), type.getShape()), type.getElementType())};
}

//===- means and norms -----------------------------------------------------------------------------------------===//

LogicalResult ReduceMeanOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(adaptor.getX());
  SmallVector<int64_t> shape(type.getShape());
  int64_t previous = -1;
  for (int64_t axis : adaptor.getAxes()) {
    if (axis <= previous || axis >= type.getRank())
      return emitOptionalError(loc, "'tcc.reduce_mean' axes must ascend within 0..", type.getRank() - 1,
                               " (reduce_c1)");
    shape[axis] = 1;
    previous = axis;
  }
  types.push_back(withShape(type, shape));
  return success();
}
SmallVector<Value> ReduceMeanOp::decompose(Emit &b) {
  return {b.cast(mean(b, b.cast(getX(), b.f32()), getAxes()), tensorType(getX()).getElementType())};
}

LogicalResult LayerNormOp::verify() {
  if (failed(verifyLastSize(*this, getX(), getWeight(), "weight", "layer_norm_c1")))
    return failure();
  if (failed(verifyLastSize(*this, getX(), getBias(), "bias", "layer_norm_c1")))
    return failure();
  return verifyEps(*this, getEps().convertToDouble(), "layer_norm_c2");
}
SmallVector<Value> LayerNormOp::decompose(Emit &b) {
  Value x = b.cast(getX(), b.f32());
  ArrayRef<int64_t> shape = tensorType(x).getShape();
  Value centred = b.sub(x, b.broadcast(mean(b, x, {lastDim(x)}), shape));
  Value variance = mean(b, b.mul(centred, centred), {lastDim(x)});
  Value inverse = b.rsqrt(b.add(variance, getEps().convertToDouble()));
  Value normal = b.mul(centred, b.broadcast(inverse, shape));
  Value scaled = b.mul(normal, b.broadcast(b.cast(getWeight(), b.f32()), shape));
  Value y = b.add(scaled, b.broadcast(b.cast(getBias(), b.f32()), shape));
  return {b.cast(y, tensorType(getX()).getElementType())};
}

LogicalResult RmsNormOp::verify() {
  if (failed(verifyLastSize(*this, getX(), getWeight(), "weight", "rms_norm_c1")))
    return failure();
  return verifyEps(*this, getEps().convertToDouble(), "rms_norm_c2");
}
SmallVector<Value> RmsNormOp::decompose(Emit &b) {
  Value x = b.cast(getX(), b.f32());
  ArrayRef<int64_t> shape = tensorType(x).getShape();
  Value inverse = b.rsqrt(b.add(mean(b, b.mul(x, x), {lastDim(x)}), getEps().convertToDouble()));
  Value normal = b.mul(x, b.broadcast(inverse, shape));
  Value y = b.mul(normal, b.broadcast(b.cast(getWeight(), b.f32()), shape));
  return {b.cast(y, tensorType(getX()).getElementType())};
}

//===- linear, attention ---------------------------------------------------------------------------------------===//

LogicalResult LinearOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  RankedTensorType x = tensorType(adaptor.getX()), weight = tensorType(adaptor.getWeight());
  if (x.getRank() < 2)
    return emitOptionalError(loc, "'tcc.linear' x is ", typeText(x), "; it must have rows: [rows..., in] (linear_c1)");
  if (weight.getRank() != 2 || !sameSize(x.getShape().back(), weight.getDimSize(0)))
    return emitOptionalError(loc, "'tcc.linear' weight is ", typeText(weight), " for x ", typeText(x),
                             "; it must be [x's last size, out] (linear_c1)");
  if (Value bias = adaptor.getBias()) {
    RankedTensorType type = tensorType(bias);
    if (type.getRank() != 1 || !sameSize(type.getDimSize(0), weight.getDimSize(1)))
      return emitOptionalError(loc, "'tcc.linear' bias is ", typeText(type), " for weight ", typeText(weight),
                               "; it must be a vector of the weight's last size (linear_c2)");
  }
  SmallVector<int64_t> shape(x.getShape());
  shape.back() = weight.getDimSize(1);
  types.push_back(withShape(x, shape));
  return success();
}
SmallVector<Value> LinearOp::decompose(Emit &b) {
  Type element = tensorType(getX()).getElementType();
  Value y = b.matmul(getX(), b.cast(getWeight(), element));
  if (getBias()) {
    StringRef scope = scopeOf(nameOf(b.loc));
    b.loc = named(b.loc, scope.empty() ? "bias" : (scope + ".bias").str());
    y = b.add(y, b.broadcast(b.cast(getBias(), element), tensorType(y).getShape()));
  }
  return {y};
}

LogicalResult AttentionOp::verify() {
  RankedTensorType q = tensorType(getQ()), k = tensorType(getK()), v = tensorType(getV());
  bool fits = q.getRank() >= 2 && k.getRank() == q.getRank() && v == k;
  for (int64_t i = 0; fits && i < q.getRank(); ++i)
    fits = i == q.getRank() - 2 || sameSize(q.getDimSize(i), k.getDimSize(i));
  if (!fits)
    return emitOpError() << "q is " << typeText(q) << ", k " << typeText(k) << ", v " << typeText(v)
                         << "; k and v need q's batch and head size (attention_c1)";
  if (getCausal() && !sameSize(q.getDimSize(q.getRank() - 2), k.getDimSize(k.getRank() - 2)))
    return emitOpError() << "causal with " << q.getDimSize(q.getRank() - 2) << " queries and "
                         << k.getDimSize(k.getRank() - 2) << " keys; their numbers must be equal (attention_c2)";
  if (double scale = getScale().convertToDouble(); !isFiniteF32(scale))
    return emitOpError() << "scale " << numberText(scale) << " " << beyondF32 << " (attention_c3)";
  if (Value mask = getMask()) {
    ArrayRef<int64_t> shape = tensorType(mask).getShape();
    SmallVector<int64_t> scores(q.getShape());
    scores.back() = k.getDimSize(k.getRank() - 2);
    if (shape.size() != scores.size() || llvm::any_of(llvm::zip(shape, scores), [](auto sizes) {
          auto [size, whole] = sizes;
          return ShapedType::isDynamic(size) || (size != 1 && !sameSize(size, whole));
        }))
      return emitOpError() << "mask is " << typeText(tensorType(mask)) << " for q " << typeText(q) << " and k "
                           << typeText(k) << "; its sizes are known, those of the scores or 1 (attention_c4)";
  }
  return success();
}

/// The same as a flash_attention of [batch, rows, heads, width]; of a rank other than 4 all of the batch is its batch.
static Value attentionWithMask(Emit &b, AttentionOp op) {
  RankedTensorType q = tensorType(op.getQ());
  const int64_t rank = q.getRank(), keys = tensorType(op.getK()).getDimSize(rank - 2), queries = q.getDimSize(rank - 2);
  int64_t batch = rank == 4 ? q.getDimSize(0) : 1, heads = rank == 4 ? q.getDimSize(1) : 1;
  for (int64_t i = 0; rank != 4 && i < rank - 2; ++i)
    batch *= q.getDimSize(i);
  auto byHeads = [&](Value x, int64_t rows) {
    return b.transpose(b.reshape(x, {batch, heads, rows, q.getDimSize(rank - 1)}), {0, 2, 1, 3});
  };
  Value mask = op.getMask();
  RankedTensorType type = withElement(tensorType(mask), b.f32());
  Value bias = tensorType(mask).getElementType().isInteger(1)
                   ? b.select(mask, b.zeros(type), b.constant(-std::numeric_limits<double>::infinity(), type))
                   : b.cast(mask, b.f32());
  SmallVector<int64_t> scores(q.getShape());
  scores.back() = keys;
  bias = b.reshape(b.broadcast(bias, scores), {batch, heads, queries, keys});
  auto flash = FlashAttentionOp::create(b.builder, b.loc, byHeads(op.getQ(), queries), byHeads(op.getK(), keys),
                                        byHeads(op.getV(), keys), bias, Value(), Value(), op.getScaleAttr(),
                                        op.getCausal() ? b.builder.getI64IntegerAttr(0) : IntegerAttr(), IntegerAttr(),
                                        FloatAttr(), IntegerAttr());
  return b.reshape(b.transpose(flash.getOut(), {0, 2, 1, 3}), q.getShape());
}

SmallVector<Value> AttentionOp::decompose(Emit &b) {
  if (getMask())
    return {attentionWithMask(b, *this)};
  Type element = tensorType(getQ()).getElementType();
  Value scores = b.mul(b.matmul(getQ(), getK(), false, true, b.f32()), getScale().convertToDouble());
  RankedTensorType type = tensorType(scores);
  if (getCausal()) {
    Value query = b.iota(type.getRank() - 2, type.getShape(), b.i32());
    Value key = b.iota(type.getRank() - 1, type.getShape(), b.i32());
    Value hidden = b.constant(-std::numeric_limits<double>::infinity(), type);
    scores = b.select(b.compare(Predicate::le, key, query), scores, hidden);
  }
  return {b.matmul(b.cast(softmax(b, scores), element), getV())};
}

//===- loss, dropout, optimizer --------------------------------------------------------------------------------===//

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  RankedTensorType logits = tensorType(adaptor.getLogits()), targets = tensorType(adaptor.getTargets());
  bool fits = logits.getRank() == targets.getRank() + 1;
  for (int64_t i = 0; fits && i < targets.getRank(); ++i)
    fits = sameSize(logits.getDimSize(i), targets.getDimSize(i));
  if (!fits)
    return emitOptionalError(loc, "'tcc.cross_entropy' targets are ", typeText(targets), " for logits ",
                             typeText(logits), "; they need the logits' shape without its last dim",
                             " (cross_entropy_c1)");
  types.push_back(RankedTensorType::get({}, Float32Type::get(context)));
  return success();
}
SmallVector<Value> CrossEntropyOp::decompose(Emit &b) {
  RankedTensorType type = tensorType(getLogits());
  int64_t classes = type.getShape().back(), rows = 1;
  for (int64_t size : type.getShape().drop_back())
    rows *= size;
  Value x = b.cast(b.reshape(getLogits(), {rows, classes}), b.f32());
  Value targets = b.reshape(getTargets(), {rows, 1});
  ArrayRef<int64_t> shape = tensorType(x).getShape();
  Type index = tensorType(targets).getElementType();

  // Everything is relative to the largest logit: an offset of the logits cancels before anything is rounded.
  Value rest = b.sub(x, b.broadcast(b.reduceMax(b.detach(x), {1}), shape));
  Value sum = b.reduceSum(b.exp(rest), {1});
  Value isTarget = b.compare(Predicate::eq, b.iota(1, shape, index), b.broadcast(targets, shape));
  Value picked = b.reduceSum(b.select(isTarget, rest, b.zeros(tensorType(x))), {1});
  Value losses = b.sub(b.log(sum), picked);
  // A target beyond the classes makes its row's loss and gradients NaN.
  RankedTensorType column = tensorType(losses);
  Value known = b.compare(Predicate::lt, targets, b.constant(classes, tensorType(targets)));
  Value invalid = b.constant(std::numeric_limits<double>::quiet_NaN(), column);
  losses = b.mul(losses, b.select(known, b.constant(1, column), invalid));

  // The count comes from the targets alone, so the gradient of the logits does not wait for the loss. The sum is
  // divided, not its terms: of no rows at all it is 0 / 0 too, as where no row counts.
  Value counts = b.compare(Predicate::ge, targets, b.zeros(tensorType(targets)));
  Value count = b.reduceSum(b.cast(counts, b.f32()), {0});
  Value total = b.reduceSum(b.select(counts, losses, b.zeros(tensorType(losses))), {0});
  return {b.reshape(b.div(total, count), {})};
}

LogicalResult DropoutOp::verify() {
  double rate = getRate().convertToDouble();
  if (!(rate >= 0 && rate < 1))
    return emitOpError() << "rate " << rate << " is outside 0 <= rate < 1 (dropout_c1)";
  return verifyFirst(*this, getFirst(), tensorType(getX()), "dropout_c2");
}
SmallVector<Value> DropoutOp::decompose(Emit &b) {
  double rate = getRate().convertToDouble();
  if (rate == 0)
    return {getX()};
  Value x = b.cast(getX(), b.f32());
  Value y = dropOut(b, x, {rate, getSeed(), getStream(), getFirst()});
  return {b.cast(y, tensorType(getX()).getElementType())};
}

LogicalResult StochasticCastOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, Adaptor adaptor,
                                                 SmallVectorImpl<Type> &types) {
  types.push_back(withElement(tensorType(adaptor.getX()), BFloat16Type::get(context)));
  return success();
}
SmallVector<Value> StochasticCastOp::decompose(Emit &b) {
  RankedTensorType type = tensorType(getX());
  Value bits = b.create<RandomBitsOp>(withElement(type, b.i32()), getSeed(), getStream(), Value(),
                                      type.hasStaticShape() ? Value() : getX());
  return {b.castByBits(getX(), bits)};
}

LogicalResult AdamwOp::verify() {
  for (auto [name, beta] : {std::pair("beta1", getBeta1()), std::pair("beta2", getBeta2())})
    if (double value = beta.convertToDouble(); !(value >= 0 && value < 1))
      return emitOpError() << name << " is " << numberText(value) << ", outside 0 <= beta < 1 (adamw_c1)";
  if (failed(verifyEps(*this, getEps().convertToDouble(), "adamw_c2")))
    return failure();
  if (double decay = getWeightDecay().convertToDouble(); !isFiniteF32(decay))
    return emitOpError() << "weight_decay " << numberText(decay) << " " << beyondF32 << " (adamw_c3)";
  return success();
}
SmallVector<Value> AdamwOp::decompose(Emit &b) {
  ArrayRef<int64_t> shape = tensorType(getM()).getShape();
  double beta1 = getBeta1().convertToDouble(), beta2 = getBeta2().convertToDouble();
  Type f32 = b.f32();
  auto spread = [&](Value scalar) { return b.broadcast(scalar, shape); };
  Value p = b.cast(getParameter(), f32);
  Value g = b.mul(b.cast(getGradient(), f32), spread(getScale()));
  Value m = b.add(b.mul(b.cast(getM(), f32), beta1), b.mul(g, 1 - beta1));
  Value v = b.add(b.mul(b.cast(getV(), f32), beta2), b.mul(b.mul(g, g), 1 - beta2));

  // Scalars of the step: bias corrections 1 - beta^step = 2t / (1 + t), t = tanh(-step · log(beta) / 2): no difference
  // of near numbers in the first steps.
  RankedTensorType scalar = tensorType(getLr());
  auto correction = [&](double beta) {
    Value t = b.tanh(b.mul(getStep(), -0.5 * std::log(beta)));
    return b.div(b.add(t, t), b.add(t, 1));
  };
  Value stepSize = b.div(getLr(), correction(beta1));
  Value inverseRoot = b.rsqrt(correction(beta2));
  Value keep = b.sub(b.constant(1, scalar), b.mul(getLr(), getWeightDecay().convertToDouble()));

  Value denominator = b.add(b.mul(b.sqrt(v), spread(inverseRoot)), getEps().convertToDouble());
  Value step = b.div(b.mul(m, spread(stepSize)), denominator);
  Value next = b.sub(b.mul(p, spread(keep)), step);
  Value apply = spread(getApply());
  auto updated = [&](Value fresh, Value old) {
    return b.select(apply, b.cast(fresh, tensorType(old).getElementType()), old);
  };
  return {updated(next, getParameter()), updated(m, getM()), updated(v, getV())};
}

} // namespace tcc
