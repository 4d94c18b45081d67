// The functions of tensor.h that see windows: window and fold themselves, convolutions, pools.
#include "frontend/record_op.h"
#include <limits>

namespace tcc {
namespace {

/// Windows of the dims of space, with `outside` around x; the window's elements are the last dim.
Tensor pooled(const Tensor &x, std::span<const int64_t> sizes, const PoolOptions &options, double outside, Loc loc) {
  const Shape shape = typeOf(x, loc).shape;
  const auto space = static_cast<int64_t>(sizes.size());
  if (shape.rank() != space + 2 || (!options.padding.empty() && options.padding.size() != sizes.size()))
    throw Error("a pool of " + shape.text() + " with windows of " + std::to_string(space) +
                    " sizes; it needs [batch, channels, space...] and one size and padding a dim of space",
                loc);
  Shape around{0, 0};
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < space; ++i) {
    around.push(options.padding.empty() ? 0 : options.padding[static_cast<size_t>(i)]);
    dims.push_back(i + 2);
  }
  const std::vector<int64_t> steps =
      options.steps.empty() ? std::vector<int64_t>(sizes.begin(), sizes.end()) : options.steps;
  return window(pad(x, around, around, outside, loc), dims, sizes, {steps, options.dilations}, loc);
}
Axes lastAxes(size_t count) {
  Axes axes{};
  axes.all = false;
  for (size_t i = 0; i < count; ++i)
    axes.axes.push_back(-1 - static_cast<int64_t>(i));
  return axes;
}

} // namespace

Tensor window(const Tensor &x, std::span<const int64_t> dims, std::span<const int64_t> sizes,
              const WindowOptions &options, Loc loc) {
  const Words words =
      Words().integers(dims, loc).integers(sizes, loc).integers(options.steps, loc).integers(options.dilations, loc);
  return record(OpKind::window, {x}, words, loc);
}
Tensor fold(const Tensor &windows, std::span<const int64_t> dims, const Shape &shape, const WindowOptions &options,
            Loc loc) {
  checkSizes(shape, loc);
  const Words words = Words()
                          .integers(dims, loc)
                          .integers(options.steps, loc)
                          .integers(options.dilations, loc)
                          .type(typeOf(windows, loc).dtype, shape);
  return record(OpKind::fold, {windows}, words, loc);
}

Tensor convolution(const Tensor &x, const Tensor &weight, const Tensor &bias, const ConvolutionOptions &options,
                   Loc loc) {
  const Words words = Words()
                          .integers(options.steps, loc)
                          .integers(options.padding, loc)
                          .integers(options.dilations, loc)
                          .integer(options.groups);
  return bias.defined() ? record(OpKind::convolution, {x, weight, bias}, words, loc)
                        : record(OpKind::convolution, {x, weight}, words, loc);
}

Tensor maxPool(const Tensor &x, std::span<const int64_t> sizes, const PoolOptions &options, Loc loc) {
  return max(pooled(x, sizes, options, -std::numeric_limits<double>::infinity(), loc), lastAxes(sizes.size()),
             KeepDims::no, loc);
}
Tensor averagePool(const Tensor &x, std::span<const int64_t> sizes, const PoolOptions &options, Loc loc) {
  return mean(pooled(x, sizes, options, 0, loc), lastAxes(sizes.size()), KeepDims::no, loc);
}

} // namespace tcc
