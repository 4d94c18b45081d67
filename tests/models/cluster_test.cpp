// A step on many ranks: what a file of a cluster may say, how long collectives take, and what of them is hidden.
#include "frontend/error.h"
#include "models/cluster.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tcc::models {

namespace {

const nlohmann::ordered_json described = {{"name", "two nodes"},
                                          {"processors_per_node", 4},
                                          {"inside", {{"gigabytes_per_second", 100}, {"start_us", 5}, {"hop_us", 1}}},
                                          {"between", {{"gigabytes_per_second", 10}, {"start_us", 20}, {"hop_us", 3}}},
                                          {"memory_gigabytes", 16}};

std::string fileOf(const std::string &text) {
  const std::string path = testing::TempDir() + "cluster.json";
  std::ofstream(path) << text;
  return path;
}

std::string refusal(const std::string &text) {
  try {
    readCluster(fileOf(text));
  } catch (const Error &error) {
    return error.what();
  }
  return "none";
}

TEST(ClusterFile, IsReadWithItsUnits) {
  nlohmann::ordered_json all = described;
  all.update({{"dollars_per_hour", 1.5},
              {"step_ms", 40},
              {"spread", 0.02},
              {"hours_between_failures", 1000},
              {"restart_minutes", 3}});
  const Cluster cluster = readCluster(fileOf(all.dump()));
  EXPECT_EQ(cluster.name, "two nodes");
  EXPECT_EQ(cluster.perNode, 4);
  EXPECT_DOUBLE_EQ(cluster.inside.bytesPerSecond, 1e11);
  EXPECT_DOUBLE_EQ(cluster.between.hopSeconds, 3e-6);
  EXPECT_DOUBLE_EQ(cluster.memoryBytes, 16e9);
  EXPECT_DOUBLE_EQ(*cluster.stepSeconds, 0.04);
  EXPECT_DOUBLE_EQ(cluster.restartSeconds, 180);
  EXPECT_EQ(cluster.nodes(9), 3);
  EXPECT_FALSE(readCluster(fileOf(described.dump())).stepSeconds);
}

TEST(ClusterFile, MistakesAreNamed) {
  const auto with = [](const char *pointer, const nlohmann::ordered_json &value) {
    nlohmann::ordered_json changed = described;
    changed[nlohmann::ordered_json::json_pointer(pointer)] = value;
    return refusal(changed.dump());
  };
  EXPECT_NE(with("/colour", 3).find("`colour` is no key of a cluster; name, "), std::string::npos);
  EXPECT_NE(with("/inside/speed", 3).find("`speed` is no key of `inside`"), std::string::npos);
  EXPECT_NE(with("/between/gigabytes_per_second", 0).find("`between.gigabytes_per_second` is `0`; a number from"),
            std::string::npos);
  EXPECT_NE(with("/processors_per_node", 1.5).find("a whole number"), std::string::npos);
  EXPECT_NE(with("/inside", 3).find("an object is expected"), std::string::npos);
  EXPECT_NE(with("/name", 3).find("`name` is no text"), std::string::npos);
  nlohmann::ordered_json without = described;
  without.erase("memory_gigabytes");
  EXPECT_NE(refusal(without.dump()).find("`memory_gigabytes` is missing"), std::string::npos);
  EXPECT_NE(refusal("{").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string(70000, ' ')).find("at most 65536"), std::string::npos);
}

TEST(ClusterTransfers, GoOverTheLinksThatRanksHave) {
  const Cluster cluster = readCluster(fileOf(described.dump()));
  const Exchanged gather{runtime::Exchange::allGather, 8e9};
  EXPECT_EQ(transferSeconds(cluster, gather, 1), 0);
  // Three others in the node: a quarter of the bytes to each.
  EXPECT_NEAR(transferSeconds(cluster, gather, 4), 5e-6 + 3 * (1e-6 + 2e9 / 1e11), 1e-12);
  // And four in the other node, an eighth to each.
  EXPECT_NEAR(transferSeconds(cluster, gather, 8), 20e-6 + 3 * (1e-6 + 1e9 / 1e11) + 4 * (3e-6 + 1e9 / 1e10), 1e-12);
  const Exchanged sum{runtime::Exchange::allReduce, 8e9};
  EXPECT_NEAR(transferSeconds(cluster, sum, 4) - 5e-6, 2 * (transferSeconds(cluster, gather, 4) - 5e-6), 1e-12);
}

