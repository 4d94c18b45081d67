// Windows, their sum and convolutions, each element by its own loop over a window.
#include "ir/reference/registry.h"

using namespace mlir;

namespace tcc::reference {
namespace {

int64_t entry(ArrayRef<int64_t> list, size_t i) {
  return list.empty() ? 1 : list[i];
}

/// The element of x that stands at `index` of its windows.
template <typename Op>
int64_t placeOf(Op op, ArrayRef<int64_t> shape, ArrayRef<int64_t> index) {
  Shape at(index.take_front(shape.size()));
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    at[dim] = at[dim] * entry(op.getSteps(), i) + index[shape.size() + i] * entry(op.getDilations(), i);
  return offsetOf(shape, at);
}

/// One element of a convolution of x, whose channels begin at `first`.
double convolved(Call &call, ConvolutionOp op, ArrayRef<int64_t> index, int64_t first) {
  const RefTensor &x = call.in(0), &weight = call.in(1);
  Shape window(weight.shape().drop_front());
  Sum sum(call.mode);
  forEachIndex(window, [&](ArrayRef<int64_t> inside) {
    Shape from{index[0], first + inside[0]}, of{index[1], inside[0]};
    bool isPadding = false;
    for (size_t i = 1; i < inside.size(); ++i) {
      const int64_t padding = op.getPadding().empty() ? 0 : op.getPadding()[i - 1];
      from.push_back(index[i + 1] * entry(op.getSteps(), i - 1) + inside[i] * entry(op.getDilations(), i - 1) -
                     padding);
      isPadding |= from.back() < 0 || from.back() >= x.shape()[i + 1];
      of.push_back(inside[i]);
    }
    if (isPadding)
      sum.add(0 * weight.data[offsetOf(weight.shape(), of)]);
    else
      sum.add(x.data[offsetOf(x.shape(), from)] * weight.data[offsetOf(weight.shape(), of)]);
  });
  return sum.get();
}

} // namespace

void addWindows(Registry &registry) {
  add<WindowOp>(registry, [](Call &call, WindowOp op) {
    const RefTensor &x = call.in(0);
    RefTensor &result = call.addResult(tensorType(op.getResult()).getShape());
    int64_t next = 0;
    forEachIndex(result.shape(),
                 [&](ArrayRef<int64_t> index) { result.data[next++] = x.data[placeOf(op, x.shape(), index)]; });
  });
  add<FoldOp>(registry, [](Call &call, FoldOp op) {
    const RefTensor &windows = call.in(0);
    RefTensor &result = call.addResult(tensorType(op.getResult()).getShape());
    int64_t next = 0;
    forEachIndex(windows.shape(), [&](ArrayRef<int64_t> index) {
      result.data[placeOf(op, result.shape(), index)] += windows.data[next++];
    });
  });
  add<ConvolutionOp>(registry, [](Call &call, ConvolutionOp op) {
    RefTensor &result = call.addResult(tensorType(op.getResult()).getShape());
    const int64_t outs = call.in(1).shape()[0] / static_cast<int64_t>(op.getGroups()), channels = call.in(1).shape()[1];
    int64_t next = 0;
    forEachIndex(result.shape(), [&](ArrayRef<int64_t> index) {
      double value = convolved(call, op, index, index[1] / outs * channels);
      if (op.getBias()) {
        if (call.mode == RefMode::rounding)
          value = roundToElement(value, result.element());
        value += call.in(2).data[index[1]];
      }
      result.data[next++] = value;
    });
  });
}

} // namespace tcc::reference
