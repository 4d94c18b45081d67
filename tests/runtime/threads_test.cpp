// The pool, cuts and chunk tables: every index once, whatever the shape and thread count.
#include "runtime/chunk_table.h"
#include "runtime/threads.h"
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <thread>
#include <time.h>

namespace tcc::runtime {
namespace {

TEST(Threads, everyPartRunsOnceAtAnyWidth) {
  for (int threads : {1, 2, 5}) {
    ThreadCountScope scope(threads);
    EXPECT_EQ(threadCount(), threads);
    std::vector<std::atomic<int>> seen(37);
    parallelRun(37, [&](int64_t part) { ++seen[part]; });
    for (auto &count : seen)
      EXPECT_EQ(count, 1);
  }
}

TEST(Threads, nestedCallsStillRunEveryPart) {
  ThreadCountScope scope(2);
  std::atomic<int> total = 0;
  parallelRun(4, [&](int64_t) { parallelRun(8, [&](int64_t) { ++total; }); });
  EXPECT_EQ(total, 32);
}

TEST(Threads, aTeamRunsEveryPartOfEachCall) {
  for (bool sleeps : {false, true}) {
    setSpinTime(sleeps ? std::chrono::nanoseconds(0) : std::chrono::milliseconds(10));
    for (int threads : {1, 2, 5}) {
      ThreadCountScope scope(threads);
      const std::thread::id self = std::this_thread::get_id();
      std::vector<std::atomic<int>> seen(7);
      std::atomic<int> others = 0;
      withTeam([&] {
        EXPECT_EQ(std::this_thread::get_id(), self);
        withTeam([] {}); // the team that is there
        for (int64_t round = 0; round < 500; ++round)
          parallelRun(1 + round % 7, [&](int64_t part) {
            ++seen[part];
            if (std::this_thread::get_id() != self)
              ++others;
          });
      });
      for (int64_t part = 0; part < 7; ++part) {
        int expected = 0;
        for (int64_t round = 0; round < 500; ++round)
          expected += part < 1 + round % 7;
        EXPECT_EQ(seen[part], expected) << "part " << part;
      }
      EXPECT_EQ(others > 0, threads > 1);
      parallelRun(7, [&](int64_t part) { seen[part] = -1; }); // as before the team
      for (auto &count : seen)
        EXPECT_EQ(count, -1);
    }
  }
  setSpinTime(std::chrono::milliseconds(10));
}

TEST(Threads, callsWithinAPartOfATeamRunEveryPart) {
  ThreadCountScope scope(2);
  std::atomic<int> total = 0;
  withTeam([&] { parallelRun(4, [&](int64_t) { parallelRun(8, [&](int64_t) { ++total; }); }); });
  EXPECT_EQ(total, 32);
}

TEST(Threads, aTeamThatWaitsLongSleeps) {
  ThreadCountScope scope(2);
  setSpinTime(std::chrono::microseconds(50));
  timespec before, after;
  withTeam([&] {
    parallelRun(2, [](int64_t) {});
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  });
  setSpinTime(std::chrono::milliseconds(10));
  const int64_t taken = (after.tv_sec - before.tv_sec) * 1'000'000'000 + after.tv_nsec - before.tv_nsec;
  EXPECT_LT(taken, 20'000'000) << "nanoseconds of processor time while a thread of the team has nothing to do";
}

TEST(Threads, cutsCoverTheExtentAtMultiplesOfTheGranularity) {
  for (int64_t extent : {0, 1, 7, 64, 65, 1000})
    for (int64_t granularity : {1, 8, 64})
      for (int64_t parts : {1, 2, 3, 16}) {
        int64_t next = 0;
        for (int64_t part = 0; part < parts; ++part) {
          const Range range = cutRange(extent, granularity, parts, part);
          EXPECT_EQ(range.begin, next);
          EXPECT_TRUE(range.begin % granularity == 0 || range.begin == extent);
          EXPECT_LE(range.end - range.begin, (extent / granularity / parts + 2) * granularity);
          next = range.end;
        }
        EXPECT_EQ(next, extent);
      }
}

TEST(ChunkTable, everyIndexOfEverySegmentOnceAndBalanced) {
  const std::vector<std::vector<int64_t>> cases{{}, {0}, {1}, {5, 0, 7}, {64, 1, 1000, 3}, {100, 100}, {0, 0, 9}};
  for (const auto &extents : cases)
    for (int64_t granularity : {1, 8})
      for (int64_t parts : {1, 2, 3, 8}) {
        const ChunkTable table = cutSegments(extents, granularity, parts);
        ASSERT_EQ(table.partBegin.size(), static_cast<size_t>(parts + 1));
        std::vector<int64_t> next(extents.size(), 0);
        int64_t least = INT64_MAX, most = 0;
        for (int64_t part = 0; part < parts; ++part) {
          int64_t grains = 0;
          for (uint32_t i = table.partBegin[part]; i < table.partBegin[part + 1]; ++i) {
            const Chunk &chunk = table.chunks[i];
            EXPECT_EQ(chunk.begin, next[chunk.segment]);
            EXPECT_EQ(chunk.begin % granularity, 0);
            EXPECT_LT(chunk.begin, chunk.end);
            next[chunk.segment] = chunk.end;
            grains += (chunk.end - chunk.begin + granularity - 1) / granularity;
          }
          EXPECT_EQ(grains > 0, part < table.busyParts);
          least = std::min(least, grains);
          most = std::max(most, grains);
        }
        EXPECT_EQ(next, extents);
        EXPECT_LE(most - least, 1);
      }
}

} // namespace
} // namespace tcc::runtime
