// Plans and artefacts with damage: an error or a valid plan, never a crash.
#include "runtime/artefact.h"
#include "test_plans.h"
#include "tests/mutate.h"
#include <gtest/gtest.h>

using namespace tcc;
using namespace tcc::runtime;

namespace {

TEST(MutatedPlans, NeverCrash) {
  std::string original = planToJson(runtime::test::stepPlan());
  ASSERT_TRUE(planFromJson(original));
  std::mt19937 random(1);
  int taken = 0, refused = 0;
  for (int round = tcc::test::mutationRounds(2000); round > 0; --round) {
    Expected<Plan> plan = planFromJson(tcc::test::mutated(original, random));
    if (!plan) {
      ++refused;
      EXPECT_FALSE(plan.error().message().empty());
      continue;
    }
    ++taken; // what was read is a plan: writing and reading it again gives the same
    Expected<Plan> again = planFromJson(planToJson(*plan));
    ASSERT_TRUE(again);
    EXPECT_EQ(planToJson(*again), planToJson(*plan));
  }
  EXPECT_GT(refused, taken / 10);
}

TEST(MutatedArtefacts, AreAllRefused) {
  Expected<std::string> original = serializeArtefact(cpuArtefact(runtime::test::stepPlan(), std::string(300, 'k')));
  ASSERT_TRUE(original);
  std::mt19937 random(2);
  for (int round = tcc::test::mutationRounds(2000); round > 0; --round) {
    std::string damaged = tcc::test::mutated(*original, random);
    EXPECT_EQ(bool(parseArtefact(damaged)), damaged == *original);
  }
}

} // namespace
