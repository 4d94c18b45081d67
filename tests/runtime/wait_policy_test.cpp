// How the pool waits: when a machine counts as busy, and that brief waits take little processor time.
#include "runtime/threads.h"
#include "runtime/wait_policy.h"
#include <chrono>
#include <gtest/gtest.h>
#include <thread>
#include <time.h>

namespace tcc::runtime {
namespace {

TEST(WaitPolicy, isBusyAtOnceAndQuietAfterAWhile) {
  BusyJudge judge;
  EXPECT_FALSE(judge.busy());
  judge.sample(99, 1000);
  EXPECT_FALSE(judge.busy());
  judge.sample(101, 1000);
  EXPECT_TRUE(judge.busy());
  for (int i = 1; i < BusyJudge::quietSamples; ++i)
    judge.sample(0, 1000);
  EXPECT_TRUE(judge.busy());
  judge.sample(500, 1000); // the quiet time starts again
  for (int i = 1; i < BusyJudge::quietSamples; ++i)
    judge.sample(0, 1000);
  EXPECT_TRUE(judge.busy());
  judge.sample(0, 1000);
  EXPECT_FALSE(judge.busy());
  judge.sample(1, 0); // no time has passed
  EXPECT_FALSE(judge.busy());
}

/// Seconds of processor time that the calling thread takes to wait for a member that sleeps.
double secondsWaiting() {
  timespec before, after;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  const std::thread::id self = std::this_thread::get_id();
  parallelRun(2, [&](int64_t) {
    if (std::this_thread::get_id() != self)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  return static_cast<double>(after.tv_sec - before.tv_sec) + 1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
}

TEST(WaitPolicy, briefWaitsSleep) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT"))
    GTEST_SKIP() << "the environment chooses how libgomp waits";
  if (availableThreads() < 2)
    GTEST_SKIP() << "one CPU: libgomp never waits long";
  ThreadCountScope scope(2);
  secondsWaiting(); // makes the pool
  const double byItself = secondsWaiting();
  for (int round = 0; round < 2; ++round) {
    setBriefWaits(true, 2);
    EXPECT_TRUE(waitsAreBrief());
    const double brief = secondsWaiting();
    EXPECT_LT(brief, byItself / 4) << "in seconds";
    setBriefWaits(false, 2);
    EXPECT_FALSE(waitsAreBrief());
    EXPECT_GT(secondsWaiting(), 4 * brief);
  }
}

TEST(WaitPolicy, countsTheTimeInTheQueue) {
  const std::optional<int64_t> first = queuedNanoseconds();
  if (!first)
    GTEST_SKIP() << "this kernel has no schedstat";
  EXPECT_GE(*first, 0);
  EXPECT_GE(queuedNanoseconds().value(), *first);
}

} // namespace
} // namespace tcc::runtime
