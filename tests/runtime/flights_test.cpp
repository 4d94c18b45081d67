// Flights of a plan: what validation refuses, and how a CPU runs them.
#include "runtime/executable.h"
#include "tests/runtime/made_instruction.h"
#include "tests/runtime/thread_ranks.h"
#include <functional>
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

using test::instruction;

CollectiveCall gather(BufferId source, BufferId target, int64_t flight) {
  CollectiveCall call;
  call.exchange = "all_gather";
  call.ranks = 2;
  call.sources = {source};
  call.targets = {target};
  call.flight = flight;
  return call;
}

enum : BufferId { input, mine, other, all, more, out, state };

/// Two gathers in flight beside copies; `out` is what the first one gives, `state` takes the second's.
Plan flyingPlan() {
  Plan plan;
  plan.name = "flying";
  plan.inputs = {{"x", DType::i32, {4}}};
  plan.outputs = {{"out", DType::i32, {8}}};
  plan.states = {{"kept", DType::i32, {8}}};
  plan.arenaBytes = 256;
  plan.buffers = {{Space::input, 0, 0, 16},   {Space::arena, 0, 0, 16},   {Space::arena, 0, 64, 16},
                  {Space::arena, 0, 128, 32}, {Space::arena, 0, 192, 32}, {Space::output, 0, 0, 32},
                  {Space::state, 0, 0, 32}};
  plan.instructions = {
      instruction(CopyCall{input, mine}, "mine"),    instruction(gather(mine, all, 1), "first"),
      instruction(CopyCall{mine, other}, "other"), // reading a source is no fault
      instruction(gather(other, more, 2), "second"), instruction(WaitCall{1, {mine}, {all}}, "end of first"),
      instruction(CopyCall{all, out}, "out"),        instruction(WaitCall{2, {other}, {more}}, "end of second"),
      instruction(CopyCall{more, state}, "keep")};
  return plan;
}

TEST(Flights, AreTheSameReadBackFromJson) {
  const Error problem = validatePlan(flyingPlan());
  ASSERT_FALSE(problem) << problem.message();
  const auto plan = planFromJson(planToJson(flyingPlan()));
  ASSERT_TRUE(bool(plan)) << plan.error().message();
  EXPECT_EQ(*plan, flyingPlan());
}

TEST(Flights, EveryFaultIsRefusedWithItsReason) {
  struct Fault {
    const char *expected;
    std::function<void(Plan &)> inject;
  };
  const auto waitOf = [](Plan &plan, size_t i) -> WaitCall & { return std::get<WaitCall>(plan.instructions[i].call); };
  const auto drop = [](size_t i) {
    return [i](Plan &plan) { plan.instructions.erase(plan.instructions.begin() + static_cast<ptrdiff_t>(i)); };
  };
  const auto insert = [](size_t i, AnyCall call) {
    return [=](Plan &plan) {
      plan.instructions.insert(plan.instructions.begin() + static_cast<ptrdiff_t>(i), instruction(call, "new"));
    };
  };
  const Fault faults[] = {
      {"instruction 6 `keep`: it reads what `second`, in flight as number 2, writes", drop(6)},
      {"instruction 3 `second`: it is in flight as number 2, and no wait for it follows",
       [](Plan &plan) { plan.instructions.resize(6); }},
      {"instruction 4 `out`: it reads what `first`, in flight as number 1, writes",
       [](Plan &plan) { std::swap(plan.instructions[4], plan.instructions[5]); }},
      {"instruction 3 `end of first`: no collective of its list of instructions is in flight as number 1", drop(1)},
      {"`end of first`: no collective of its list of instructions is in flight as number 7",
       [&](Plan &plan) { waitOf(plan, 4).flight = 7; }},
      {"`end of first`: it names other buffers", [&](Plan &plan) { waitOf(plan, 4).sources = {other}; }},
      {"instruction 3 `second`: it has place 1 in the order of the ranks, and starts after place 2",
       [](Plan &plan) {
         std::get<CollectiveCall>(plan.instructions[1].call).order = 2;
         std::get<CollectiveCall>(plan.instructions[3].call).order = 1;
       }},
      {"`second`: flight 1 is under way already",
       [](Plan &plan) { std::get<CollectiveCall>(plan.instructions[3].call).flight = 1; }},
      {"instruction 2 `new`: it writes what `first`, in flight as number 1, reads", insert(2, CopyCall{input, mine})},
      {"instruction 2 `new`: it writes what `first`, in flight as number 1, writes", insert(2, FillCall{all, 0})},
      {"instruction 3 `inside`: it reads what `first`, in flight as number 1, writes",
       [&](Plan &plan) {
         insert(2, CopyCall{all, out})(plan);
         plan.instructions[2].label = "inside";
         insert(2, LoopCall{2, 1, {}})(plan);
       }},
      {"instruction 1 `inside`: it is in flight as number 3, and no wait for it follows in its list", [&](Plan &plan) {
         insert(0, gather(input, all, 3))(plan);
         plan.instructions[0].label = "inside";
         insert(0, LoopCall{2, 1, {}})(plan);
         insert(2, WaitCall{3, {input}, {all}})(plan); // after the loop: too far out
       }}};
  for (const Fault &fault : faults) {
    Plan plan = flyingPlan();
    fault.inject(plan);
    const std::string said = validatePlan(plan).message();
    EXPECT_NE(said.find(fault.expected), std::string::npos) << fault.expected << ": " << said;
  }
}

TEST(Flights, MayBeginAndEndInEachTurnOfALoop) {
  Plan plan = flyingPlan();
  plan.instructions.insert(plan.instructions.begin() + 1, instruction(LoopCall{3, 7, {}}, "turns"));
  const Error problem = validatePlan(plan);
  EXPECT_FALSE(problem) << problem.message();
}

TEST(Flights, RunOnACpuHoweverLateOrEarlyTheyEnd) {
  const ExecutableOptions modes[] = {{}, {.checked = true}, {.separate = true}};
  for (const test::Timing timing : {test::Timing::late, test::Timing::early, test::Timing::random})
    for (const ExecutableOptions &mode : modes) {
      test::onThreads(2, timing, 3, [&](const std::shared_ptr<test::ThreadRanks> &ranks) {
        Artefact artefact{{{"cpu", {}, flyingPlan(), {}}}, {}};
        ExecutableOptions options = mode;
        options.threads = 1;
        options.ranks = ranks;
        const auto executable = Executable::load(artefact, options);
        ASSERT_TRUE(bool(executable)) << executable.error().message();
        for (int step = 0; step < 3; ++step) {
          alignas(64) int32_t x[16] = {}, out[16] = {}, kept[16] = {};
          for (int i = 0; i < 4; ++i)
            x[i] = 100 * step + 10 * static_cast<int>(ranks->rank()) + i;
          const ConstTensorRef inputs[] = {{reinterpret_cast<const char *>(x), 16}};
          const TensorRef outputs[] = {{reinterpret_cast<char *>(out), 32}},
                          states[] = {{reinterpret_cast<char *>(kept), 32}};
          const Error error = (*executable)->run(inputs, outputs, states);
          ASSERT_FALSE(error) << error.message();
          for (int i = 0; i < 8; ++i) {
            EXPECT_EQ(out[i], 100 * step + 10 * (i / 4) + i % 4);
            EXPECT_EQ(kept[i], out[i]);
          }
        }
        EXPECT_EQ(ranks->started, 6);
        if (timing == test::Timing::late) {
          EXPECT_EQ(ranks->mostInFlight, 2);
        }
      });
    }
}

} // namespace
} // namespace tcc::runtime
