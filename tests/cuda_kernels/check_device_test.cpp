// --check-device: compilers and libraries with a fault, planted in the stand-ins; the kernel is found, named with its
// source line, and both values are said. What is right, or off by rounding alone, passes.
#include "codegen/check_device.h"
#include "codegen/check_values.h"
#include "frontend/capture.h"
#include "frontend/diagnostics.h"
#include "frontend/graph_file.h"
#include "frontend/graph_values.h"
#include "runtime/device/cuda/step_device.h"
#include "tests/cuda_kernels/attention_sample.h"
#include "tests/cuda_machine/machine_test.h"
#include "tests/files.h"

namespace tcc {
namespace {

/// A fault as the stand-in for NVRTC plants it in a text, and what of the step is named.
struct Plant {
  const char *alter, *named;
};

class CheckDevice : public machine::MachineTest {
protected:
  void TearDown() override {
    unsetenv("TCC_CUDA_MACHINE_ALTER");
    MachineTest::TearDown();
  }

  /// A bigram model's training step: gather, rows of cross-entropy, sums, scatter-add, AdamW over segments, matmuls.
  static std::optional<DeviceCheck> check(std::string &error) {
    return check(test::readAll("models/train_step.graph"), "models/train_step.graph", error);
  }

  static std::optional<DeviceCheck> check(const std::string &text, const std::string &name, std::string &error) {
    std::string said;
    llvm::raw_string_ostream stream(said);
    DiagnosticPrinter printer(stream);
    mlir::MLIRContext &context = threadContext();
    auto module = parseGraph(text, name, context, printer);
    EXPECT_TRUE(module) << said;
    const std::map<std::string, ValueHint> hints = valueHints(functionOf(*module));
    auto device = runtime::cuda::openStepDevice();
    EXPECT_TRUE(device) << device.error().message();
    auto check = checkDevice(std::move(module), {}, *device, [&](const runtime::TensorSpec &spec, bool) {
      const auto hint = hints.find(spec.name);
      const Array array = randomArray(spec, hint == hints.end() ? ValueHint() : hint->second, 3, 1);
      return std::string(static_cast<const char *>(array.rawForReading()), static_cast<size_t>(array.bytes()));
    });
    error = check.error().message();
    return check ? std::optional(std::move(*check)) : std::nullopt;
  }

  static void expectFound(const Plant &plant, const std::string &text, const std::string &name,
                          std::initializer_list<const char *> words) {
    ASSERT_EQ(setenv("TCC_CUDA_MACHINE_ALTER", plant.alter, 1), 0);
    std::string error;
    const std::optional<DeviceCheck> found = check(text, name, error);
    ASSERT_TRUE(found) << plant.alter << ": " << error;
    for (const char *part : words)
      EXPECT_NE(found->difference.find(part), std::string::npos) << plant.alter << ": " << found->difference;
    EXPECT_NE(found->difference.find(plant.named), std::string::npos) << plant.alter << ": " << found->difference;
  }
};

TEST_F(CheckDevice, aDeviceThatIsRightPassesAlsoWithOtherRounding) {
  for (const char *settings : {"late", "early,shuffled,noise=2"}) {
    use(settings);
    std::string error;
    const std::optional<DeviceCheck> found = check(error);
    ASSERT_TRUE(found) << error;
    EXPECT_EQ(found->difference, "") << settings;
    EXPECT_GE(found->kernels, 5);
    EXPECT_EQ(found->products, 3);
    EXPECT_TRUE(found->unchecked.empty());
    EXPECT_NE(found->text("gpu").find("no value differs beyond rounding"), std::string::npos);
  }
}

TEST_F(CheckDevice, eachPlantedFaultIsFoundAndNamed) {
  const Plant plants[] = {
      {"k1_gather|< 256|< 10", "(models/train_step.graph:16)"},
      {"k5_scatter_add|next + thread_x() < 64|next + thread_x() < 63", "(models/train_step.graph:16)"},
      {"|= static_cast<float>(|= 2.0f * static_cast<float>(", "(models/train_step.graph:18)"},
      {"|exp_f32(|1.001f * exp_f32(", "(models/train_step.graph:18)"},
      {"|divide_f32(|1.0001f * divide_f32(", "(models/train_step.graph:18)"},
      {"|sqrt_f32(|0.5f * sqrt_f32(", "(models/train_step.graph:26)"},
  };
  use("late");
  for (const Plant &plant : plants)
    expectFound(plant, test::readAll("models/train_step.graph"), "models/train_step.graph",
                {"kernel `", " is ", " on cuda:0 (", " on the CPU, from the device's own operands"});
}

/// Attention and its gradient in bf16, packed and with fewer heads of the keys, a part of a tile at the end.
std::string attentionText(int64_t queries, int64_t keys) {
  return test::attentionGraph({"", "bf16", queries, keys, 2, 1, 64, queries == keys ? "diagonal 0 " : ""});
}

TEST_F(CheckDevice, attentionIsCheckedToo) {
  for (const char *settings : {"a100,late", "h200,late"})
    for (int64_t keys : {40, 70}) {
      use(settings);
      std::string error;
      const std::optional<DeviceCheck> found = check(attentionText(40, keys), "attention.graph", error);
      ASSERT_TRUE(found) << error;
      EXPECT_EQ(found->difference, "") << settings << ' ' << keys;
      EXPECT_TRUE(found->unchecked.empty()) << found->unchecked.front();
      EXPECT_GE(found->kernels, 2);
    }
}

TEST_F(CheckDevice, faultsPlantedInAttentionAreFoundAndNamed) {
  const Plant plants[] = {
      {"forward|at >= key_end(arguments, query)|at > key_end(arguments, query)", "flash_attention"},
      {"forward|float scaleLog2 = arguments.scale|float scaleLog2 = 1.25f * arguments.scale", "flash_attention"},
      {"backward|float scaleLog2 = arguments.scale|float scaleLog2 = 1.25f * arguments.scale", "backward"},
  };
  use("a100,late");
  for (const Plant &plant : plants)
    expectFound(plant, attentionText(40, 40), "attention.graph", {"of the op: value "});
}

// What a kernel rounds to 16 bits and then subtracts from may be off by one of these roundings, by no more.
TEST_F(CheckDevice, aRoundingInsideOfAKernelMayGoTheOtherWay) {
  const std::string text = R"(func.func @near(%x: tensor<512x256xf32>) -> (tensor<512x256xf32> {tcc.name = "y"}) {
  %e = tcc.exp %x : tensor<512x256xf32>
  %r = tcc.cast %e : tensor<512x256xf32> -> tensor<512x256xbf16>
  %s = tcc.cast %r : tensor<512x256xbf16> -> tensor<512x256xf32>
  %y = tcc.sub %s, %e : tensor<512x256xf32>
  func.return %y : tensor<512x256xf32>
}
)";
  use("early,shuffled,noise=2");
  std::string error;
  const std::optional<DeviceCheck> found = check(text, "near.graph", error);
  ASSERT_TRUE(found) << error;
  EXPECT_EQ(found->difference, "");
  expectFound({"|to_float(from|1.02f * to_float(from", "(near.graph:5)"}, text, "near.graph", {"rounding explains"});
}

