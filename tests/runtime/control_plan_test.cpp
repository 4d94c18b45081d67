// Branches and loops of a plan: what runs, every fault, JSON, parts of a step, memory of their own for their values.
#include "runtime/executable.h"
#include "runtime/separate_values.h"
#include "runtime/step_parts.h"
#include "tests/runtime/made_instruction.h"
#include <functional>
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

using test::instruction;

/// For each of the three i32 of `x`, in a loop: where `p` holds, `last` is that part, else 0x07070707; after the loop
/// `out` is a copy of it.
Plan loopPlan() {
  Plan plan;
  plan.name = "loop";
  plan.inputs = {{"x", DType::i32, {3}}, {"p", DType::i1, {}}};
  plan.outputs = {{"out", DType::i32, {}}};
  plan.states = {{"turns", DType::i32, {}}};
  plan.arenaBytes = 128;
  plan.buffers = {{Space::input, 0, 0, 12}, {Space::input, 1, 0, 1},  {Space::arena, 0, 0, 4},
                  {Space::arena, 0, 64, 4}, {Space::output, 0, 0, 4}, {Space::state, 0, 0, 4}};
  plan.instructions = {instruction(LoopCall{3, 4, {{0, 2}}}, "turns"),
                       instruction(BranchCall{1, 1, 1}, "way"),
                       instruction(CopyCall{2, 3}, "part"),
                       instruction(FillCall{3, 7}, "sevens"),
                       instruction(CopyCall{3, 5}, "keep"),
                       instruction(CopyCall{3, 4}, "out")};
  return plan;
}

struct Outcome {
  int32_t out = -1, turns = -1;
  bool operator==(const Outcome &) const = default;
};

Outcome run(const Plan &plan, bool flag, ExecutableOptions options) {
  Artefact artefact{{{"cpu", {}, plan, {}}}, {}};
  auto executable = Executable::load(artefact, options);
  EXPECT_TRUE(executable) << executable.error().message();
  alignas(64) int32_t x[16] = {10, 20, 30}, out[16] = {}, turns[16] = {};
  alignas(64) bool p[64] = {flag};
  const ConstTensorRef inputs[] = {{reinterpret_cast<const char *>(x), 12}, {reinterpret_cast<const char *>(p), 1}};
  const TensorRef outputs[] = {{reinterpret_cast<char *>(out), 4}}, states[] = {{reinterpret_cast<char *>(turns), 4}};
  const Error error = (*executable)->run(inputs, outputs, states);
  EXPECT_FALSE(error) << error.message();
  return {out[0], turns[0]};
}

TEST(ControlPlan, RunsTheChosenPartOnceATurn) {
  for (bool checked : {false, true})
    for (bool separate : {false, true}) {
      const ExecutableOptions options{.threads = 1, .checked = checked, .separate = separate};
      EXPECT_EQ(run(loopPlan(), true, options), (Outcome{30, 30}));
      EXPECT_EQ(run(loopPlan(), false, options), (Outcome{0x07070707, 0x07070707}));
    }
}

TEST(ControlPlan, IsTheSameReadBackFromJson) {
  const auto plan = planFromJson(planToJson(loopPlan()));
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(*plan, loopPlan());
}

TEST(ControlPlan, EveryFaultIsRefusedWithItsReason) {
  struct Fault {
    const char *expected;
    std::function<void(Plan &)> inject;
  };
  auto loop = [](Plan &plan) -> LoopCall & { return std::get<LoopCall>(plan.instructions[0].call); };
  auto branch = [](Plan &plan) -> BranchCall & { return std::get<BranchCall>(plan.instructions[1].call); };
  const Fault faults[] = {
      {"instruction 0 `turns`: it has 6 parts of 5 instructions after it", [&](Plan &p) { loop(p).body = 6; }},
      {"instruction 1 `way`: it has 4 parts of 3", [&](Plan &p) { branch(p).otherwise = 3; }},
      {"instruction 1 `way`: it has 4294967296 parts", [&](Plan &p) { branch(p) = {1, 0xffffffff, 1}; }},
      {"has 0 turns; 1 to 2^31", [&](Plan &p) { loop(p).count = 0; }},
      {"has 4294967296 turns", [&](Plan &p) { loop(p).count = int64_t{1} << 32; }},
      {"a slice has 4 of 12 bytes; it is one of 2 equal parts", [&](Plan &p) { loop(p).count = 2; }},
      {"buffer 9 does not exist", [&](Plan &p) { loop(p).slices[0].source = 9; }},
      {"is written but lies in an input", [&](Plan &p) { loop(p).slices[0].target = 1; }},
      {"source and target of a slice overlap",
       [&](Plan &p) {
         p.buffers.push_back({Space::arena, 0, 0, 12});
         loop(p).slices[0].source = 6;
       }},
      {"the predicate has 4 bytes; it has one", [&](Plan &p) { branch(p).predicate = 2; }},
      {"buffer 9 does not exist", [&](Plan &p) { branch(p).predicate = 9; }}};
  for (const Fault &fault : faults) {
    Plan plan = loopPlan();
    fault.inject(plan);
    EXPECT_NE(validatePlan(plan).message().find(fault.expected), std::string::npos)
        << fault.expected << ": " << validatePlan(plan).message();
  }
  Plan deep = loopPlan();
  deep.instructions.clear();
  for (uint32_t parts = 100; parts > 0; --parts)
    deep.instructions.push_back(instruction(LoopCall{1, parts - 1, {}}, "deep"));
  EXPECT_NE(validatePlan(deep).message().find("parts nest, up to 64 deep"), std::string::npos);
}

TEST(ControlPlan, AStepWaitsBeforeALoopOrAfterIt) {
  const StepParts parts = stepParts(loopPlan(), 1);
  EXPECT_EQ(parts.ready, std::vector<size_t>{6});
  EXPECT_EQ(parts.firstStateWrite, 0u);
  EXPECT_EQ(parts.firstRead, (std::vector<size_t>{0, 0}));
  Plan inside = loopPlan();
  std::get<CopyCall>(inside.instructions[4].call).target = 4; // the output is written in the loop
  inside.instructions.pop_back();
  EXPECT_EQ(stepParts(inside, 1).ready, std::vector<size_t>{5});
}

TEST(ControlPlan, TensorsAreThereBeforeALoopAndAfterIt) {
  const TensorTimes times = tensorTimes(loopPlan());
  EXPECT_EQ(times.inputEnds, (std::vector<size_t>{5, 5})); // the loop with its parts is instructions 0 to 4
  EXPECT_EQ(times.outputBegins, std::vector<size_t>{5});
  Plan inside = loopPlan();
  std::get<CopyCall>(inside.instructions[4].call).target = 4; // the output is written in the loop
  EXPECT_EQ(tensorTimes(inside).outputBegins, std::vector<size_t>{0});
}

TEST(ControlPlan, ValuesOfALoopThatShareBytesStayTogether) {
  const SeparatePlan separate = separateValues(loopPlan());
  ASSERT_FALSE(validatePlan(separate.plan)) << validatePlan(separate.plan).message();
  const auto &out = std::get<CopyCall>(separate.plan.instructions[5].call);
  EXPECT_EQ(out.source, std::get<CopyCall>(separate.plan.instructions[2].call).target);
  EXPECT_EQ(out.source, std::get<FillCall>(separate.plan.instructions[3].call).target);
}

} // namespace
} // namespace tcc::runtime