StepEvent start(double computed, int64_t flight, double bytes) {
  return {computed, flight, true, {runtime::Exchange::allGather, bytes}};
}
StepEvent wait(double computed, int64_t flight) {
  return {computed, flight, false, {}};
}

TEST(ClusterSteps, ExposeWhatNothingHides) {
  Cluster cluster = readCluster(fileOf(described.dump()));
  cluster.inside = {1e9, 0, 0}; // two ranks: half of the bytes over it
  // 1 s of computing, a transfer of 2 s, 0.5 s beside it; then one that is waited for at once.
  const StepEvents step{{start(1, 1, 4e9), wait(0.5, 1), start(0.25, 2, 1e9), wait(0, 2)}, 2};
  const ClusterStep two = playThrough(cluster, step, 2);
  EXPECT_DOUBLE_EQ(two.computeSeconds, 2);
  EXPECT_DOUBLE_EQ(two.transferSeconds, 2.5);
  EXPECT_DOUBLE_EQ(two.exposedSeconds, 1.5 + 0.5);
  EXPECT_DOUBLE_EQ(two.seconds(), 4);
  EXPECT_DOUBLE_EQ(two.efficiency(), 0.5);
  EXPECT_EQ(playThrough(cluster, step, 1).exposedSeconds, 0);
  // The second starts while the first is under way: it is over after it.
  const StepEvents together{{start(1, 1, 4e9), start(0, 2, 2e9), wait(5, 1), wait(0, 2)}, 6};
  EXPECT_EQ(playThrough(cluster, together, 2).exposedSeconds, 0);
  const StepEvents late{{start(1, 1, 4e9), start(0, 2, 2e9), wait(2.5, 2), wait(0, 1)}, 3.5};
  EXPECT_DOUBLE_EQ(playThrough(cluster, late, 2).exposedSeconds, 0.5);
  // A measured step is so much slower everywhere.
  cluster.stepSeconds = 4;
  EXPECT_DOUBLE_EQ(playThrough(cluster, step, 2).exposedSeconds, 1 + 0.5);
  cluster.spread = 0.1;
  EXPECT_NEAR(playThrough(cluster, step, 8).waitSeconds, 0.1 * std::sqrt(2 * std::log(8.0)) * 4, 1e-12);
}

/// A plan with one collective, in flight in a loop of two turns beside a copy.
TEST(ClusterSteps, ComeFromAPlan) {
  runtime::Plan plan;
  plan.name = "step";
  plan.arenaBytes = 4096;
  plan.buffers = {{runtime::Space::arena, 0, 0, 512},
                  {runtime::Space::arena, 0, 1024, 1024},
                  {runtime::Space::arena, 0, 2048, 512}};
  runtime::CollectiveCall gather;
  gather.exchange = "all_gather";
  gather.ranks = 2;
  gather.sources = {0};
  gather.targets = {1};
  gather.flight = 7;
  const auto add = [&](runtime::AnyCall call, int64_t bytes) {
    plan.instructions.emplace_back().call = std::move(call);
    plan.instructions.back().bytes = bytes;
  };
  add(runtime::CopyCall{0, 2}, 1000);
  add(runtime::LoopCall{2, 3, {}}, 0);
  add(gather, 0);
  add(runtime::CopyCall{0, 2}, 1000);
  add(runtime::WaitCall{7, {0}, {1}, runtime::noBuffer}, 0);
  add(runtime::LoopCall{1000, 1, {}}, 0);
  add(runtime::CopyCall{0, 2}, 1000);
  const runtime::Error problem = runtime::validatePlan(plan);
  ASSERT_FALSE(problem) << problem.message();
  runtime::MachineLimits limits;
  limits.bytesPerSecond = 1000; // a second for each copy
  const StepEvents step = eventsOf(plan, limits);
  EXPECT_DOUBLE_EQ(step.computedSeconds, 1 + 2 + 1000);
  ASSERT_EQ(step.events.size(), 4u);
  EXPECT_TRUE(step.events[0].starts && step.events[2].starts && !step.events[1].starts);
  EXPECT_DOUBLE_EQ(step.events[0].computedSeconds, 1);
  EXPECT_DOUBLE_EQ(step.events[0].exchange.bytes, 1024);
  EXPECT_DOUBLE_EQ(step.events[1].computedSeconds, 1);
  EXPECT_DOUBLE_EQ(step.events[2].computedSeconds, 0);
  EXPECT_EQ(step.events[3].flight, step.events[2].flight);
  EXPECT_NE(step.events[3].flight, step.events[1].flight);
}

} // namespace

} // namespace tcc::models
