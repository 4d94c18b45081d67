// Windows over some dims of a tensor, their gradient, and convolutions as matmuls of windows.
#include "ir/emit.h"
#include "ir/ops/shapes.h"

using namespace mlir;

namespace tcc {
namespace {

constexpr int64_t mostDims = 3; // of space in a convolution

/// Entry i of a list that may be empty, for ones.
int64_t entry(ArrayRef<int64_t> list, size_t i) {
  return list.empty() ? 1 : list[i];
}

/// The elements that a window spans, from the first to the last.
int64_t spanOf(int64_t size, int64_t dilation) {
  return (size - 1) * dilation + 1;
}

struct WindowLists {
  ArrayRef<int64_t> dims, sizes, steps, dilations;

  size_t count() const { return dims.size(); }
  int64_t step(size_t i) const { return entry(steps, i); }
  int64_t dilation(size_t i) const { return entry(dilations, i); }
  int64_t span(size_t i) const { return spanOf(sizes[i], dilation(i)); }
};

/// What is wrong with the lists for a tensor of this shape, without the label; empty if nothing is.
std::string problemOf(const WindowLists &lists, ArrayRef<int64_t> shape, bool &isOfLists) {
  isOfLists = true;
  auto fits = [&](ArrayRef<int64_t> list) { return list.empty() || list.size() == lists.count(); };
  auto isPositive = [](int64_t value) { return value >= 1 && value <= (int64_t(1) << 40); };
  if (lists.sizes.size() != lists.count() || !fits(lists.steps) || !fits(lists.dilations) ||
      !llvm::all_of(lists.sizes, isPositive) || !llvm::all_of(lists.steps, isPositive) ||
      !llvm::all_of(lists.dilations, isPositive))
    return "needs a size, step and dilation of at least 1 for each dim";
  int64_t previous = -1;
  for (int64_t dim : lists.dims) {
    if (dim <= previous || dim >= static_cast<int64_t>(shape.size()))
      return "dims must ascend within 0.." + std::to_string(static_cast<int64_t>(shape.size()) - 1);
    previous = dim;
  }
  isOfLists = false;
  for (auto [i, dim] : llvm::enumerate(lists.dims))
    if (ShapedType::isDynamic(shape[dim]) || lists.span(i) > shape[dim])
      return "has windows that span " + std::to_string(lists.span(i)) + " of dim " + std::to_string(dim) + " of size " +
             (ShapedType::isDynamic(shape[dim]) ? std::string("?") : std::to_string(shape[dim]));
  return "";
}

/// The shape of the windows of a tensor.
SmallVector<int64_t> windowShape(const WindowLists &lists, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> result(shape);
  for (auto [i, dim] : llvm::enumerate(lists.dims))
    result[dim] = (shape[dim] - lists.span(i)) / lists.step(i) + 1;
  llvm::append_range(result, lists.sizes);
  return result;
}

/// x along `dim` cut or filled with zeros to `size`, its first element at `start`.
Value fitted(Emit &b, Value x, int64_t dim, int64_t start, int64_t size) {
  SmallVector<int64_t> shape(tensorType(x).getShape()), low(shape.size(), 0), high(shape.size(), 0);
  if (shape[dim] > size - start) {
    shape[dim] = size - start;
    x = b.slice(x, SmallVector<int64_t>(shape.size(), 0), shape);
  }
  low[dim] = start;
  high[dim] = size - start - shape[dim];
  return b.pad(x, low, high);
}

/// The windows' last dim, of `size` elements `dilation` apart, added up into `dim`, which gets `extent` elements.
Value foldLast(Emit &b, Value windows, int64_t dim, int64_t step, int64_t dilation, int64_t extent) {
  SmallVector<int64_t> shape(tensorType(windows).getShape());
  const int64_t last = static_cast<int64_t>(shape.size()) - 1, size = shape[last], count = shape[dim];
  if (dilation == 1 && step >= size) { // windows side by side: each begins a run of `step` elements
    SmallVector<int64_t> order;
    for (int64_t i = 0; i < last; ++i) {
      order.push_back(i);
      if (i == dim)
        order.push_back(last);
    }
    Value runs = fitted(b, b.transpose(windows, order), dim + 1, 0, step);
    shape.pop_back();
    shape[dim] = count * step;
    return fitted(b, b.reshape(runs, shape), dim, 0, extent);
  }
  Value sum;
  SmallVector<int64_t> starts(shape.size(), 0), limits(shape), part(ArrayRef<int64_t>(shape).drop_back());
  for (int64_t place = 0; place < size; ++place) {
    starts[last] = place;
    limits[last] = place + 1;
    Value one = b.reshape(b.slice(windows, starts, limits), part);
    one = fitted(b, b.spread(one, dim, step), dim, place * dilation, extent);
    sum = sum ? b.add(sum, one) : one;
  }
  return sum;
}

/// The sum of all windows, each where it stands in a tensor of this shape.
Value folded(Emit &b, Value windows, const WindowLists &lists, ArrayRef<int64_t> shape) {
  if (tensorType(windows).getNumElements() == 0)
    return b.zeros(RankedTensorType::get(shape, tensorType(windows).getElementType()));
  for (size_t i = lists.count(); i-- > 0;)
    windows = foldLast(b, windows, lists.dims[i], lists.step(i), lists.dilation(i), shape[lists.dims[i]]);
  return windows;
}

} // namespace

//===- window --------------------------------------------------------------------------------------------------===//

LogicalResult WindowOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  RankedTensorType type = tensorType(adaptor.getX());
  WindowLists lists{adaptor.getDims(), adaptor.getSizes(), adaptor.getSteps(), adaptor.getDilations()};
  bool isOfLists;
  if (std::string problem = problemOf(lists, type.getShape(), isOfLists); !problem.empty())
    return emitOptionalError(loc, "'tcc.window' ", problem, isOfLists ? " (window_c1)" : " (window_c2)");
  types.push_back(withShape(type, windowShape(lists, type.getShape())));
  return success();
}

