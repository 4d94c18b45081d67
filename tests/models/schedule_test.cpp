#include "models/schedule.h"

#include <gtest/gtest.h>

namespace tcc::models {
namespace {

TEST(Schedule, constantStaysAtThePeak) {
  Schedule schedule{ScheduleKind::Constant, 3e-4, 0, {20, {}}};
  for (int64_t step : {0, 7, 19, 100})
    EXPECT_EQ(schedule.rate(step, 0), 3e-4);
}

TEST(Schedule, warmsUpLinearly) {
  for (ScheduleKind kind : {ScheduleKind::Cosine, ScheduleKind::Constant}) {
    Schedule schedule{kind, 1, 4, {100, {}}};
    EXPECT_DOUBLE_EQ(schedule.rate(0, 0), 0.25);
    EXPECT_DOUBLE_EQ(schedule.rate(3, 0), 1);
    EXPECT_DOUBLE_EQ(schedule.rate(4, 0), 1);
  }
}

TEST(Schedule, cosineFallsToATenth) {
  Schedule schedule{ScheduleKind::Cosine, 2, 10, {111, {}}};
  EXPECT_DOUBLE_EQ(schedule.rate(10, 0), 2);
  EXPECT_DOUBLE_EQ(schedule.rate(60, 0), 1.1); // half way: the mean of peak and floor
  EXPECT_DOUBLE_EQ(schedule.rate(110, 0), 0.2);
  for (int64_t step = 10; step < 110; ++step)
    EXPECT_GT(schedule.rate(step, 0), schedule.rate(step + 1, 0));
  EXPECT_DOUBLE_EQ(schedule.rate(500, 0), 0.2);
}

TEST(Schedule, shortRunsStayFinite) {
  EXPECT_EQ((Schedule{ScheduleKind::Cosine, 1, 0, {1, {}}}.rate(0, 0)), 1);
  EXPECT_EQ((Schedule{ScheduleKind::Cosine, 1, 1, {1, {}}}.rate(0, 0)), 1);
  EXPECT_DOUBLE_EQ((Schedule{ScheduleKind::Cosine, 1, 0, {2, {}}}.rate(1, 0)), 0.1);
}

TEST(Schedule, runsByTimeFollowTheClock) {
  Schedule schedule{ScheduleKind::Cosine, 1, 2, {{}, 60.0}};
  EXPECT_DOUBLE_EQ(schedule.rate(0, 0), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(40, 30), 0.55);
  EXPECT_DOUBLE_EQ(schedule.rate(40, 60), 0.1);
}

TEST(Schedule, theFloorIsTheLastRate) {
  const Schedule schedule{.kind = ScheduleKind::Cosine, .peak = 1, .warmup = 2, .length = {12, {}}, .floor = 0.25};
  EXPECT_DOUBLE_EQ(schedule.rate(2, 0), 1);
  EXPECT_DOUBLE_EQ(schedule.rate(11, 0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.rate(0, 0), 0.5) << "the warm-up starts below it";
}

TEST(Schedule, trapezoidFallsOverTheLastPart) {
  Schedule schedule{.kind = ScheduleKind::Trapezoid, .peak = 2, .warmup = 2, .length = {20, {}}};
  EXPECT_DOUBLE_EQ(schedule.rate(0, 0), 1);
  for (int64_t step = 2; step <= 16; ++step)
    EXPECT_DOUBLE_EQ(schedule.rate(step, 0), 2) << step;
  EXPECT_DOUBLE_EQ(schedule.rate(17, 0), 1.5);
  EXPECT_DOUBLE_EQ(schedule.rate(19, 0), 0.5) << "no step is wasted";
  schedule.floor = 1;
  schedule.cooldown = 0.5;
  EXPECT_DOUBLE_EQ(schedule.rate(10, 0), 2);
  EXPECT_DOUBLE_EQ(schedule.rate(15, 0), 1.5);
  schedule.length = {{}, 100.0};
  EXPECT_DOUBLE_EQ(schedule.rate(15, 75), 1.5) << "or by the clock";
}

TEST(RunLength, endsByWhateverComesFirst) {
  RunLength both{100, 60.0};
  EXPECT_DOUBLE_EQ(both.progress(50, 6), 0.5);
  EXPECT_DOUBLE_EQ(both.progress(5, 45), 0.75);
  EXPECT_FALSE(both.finished(99, 59));
  EXPECT_TRUE(both.finished(100, 0));
  EXPECT_TRUE(both.finished(0, 60));
  EXPECT_EQ(both.progress(1000, 0), 1);
  EXPECT_EQ((RunLength{}.progress(1000, 1000)), 0);
}

} // namespace
} // namespace tcc::models
