// Convolutions, pools, order and masks of attention as functions of a C++ program: values and gradients by plain loops.
#include "tests/frontend/quiet_functions.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <tcc/tcc.h>

using namespace tcc;

namespace {

constexpr int64_t size = 7, width = 3, step = 2, padding = 1, places = 4;
const std::vector<int64_t> windows{width, width};
const PoolOptions options{{step, step}, {padding, padding}, {}};

/// Numbers without an order, no two equal.
Array scattered(Shape shape) {
  Array made = sequence(shape, 0, 0);
  for (int64_t i = 0; i < shape[0]; ++i)
    made.data<float>()[i] = static_cast<float>((i * 37) % 101) * 0.1f - 5;
  return made;
}

/// Calls see(place, element) for the elements of x [size, size] in each window; -1 for those of padding.
template <typename See>
void forWindows(See see) {
  for (int64_t place = 0; place < places * places; ++place)
    for (int64_t i = 0; i < width * width; ++i) {
      const int64_t row = place / places * step + i / width - padding,
                    column = place % places * step + i % width - padding;
      const bool isInside = row >= 0 && row < size && column >= 0 && column < size;
      see(place, isInside ? row * size + column : -1);
    }
}

TEST(Windows, PoolsTakeTheMaximumAndTheMean) {
  Function f = compile(
      "pools",
      [](Tensor flat) {
        Tensor x = reshape(flat, {1, 1, size, size});
        Tensor most = maxPool(x, windows, options), mean = averagePool(x, windows, options);
        Tensor weights = reshape(iota(0, {places * places}, DType::f32), {1, 1, places, places});
        return std::vector{most, mean, gradient(sum(most * weights), flat), gradient(sum(mean * weights), flat)};
      },
      quiet());
  const Array x = scattered({size * size});
  const auto results = f(x);
  std::vector<double> most(places * places, -std::numeric_limits<double>::infinity()), mean(places * places);
  std::vector<int64_t> where(places * places);
  std::vector<double> ofMost(size * size), ofMean(size * size);
  forWindows([&](int64_t place, int64_t element) {
    if (element < 0)
      return;
    const auto p = static_cast<size_t>(place);
    mean[p] += x.item(element) / 9;
    ofMean[static_cast<size_t>(element)] += static_cast<double>(place) / 9;
    if (x.item(element) > most[p]) {
      most[p] = x.item(element);
      where[p] = element;
    }
  });
  for (size_t p = 0; p < most.size(); ++p)
    ofMost[static_cast<size_t>(where[p])] += static_cast<double>(p);
  for (size_t p = 0; p < most.size(); ++p) {
    EXPECT_EQ(results[0].item(static_cast<int64_t>(p)), most[p]);
    EXPECT_NEAR(results[1].item(static_cast<int64_t>(p)), mean[p], 1e-5);
  }
  for (size_t i = 0; i < ofMost.size(); ++i) {
    EXPECT_EQ(results[2].item(static_cast<int64_t>(i)), ofMost[i]) << i;
    EXPECT_NEAR(results[3].item(static_cast<int64_t>(i)), ofMean[i], 1e-5) << i;
  }
}

TEST(Windows, AConvolutionSumsProductsOfWindows) {
  Function f = compile(
      "convolution",
      [](Tensor x, Tensor weight, Tensor bias) {
        Tensor y = convolution(reshape(x, {1, 1, size, size}), reshape(weight, {2, 1, width, width}), bias,
                               {{step, step}, {padding, padding}, {}, 1});
        return std::pair{y, gradient(sum(y * y) * 0.5, weight)};
      },
      quiet());
  const Array x = scattered({size * size}), weight = scattered({2 * width * width}), bias = sequence({2}, 1, 1);
  const auto results = f(x, weight, bias);
  std::vector<double> y(2 * places * places), dWeight(2 * width * width);
  for (int64_t out = 0; out < 2; ++out) {
    int64_t next = 0;
    for (int64_t place = 0; place < places * places; ++place)
      y[static_cast<size_t>(out * places * places + place)] = bias.item(out);
    forWindows([&](int64_t place, int64_t element) {
      const double factor = weight.item(out * width * width + next++ % (width * width));
      y[static_cast<size_t>(out * places * places + place)] += element < 0 ? 0 : factor * x.item(element);
    });
    next = 0;
    forWindows([&](int64_t place, int64_t element) {
      const int64_t i = out * width * width + next++ % (width * width);
      if (element >= 0)
        dWeight[static_cast<size_t>(i)] += y[static_cast<size_t>(out * places * places + place)] * x.item(element);
    });
  }
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_NEAR(results[0].item(static_cast<int64_t>(i)), y[i], 1e-3) << i;
  for (size_t i = 0; i < dWeight.size(); ++i)
    EXPECT_NEAR(results[1].item(static_cast<int64_t>(i)), dWeight[i], 1e-5 * std::abs(dWeight[i]) + 1e-2) << i;
}

TEST(Windows, FoldIsWhatWindowsGradientIs) {
  const std::vector<int64_t> dims{1}, sizes{3};
  Function f = compile(
      "fold",
      [&](Tensor x) {
        Tensor seen = window(x, dims, sizes, {{2}, {}});
        return std::pair{fold(seen, dims, {2, 7}, {{2}, {}}), gradient(sum(seen * seen) * 0.5, x)};
      },
      quiet());
  const Array x = sequence({2, 7}, 1, 1);
  const auto results = f(x);
  for (int64_t i = 0; i < 14; ++i) {
    const double times = i % 7 == 2 || i % 7 == 4 ? 2 : 1; // those in two windows
    EXPECT_EQ(results[0].item(i), times * x.item(i));
    EXPECT_EQ(results[1].item(i), times * x.item(i));
  }
}

TEST(Windows, SortGivesValuesPlacesAndGradients) {
  Function f = compile(
      "sort",
      [](Tensor x) {
        SortResult sorted = sort(x, 0, true);
        Tensor first = slice(sorted.values, 0, 0, 3); // the three largest
        return std::vector{sorted.values, cast(sorted.places, DType::f32), gradient(sum(first * first) * 0.5, x)};
      },
      quiet());
  const Array x = scattered({20});
  const auto results = f(x);
  std::vector<int64_t> order(20);
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x.item(a) > x.item(b); });
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t place = order[static_cast<size_t>(i)];
    EXPECT_EQ(results[0].item(i), x.item(place));
    EXPECT_EQ(results[1].item(i), static_cast<float>(place));
    EXPECT_EQ(results[2].item(place), i < 3 ? x.item(place) : 0);
  }
}

