// What the emitter writes in another form where that is cheaper: reciprocals without a slow path, approximations where
// 16 bits are read, roundings that a store repeats, groups of a long row that a mask or a target does not touch. Each
// is held against arithmetic in double, or against the interpreter.
#include "codegen/cuda/kernel/rounding.h"
#include "mlir/Parser/Parser.h"
#include "tests/codegen/kernel_text.h"
#include "tests/cuda_kernels/emulated_kernels.h"
#include "tests/expect_text.h"
#include "tests/ops/op_table.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;

namespace tcc::test {
namespace {

std::optional<EmulatedKernel> kernelOf(MLIRContext &context, const KernelText &text) {
  std::string messages;
  OwningOpRef<ModuleOp> module = parseText(context, text.module(), messages);
  EXPECT_TRUE(module) << messages << text.module();
  if (!module)
    return std::nullopt;
  std::vector<EmulatedKernel> kernels = kernelsOf(*module, "form", 7);
  EXPECT_EQ(kernels.size(), 1u);
  return kernels.empty() ? std::nullopt : std::optional(std::move(kernels.front()));
}

/// The results in the emulator, where approximations are up to `noise` units in the last place off.
std::vector<RefTensor> resultsWithNoise(const std::string &text, const EmulatedKernel &kernel, int noise) {
  emulator::Schedule schedule;
  schedule.approximationNoise = noise;
  std::string findings;
  std::vector<RefTensor> results = runEmulated(emulator::Module::compile(text), kernel, schedule, findings);
  EXPECT_EQ(findings, "");
  return results;
}

/// All finite values of bf16, and values of f32 of every size and around 0, as many as `count`.
std::vector<double> manyNumbers(size_t count) {
  std::vector<double> numbers;
  for (uint32_t bits = 0; bits < 1u << 16; ++bits)
    if (const float number = std::bit_cast<float>(bits << 16); std::isfinite(number))
      numbers.push_back(number);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> near(-12, 12);
  while (numbers.size() < count) {
    const float any = std::bit_cast<float>(static_cast<uint32_t>(random()));
    numbers.push_back(numbers.size() % 4 != 0 || !std::isfinite(any) ? near(random) : any);
  }
  return numbers;
}

constexpr double geluLinear = 1.5957691216057308, geluCubic = 0.044715 * geluLinear;
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double gelu(double x) {
  return x * sigmoid(x * (geluLinear + geluCubic * x * x));
}
double geluSlope(double x) {
  if (std::fabs(x) > 30)
    return x > 0;
  const double s = sigmoid(x * (geluLinear + geluCubic * x * x));
  return s + x * (geluLinear + 3 * geluCubic * x * x) * s * (1 - s);
}

double silu(double x) {
  return x * sigmoid(x);
}
double siluSlope(double x) {
  return std::isinf(x) ? x > 0 : sigmoid(x) + x * sigmoid(x) * sigmoid(-x);
}
double sigmoidSlope(double x) {
  return sigmoid(x) * sigmoid(-x);
}

// The bounds that codegen/cuda/kernel/README.md states, with approximations up to two units off.
TEST(CudaForms, geluIsWithinItsBounds) {
  constexpr int64_t count = int64_t(1) << 18;
  const std::string type = std::to_string(count) + "xf32", tensor = "tensor<" + type + ">";
  auto context = makeContext();
  auto forward = kernelOf(*context, {{{"x", type}}, {{"r", type}}, "%r = tcc.gelu %x : " + tensor});
  auto backward =
      kernelOf(*context, {{{"x", type}, {"d", type}}, {{"r", type}}, "%r = tcc.gelu_gradient %x, %d : " + tensor});
  ASSERT_TRUE(forward && backward);
  const std::vector<double> numbers = manyNumbers(count);
  forward->inputs[0].data = backward->inputs[0].data = numbers;
  backward->inputs[1].data.assign(count, 1.0);
  for (int noise : {0, 2})
    for (EmulatedKernel *kernel : {&*forward, &*backward}) {
      const std::string text = cuda::kernelText(kernel->source);
      EXPECT_EQ(countOf(text, "reciprocal_f32("), 1u) << text;
      EXPECT_EQ(countOf(text, "divide_f32("), 0u) << text;
      const std::vector<RefTensor> results = resultsWithNoise(text, *kernel, noise);
      double worst = 0;
      for (size_t i = 0; i < numbers.size(); ++i) {
        const double x = numbers[i];
        const bool isForward = kernel == &*forward;
        const double exact = isForward ? gelu(x) : geluSlope(x);
        const double scale = isForward ? std::fabs(x) : 1;
        if (std::fabs(results[0].data[i] - exact) > 1e-44)
          worst = std::max(worst, std::fabs(results[0].data[i] - exact) / scale);
      }
      EXPECT_LT(worst, kernel == &*forward ? 4e-7 : 1e-6) << "noise " << noise;
      EXPECT_GT(worst, 1e-9); // it is f32, and compared
    }
}

/// Half the distance of neighbouring numbers of bf16 around x, but not less than around 2^-110: a sigmoid below 2^-126
/// may be 0, and x be some ten there.
double halfUlpOfBf16(double x) {
  return std::ldexp(1.0, std::max(std::ilogb(x), -110) - 8);
}

// Between casts to bf16 an approximated sigmoid is as good as rounding once, for each of the finite values: 1.01 of
// half a unit in the last place, where approximations are two units of f32 off.
TEST(CudaForms, aSigmoidThatIsRoundedTo16BitsIsApproximated) {
  constexpr int64_t count = int64_t(1) << 16;
  const std::string narrow = std::to_string(count) + "xbf16", wide = "tensor<" + std::to_string(count) + "xf32>";
  const std::string widened = "%w = tcc.cast %x : tensor<" + narrow + "> -> " + wide + "\n";
  const std::string rounded = "\n%r = tcc.cast %g : " + wide + " -> tensor<" + narrow + ">";
  auto context = makeContext();
  struct Case {
    std::string body;
    double (*exact)(double);
    double atLeast; // half a unit in the last place of this counts for smaller results
  };
  auto forward = [&](const std::string &op) { return widened + "%g = tcc." + op + " %w : " + wide + rounded; };
  auto backward = [&](const std::string &op) {
    return widened + "%o = tcc.constant dense<1.0> : " + wide + "\n%g = tcc." + op + "_gradient %w, %o : " + wide +
           rounded;
  };
  const Case cases[] = {{forward("gelu"), gelu, 0},       {backward("gelu"), geluSlope, 1e-3},
                        {forward("silu"), silu, 0},       {backward("silu"), siluSlope, 1e-3},
                        {forward("sigmoid"), sigmoid, 0}, {backward("sigmoid"), sigmoidSlope, 0}};
  for (const Case &each : cases) {
    auto kernel = kernelOf(*context, {{{"x", narrow}}, {{"r", narrow}}, each.body});
    ASSERT_TRUE(kernel);
    const std::string text = cuda::kernelText(kernel->source);
    EXPECT_GT(countOf(text, "near_sigmoid_f32("), 0u) << text;
    EXPECT_EQ(countOf(text, "exp_f32("), 0u) << text;
    const std::string steady = cuda::kernelText(kernel->source, true);
    EXPECT_EQ(countOf(steady, "near_"), 0u) << steady;
    EXPECT_GT(countOf(steady, "exp_f32("), 0u) << steady;
    kernel->inputs[0].data = manyNumbers(0);
    kernel->inputs[0].data.resize(count);
    for (int noise : {0, 2}) {
      const std::vector<RefTensor> results = resultsWithNoise(text, *kernel, noise);
      double worst = 0;
      for (size_t i = 0; i < count; ++i) {
        const double x = kernel->inputs[0].data[i], exact = each.exact(x);
        const double error = std::fabs(results[0].data[i] - exact);
        worst = std::max(worst, error / halfUlpOfBf16(std::max(std::fabs(exact), each.atLeast)));
      }
      EXPECT_LT(worst, 1.01) << "noise " << noise << "\n" << text;
      EXPECT_GT(worst, 0.9); // it is bf16, and compared
    }
  }
  auto read = kernelOf(*context, {{{"x", narrow}},
                                  {{"r", narrow}, {"g", std::to_string(count) + "xf32"}},
                                  widened + "%g = tcc.gelu %w : " + wide + rounded});
  ASSERT_TRUE(read);
  EXPECT_EQ(countOf(cuda::kernelText(read->source), "near_sigmoid_f32("), 0u); // f32 is stored too
}

// e^(x - m) of 16 bits below the row's maximum m has the bound that near_exp_f32 states; of 32 bits it is exp_f32.
TEST(CudaForms, anExponentialBelowTheMaximumIsApproximated) {
  auto context = makeContext();
  for (const char *type : {"bf16", "f16", "f32"}) {
    const std::string x = std::string("3x9000x") + type, wide = "tensor<3x9000xf32>", row = "tensor<3x1xf32>";
    auto kernel = kernelOf(*context, {{{"x", x}},
                                      {{"r", "3x9000xf32"}},
                                      "%w = tcc.cast %x : tensor<" + x + "> -> " + wide +
                                          "\n%m = tcc.reduce_max %w axes [1] : " + wide + " -> " + row +
                                          "\n%b = tcc.broadcast %m : " + row + " -> " + wide +
                                          "\n%d = tcc.sub %w, %b : " + wide + "\n%r = tcc.exp %d : " + wide});
    ASSERT_TRUE(kernel);
    const std::string text = cuda::kernelText(kernel->source);
    const bool isNarrow = type != std::string("f32");
    EXPECT_EQ(countOf(text, "near_exp_f32(") > 0, isNarrow) << text;
    EXPECT_EQ(countOf(text, "= exp_f32(") > 0, !isNarrow) << text;
    const std::string steady = cuda::kernelText(kernel->source, true);
    EXPECT_EQ(countOf(steady, "near_"), 0u) << steady;
    EXPECT_GT(countOf(steady, "= exp_f32("), 0u) << steady;
    std::vector<double> &data = kernel->inputs[0].data;
    for (double &number : data)
      number *= 16; // from -32 to 32, in steps of 16 bits as before
    for (int noise : {0, 2}) {
      const std::vector<RefTensor> results = resultsWithNoise(text, *kernel, noise);
      double worst = 0;
      for (size_t i = 0; i < data.size(); ++i) {
        const auto first = data.begin() + static_cast<std::ptrdiff_t>(i / 9000 * 9000);
        const double below = data[i] - *std::max_element(first, first + 9000), exact = std::exp(below);
        worst = std::max(worst, std::fabs(results[0].data[i] / exact - 1) / (0x1p-21 - below * 0x1p-23));
      }
      EXPECT_LT(worst, 1) << type << ", noise " << noise;
      EXPECT_GT(worst, 0.01); // it is f32, and compared
    }
  }
}

// The quotient by a divisor that may be anything stays correctly rounded.
TEST(CudaForms, onlyKnownDivisorsHaveNoSlowPath) {
  auto context = makeContext();
  const std::string one = "%o = tcc.constant dense<1.0> : tensor<64xf32>\n";
  auto text = [&](const std::string &body) {
    auto kernel = kernelOf(*context, {{{"x", "64xf32"}}, {{"r", "64xf32"}}, one + body});
    return kernel ? cuda::kernelText(kernel->source) : std::string();
  };
  EXPECT_EQ(countOf(text("%r = tcc.div %o, %x : tensor<64xf32>"), "divide_f32("), 1u);
  EXPECT_EQ(countOf(text("%e = tcc.exp %x : tensor<64xf32>\n%s = tcc.add %e, %o : tensor<64xf32>\n"
                         "%r = tcc.div %o, %s : tensor<64xf32>"),
                    "divide_f32("),
            1u); // e^x may be infinite
}

// A mask of padding and a target, as cross-entropy has them, in a row of so many groups that they are decided once a
// group: the mask ends within the first group, within another, with one, at the row's end.
TEST(CudaForms, aLongRowIsThatOfTheInterpreter) {
  auto context = makeContext();
  std::vector<EmulatedKernel> kernels;
  for (int valid : {3, 17003, 17008, 20008})
    for (const char *compared : {"lt %i, %n", "gt %n, %i"}) {
      const std::string x = "4x20008xbf16", wide = "tensor<4x20008xf32>", many = "tensor<4x20008xi32>";
      const std::string truth = "tensor<4x20008xi1>", row = "tensor<4x1xf32>";
      KernelText text = {
          {{"x", x}, {"t", "4x1xi32"}},
          {{"r", "4x1xf32"}, {"y", x}},
          "%i = tcc.iota dim 1 -> " + many + "\n%n = tcc.constant dense<" + std::to_string(valid) + "> : " + many +
              "\n%m = tcc.compare " + compared + " : " + many + " -> " + truth +
              "\n%b = tcc.broadcast %t : tensor<4x1xi32> -> " + many + "\n%h = tcc.compare eq %i, %b : " + many +
              " -> " + truth + "\n%w = tcc.cast %x : tensor<" + x + "> -> " + wide +
              "\n%l = tcc.constant dense<-9.0> : " + wide + "\n%s = tcc.select %m, %w, %l : " + truth + ", " + wide +
              "\n%a = tcc.reduce_max %s axes [1] : " + wide + " -> " + row + "\n%c = tcc.broadcast %a : " + row +
              " -> " + wide + "\n%d = tcc.sub %w, %c : " + wide + "\n%p = tcc.select %h, %d, %l : " + truth + ", " +
              wide + "\n%r = tcc.reduce_max %p axes [1] : " + wide + " -> " + row +
              "\n%q = tcc.select %h, %l, %d : " + truth + ", " + wide + "\n%z = tcc.cast %q : " + wide + " -> tensor<" +
              x + ">\n%k = tcc.constant dense<0.0> : tensor<" + x + ">\n%y = tcc.select %m, %z, %k : " + truth +
              ", tensor<" + x + ">"};
      auto kernel = kernelOf(*context, text);
      ASSERT_TRUE(kernel);
      kernel->source.symbol += "_" + std::to_string(kernels.size());
      kernel->inputs[1].data = {0, 16999, 17007, 20007};
      const std::string made = cuda::kernelText(kernel->source);
      EXPECT_GT(countOf(made, "else {"), 1u) << made;
      EXPECT_GT(countOf(made, "= false;"), 0u) << made;
      kernels.push_back(std::move(*kernel));
    }
  checkKernels(kernels, emulator::testSchedules());
}

// Values that stores alone read are rounded by them; one that a sum reads too is rounded where it stands.
TEST(CudaForms, valuesAreRoundedOnce) {
  auto context = makeContext();
  const std::string body = "%a = tcc.add %x, %x : tensor<8x64xbf16>\n%n = tcc.neg %a : tensor<8x64xbf16>\n"
                           "%m = tcc.compare lt %x, %n : tensor<8x64xbf16> -> tensor<8x64xi1>\n"
                           "%r = tcc.select %m, %n, %x : tensor<8x64xi1>, tensor<8x64xbf16>";
  auto kernel = kernelOf(*context, {{{"x", "8x64xbf16"}}, {{"r", "8x64xbf16"}}, body});
  ASSERT_TRUE(kernel);
  const KernelInfo &form = kernel->source.form;
  const std::vector<bool> unrounded = cuda::roundedWhenStored(form);
  std::vector<unsigned> found;
  for (size_t i = 0; i < unrounded.size(); ++i)
    if (unrounded[i])
      found.push_back(static_cast<unsigned>(i));
  EXPECT_EQ(found, std::vector<unsigned>{form.stores[0].node}); // %n is compared, %a is negated: both are rounded
  std::vector<EmulatedKernel> kernels;
  kernels.push_back(std::move(*kernel));
  checkKernels(kernels, emulator::testSchedules());
}

} // namespace
} // namespace tcc::test
