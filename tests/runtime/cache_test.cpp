#include "runtime/cache.h"
#include <chrono>
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

using Shape = std::vector<int64_t>;

struct Call {
  Shape tokens{16, 256};
  DType dtype = DType::f32;
  double rate = 0.001;
  std::string device = "cpu";
  uint64_t program = 7;

  std::vector<Guard> guards() const {
    return {{GuardKind::program, "train", program, {}, 0},
            {GuardKind::device, "", std::string_view(device), {}, 0},
            {GuardKind::dtype, "tokens", dtype, {}, 0},
            {GuardKind::shape, "tokens", std::span<const int64_t>(tokens), {}, 0},
            {GuardKind::constant, "", rate, "/home/someone/train.cpp", 41}};
  }
};

class CacheTest : public testing::Test {
protected:
  std::vector<std::string> reports;
  GuardedCache<int> cache{1000, [this](std::string_view reason) { reports.emplace_back(reason); }};

  std::shared_ptr<int> find(const Call &call) { return cache.find(call.guards()); }
  void insert(const Call &call, int value, int64_t bytes = 10) {
    cache.insert(call.guards(), std::make_shared<int>(value), bytes);
  }
};

TEST_F(CacheTest, hitsOnEqualGuards) {
  Call call;
  EXPECT_EQ(find(call), nullptr);
  EXPECT_EQ(cache.lastMissReason(), "compiled: first call");
  EXPECT_TRUE(reports.empty()); // a first compilation is no recompilation
  insert(call, 5);
  ASSERT_NE(find(call), nullptr);
  EXPECT_EQ(*find(call), 5);
  EXPECT_EQ(cache.counters().hits, 2);
  EXPECT_EQ(cache.counters().misses, 1);
  EXPECT_EQ(cache.counters().recompiles, 0);
}

TEST_F(CacheTest, everyMissHasItsReason) {
  Call base;
  insert(base, 1);
  Call shape = base, dtype = base, rate = base, device = base, program = base;
  shape.tokens = {16, 200};
  dtype.dtype = DType::bf16;
  rate.rate = 0.002;
  device.device = "cuda:0";
  program.program = 8;
  shape.program = 9; // the shapes are part of it, and the better reason
  for (const Call &call : {shape, dtype, rate, device, program})
    EXPECT_EQ(find(call), nullptr);
  const std::vector<std::string> expected{"recompiled: tokens 16x256 → 16x200", "recompiled: tokens f32 → bf16",
                                          "recompiled: constant 0.001 → 0.002 at train.cpp:41: make it an input",
                                          "recompiled: device cpu → cuda:0", "recompiled: program train changed"};
  EXPECT_EQ(reports, expected);
  EXPECT_EQ(cache.counters().recompiles, 5);
}

TEST_F(CacheTest, comparesWithTheNearestEntry) {
  Call base, far;
  far.tokens = {1, 8};
  far.dtype = DType::bf16;
  insert(base, 1);
  insert(far, 2);
  Call call = base;
  call.tokens = {16, 200};
  EXPECT_EQ(find(call), nullptr);
  EXPECT_EQ(reports.back(), "recompiled: tokens 16x256 → 16x200");
}

TEST_F(CacheTest, differentNumberOfGuards) {
  Call base;
  insert(base, 1);
  auto guards = base.guards();
  guards.pop_back();
  EXPECT_EQ(cache.find(guards), nullptr);
  EXPECT_EQ(reports.back(), "recompiled: 5 → 4 inputs and constants");
}

TEST_F(CacheTest, equalHashWithoutEqualGuardsIsAMiss) {
  Call base, other;
  other.tokens = {16, 200};
  cache.insert(base.guards(), uint64_t{99}, std::make_shared<int>(1), 10);
  EXPECT_EQ(cache.find(other.guards(), 99), nullptr);
  EXPECT_NE(cache.find(base.guards(), 99), nullptr);
}

TEST_F(CacheTest, evictsTheLeastRecentlyUsedBeyondTheCap) {
  Call a, b, c;
  b.tokens = {1, 1};
  c.tokens = {2, 2};
  insert(a, 1, 400);
  insert(b, 2, 400);
  EXPECT_NE(find(a), nullptr); // now b is the oldest
  insert(c, 3, 400);
  EXPECT_EQ(cache.counters().evictions, 1);
  EXPECT_EQ(cache.bytes(), 800);
  EXPECT_NE(find(a), nullptr);
  EXPECT_EQ(find(b), nullptr);
  EXPECT_NE(reports.back().find("evicted"), std::string::npos);
  insert(b, 4, 5000); // larger than the cap: stays, alone
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(*find(b), 4);
}

TEST_F(CacheTest, cachesOfOneDeviceShareItsCap) {
  const auto total = std::make_shared<std::atomic<int64_t>>(0);
  auto quiet = [](std::string_view) {};
  GuardedCache<int> one(1000, quiet, total);
  {
    GuardedCache<int> other(1000, quiet, total);
    Call a, b;
    b.tokens = {1, 1};
    one.insert(a.guards(), std::make_shared<int>(1), 600);
    other.insert(a.guards(), std::make_shared<int>(2), 300);
    EXPECT_EQ(*total, 900);
    other.insert(b.guards(), std::make_shared<int>(3), 300); // gives up its own, not the other's
    EXPECT_EQ(other.counters().evictions, 1);
    EXPECT_EQ(other.bytes(), 300);
    EXPECT_EQ(one.counters().evictions, 0);
    EXPECT_EQ(*total, 900);
  }
  EXPECT_EQ(*total, 600);
  one.clear();
  EXPECT_EQ(*total, 0);
}

TEST_F(CacheTest, replacesEqualGuards) {
  Call call;
  insert(call, 1, 100);
  insert(call, 2, 150);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.bytes(), 150);
  EXPECT_EQ(*find(call), 2);
}

TEST_F(CacheTest, nanConstantsHitAndZerosDifferBySign) {
  Call nan, zero, minusZero;
  nan.rate = std::numeric_limits<double>::quiet_NaN();
  zero.rate = 0.0;
  minusZero.rate = -0.0;
  insert(nan, 1);
  EXPECT_NE(find(nan), nullptr);
  insert(zero, 2);
  EXPECT_EQ(find(minusZero), nullptr);
}

// The hash alone must tell apart what guards tell apart, or lookups degrade.
TEST(GuardHash, everyPartCounts) {
  Call base;
  const uint64_t hash = hashGuards(base.guards());
  Call changed[5] = {base, base, base, base, base};
  changed[0].tokens = {256, 16};
  changed[1].dtype = DType::bf16;
  changed[2].rate = 0.0010000000000000002;
  changed[3].device = "cpv";
  changed[4].program = 8;
  for (const Call &call : changed)
    EXPECT_NE(hashGuards(call.guards()), hash);
  RollingHash ab, ba;
  ab.add(uint64_t{1}), ab.add(uint64_t{2}), ba.add(uint64_t{2}), ba.add(uint64_t{1});
  EXPECT_NE(ab.value(), ba.value());
}

TEST_F(CacheTest, aHitIsCheap) {
  Call call;
  insert(call, 1);
  const auto guards = call.guards();
  const int rounds = 20000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i)
    ASSERT_NE(cache.find(guards), nullptr);
  const double each = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / rounds;
  EXPECT_LT(each, 20e-6); // about 0.1 µs; the bound leaves room for sanitizers and busy machines
}

} // namespace
} // namespace tcc::runtime
