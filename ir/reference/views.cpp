// Views: each result element is an operand's element at another index.
#include "ir/reference/registry.h"

using namespace mlir;

namespace tcc::reference {
namespace {

/// The shape of a reshape: sizes of `like`; else `?` in the common prefix are the operand's, and one further `?`
/// follows from the number of elements.
std::optional<Shape> reshapedShape(Call &call, ReshapeOp op) {
  if (op.getLike())
    return call.resultShape(&call.in(1));
  ArrayRef<int64_t> declared = tensorType(op.getX()).getShape(), actual = call.in(0).shape();
  Shape shape(tensorType(op.getResult()).getShape());
  for (size_t i = 0; i < shape.size() && i < declared.size() && shape[i] == declared[i]; ++i)
    shape[i] = actual[i];
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (ShapedType::isDynamic(shape[i]))
      unknown = i;
    else
      known *= shape[i];
  }
  if (unknown >= 0 && (known == 0 || call.in(0).size() % known != 0))
    return std::nullopt;
  if (unknown >= 0)
    shape[unknown] = call.in(0).size() / known;
  return shape;
}

void addBroadcast(Registry &registry) {
  add<BroadcastOp>(registry, [](Call &call, BroadcastOp op) {
    const RefTensor &x = call.in(0);
    Shape shape = call.resultShape(op.getLike() ? &call.in(1) : nullptr);
    size_t leading = shape.size() - x.shape().size();
    for (size_t i = 0; i < x.shape().size(); ++i)
      if (x.shape()[i] != 1 && x.shape()[i] != shape[leading + i])
        return call.refuse("operand size " + Twine(x.shape()[i]) + " is neither 1 nor the result's " +
                           Twine(shape[leading + i]) + " (broadcast_c2)");
    RefTensor &result = call.addResult(shape);
    int64_t next = 0;
    forEachIndex(shape, [&](ArrayRef<int64_t> index) {
      Shape from(index.drop_front(leading));
      for (size_t i = 0; i < from.size(); ++i)
        if (x.shape()[i] == 1)
          from[i] = 0;
      result.data[next++] = x.data[offsetOf(x.shape(), from)];
    });
  });
}

void addReshape(Registry &registry) {
  add<ReshapeOp>(registry, [](Call &call, ReshapeOp op) {
    std::optional<Shape> shape = reshapedShape(call, op);
    if (!shape || elementCount(*shape) != call.in(0).size())
      return call.refuse("cannot give " + Twine(call.in(0).size()) + " elements the shape " +
                         typeText(tensorType(op.getResult())) + " (reshape_c1)");
    call.addResult(*shape).data = call.in(0).data;
  });
}

void addTranspose(Registry &registry) {
  add<TransposeOp>(registry, [](Call &call, TransposeOp op) {
    const RefTensor &x = call.in(0);
    ArrayRef<int64_t> permutation = op.getPermutation();
    Shape shape;
    for (int64_t dim : permutation)
      shape.push_back(x.shape()[dim]);
    RefTensor &result = call.addResult(shape);
    int64_t next = 0;
    forEachIndex(shape, [&](ArrayRef<int64_t> index) {
      Shape from(index.size());
      for (size_t i = 0; i < index.size(); ++i)
        from[permutation[i]] = index[i];
      result.data[next++] = x.data[offsetOf(x.shape(), from)];
    });
  });
}

void addSlice(Registry &registry) {
  add<SliceOp>(registry, [](Call &call, SliceOp op) {
    const RefTensor &x = call.in(0);
    ArrayRef<int64_t> starts = op.getStarts(), limits = op.getLimits();
    Shape shape;
    for (size_t i = 0; i < starts.size(); ++i) {
      int64_t limit = limits[i] == -1 ? x.shape()[i] : limits[i];
      if (starts[i] > limit || limit > x.shape()[i])
        return call.refuse("takes " + Twine(starts[i]) + ".." + Twine(limit) + " of a dim of size " +
                           Twine(x.shape()[i]) + " (slice_c2)");
      shape.push_back((limit - starts[i] + op.step(i) - 1) / op.step(i));
    }
    RefTensor &result = call.addResult(shape);
    int64_t next = 0;
    forEachIndex(shape, [&](ArrayRef<int64_t> index) {
      Shape from(index);
      for (size_t i = 0; i < from.size(); ++i)
        from[i] = from[i] * op.step(i) + starts[i];
      result.data[next++] = x.data[offsetOf(x.shape(), from)];
    });
  });
}

void addPad(Registry &registry) {
  add<PadOp>(registry, [](Call &call, PadOp op) {
    const RefTensor &x = call.in(0);
    Shape shape(x.shape());
    for (size_t i = 0; i < shape.size(); ++i)
      shape[i] += op.getLow()[i] + op.getHigh()[i];
    RefTensor &result = call.addResult(shape);
    double value = op.getValue().convertToDouble();
    std::fill(result.data.begin(), result.data.end(),
              isa<FloatType>(x.element()) ? roundToElement(value, x.element()) : value);
    int64_t next = 0;
    forEachIndex(x.shape(), [&](ArrayRef<int64_t> index) {
      Shape to(index);
      for (size_t i = 0; i < to.size(); ++i)
        to[i] += op.getLow()[i];
      result.data[offsetOf(shape, to)] = x.data[next++];
    });
  });
}

void addConcat(Registry &registry) {
  add<ConcatOp>(registry, [](Call &call, ConcatOp op) {
    size_t axis = op.getAxis();
    Shape shape(call.in(0).shape());
    shape[axis] = 0;
    for (const RefTensor *part : call.operands) {
      Shape other(part->shape());
      shape[axis] += other[axis];
      other[axis] = shape[axis];
      if (other != shape)
        return call.refuse("parts differ beyond axis " + Twine(axis) + " (concat_c2)");
    }
    RefTensor &result = call.addResult(shape);
    int64_t start = 0;
    for (const RefTensor *part : call.operands) {
      int64_t next = 0;
      forEachIndex(part->shape(), [&](ArrayRef<int64_t> index) {
        Shape to(index);
        to[axis] += start;
        result.data[offsetOf(shape, to)] = part->data[next++];
      });
      start += part->shape()[axis];
    }
  });
}

} // namespace

void addViews(Registry &registry) {
  addBroadcast(registry);
  addReshape(registry);
  addTranspose(registry);
  addSlice(registry);
  addPad(registry);
  addConcat(registry);
}

} // namespace tcc::reference
