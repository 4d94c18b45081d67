// CUDA text of users: in the emulator as ours is, in a whole step on the machine of stand-ins, and through NVRTC where
// that is there.
#include "codegen/cuda/device/device_text.h"
#include "frontend/custom_instance.h"
#include "frontend/trace.h"
#include "models/custom_cuda.h"
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/device/cuda/step_device.h"
#include "runtime/executable.h"
#include "runtime/plan.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_machine/machine_test.h"
#include "tests/cuda_runtime/opened_nvrtc.h"
#include "tests/frontend/quiet_functions.h"
#include <cstring>
#include <gtest/gtest.h>

namespace tcc {
namespace {

/// The op's text and launch for operands of these types.
CustomInstance instanceOf(const Custom &op, const std::vector<ValueType> &types) {
  Tracer tracer;
  const std::vector<std::string> names = {"a", "b"};
  const Recorded recorded = tracer.record([&](std::span<const Tensor> operands) { return op.call(operands); }, types,
                                          std::span(names).first(types.size()));
  return customInstance(recorded.record->words[recorded.record->ops.back().words]);
}

struct TextRun {
  std::vector<float> result;
  std::string findings;
};

/// scale_rows, or a text in its place, of [5, 70].
TextRun runText(const std::string &text, const CustomInstance &made, const emulator::Schedule &schedule) {
  constexpr int64_t rows = 5, columns = 70;
  const emulator::Module module = emulator::Module::compile(text);
  emulator::DeviceBuffer x(rows * columns * 4, "x"), factors(rows * 4, "factors"), out(rows * columns * 4, "out");
  out.writeOnce(4);
  for (int64_t i = 0; i < rows * columns; ++i)
    static_cast<float *>(x.data())[i] = static_cast<float>(i) * 0.25F;
  for (int64_t i = 0; i < rows; ++i)
    static_cast<float *>(factors.data())[i] = static_cast<float>(i) - 2;
  const emulator::LaunchResult result =
      launch(module, made.kernelName, {static_cast<unsigned>(made.grid[0])}, {static_cast<unsigned>(made.block[0])},
             static_cast<size_t>(made.sharedBytes), schedule, static_cast<const float *>(x.data()),
             static_cast<const float *>(factors.data()), static_cast<float *>(out.data()),
             static_cast<long long>(made.kernelArguments.at(0)));
  const float *values = static_cast<const float *>(out.data());
  return {{values, values + rows * columns}, result.text()};
}

const std::vector<ValueType> types = {{DType::f32, {5, 70}}, {DType::f32, {5}}};

TEST(CustomCuda, runsInTheEmulatorUnderEverySchedule) {
  const CustomInstance made = instanceOf(models::scaleRows(), types);
  ASSERT_EQ(made.grid[0], 5);
  for (const emulator::Schedule &schedule : emulator::testSchedules()) {
    const TextRun run = runText(made.kernelText, made, schedule);
    EXPECT_EQ(run.findings, "");
    for (int64_t i = 0; i < 350; ++i)
      ASSERT_EQ(run.result[static_cast<size_t>(i)], static_cast<float>(i) * 0.25F * static_cast<float>(i / 70 - 2))
          << i;
  }
}

TEST(CustomCuda, itsMistakesAreFindings) {
  const CustomInstance made = instanceOf(models::scaleRows(), types);
  emulator::Schedule checked;
  checked.checkAccesses = true;
  auto findings = [&](const std::string &body) {
    return runText("KERNEL(scale_rows, 128, 1)(const float *RESTRICT x, const float *RESTRICT factors, float *RESTRICT "
                   "out, i64 columns) {\n" +
                       body + "}\n",
                   made, checked)
        .findings;
  };
  EXPECT_NE(findings("  for (i64 c = thread_x(); c <= columns; c += block_size())\n"
                     "    out[block_x() * columns + c] = x[block_x() * columns + c] * factors[block_x()];\n")
                .find("kernel.cu:3"),
            std::string::npos);
  const std::string race = findings("  SHARED(float, factor, 1);\n"
                                    "  if (thread_x() == 0)\n"
                                    "    factor[0] = factors[block_x()];\n"
                                    "  for (i64 c = thread_x(); c < columns; c += block_size())\n"
                                    "    out[block_x() * columns + c] = x[block_x() * columns + c] * factor[0];\n");
  EXPECT_NE(race.find("race"), std::string::npos) << race;
}

TEST(CustomCuda, compilesForEveryArchitecture) {
  auto nvrtc = test::openedNvrtc();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.error().message();
  const CustomInstance made = instanceOf(models::scaleRows(), types);
  int tried = 0;
  for (const char *architecture : {"sm_80", "sm_90a", "sm_100a"})
    if (nvrtc->supports(architecture)) {
      const std::vector<runtime::cuda::CompileRequest> requests = {
          {"custom.cu", cuda::deviceText(cuda::preludeOf(made.kernelText)) + made.kernelText, architecture, {}, false}};
      const auto results = nvrtc->compileAll(requests);
      EXPECT_EQ(results[0].error, "") << results[0].log;
      EXPECT_EQ(runtime::cuda::ptxasFindings(results[0].report), "") << architecture;
      ++tried;
    }
  EXPECT_GT(tried, 0);
}

class CustomCudaStep : public machine::MachineTest {};

/// Loss and gradients of a step with the op, on a device; null: the CPU, where the op is its body.
std::vector<float> step(std::shared_ptr<runtime::Device> device) {
  FunctionOptions options = quiet();
  const bool onGpu = device != nullptr;
  options.device = std::move(device);
  const Custom op = models::scaleRows();
  Function function = compile(
      "step",
      [&](const Tensor &x, const Tensor &factors) {
        const Tensor loss = sum(tanh(op(x * 0.5, factors + 1.0)));
        const std::vector<Tensor> wrt = {x, factors};
        std::vector<Tensor> results = gradient(loss, wrt);
        results.push_back(loss);
        return results;
      },
      std::move(options));
  std::vector<float> values;
  for (const Array &result : function(sequence({6, 40}, -1, 0.01F), sequence({6}, 0, 0.3F)))
    values.insert(values.end(), result.read<float>().begin(), result.read<float>().end());
  bool launched = false;
  for (const runtime::Instruction &instruction : function.executable()->plan().instructions)
    launched |= instruction.label.find("scale_rows") != std::string::npos &&
                std::holds_alternative<runtime::LaunchCall>(instruction.call);
  EXPECT_EQ(launched, onGpu);
  return values;
}

TEST_F(CustomCudaStep, isLaunchedInAStep) {
  const std::vector<float> wanted = step(nullptr);
  use("late,checked");
  auto device = runtime::cuda::openStepDevice({});
  ASSERT_TRUE(device) << device.error().message();
  const std::vector<float> seen = step(std::move(*device));
  ASSERT_EQ(seen.size(), wanted.size());
  for (size_t i = 0; i < seen.size(); ++i)
    EXPECT_NEAR(seen[i], wanted[i], 1e-5 * std::abs(wanted[i]) + 1e-6) << i;
}

TEST_F(CustomCudaStep, isCheckedAgainstItsBodyOnTheDevice) {
  use("late,checked");
  auto device = runtime::cuda::openStepDevice({});
  ASSERT_TRUE(device) << device.error().message();
  FunctionOptions options = quiet();
  options.device = *device;
  const Custom halves =
      customOp({.name = "halves",
                .body = [](const Tensor &x) { return x * 0.5; },
                .cuda = {.text = "KERNEL(halves, 256, 1)(const float *RESTRICT x, float *RESTRICT y) {\n"
                                 "  i64 i = block_x() * 256 + thread_x();\n"
                                 "  if (i < 300)\n"
                                 "    y[i] = x[i] * (i == 270 ? 0.25f : 0.5f);\n"
                                 "}\n",
                         .kernel = "halves"}});
  Function function = compile("f", [&](const Tensor &x) { return halves(x); }, std::move(options));
  try {
    function(sequence({3, 100}, 1, 1));
    ADD_FAILURE() << "no error";
  } catch (const Error &error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("custom op 'halves' is not what its reference says: result 0 at index [2, 70] is "),
              std::string::npos)
        << text;
  }
}

} // namespace
} // namespace tcc
