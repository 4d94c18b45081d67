#include "models/counter_random.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace tcc::models {
namespace {

TEST(CounterRandom, knownAnswers) {
  // The first outputs of SplitMix64 with seed 0, as published with its reference code.
  EXPECT_EQ(mixBits(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mixBits(0x9e3779b97f4a7c15), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(streamOf(""), 0xcbf29ce484222325u);
  EXPECT_EQ(streamOf("a"), 0xaf63dc4c8601ec8cu);
}

TEST(CounterRandom, dependsOnEachArgument) {
  EXPECT_NE(randomBits(1, 2, 3), randomBits(2, 2, 3));
  EXPECT_NE(randomBits(1, 2, 3), randomBits(1, 3, 3));
  EXPECT_NE(randomBits(1, 2, 3), randomBits(1, 2, 4));
}

TEST(CounterRandom, boundedCoversItsRange) {
  EXPECT_EQ(boundedBits(0, 10), 0u);
  EXPECT_EQ(boundedBits(~uint64_t(0), 10), 9u);
  int counts[10] = {};
  for (uint64_t i = 0; i < 100000; ++i)
    ++counts[boundedBits(randomBits(7, 0, i), 10)];
  for (int count : counts)
    EXPECT_NEAR(count, 10000, 500);
}

TEST(CounterRandom, normalHasItsQuantilesAndMoments) {
  auto quantile = [](double p) { return normalBits(uint64_t(std::ldexp(p, 64))); };
  EXPECT_NEAR(quantile(0.5), 0, 1e-9);
  EXPECT_NEAR(quantile(0.975), 1.959963984540054, 1e-7);
  EXPECT_NEAR(quantile(0.01), -2.326347874040841, 1e-7);
  EXPECT_NEAR(quantile(1e-6), -4.753424308822899, 1e-6);
  EXPECT_TRUE(std::isfinite(normalBits(0)));
  EXPECT_EQ(normalBits(0), -normalBits(std::numeric_limits<uint64_t>::max()));
  double sum = 0, squares = 0, fourth = 0;
  constexpr int count = 200000;
  for (int i = 0; i < count; ++i) {
    double x = normalBits(randomBits(3, 1, uint64_t(i)));
    sum += x, squares += x * x, fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(squares / count, 1, 0.015);
  EXPECT_NEAR(fourth / count, 3, 0.1);
}

} // namespace
} // namespace tcc::models