std::optional<SmallVector<ViewedDim>> WindowOp::viewedDims() {
  SmallVector<ViewedDim> dims;
  const int64_t rank = tensorType(getX()).getRank();
  for (int64_t i = 0; i < rank; ++i)
    dims.push_back({static_cast<unsigned>(i)});
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    dims[dim].stride = entry(getSteps(), i);
    dims[dim].inner = rank + i;
    dims[dim].innerStride = entry(getDilations(), i);
  }
  return dims;
}

SmallVector<Value> WindowOp::gradient(Emit &b, ValueRange dy) {
  return {folded(b, dy[0], {getDims(), getSizes(), getSteps(), getDilations()}, tensorType(getX()).getShape())};
}

//===- fold ----------------------------------------------------------------------------------------------------===//

LogicalResult FoldOp::verify() {
  RankedTensorType from = tensorType(getX()), to = tensorType(getResult());
  const int64_t rank = to.getRank();
  if (from.getElementType() != to.getElementType() || from.getRank() < rank || !from.hasStaticShape() ||
      !to.hasStaticShape())
    return emitOpError() << "cannot fold " << typeText(from) << " into " << typeText(to)
                         << ": sizes are known, element types equal, and each folded dim has one more (fold_c1)";
  WindowLists lists{getDims(), from.getShape().drop_front(rank), getSteps(), getDilations()};
  bool isOfLists;
  if (std::string problem = problemOf(lists, to.getShape(), isOfLists); !problem.empty())
    return emitOpError() << problem << " (fold_c1)";
  if (SmallVector<int64_t> shape = windowShape(lists, to.getShape()); ArrayRef<int64_t>(shape) != from.getShape())
    return emitOpError() << typeText(from) << " is not the type of windows of " << typeText(to) << ", which is "
                         << typeText(withShape(to, shape)) << " (fold_c2)";
  return success();
}

SmallVector<Value> FoldOp::decompose(Emit &b) {
  RankedTensorType to = tensorType(getResult());
  ArrayRef<int64_t> sizes = tensorType(getX()).getShape().drop_front(to.getRank());
  Value x = b.cast(getX(), b.f32());
  return {b.cast(folded(b, x, {getDims(), sizes, getSteps(), getDilations()}, to.getShape()), to.getElementType())};
}

//===- convolution ---------------------------------------------------------------------------------------------===//