TEST_F(CheckDevice, aKernelThatEndsTheDeviceIsNamed) {
  use("late,checked");
  setenv("TCC_CUDA_MACHINE_ALTER", "k1_gather|in1[r]|in1[r + 4096]", 1);
  std::string error;
  EXPECT_FALSE(check(error));
  EXPECT_NE(error.find("`rows` alone: "), std::string::npos) << error;
}

/// C [3, 4] = A [3, 5] B [5, 4].
TEST(CheckValues, productsAreComparedByWhatTheyAddUp) {
  constexpr int64_t m = 3, n = 4, k = 5;
  std::vector<float> a(m * k), b(k * n), c(m * n), swapped(m * n);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = 0.37f * static_cast<float>(i % 7) - 1;
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = 0.21f * static_cast<float>(i % 5) - 0.3f;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p) {
        c[i * n + j] += a[i * k + p] * b[p * n + j];
        swapped[i * n + j] += a[i * k + p] * b[(p * n + j + 1) % (k * n)];
      }
  const auto bytes = [](const std::vector<float> &values) {
    return std::string(reinterpret_cast<const char *>(values.data()), values.size() * 4);
  };
  runtime::GemmDesc desc;
  desc.m = m, desc.n = n, desc.k = k;
  desc.a = {.dtype = runtime::DType::f32, .rowStride = k};
  desc.b = desc.c = {.dtype = runtime::DType::f32, .rowStride = n};
  auto difference = compareProduct(desc, {bytes(a), bytes(b), "", bytes(c), bytes(c)});
  ASSERT_TRUE(difference) << difference.error().message();
  EXPECT_FALSE(*difference);
  difference = compareProduct(desc, {bytes(a), bytes(b), "", bytes(c), bytes(swapped)});
  ASSERT_TRUE(difference) << difference.error().message();
  EXPECT_TRUE(*difference);
  c[7] += 1e-4f;
  difference = compareProduct(desc, {bytes(a), bytes(b), "", bytes(c), bytes(c)});
  ASSERT_TRUE(difference) << difference.error().message();
  EXPECT_EQ(difference->index, 7);
}

/// C [1, 2] = A [1, 512] B [512, 2] of bf16, all of one sign, where the device cuts its sum off after each 8 terms.
TEST(CheckValues, sumsOfTensorCoresMayBeCutOff) {
  constexpr int64_t n = 2, k = 512;
  std::vector<uint16_t> a(k), b(k * n);
  float exact[n] = {}, cut[n] = {};
  for (int64_t j = 0; j < n; ++j)
    for (int64_t p = 0; p < k; ++p) {
      a[p] = runtime::floatToBf16(1 + static_cast<float>(p % 97) / 128);
      b[p * n + j] = runtime::floatToBf16(0.5f + static_cast<float>((3 * p + j) % 89) / 256);
      const float term = runtime::bf16ToFloat(a[p]) * runtime::bf16ToFloat(b[p * n + j]);
      exact[j] += term;
      cut[j] += term;
      for (int ulp = 0; ulp < (p % 8 == 7 ? 4 : 0); ++ulp)
        cut[j] = std::nextafter(cut[j], 0.0f);
    }
  const auto bytes = [](const auto &values) {
    return std::string(reinterpret_cast<const char *>(std::data(values)), std::size(values) * sizeof values[0]);
  };
  runtime::GemmDesc desc;
  desc.m = 1, desc.n = n, desc.k = k;
  desc.a = {.dtype = runtime::DType::bf16, .rowStride = k};
  desc.b = {.dtype = runtime::DType::bf16, .rowStride = n};
  desc.c = {.dtype = runtime::DType::f32, .rowStride = n};
  ASSERT_LT(cut[0], exact[0] * (1 - 100 * 0x1p-24));
  auto difference = compareProduct(desc, {bytes(a), bytes(b), "", bytes(exact), bytes(cut)});
  ASSERT_TRUE(difference) << difference.error().message();
  EXPECT_FALSE(*difference);
  cut[1] *= 1 - 1e-4f;
  difference = compareProduct(desc, {bytes(a), bytes(b), "", bytes(exact), bytes(cut)});
  ASSERT_TRUE(difference) << difference.error().message();
  EXPECT_EQ(difference->index, 1);
}

} // namespace
} // namespace tcc
