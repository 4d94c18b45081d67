// Collectives in plans, and which rank a process is: what is refused, and in which words.
#include "runtime/exchange.h"
#include "runtime/plan.h"
#include "runtime/ranks/ranks.h"
#include "tests/runtime/made_instruction.h"
#include "tests/runtime/thread_ranks.h"
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

/// One exchange over buffers of an arena of 4096 bytes: number i has the i-th size, one after another.
Plan planOf(CollectiveCall call, const std::vector<int64_t> &sizes) {
  Plan plan;
  plan.name = "exchange";
  plan.arenaBytes = 4096;
  int64_t offset = 0;
  for (int64_t bytes : sizes) {
    plan.buffers.push_back({Space::arena, 0, offset, bytes});
    offset += (bytes + 63) / 64 * 64;
  }
  plan.instructions.push_back(test::instruction(std::move(call), "exchange"));
  return plan;
}

/// Two ranks with one piece each of two tensors, 20 and 4 bytes.
CollectiveCall allToAll() {
  CollectiveCall call;
  call.exchange = "all_to_all";
  call.ranks = 2;
  call.pieces = {1, 1};
  call.sources = {0, 1};
  call.targets = {2};
  call.scratch = 3;
  return call;
}
const std::vector<int64_t> allToAllSizes = {20, 4, 512, 512};

TEST(Collective, ValidPlansComeBackFromTheirText) {
  const Plan plan = planOf(allToAll(), allToAllSizes);
  const Error problem = validatePlan(plan);
  ASSERT_FALSE(problem) << problem.message();
  const Expected<Plan> read = planFromJson(planToJson(plan));
  ASSERT_TRUE(bool(read)) << read.error().message();
  EXPECT_EQ(*read, plan);
}

TEST(Collective, NothingNeedsNoScratch) {
  CollectiveCall call = allToAll();
  call.scratch = noBuffer;
  EXPECT_EQ(validatePlan(planOf(call, {0, 0, 0})).message(), "");
}

TEST(Collective, MistakesAreRefused) {
  struct Case {
    const char *expected;
    std::function<void(CollectiveCall &, std::vector<int64_t> &)> change;
  };
  const Case cases[] = {
      {"'sum' is no exchange", [](auto &call, auto &) { call.exchange = "sum"; }},
      {"one target", [](auto &call, auto &) { call.targets.push_back(3); }},
      {"overlap", [](auto &call, auto &) { call.targets = {0}; }},
      {"target and scratch of all_to_all overlap", [](auto &call, auto &) { call.scratch = 2; }},
      {"no list of the 2 ranks' pieces", [](auto &call, auto &) { call.pieces = {1}; }},
      {"no list of the 2 ranks' pieces", [](auto &call, auto &) { call.own = 3; }},
      {"pieces of 516 bytes or more, and room for 512", [](auto &, auto &sizes) { sizes[0] = 260; }},
      {"no scratch for what it sends, which is 512 bytes", [](auto &, auto &sizes) { sizes[3] = 256; }},
      {"no scratch", [](auto &call, auto &) { call.scratch = noBuffer; }},
      {"all_gather gives 512 bytes of 20 on 2 ranks",
       [](auto &call, auto &) {
         call.exchange = "all_gather";
         call.sources = {0};
       }},
      {"is no rank's part of 512",
       [](auto &call, auto &sizes) {
         sizes[3] = 512;
         call.exchange = "shard";
         call.sources = {2};
         call.targets = {3};
         call.scratch = noBuffer;
         call.rows = 4;
       }},
      {"other bytes than its source", [](auto &call, auto &) {
         call.exchange = "all_reduce";
         call.sources = {0};
       }}};
  for (const Case &each : cases) {
    CollectiveCall call = allToAll();
    std::vector<int64_t> sizes = allToAllSizes;
    each.change(call, sizes);
    const std::string said = validatePlan(planOf(call, sizes)).message();
    EXPECT_NE(said.find(each.expected), std::string::npos) << each.expected << ": " << said;
  }
}

/// As planOf(), whose buffers begin at the given bytes.
Plan placedPlan(CollectiveCall call, const std::vector<int64_t> &sizes, const std::vector<int64_t> &offsets) {
  Plan plan = planOf(std::move(call), sizes);
  for (size_t i = 0; i < offsets.size(); ++i)
    plan.buffers[i].offset = offsets[i];
  return plan;
}

