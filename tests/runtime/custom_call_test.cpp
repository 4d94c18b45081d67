// Calls of users' functions in plans: what a plan may say of them, text and back, damage, and what running one finds.
#include "runtime/custom_call.h"
#include "runtime/executable.h"
#include "runtime/step_parts.h"
#include "tests/mutate.h"
#include "tests/runtime/made_instruction.h"
#include <bit>
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

/// out [3] = function(in [3]), then state w [3] by a copy of out.
Plan planOf(const CustomCall &named) {
  Plan plan;
  plan.name = "step";
  plan.inputs = {{"in", DType::f32, {3}}};
  plan.outputs = {{"out", DType::f32, {3}}};
  plan.states = {{"w", DType::f32, {3}}};
  plan.buffers = {{Space::input, 0, 0, 12}, {Space::output, 0, 0, 12}, {Space::state, 0, 0, 12}};
  plan.instructions = {test::instruction(named, "custom"), test::instruction(CopyCall{1, 2}, "copy")};
  return plan;
}

CustomCall callOf(std::string library, std::string symbol, int64_t host = 0) {
  CustomCall call{"mine", std::move(library), std::move(symbol), host, {}, {}};
  call.inputs = {{0, DType::f32, {3}}};
  call.outputs = {{1, DType::f32, {3}}};
  return call;
}

CustomCall &callIn(Plan &plan) {
  return std::get<CustomCall>(plan.instructions[0].call);
}

TEST(CustomPlan, comesBackFromText) {
  const Plan plan = planOf(callOf("/lib/mine.so", "f"));
  const auto again = planFromJson(planToJson(plan));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, plan);
  EXPECT_EQ(unsavableCall(plan), "");
  EXPECT_EQ(unsavableCall(planOf(callOf("", "", 1))), "mine");
  const auto host = planFromJson(planToJson(planOf(callOf("", "", 1))));
  ASSERT_FALSE(host); // a number of this process is not written
  EXPECT_NE(host.error().message().find("custom op `mine` names no function"), std::string::npos);
}

TEST(CustomPlan, aProvidersFunctionIsFoundByItsSymbol) {
  const Plan plan = planOf(callOf("<test>", "times 3"));
  EXPECT_EQ(unsavableCall(plan), "");
  const auto again = planFromJson(planToJson(plan));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, plan);
  const CustomCall &call = std::get<CustomCall>(again->instructions[0].call);
  EXPECT_EQ(CustomFunction::find(call).error().message(),
            "custom op `mine` is computed by <test>, which this process does not have");
  addFunctionProvider("test", {"1", [](const std::string &symbol) -> Expected<HostFunction> {
                                 if (!symbol.starts_with("times "))
                                   return Error("no " + symbol);
                                 return HostFunction([by = std::stof(symbol.substr(6))](const CustomArguments &given) {
                                   for (size_t i = 0; i < 3; ++i)
                                     given.output<float>(0)[i] = by * given.input<float>(0)[i];
                                 });
                               }});
  EXPECT_EQ(CustomFunction::find(callOf("<test>", "f")).error().message(),
            "custom op `mine` is not known to <test>: no f");
  ASSERT_TRUE(providerOf("<test>"));
  EXPECT_EQ(providerOf("<test>")->version, "1");
  EXPECT_EQ(providerOf("<another>"), nullptr);
  auto executable = Executable::load(Artefact{{{"cpu", {}, *again, {}}}, {}});
  ASSERT_TRUE(executable) << executable.error().message();
  alignas(64) const float in[3] = {1, 2, 3};
  alignas(64) float out[3] = {}, w[3] = {};
  const ConstTensorRef inputs[] = {{in, 12}};
  const TensorRef outputs[] = {{out, 12}}, states[] = {{w, 12}};
  ASSERT_FALSE((*executable)->run(inputs, outputs, states));
  EXPECT_EQ(w[2], 9.0f);
}

TEST(CustomPlan, saysWhatItsFunctionTouches) {
  const StepParts parts = stepParts(planOf(callOf("/lib/mine.so", "f")), 1);
  EXPECT_EQ(parts.ready[0], 1U);
  EXPECT_EQ(parts.firstRead[0], 0U);
  EXPECT_EQ(parts.firstStateWrite, 1U);
}

TEST(CustomPlan, mistakesAreRefused) {
  const std::pair<const char *, void (*)(Plan &)> faults[] = {
      {"has no name", [](Plan &p) { callIn(p).name.clear(); }},
      {"names no function", [](Plan &p) { callIn(p).library.clear(); }},
      {"names no function", [](Plan &p) { callIn(p).symbol.clear(); }},
      {"names no function", [](Plan &p) { callIn(p).host = 1; }},
      {"an absolute path is expected", [](Plan &p) { callIn(p).library = "mine.so"; }},
      {"buffer 7 does not exist", [](Plan &p) { callIn(p).inputs[0].buffer = 7; }},
      {"does not exist", [](Plan &p) { callIn(p).outputs[0].buffer = noBuffer; }},
      {"written but lies in an input", [](Plan &p) { callIn(p).outputs[0].buffer = 0; }},
      {"is not all of buffer 0", [](Plan &p) { callIn(p).inputs[0].shape = {4}; }},
      {"is not all of buffer 0", [](Plan &p) { callIn(p).inputs[0].shape = {-3}; }},
      {"is not all of buffer 1", [](Plan &p) { callIn(p).outputs[0].dtype = DType::i64; }},
      {"overlaps an operand", [](Plan &p) { callIn(p).inputs[0].buffer = 1; }},
      {"two results of custom op `mine` overlap", [](Plan &p) { callIn(p).outputs.push_back(callIn(p).outputs[0]); }}};
  for (auto [message, damage] : faults) {
    Plan plan = planOf(callOf("/lib/mine.so", "f"));
    ASSERT_FALSE(validatePlan(plan));
    damage(plan);
    const Error error = validatePlan(plan);
    ASSERT_TRUE(error) << message;
    EXPECT_NE(error.message().find(message), std::string::npos) << error.message();
  }
}

