// Index expressions against brute-force evaluation at every point of small iteration spaces.
#include "ir/index_expr.h"
#include <gtest/gtest.h>
#include <random>

namespace tcc::test {
namespace {

using Point = std::array<int64_t, 3>; // outer, row, column

int64_t evaluate(const IndexExpr &expr, const Point &point) {
  int64_t value = expr.constant;
  for (const IndexTerm &term : expr.terms) {
    int64_t inner = point[term.axis] / term.divisor;
    value += term.coefficient * (term.modulus == 0 ? inner : inner % term.modulus);
  }
  return value;
}

int64_t floorDivide(int64_t a, int64_t b) {
  return (a - ((a % b) + b) % b) / b;
}

std::string text(const IndexExpr &expr) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  expr.print(stream);
  return result;
}

/// Calls body at each point of the space.
void forEachPoint(const Point &extents, llvm::function_ref<void(const Point &)> body) {
  for (int64_t o = 0; o < extents[0]; ++o)
    for (int64_t r = 0; r < extents[1]; ++r)
      for (int64_t c = 0; c < extents[2]; ++c)
        body({o, r, c});
}

/// A random expression together with its value at each point, computed beside it by plain integer arithmetic.
class Sample {
public:
  explicit Sample(uint64_t seed) : random(seed) {
    for (int64_t &extent : extents)
      extent = pick({1, 2, 3, 4, 6, 8, 12});
    forEachPoint(extents, [&](const Point &point) { points.push_back(point); });
    values.assign(points.size(), 0);
    for (int step = 0; step < 10; ++step)
      grow();
  }

  int64_t pick(std::initializer_list<int64_t> from) { return from.begin()[random() % from.size()]; }

  Point extents;
  std::vector<Point> points;
  IndexExpr expr;
  std::vector<int64_t> values;
  int divisions = 0; // div and mod steps taken

private:
  std::mt19937_64 random;

  void grow() {
    switch (random() % 5) {
    case 0:
    case 1: {
      unsigned axis = random() % 3;
      int64_t factor = pick({1, 1, 2, 3, 4, 6, 12, -1, -4});
      expr = expr + IndexExpr::ofAxis(axis, extents[axis]) * factor;
      apply([&](int64_t value, const Point &point) { return value + factor * point[axis]; });
      return;
    }
    case 2: {
      int64_t amount = pick({-5, -1, 1, 4, 12});
      expr = expr + IndexExpr(amount);
      apply([&](int64_t value, const Point &) { return value + amount; });
      return;
    }
    case 3: {
      int64_t divisor = pick({1, 2, 3, 4, 6, 8});
      if (std::optional<IndexExpr> quotient = expr.floorDiv(divisor)) {
        expr = *quotient;
        apply([&](int64_t value, const Point &) { return floorDivide(value, divisor); });
        ++divisions;
      }
      return;
    }
    default: {
      int64_t divisor = pick({1, 2, 3, 4, 6, 8});
      if (std::optional<IndexExpr> remainder = expr.mod(divisor)) {
        expr = *remainder;
        apply([&](int64_t value, const Point &) { return value - divisor * floorDivide(value, divisor); });
        ++divisions;
      }
    }
    }
  }

