// The counted allocator and the arena.
#include "runtime/arena.h"
#include "runtime/memory.h"
#include <cmath>
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

TEST(Memory, countsLiveAndPeakBytes) {
  const int64_t before = countedLiveBytes();
  PeakScope peak;
  {
    auto first = *TensorStorage::zeros(1000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % 64, 0u);
    EXPECT_EQ(countedLiveBytes(), before + 1000);
    {
      auto second = *TensorStorage::allocate(500);
    }
    auto moved = std::move(first);
    EXPECT_TRUE(isCounted(static_cast<char *>(moved.data()) + 999));
    EXPECT_FALSE(isCounted(static_cast<char *>(moved.data()) + 1000));
    EXPECT_EQ(first.data(), nullptr);
  }
  EXPECT_EQ(countedLiveBytes(), before);
  EXPECT_EQ(peak.bytes(), before + 1500);
  EXPECT_GE(countedPeakBytes(), before + 1500);
}

TEST(Memory, refusesSizesThatCannotBe) {
  EXPECT_FALSE(TensorStorage::allocate(-1));
  EXPECT_FALSE(TensorStorage::allocate(maxPlanBytes + 1));
  auto empty = TensorStorage::allocate(0);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->bytes(), 0);
}

TEST(Memory, borrowedBytesAreTheOwners) {
  const int64_t before = countedLiveBytes();
  alignas(64) char bytes[64];
  int released = 0;
  {
    auto first = TensorStorage::borrow(bytes, 64, {bytes, [&](void *) { ++released; }});
    EXPECT_EQ(first.data(), bytes);
    EXPECT_FALSE(isCounted(bytes));
    auto moved = std::move(first);
    EXPECT_EQ(first.data(), nullptr);
    TensorStorage assigned;
    assigned = std::move(moved);
    EXPECT_EQ(assigned.data(), bytes);
    EXPECT_EQ(countedLiveBytes(), before);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
  EXPECT_EQ(countedLiveBytes(), before);
}

TEST(Memory, poisonFillsNewTensorsWithNan) {
  poisonAllocations(true);
  auto storage = *TensorStorage::allocate(16);
  poisonAllocations(false);
  for (float value : storage.as<float>())
    EXPECT_TRUE(std::isnan(value));
}

TEST(Arena, countsExactlyTheTouchedPages) {
  auto arena = *Arena::create(10 * 4096 + 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % 64, 0u);
  EXPECT_EQ(arena.residentBytes(arena.bytes()), 0);
  char *lastPage = arena.data() + arena.bytes() - 1;
  *lastPage = 1;
  const int64_t tail = 4096 - (128 - 100); // the last page, less what lies after the arena's end
  EXPECT_EQ(arena.residentBytes(arena.bytes()), tail);
  lastPage[-3 * 4096] = 1;
  EXPECT_EQ(arena.residentBytes(arena.bytes()), tail + 4096);
  for (int64_t i = 0; i < arena.bytes(); i += 64)
    arena.data()[i] = 1;
  EXPECT_EQ(arena.residentBytes(arena.bytes()), arena.bytes());
}

TEST(Arena, countsChangedLines) {
  auto arena = *Arena::create(1000);
  arena.poison(arena.bytes());
  EXPECT_EQ(arena.changedBytes(arena.bytes()), 0);
  arena.data()[70] = 0;
  arena.data()[999] = 0;
  EXPECT_EQ(arena.changedBytes(arena.bytes()), 64 + 1000 % 64);
}

TEST(Arena, aPartEndsWhereTheWholeEnds) {
  auto arena = *Arena::create(10240, 256);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % 256, 0u);
  char *part = arena.window(300);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(part) % 256, 0u);
  EXPECT_EQ(part + 512, arena.data() + 10240);
  arena.poison(10240);
  part[299] = 0;
  part[-1] = 0;
  EXPECT_EQ(arena.changedBytes(300), 300 % 64);
  EXPECT_EQ(arena.changedBytes(10240), 64 + 64);
}

TEST(ArenaDeathTest, endsAtAForbiddenPage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto arena = *Arena::create(4096);
  volatile char *end = arena.data() + arena.bytes();
  EXPECT_DEATH(*end = 1, "");
}

TEST(Arena, emptyIsFine) {
  auto arena = *Arena::create(0);
  EXPECT_EQ(arena.residentBytes(arena.bytes()), 0);
  EXPECT_EQ(arena.changedBytes(arena.bytes()), 0);
}

} // namespace
} // namespace tcc::runtime
