// Plans whose values share no memory: which uses stay together, equal bits, and overruns that a shared arena hides.
#include "runtime/executable.h"
#include "runtime/separate_values.h"
#include "test_plans.h"
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

using test::kernelCall;
using test::testKernels;

Instruction copyOf(BufferId from, BufferId to) {
  return test::instruction(CopyCall{from, to}, "copy");
}

Instruction fillOf(BufferId target) {
  return test::instruction(FillCall{target, 7}, "fill");
}

/// [begin, end) of what an instruction's first and second buffer are now.
std::pair<int64_t, int64_t> rangeOf(const Plan &plan, BufferId id) {
  return {plan.buffers[id].offset, plan.buffers[id].offset + plan.buffers[id].bytes};
}

TEST(SeparateValues, AReusedRangeBecomesTwoAndASliceStaysInItsWhole) {
  Plan plan;
  plan.outputs = {{"o", DType::f32, {64}}};
  plan.arenaBytes = 512;
  plan.buffers = {{Space::arena, 0, 0, 256},
                  {Space::arena, 0, 0, 128},
                  {Space::arena, 0, 128, 128},
                  {Space::arena, 0, 256, 256},
                  {Space::output, 0, 0, 256}};
  plan.instructions = {fillOf(0),    copyOf(0, 3), // a value, copied
                       fillOf(1),    fillOf(2),    // two slices in its place
                       copyOf(0, 4),               // of one whole
                       copyOf(3, 0)};              // and a third value there
  const SeparatePlan separate = separateValues(plan);
  ASSERT_FALSE(validatePlan(separate.plan)) << validatePlan(separate.plan).message();
  EXPECT_EQ(separate.values.size(), 4u);
  const auto fill = [&](size_t i) {
    return rangeOf(separate.plan, std::get<FillCall>(separate.plan.instructions[i].call).target);
  };
  const auto copy = [&](size_t i) { return std::get<CopyCall>(separate.plan.instructions[i].call); };
  EXPECT_EQ(fill(0), rangeOf(separate.plan, copy(1).source));
  EXPECT_EQ(fill(2).second, fill(3).first);
  EXPECT_EQ(rangeOf(separate.plan, copy(4).source), std::pair(fill(2).first, fill(3).second));
  EXPECT_NE(fill(0).first, fill(2).first);
  EXPECT_EQ(copy(4).target, 4u) << "what is not in the arena stays";
  EXPECT_NE(rangeOf(separate.plan, copy(5).target).first, fill(2).first);
}

TEST(SeparateValues, InPlaceResultsAndSumsStayWithTheirOperand) {
  Plan plan = test::stepPlan();
  std::get<KernelCall>(plan.instructions[1].call).segments[0].args[2] = 3; // y takes h's place
  for (size_t i : {2, 3})
    std::visit(
        [](auto &call) {
          if constexpr (requires { call.b; })
            call.b = 3;
          else if constexpr (requires { call.segments; })
            call.segments[0].args[0] = 3;
        },
        plan.instructions[i].call);
  const SeparatePlan separate = separateValues(plan);
  ASSERT_FALSE(validatePlan(separate.plan)) << validatePlan(separate.plan).message();
  const auto &segment = std::get<KernelCall>(separate.plan.instructions[1].call).segments[0];
  EXPECT_EQ(segment.args[0], segment.args[2]);
}

std::vector<float> run(const Artefact &artefact, const ExecutableOptions &options) {
  auto executable = Executable::load(artefact, options);
  EXPECT_TRUE(executable) << executable.error().message();
  std::vector<TensorStorage> storages;
  std::vector<TensorRef> outputs, states;
  std::vector<ConstTensorRef> inputs;
  uint32_t seed = 1;
  auto take = [&](const std::vector<TensorSpec> &specs, auto &list) {
    for (const TensorSpec &spec : specs) {
      storages.push_back(*TensorStorage::zeros(spec));
      for (float &value : storages.back().as<float>())
        value = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1.0f;
      list.push_back(storages.back().ref());
    }
  };
  const Plan &plan = (*executable)->plan();
  take(plan.inputs, inputs), take(plan.outputs, outputs), take(plan.states, states);
  std::vector<float> results;
  for (int step = 0; step < 3; ++step) {
    const Error error = (*executable)->run(inputs, outputs, states);
    EXPECT_FALSE(error) << error.message();
    for (const TensorStorage &storage : storages)
      results.insert(results.end(), storage.as<float>().begin(), storage.as<float>().end());
  }
  return results;
}

TEST(SeparateValues, EqualBits) {
  const auto expected = run(test::stepArtefact(), {.threads = 2});
  for (bool checked : {false, true})
    EXPECT_EQ(run(test::stepArtefact(), {.threads = 2, .checked = checked, .separate = true}), expected);
}

// One float too many, inside the arena: nobody sees it but a value that ends at a forbidden page.
TEST(SeparateValuesDeathTest, AnOverrunIntoTheNextValueIsFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Plan plan;
  plan.arenaBytes = 512;
  plan.buffers = {{Space::arena, 0, 0, 256}, {Space::arena, 0, 256, 256}};
  plan.kernels = {{"overrun", 1, 1, ""}};
  plan.instructions = {kernelCall(0, {{{0}, 64}}, 1, "overrun"), fillOf(1)};
  const Artefact artefact = cpuArtefact(plan, testKernels());
  run(artefact, {.threads = 1});
  EXPECT_DEATH(run(artefact, {.threads = 1, .separate = true}), "");
}

} // namespace
} // namespace tcc::runtime