  void apply(llvm::function_ref<int64_t(int64_t, const Point &)> step) {
    for (size_t i = 0; i < points.size(); ++i)
      values[i] = step(values[i], points[i]);
  }
};

constexpr uint64_t sampleCount = 1500;

TEST(IndexExpr, arithmeticEqualsIntegersAtEveryPoint) {
  int64_t divisions = 0;
  for (uint64_t seed = 0; seed < sampleCount; ++seed) {
    Sample sample(seed);
    divisions += sample.divisions;
    for (size_t i = 0; i < sample.points.size(); ++i)
      ASSERT_EQ(evaluate(sample.expr, sample.points[i]), sample.values[i])
          << "seed " << seed << ": " << text(sample.expr);
  }
  EXPECT_GT(divisions, static_cast<int64_t>(sampleCount)); // most draws are expressible
}

TEST(IndexExpr, boundsHoldAtEveryPoint) {
  for (uint64_t seed = 0; seed < sampleCount; ++seed) {
    Sample sample(seed);
    auto [low, high] = std::minmax_element(sample.values.begin(), sample.values.end());
    ASSERT_LE(sample.expr.minimum(), *low) << "seed " << seed << ": " << text(sample.expr);
    ASSERT_GE(sample.expr.maximum(), *high) << "seed " << seed << ": " << text(sample.expr);
    for (const IndexTerm &term : sample.expr.terms)
      for (const Point &point : sample.points) {
        int64_t inner = point[term.axis] / term.divisor;
        ASSERT_LT(term.modulus == 0 ? inner : inner % term.modulus, term.extent) << text(sample.expr);
      }
  }
}

TEST(IndexExpr, boundsOfPlainAxesAreTight) {
  IndexExpr expr = IndexExpr::ofAxis(axis::row, 5) * 3 + IndexExpr::ofAxis(axis::column, 4) * -2 + IndexExpr(7);
  EXPECT_EQ(expr.minimum(), 1);
  EXPECT_EQ(expr.maximum(), 19);
}

TEST(IndexExpr, quotientAndRemainderMakeTheWhole) {
  int checked = 0;
  for (uint64_t seed = 0; seed < sampleCount; ++seed) {
    Sample sample(seed);
    int64_t divisor = sample.pick({2, 3, 4, 6, 8, 12});
    std::optional<IndexExpr> quotient = sample.expr.floorDiv(divisor), remainder = sample.expr.mod(divisor);
    if (!quotient || !remainder)
      continue;
    ++checked;
    IndexExpr whole = *quotient * divisor + *remainder;
    for (size_t i = 0; i < sample.points.size(); ++i) {
      int64_t rest = evaluate(*remainder, sample.points[i]);
      ASSERT_TRUE(rest >= 0 && rest < divisor) << text(*remainder);
      ASSERT_EQ(evaluate(whole, sample.points[i]), sample.values[i]) << "seed " << seed << ": " << text(whole);
    }
  }
  EXPECT_GT(checked, 250);
}

TEST(IndexExpr, partsByAxisAddUp) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Sample sample(seed);
    for (unsigned axis = 0; axis < 3; ++axis) {
      EXPECT_EQ(sample.expr.only(axis) + sample.expr.without(axis), sample.expr);
      EXPECT_EQ(sample.expr.dependsOn(axis), !sample.expr.only(axis).isConstant());
      int64_t stride;
      if (!sample.expr.isAffineIn(axis, stride))
        continue;
      for (Point point : sample.points)
        if (point[axis] + 1 < sample.extents[axis]) {
          Point next = point;
          ++next[axis];
          ASSERT_EQ(evaluate(sample.expr, next) - evaluate(sample.expr, point), stride) << text(sample.expr);
        }
    }
  }
}

TEST(IndexExpr, substitutionEqualsEvaluationAtTheSubstitute) {
  int checked = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Sample sample(seed);
    IndexExpr value = IndexExpr::ofAxis(axis::outer, sample.extents[0]) * 2 + IndexExpr(1); // in the column's place
    std::optional<IndexExpr> result = sample.expr.substitute(axis::column, value);
    int64_t stride;
    ASSERT_EQ(result.has_value(), sample.expr.isAffineIn(axis::column, stride));
    if (!result)
      continue;
    checked += sample.expr.dependsOn(axis::column);
    for (const Point &point : sample.points)
      ASSERT_EQ(evaluate(*result, point), evaluate(sample.expr, {point[0], point[1], 2 * point[0] + 1}));
  }
  EXPECT_GT(checked, 100);
}