TEST(Collective, SourcesLieInTheirPieceAtTheirOwnPlaces) {
  const std::vector<int64_t> sizes = {20, 4, 512, 512};
  EXPECT_EQ(validatePlan(placedPlan(allToAll(), sizes, {1024, 1280, 0, 1024})).message(), "");
  EXPECT_EQ(validatePlan(placedPlan(allToAll(), sizes, {1024, 1536, 0, 1024})).message(), ""); // one outside of it
  const auto problem = [&](const CollectiveCall &call, const std::vector<int64_t> &offsets) {
    return validatePlan(placedPlan(call, sizes, offsets)).message();
  };
  const char *const overlap = "a source and the scratch of all_to_all overlap";
  EXPECT_NE(problem(allToAll(), {1024, 1344, 0, 1024}).find(overlap), std::string::npos);
  EXPECT_NE(problem(allToAll(), {1280, 1536, 0, 1024}).find(overlap), std::string::npos);
  CollectiveCall twice = allToAll(); // what lies in its place is copied to another
  twice.sources = {0, 0};
  EXPECT_EQ(problem(twice, {1024, 1280, 0, 1024}), "");
  CollectiveCall large = allToAll(); // so large that adding it up would overflow
  large.sources.assign(1 << 18, 1);
  const Plan plan = placedPlan(large, {20, maxPlanBytes, 512, 512}, {});
  EXPECT_NE(large.validate(plan.lists()).find("room for 512"), std::string::npos);
  CollectiveCall two = allToAll(); // of two pieces only the parts for others are in scratch
  two.pieces = {2, 2};
  two.own = 2;
  EXPECT_NE(problem(two, {1024, 1280, 0, 1024}).find(overlap), std::string::npos);
}

TEST(Collective, WhatLiesInThePieceIsNotCopied) {
  const auto expectCopies = [](const std::vector<int64_t> &offsets, const std::string &expected) {
    test::onThreads(2, test::Timing::early, 1, [&](const std::shared_ptr<test::ThreadRanks> &ranks) {
      const Plan plan = placedPlan(allToAll(), {20, 4, 512, 512}, offsets);
      const auto exchange = RankExchange::of(std::get<CollectiveCall>(plan.instructions[0].call), plan, ranks.get());
      EXPECT_TRUE(bool(exchange)) << exchange.error().message();
      EXPECT_EQ(exchange->sent, (std::vector<int64_t>{256, 256})); // its own part, too
      EXPECT_EQ(exchange->received, (std::vector<int64_t>{256, 256}));
      std::string text;
      for (const ExchangeCopy &copy : exchange->copies)
        text += (copy.source == noBuffer ? "zeros" : std::to_string(copy.source)) + " to " + std::to_string(copy.to) +
                " (" + std::to_string(copy.bytes) + "); ";
      EXPECT_EQ(text, expected) << "rank " << ranks->rank();
    });
  };
  expectCopies({1024, 1280, 0, 1024}, "zeros to 20 (236); zeros to 260 (252); ");
  expectCopies({1024, 1536, 0, 1024}, "zeros to 20 (236); 1 to 256 (4); zeros to 260 (252); ");
}

class RanksOfEnvironment : public ::testing::Test {
protected:
  void SetUp() override {
    for (const char *name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
                             "PMIX_SIZE", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "RANK", "WORLD_SIZE", "TCC_MPI"})
      ::unsetenv(name);
  }
};

TEST_F(RanksOfEnvironment, EachLauncherIsRead) {
  EXPECT_EQ(findLaunch()->count, 1);
  ASSERT_TRUE(bool(joinRanks()));
  EXPECT_EQ(*joinRanks(), nullptr); // alone: nothing is opened
  for (const auto &[rank, count, by] :
       {std::tuple("RANK", "WORLD_SIZE", "torchrun"), std::tuple("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun"),
        std::tuple("PMI_RANK", "PMI_SIZE", "MPICH's mpirun"),
        std::tuple("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun")}) {
    ::setenv(rank, "2", 1);
    ::setenv(count, "5", 1);
    const Expected<Launch> launch = findLaunch();
    ASSERT_TRUE(bool(launch));
    EXPECT_EQ(launch->rank, 2);
    EXPECT_EQ(launch->count, 5);
    EXPECT_EQ(launch->by, by);
  }
}

TEST_F(RanksOfEnvironment, ContradictionsAreRefused) {
  for (const auto &[rank, count] :
       {std::pair("3", "3"), std::pair("-1", "2"), std::pair("x", "2"), std::pair("0", "0"), std::pair("0", "2x")}) {
    ::setenv("PMI_RANK", rank, 1);
    ::setenv("PMI_SIZE", count, 1);
    EXPECT_NE(findLaunch().error().message().find("PMI_RANK and PMI_SIZE are"), std::string::npos) << rank << count;
  }
  ::setenv("PMI_RANK", "0", 1);
  ::setenv("PMI_SIZE", "2", 1);
  ::setenv("TCC_MPI", "other", 1);
  EXPECT_EQ(joinRanks().error().message(), "TCC_MPI is 'other'; openmpi and mpich are known");
  ::setenv("TCC_MPI", "mpich", 1);
  ::setenv("TCC_RANKS_DIR", "/nonexistent", 1);
  EXPECT_NE(joinRanks().error().message().find("there is no libtcc_ranks_mpich.so"), std::string::npos);
  ::unsetenv("TCC_RANKS_DIR");
}

} // namespace
} // namespace tcc::runtime
