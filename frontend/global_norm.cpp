// The norm of all gradients together, in few kernels:
//   1. one number of parts that divides most tensors; each tensor's squares are summed up to a vector of so many,
//      those of one size one after the other, so that they share kernels. Small tensors are added up in pieces of a
//      part's length. Many tensors are added up in equal bunches, so that more layers need no other kernels;
//   2. one sum over the vector. The second bunch of a size and those after it have sums of their own, since a kernel
//      that added its bunch to others' would differ from theirs. Tensors that have no such parts are summed alone.
// By rows: each row of dim 0 is summed up, then rows of tensors that have as many, one tensor after the other, then all
// of them. Vectors of one length are added up together.
#include "frontend/optim.h"
#include "frontend/scope.h"
#include <algorithm>
#include <map>
#include <numeric>

namespace tcc::optim {
namespace {

constexpr int64_t mostParts = 512, fewestParts = 64; // work for many threads, and little left to add up
constexpr int64_t mostPieces = 8;                    // of a small tensor; others have rows
constexpr int64_t mostTogether = 36;                 // tensors that are added up by one kernel

/// The number of parts into which most tensors can be cut, the largest of those; 1 where none can.
int64_t commonParts(std::span<const Tensor> tensors) {
  int64_t best = 1, most = 0;
  for (int64_t parts = mostParts; parts >= fewestParts; --parts) {
    const int64_t fits = std::count_if(tensors.begin(), tensors.end(),
                                       [&](const Tensor &tensor) { return tensor.shape().elements() % parts == 0; });
    if (fits > most) {
      best = parts;
      most = fits;
    }
  }
  return best;
}

bool fits(const Tensor &tensor, int64_t parts) {
  const int64_t elements = tensor.shape().elements();
  return parts > 1 && elements > 0 && elements % parts == 0;
}

/// In how many bunches tensors are added up, of which so many have each length. There are up to half as many bunches
/// again as are needed, if they then share out the tensors of one length more evenly: bunches that are alike share one
/// compiled kernel.
size_t bunchesOf(const std::map<int64_t, int64_t> &ofLength) {
  int64_t tensors = 0;
  for (const auto &[length, count] : ofLength)
    tensors += count;
  const auto uneven = [&](int64_t bunches) {
    int64_t left = 0;
    for (const auto &[length, count] : ofLength)
      left += count % bunches;
    return left;
  };
  const int64_t fewest = (tensors + mostTogether - 1) / mostTogether;
  int64_t best = fewest;
  for (int64_t bunches = fewest + 1; bunches <= fewest + fewest / 2; ++bunches)
    if (uneven(bunches) < uneven(best))
      best = bunches;
  return static_cast<size_t>(best);
}

/// Sums of squares, a vector of `parts` each, to which tensors are added in turn.
struct Bunches {
  std::vector<Tensor> totals;
  size_t added = 0;

  Tensor &next() { return totals[added++ % totals.size()]; }
};

/// Sums up to `total`, which may be null.
void add(Tensor &total, const Tensor &part, Loc loc) {
  total = total.defined() ? total + Operand(part, loc) : part;
}

Tensor squares(const Tensor &x, Loc loc) {
  return x * Operand(x, loc);
}

Tensor sumOfSquaresByRows(std::span<const Tensor> gradients, Loc loc) {
  std::map<int64_t, Tensor> rows;                        // of matrices, by the number of rows
  std::map<std::pair<int64_t, int64_t>, Tensor> vectors; // by length, so many of each
  std::map<int64_t, int64_t> seen;
  for (const Tensor &gradient : gradients) {
    const Tensor wide = squares(cast(gradient, DType::f32, loc), loc);
    const Shape &shape = wide.shape();
    if (shape.rank() < 2) {
      const int64_t length = shape.elements();
      add(vectors[{length, seen[length]++ / mostTogether}], reshape(wide, {length}, loc), loc);
      continue;
    }
    Axes axes(1); // and all after it
    for (int64_t axis = 2; axis < shape.rank(); ++axis)
      axes.axes.push_back(axis);
    add(rows[shape[0]], sum(wide, axes, KeepDims::no, loc), loc);
  }
  Tensor all;
  for (const auto &[length, part] : rows)
    add(all, sum(part, {}, KeepDims::no, loc), loc);
  for (const auto &[length, part] : vectors)
    add(all, sum(part, {}, KeepDims::no, loc), loc);
  return all;
}

} // namespace

Tensor globalNorm(std::span<const Tensor> gradients, Loc loc, NormOrder order) {
  const Scope scope("gradient_norm");
  if (order == NormOrder::rows) {
    const Tensor all = sumOfSquaresByRows(gradients, loc);
    return all.defined() ? sqrt(all, loc) : zeros({}, DType::f32, loc);
  }
  const int64_t parts = commonParts(gradients);
  std::vector<Tensor> bySize(gradients.begin(), gradients.end());
  std::stable_sort(bySize.begin(), bySize.end(),
                   [](const Tensor &a, const Tensor &b) { return a.shape().elements() > b.shape().elements(); });
  std::map<int64_t, int64_t> small, large; // how many tensors have parts of a length
  for (const Tensor &gradient : bySize)
    if (const int64_t length = gradient.shape().elements() / parts; fits(gradient, parts))
      ++(length > mostPieces ? large : small)[length];
  std::map<int64_t, Bunches> rows; // by length
  for (const auto &[length, count] : large)
    rows[length].totals.resize(bunchesOf({{length, count}}));
  Bunches pieces{std::vector<Tensor>(bunchesOf(small))};
  Tensor alone; // a scalar
  for (const Tensor &gradient : bySize) {
    const Tensor wide = cast(gradient, DType::f32, loc);
    const int64_t elements = wide.shape().elements(), length = elements / parts;
    if (!fits(gradient, parts)) {
      add(alone, sum(squares(wide, loc), {}, KeepDims::no, loc), loc);
    } else if (length > mostPieces) {
      add(rows[length].next(), sum(squares(reshape(wide, {parts, length}, loc), loc), {1}, KeepDims::no, loc), loc);
    } else {
      const Tensor flat = reshape(wide, {elements}, loc);
      Tensor &bunch = pieces.next();
      for (int64_t i = 0; i < length; ++i)
        add(bunch, squares(slice(flat, 0, i * parts, (i + 1) * parts, loc), loc), loc);
    }
  }
  Tensor all;
  for (const auto &[length, bunches] : rows) {
    add(all, bunches.totals[0], loc);
    for (const Tensor &part : std::span(bunches.totals).subspan(1))
      add(alone, sum(part, {}, KeepDims::no, loc), loc);
  }
  for (const Tensor &part : pieces.totals)
    add(all, part, loc);
  if (all.defined())
    add(alone, sum(all, {}, KeepDims::no, loc), loc);
  return alone.defined() ? sqrt(alone, loc) : zeros({}, DType::f32, loc);
}

} // namespace tcc::optim
