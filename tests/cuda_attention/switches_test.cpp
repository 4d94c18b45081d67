// The switches of the Hopper kernels (overlap, turns, persistent blocks, orders, wider tiles) must not change a bit:
// each is run under every schedule, and once more with lanes that lag, beside the kernel without switches. Windows,
// which the pairwise cover leaves out, are held against the reference on both paths.
#include "emulated_case.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace tcc;
using namespace tcc::attention_test;
using namespace tcc::cuda;

namespace {

constexpr AttentionPass forward = AttentionPass::Forward;
constexpr AttentionPass query = AttentionPass::BackwardQuery;
constexpr AttentionPass keys = AttentionPass::BackwardKeys;

struct Switched {
  const char *name;
  AttentionPass pass;
  Change change;
};

/// Every switch, alone or with those that it meets on a device.
const std::vector<Switched> &allSwitches() {
  static const std::vector<Switched> all = {
      {"overlap", forward, [](AttentionTiles &t) { t.overlap = true; }},
      {"persistent", forward, [](AttentionTiles &t) { t.persistent = true; }},
      {"turns", forward, [](AttentionTiles &t) { t.overlap = t.pingPong = true; }},
      {"turns of three, persistent", forward,
       [](AttentionTiles &t) {
         t.overlap = t.pingPong = t.persistent = true;
         t.warps = 12;
         t.stages = 2;
       }},
      {"persistent", query, [](AttentionTiles &t) { t.persistent = true; }},
      {"overlap", query, [](AttentionTiles &t) { t.overlap = true; }},
      {"overlap, persistent, shortest first", query,
       [](AttentionTiles &t) {
         t.overlap = t.persistent = t.shortestFirst = true;
         t.stages = 3;
       }},
      {"overlap", keys, [](AttentionTiles &t) { t.overlap = true; }},
      {"overlap, persistent, shortest first", keys,
       [](AttentionTiles &t) {
         t.overlap = t.persistent = t.shortestFirst = true;
         t.stages = 3;
       }},
      {"128 queries", keys, [](AttentionTiles &t) { t.columns = 128; }},
      {"128 queries, overlap, persistent", keys,
       [](AttentionTiles &t) {
         t.columns = 128;
         t.overlap = t.persistent = true;
       }},
  };
  return all;
}

/// All that a GPU would be given.
void everything(AttentionTiles &tiles) {
  tiles.overlap = tiles.persistent = true;
}
void everythingInTurns(AttentionTiles &tiles) {
  everything(tiles);
  tiles.pingPong = true;
}
const std::vector<Switched> &fullest() {
  static const std::vector<Switched> all = {
      {"everything", forward, everythingInTurns}, {"everything", query, everything}, {"everything", keys, everything}};
  return all;
}

Problem causalProblem(int headDim, int queries, int keyCount, int window) {
  Problem problem;
  problem.headDim = headDim;
  problem.queries = queries;
  problem.keys = keyCount;
  problem.diagonal = keyCount - queries;
  problem.causal = true;
  problem.window = window;
  problem.heads = problem.group = 2;
  problem.scale = 1 / std::sqrt(double(headDim));
  return problem;
}

std::vector<emulator::DeviceBuffer *> outputsOf(Memory &memory, AttentionPass pass) {
  if (pass == forward)
    return {&memory.at(Tensor::Output), memory.logSumExp.get()};
  if (pass == query)
    return {&memory.at(Tensor::QueryGradient), memory.rowShift.get(), memory.rowDelta.get()};
  return {&memory.at(Tensor::KeyGradient), &memory.at(Tensor::ValueGradient)};
}

std::vector<std::vector<char>> bitsOf(Memory &memory, AttentionPass pass) {
  std::vector<std::vector<char>> bits;
  for (emulator::DeviceBuffer *output : outputsOf(memory, pass))
    bits.emplace_back(output->as<char>(), output->as<char>() + output->bytes());
  return bits;
}

void launchSound(Memory &memory, const AttentionKernel &kernel, const emulator::Schedule &schedule) {
  std::vector<emulator::DeviceBuffer *> outputs = outputsOf(memory, kernel.of.pass);
  for (emulator::DeviceBuffer *output : outputs) {
    output->poison();
    bool wide = output != &memory.at(Tensor::Output) && output != &memory.at(Tensor::QueryGradient) &&
                output != &memory.at(Tensor::KeyGradient) && output != &memory.at(Tensor::ValueGradient);
    output->writeOnce(wide ? 4 : 2);
  }
  emulator::LaunchResult result = launchOnce(memory, kernel, schedule);
  ASSERT_TRUE(result.ok()) << kernel.name << "\n" << result.text();
  for (emulator::DeviceBuffer *output : outputs)
    output->writeOnce(0);
}

/// One pass after another, first without switches, then each of `switches` under every schedule.
void expectEqualBits(const Problem &problem, const std::vector<Switched> &switches) {
  SCOPED_TRACE(describe(problem, false));
  Memory memory(problem, false, randomInputs(problem, 5));
  std::vector<emulator::Schedule> schedules = emulator::testSchedules();
  schedules.emplace_back();
  schedules.back().lanesLag = true;
  for (AttentionPass pass : {forward, query, keys}) {
    ASSERT_NO_FATAL_FAILURE(launchSound(memory, kernelOf(problem, pass, "sm_90a", plain), {}));
    std::vector<std::vector<char>> bits = bitsOf(memory, pass);
    for (const Switched &switched : switches) {
      if (switched.pass != pass)
        continue;
      AttentionKernel kernel = kernelOf(problem, pass, "sm_90a", switched.change);
      ASSERT_EQ(kernel.sharedBytes <= 226 * 1024, true) << switched.name;
      for (const emulator::Schedule &schedule : schedules) {
        ASSERT_NO_FATAL_FAILURE(launchSound(memory, kernel, schedule));
        ASSERT_TRUE(bitsOf(memory, pass) == bits) << switched.name << ": " << kernel.name << " changes bits";
      }
    }
  }
}

TEST(AttentionSwitches, KeepEveryBit) {
  Problem problem = causalProblem(64, 300, 340, 0);
  problem.heads = 4;
  expectEqualBits(problem, allSwitches());
}

TEST(AttentionSwitches, KeepEveryBitOfTheWiderHeadsWithDropout) {
  Problem problem = causalProblem(128, 200, 200, 0);
  problem.dropout = 0.25;
  expectEqualBits(problem, fullest());
}

TEST(AttentionSwitches, KeepEveryBitUnderAWindow) {
  expectEqualBits(causalProblem(64, 400, 400, 90), fullest());
}

// Some queries see nothing, some tiles nobody; a block with nothing to do keeps its turn.
TEST(AttentionSwitches, KeepEveryBitWhereTilesAreEmpty) {
  Problem problem = causalProblem(64, 400, 130, 0);
  problem.diagonal = -150;
  expectEqualBits(problem, fullest());
}

// The reference knows windows; the plain kernels of both paths are held against it.
TEST(AttentionSwitches, WindowsAreThoseOfTheReference) {
  for (const char *architecture : {"sm_80", "sm_90a"})
    for (auto [queries, keyCount, window] : {std::tuple(200, 200, 1), {200, 260, 70}, {330, 200, 129}}) {
      Problem problem = causalProblem(64, queries, keyCount, window);
      SCOPED_TRACE(describe(problem, false) + " for " + architecture);
      Inputs inputs = randomInputs(problem, 3);
      Results exact = attentionReference(problem, inputs, false);
      Results rounded = attentionReference(problem, inputs, true);
      Memory memory(problem, false, inputs);
      for (AttentionPass pass : {forward, query, keys}) {
        emulator::Schedule checked;
        checked.checkAccesses = true;
        ASSERT_NO_FATAL_FAILURE(launchSound(memory, kernelOf(problem, pass, architecture), checked));
      }
      for (auto [tensor, values] : {std::pair(Tensor::Output, &Results::output),
                                    {Tensor::QueryGradient, &Results::queryGradient},
                                    {Tensor::KeyGradient, &Results::keyGradient},
                                    {Tensor::ValueGradient, &Results::valueGradient}}) {
        Deviation result =
            deviation(memory.read(tensor), exact.*values, rounded.*values, problem.element, exact.largestTerm);
        EXPECT_LE(result.error, result.allowed) << int(tensor) << " at " << result.worst;
      }
    }
}

} // namespace