TEST(Windows, AttentionWithAMaskSeesWhatItShows) {
  Function f = compile(
      "masked",
      [](Tensor q, Tensor k, Tensor v) {
        const Tensor shown = iota(1, {6, 6}, DType::i32) <= iota(0, {6, 6}, DType::i32);
        const Tensor added = select(shown, zeros({6, 6}), full(-std::numeric_limits<double>::infinity(), {6, 6}));
        return std::vector{attention(q, k, v, true), attention(q, k, v, shown), attention(q, k, v, added)};
      },
      quiet());
  const auto results = f(sequence({2, 6, 4}, -1, 0.05f), sequence({2, 6, 4}, 1, -0.04f), sequence({2, 6, 4}, 0, 0.1f));
  for (int64_t i = 0; i < 48; ++i) {
    EXPECT_NEAR(results[1].item(i), results[0].item(i), 1e-5);
    EXPECT_NEAR(results[2].item(i), results[0].item(i), 1e-5);
  }
}

/// Lists of as many entries as a tensor may have dims: what is wrong is said, and nothing is written past an end.
TEST(Windows, LongListsAreRefused) {
  const std::vector<int64_t> dims{0, 1, 2, 3, 4, 5, 6, 7}, ones(8, 1);
  const Shape shape{1, 1, 1, 1, 1, 1, 1, 1};
  Function seen = compile("windows", [&](Tensor x) { return window(x, dims, ones, {ones, ones}); }, quiet());
  Function added = compile("folded", [&](Tensor x) { return fold(x, dims, shape, {ones, ones}); }, quiet());
  EXPECT_EQ(errorOf([&] { seen(sequence(shape, 0, 1)); }), "a shape has more than 8 dims; 8 is the limit");
  EXPECT_EQ(errorOf([&] { added(sequence(shape, 0, 1)); }),
            "`fold` needs a size, step and dilation of at least 1 for each dim (fold_c1)");
}

} // namespace