TEST(IndexExpr, formIsCanonical) {
  IndexExpr row = IndexExpr::ofAxis(axis::row, 12), column = IndexExpr::ofAxis(axis::column, 8);
  EXPECT_EQ(row + column, column + row);
  EXPECT_EQ(row * 2 + row * -2, IndexExpr());
  EXPECT_EQ(*row.floorDiv(4) * 4 + *row.mod(4), row);                                  // neighbouring digits join
  EXPECT_EQ(*row.floorDiv(6) * 6 + *(*row.mod(6)).floorDiv(2) * 2 + *row.mod(2), row); // three of them too
  EXPECT_EQ(*(*row.mod(6)).mod(3), *row.mod(3));
  EXPECT_EQ(*(*row.floorDiv(2)).floorDiv(3), *row.floorDiv(6));
  EXPECT_EQ(*(row * 8 + column).floorDiv(8), row);
  EXPECT_EQ(*(row * 8 + column).mod(8), column);
  EXPECT_EQ(*(row * 8 + column).floorDiv(16), *row.floorDiv(2));
  EXPECT_EQ(IndexExpr::ofAxis(axis::row, 1), IndexExpr(0));
}

TEST(IndexExpr, refusesWhatIsNoSuchExpression) {
  IndexExpr row = IndexExpr::ofAxis(axis::row, 12), column = IndexExpr::ofAxis(axis::column, 8);
  EXPECT_FALSE((row + column).mod(8));            // two axes whose sum wraps
  EXPECT_FALSE((row + IndexExpr(1)).floorDiv(4)); // a shifted axis that crosses a boundary
  EXPECT_FALSE((*row.mod(6)).mod(4));             // 6 and 4 do not divide each other
  EXPECT_FALSE((*row.mod(6)).substitute(axis::row, column));
}

TEST(IndexExpr, printsForReaders) {
  IndexExpr row = IndexExpr::ofAxis(axis::row, 12), column = IndexExpr::ofAxis(axis::column, 8);
  EXPECT_EQ(text(row * 8 + column), "8*row + column");
  EXPECT_EQ(text(*row.floorDiv(4) * 3 + *column.mod(2) + IndexExpr(5)), "3*(row div 4) + (column mod 2) + 5");
  EXPECT_EQ(text(*(*row.floorDiv(2)).mod(3)), "(row div 2 mod 3)");
  EXPECT_EQ(text(IndexExpr(-3)), "-3");
  EXPECT_EQ(text(IndexExpr::ofAxis(axis::firstDerived, 4)), "d3");
}

TEST(IndexExpr, coordinatesAndNumbersAreInverse) {
  struct Case {
    Point extents;
    std::vector<int64_t> shape; // of extents' product elements
  };
  for (const Case &sample : {Case{{1, 6, 8}, {6, 8}}, Case{{1, 6, 8}, {2, 3, 4, 2}}, Case{{2, 3, 8}, {6, 1, 8}},
                             Case{{1, 1, 24}, {2, 3, 4}}, Case{{1, 12, 2}, {24}}, Case{{1, 4, 6}, {1, 2, 2, 6}}}) {
    IndexExpr linear = (IndexExpr::ofAxis(axis::outer, sample.extents[0]) * sample.extents[1] +
                        IndexExpr::ofAxis(axis::row, sample.extents[1])) *
                           sample.extents[2] +
                       IndexExpr::ofAxis(axis::column, sample.extents[2]);
    auto coordinates = delinearize(linear, sample.shape);
    ASSERT_TRUE(coordinates);
    EXPECT_EQ(linearize(*coordinates, sample.shape), linear);
    forEachPoint(sample.extents, [&](const Point &point) {
      int64_t number = evaluate(linear, point);
      for (size_t i = sample.shape.size(); i-- > 0;) {
        ASSERT_EQ(evaluate((*coordinates)[i], point), number % sample.shape[i]);
        number /= sample.shape[i];
      }
    });
  }
}

TEST(IndexExpr, delinearizeRefusesSizesThatDoNotDivide) {
  IndexExpr linear = IndexExpr::ofAxis(axis::row, 4) * 6 + IndexExpr::ofAxis(axis::column, 6);
  EXPECT_FALSE(delinearize(linear, {3, 8})); // rows of 6 in rows of 8
}

} // namespace
} // namespace tcc::test