LogicalResult ConvolutionOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc, Adaptor adaptor,
                                              SmallVectorImpl<Type> &types) {
  RankedTensorType x = tensorType(adaptor.getX()), weight = tensorType(adaptor.getWeight());
  const int64_t space = x.getRank() - 2, groups = adaptor.getGroups();
  auto refuse = [&](const Twine &why, StringRef label) {
    return emitOptionalError(loc, "'tcc.convolution' of ", typeText(x), " with ", typeText(weight), ": ", why.str(),
                             " (", label, ")");
  };
  if (space < 1 || space > mostDims || weight.getRank() != x.getRank() || x.getElementType() != weight.getElementType())
    return refuse("x is [batch, channels, 1 to 3 dims of space], the weight has its rank and element type",
                  "convolution_c1");
  if (!x.hasStaticShape() || !weight.hasStaticShape() || groups < 1 ||
      x.getDimSize(1) != groups * weight.getDimSize(1) || weight.getDimSize(0) % groups != 0)
    return refuse("the weight is [out, channels / groups, window...], of known sizes, and the groups divide out",
                  "convolution_c2");
  auto fits = [&](ArrayRef<int64_t> list, int64_t least) {
    return list.empty() || (static_cast<int64_t>(list.size()) == space &&
                            llvm::all_of(list, [&](int64_t value) { return value >= least; }));
  };
  if (!fits(adaptor.getSteps(), 1) || !fits(adaptor.getDilations(), 1) || !fits(adaptor.getPadding(), 0))
    return refuse("steps and dilations are at least 1, paddings at least 0, one a dim of space", "convolution_c3");
  SmallVector<int64_t> shape{x.getDimSize(0), weight.getDimSize(0)};
  for (int64_t i = 0; i < space; ++i) {
    const int64_t padding = adaptor.getPadding().empty() ? 0 : adaptor.getPadding()[i];
    const int64_t size = x.getDimSize(i + 2) + 2 * padding, window = weight.getDimSize(i + 2);
    const int64_t span = window == 0 ? 1 : spanOf(window, entry(adaptor.getDilations(), i));
    if (window == 0 || span > size)
      return refuse("a window that spans " + Twine(span) + " is larger than the padded size " + Twine(size),
                    "convolution_c4");
    shape.push_back((size - span) / entry(adaptor.getSteps(), i) + 1);
  }
  if (Value bias = adaptor.getBias(); bias && (tensorType(bias).getShape() != ArrayRef<int64_t>{weight.getDimSize(0)} ||
                                               tensorType(bias).getElementType() != x.getElementType()))
    return refuse("the bias " + typeText(tensorType(bias)) + " is not [out] of x's element type", "convolution_c5");
  types.push_back(withShape(x, shape));
  return success();
}

// One matmul a group: the weight [groups, outs, channels · window] · windows [groups, channels · window, batch ·
// places]. Places come last, so that neighbours in memory stay neighbours.
SmallVector<Value> ConvolutionOp::decompose(Emit &b) {
  RankedTensorType result = tensorType(getResult()), weight = tensorType(getWeight());
  const int64_t space = result.getRank() - 2, groups = getGroups(), batch = result.getDimSize(0);
  const int64_t channels = weight.getDimSize(1), outs = weight.getDimSize(0) / groups;
  ArrayRef<int64_t> window = weight.getShape().drop_front(2), places = result.getShape().drop_front(2);
  SmallVector<int64_t> padding(result.getRank(), 0), dims;
  for (int64_t i = 0; i < space; ++i) {
    padding[i + 2] = getPadding().empty() ? 0 : getPadding()[i];
    dims.push_back(i + 2);
  }
  Value x = b.pad(getX(), padding, padding);
  x = b.create<WindowOp>(x, dims, window, getSteps(), getDilations());
  // [batch, groups · channels, places..., window...] to [groups · channels, window..., batch, places...]
  SmallVector<int64_t> order{1};
  for (int64_t i = 0; i < space; ++i)
    order.push_back(2 + space + i);
  order.push_back(0);
  for (int64_t i = 0; i < space; ++i)
    order.push_back(2 + i);
  x = b.transpose(x, order);
  const int64_t count = batch * ShapedType::getNumElements(places),
                depth = channels * ShapedType::getNumElements(window);
  Value y = groups == 1 ? b.matmul(b.reshape(getWeight(), {outs, depth}), b.reshape(x, {depth, count}))
                        : b.matmul(b.reshape(getWeight(), {groups, outs, depth}), b.reshape(x, {groups, depth, count}));
  // [groups · outs, batch, places...] to [batch, groups · outs, places...]
  SmallVector<int64_t> parts{groups * outs, batch}, back{1, 0};
  llvm::append_range(parts, places);
  for (int64_t i = 0; i < space; ++i)
    back.push_back(2 + i);
  y = b.transpose(b.reshape(y, parts), back);
  if (Value bias = getBias()) {
    SmallVector<int64_t> column(space + 1, 1);
    column[0] = result.getDimSize(1);
    y = b.add(y, b.broadcast(b.reshape(bias, column), result.getShape()));
  }
  return {y};
}

} // namespace tcc