TEST(CustomPlan, damagedTextIsAPlanOrAnError) {
  const std::string original = planToJson(planOf(callOf("/lib/mine.so", "f")));
  std::mt19937 random(5);
  for (int round = tcc::test::mutationRounds(1000); round > 0; --round) {
    Expected<Plan> plan = planFromJson(tcc::test::mutated(original, random));
    EXPECT_TRUE(!plan || planFromJson(planToJson(*plan)));
  }
}

/// What a step with the function says, and the values of its state, which was 5 5 5.
std::pair<std::string, std::vector<float>> runWith(HostFunction function, bool checked) {
  Artefact artefact;
  artefact.targets.push_back({"cpu", {}, planOf(callOf("", "", addHostFunction(std::move(function)))), {}});
  auto executable = Executable::load(std::move(artefact), {.threads = 1, .checked = checked});
  if (!executable)
    return {executable.error().message(), {}};
  alignas(64) float in[3] = {1, 2, 3}, out[3] = {}, w[3] = {5, 5, 5};
  const ConstTensorRef input{in, sizeof in};
  const TensorRef output{out, sizeof out}, state{w, sizeof w};
  const Error error = (*executable)->run({&input, 1}, {&output, 1}, {&state, 1});
  return {error ? error.message() : "", {w, w + 3}};
}

TEST(CustomCall, runsAndFailsWithoutAnotherTrace) {
  auto doubles = [](const CustomArguments &call) {
    ASSERT_EQ(call.inputs(), 1U);
    ASSERT_EQ(call.outputShape(0)[0], 3);
    ASSERT_EQ(call.inputType(0), DType::f32);
    for (size_t i = 0; i < 3; ++i)
      call.output<float>(0)[i] = 2 * call.input<float>(0)[i];
  };
  const std::vector<float> kept = {5, 5, 5};
  for (bool checked : {false, true}) {
    EXPECT_EQ(runWith(doubles, checked), std::pair(std::string(), std::vector<float>{2, 4, 6}));
    const auto thrown = runWith([](const CustomArguments &) { throw std::runtime_error("out of ideas"); }, checked);
    EXPECT_NE(thrown.first.find("custom op `mine` threw: out of ideas"), std::string::npos) << thrown.first;
    EXPECT_EQ(thrown.second, kept);
    const auto missing = runWith([](const CustomArguments &call) { call.output<float>(1); }, checked);
    EXPECT_NE(missing.first.find("it asks for tensor 1 of 1"), std::string::npos) << missing.first;
  }
}

TEST(CustomCall, guardsFindWhatItTouches) {
  const std::pair<const char *, HostFunction> wrong[] = {
      {"writes out of bounds: 0 bytes after its end of result 0 (f32 [3])",
       [](const CustomArguments &call) { std::fill_n(call.output<float>(0).data(), 4, 1.0F); }},
      {"writes out of bounds: 1 bytes before its beginning of result 0 (f32 [3])",
       [](const CustomArguments &call) { std::fill_n(call.output<float>(0).data() - 1, 4, 1.0F); }},
      {"leaves result 0 (f32 [3]) unwritten at index [2]",
       [](const CustomArguments &call) { std::fill_n(call.output<float>(0).data(), 2, 1.0F); }},
      {"writes into operand 0 (f32 [3])", [](const CustomArguments &call) {
         std::fill_n(call.output<float>(0).data(), 3, 1.0F);
         const_cast<float *>(call.input<float>(0).data())[1] = 7;
       }}};
  for (const auto &[message, function] : wrong) {
    const auto [text, state] = runWith(function, true);
    EXPECT_NE(text.find(std::string("custom op `mine` ") + message), std::string::npos) << text;
    EXPECT_EQ(state, (std::vector<float>{5, 5, 5}));
  }
  // What looks like the poison and was written is right.
  const auto [text, state] = runWith(
      [](const CustomArguments &call) {
        for (float &value : call.output<float>(0))
          value = std::bit_cast<float>(0xFFFFFFFFU);
      },
      true);
  EXPECT_EQ(text, "");
}

TEST(CustomCall, whatCannotBeFoundIsOneMessage) {
  const std::pair<CustomCall, const char *> missing[] = {
      {callOf("/not/there.so", "f"), "custom op `mine` has its code in '/not/there.so', which is not there"},
      {callOf("/proc/self/status", "f"), "custom op `mine` cannot load its code: "},
      {callOf("", "", 1 << 20), "custom op `mine` is a function of another process"}};
  for (const auto &[call, message] : missing) {
    const auto found = CustomFunction::find(call);
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().message().find(message), std::string::npos) << found.error().message();
  }
}

} // namespace
} // namespace tcc::runtime
