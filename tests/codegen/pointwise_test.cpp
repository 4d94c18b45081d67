// Elementwise kernels: every size of tail, every element type, broadcasts, special values, buffers in common.
#include "kernel_runner.h"
#include <cmath>
#include <limits>

using namespace tcc;
using namespace tcc::test;

namespace {

KernelText unary(const std::string &op, const std::string &type) {
  return {{{"x", type}}, {{"y", type}}, "%y = tcc." + op + " %x : tensor<" + type + ">"};
}

/// A kernel's results on given values of its one input, natively compiled.
std::vector<double> evaluate(const KernelText &text, const cpu::Target &target, const std::vector<double> &values) {
  cpu::EmitOptions options;
  options.target = target;
  LoadedKernel kernel(text, options);
  EXPECT_EQ(kernel.error, "");
  if (!kernel.error.empty())
    return {};
  std::vector<RefTensor> inputs = kernel.randomInputs();
  inputs[0].data = values;
  return kernel.run(inputs)[0].data;
}

TEST(CpuPointwise, EveryTail) {
  for (int64_t size : {0, 1, 7, 15, 16, 17, 63, 64, 65, 200, 1024, 2500}) {
    std::string type = std::to_string(size) + "xf32";
    std::string t = " : tensor<" + type + ">";
    expectLikeInterpreter(
        {{{"x", type}, {"y", type}}, {{"z", type}}, "%a = tcc.mul %x, %y" + t + "\n%z = tcc.add %a, %x" + t});
  }
}

TEST(CpuPointwise, BiasAndGelu) {
  expectLikeInterpreter({{{"x", "9x96xf32"}, {"bias", "96xf32"}}, {{"y", "9x96xf32"}}, R"(
    %b = tcc.broadcast %bias : tensor<96xf32> -> tensor<9x96xf32>
    %s = tcc.add %x, %b : tensor<9x96xf32>
    %s2 = tcc.mul %s, %s : tensor<9x96xf32>
    %s3 = tcc.mul %s2, %s : tensor<9x96xf32>
    %c = tcc.constant dense<0.044715> : tensor<9x96xf32>
    %k = tcc.constant dense<0.7978846> : tensor<9x96xf32>
    %half = tcc.constant dense<0.5> : tensor<9x96xf32>
    %one = tcc.constant dense<1.0> : tensor<9x96xf32>
    %i0 = tcc.mul %s3, %c : tensor<9x96xf32>
    %i1 = tcc.add %s, %i0 : tensor<9x96xf32>
    %i2 = tcc.mul %i1, %k : tensor<9x96xf32>
    %t = tcc.tanh %i2 : tensor<9x96xf32>
    %t1 = tcc.add %t, %one : tensor<9x96xf32>
    %h = tcc.mul %s, %half : tensor<9x96xf32>
    %y = tcc.mul %h, %t1 : tensor<9x96xf32>)"});
}

TEST(CpuPointwise, Bfloat16RoundsWhereTheGraphDoes) {
  for (const char *size : {"1", "17", "200"}) {
    std::string b = std::string(size) + "xbf16", f = std::string(size) + "xf32";
    expectLikeInterpreter({{{"x", b}, {"y", b}},
                           {{"z", b}, {"w", f}},
                           "%p = tcc.mul %x, %y : tensor<" + b + ">\n%z = tcc.add %p, %x : tensor<" + b +
                               ">\n%w = tcc.cast %p : tensor<" + b + "> -> tensor<" + f + ">"});
  }
}

TEST(CpuPointwise, Bfloat16RoundingIsToNearestEven) {
  KernelText text{{{"x", "8xf32"}}, {{"y", "8xbf16"}}, "%y = tcc.cast %x : tensor<8xf32> -> tensor<8xbf16>"};
  double ulp = std::ldexp(1, -7);
  std::vector<double> values = {1 + ulp / 2,  1 + 1.5 * ulp, 1 + 0.51 * ulp,
                                -1 - ulp / 2, 3.4e38,        std::numeric_limits<double>::infinity(),
                                NAN,          -0.0};
  for (const cpu::Target &target : runnableTargets()) {
    std::vector<double> y = evaluate(text, target, values);
    EXPECT_EQ(y[0], 1);
    EXPECT_EQ(y[1], 1 + 2 * ulp);
    EXPECT_EQ(y[2], 1 + ulp);
    EXPECT_EQ(y[3], -1);
    EXPECT_EQ(y[4], std::numeric_limits<double>::infinity());
    EXPECT_EQ(y[5], std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan(y[6]));
    EXPECT_TRUE(y[7] == 0 && std::signbit(y[7]));
  }
}

TEST(CpuPointwise, HalfPrecision) {
  KernelText text{{{"x", "37xf16"}, {"y", "37xf16"}}, {{"z", "37xf16"}}, R"(
    %p = tcc.mul %x, %y : tensor<37xf16>
    %z = tcc.add %p, %x : tensor<37xf16>)"};
  for (const cpu::Target &target : runnableTargets()) {
    cpu::EmitOptions options;
    options.target = target;
    LoadedKernel kernel(text, options);
    if (target.cpu == "x86-64") { // without F16C a conversion would be a call
      EXPECT_NE(kernel.error.find("F16C"), std::string::npos) << kernel.error;
      continue;
    }
    ASSERT_EQ(kernel.error, "");
    std::vector<RefTensor> inputs = kernel.randomInputs();
    std::string error;
    auto expected = interpret(kernel.function, inputs, RefMode::rounding, error);
    ASSERT_TRUE(succeeded(expected)) << error;
    EXPECT_EQ(kernel.run(inputs)[0].data, (*expected)[0].data);
  }
}

TEST(CpuPointwise, BooleansAreBytes) {
  expectLikeInterpreter({{{"x", "37xf32"}, {"y", "37xf32"}, {"m", "37xi1"}}, {{"z", "37xf32"}, {"o", "37xi1"}}, R"(
    %c = tcc.compare lt %x, %y : tensor<37xf32> -> tensor<37xi1>
    %a = tcc.and %c, %m : tensor<37xi1>
    %o = tcc.not %a : tensor<37xi1>
    %z = tcc.select %a, %x, %y : tensor<37xi1>, tensor<37xf32>)"});
}

TEST(CpuPointwise, Integers) {
  expectLikeInterpreter({{{"x", "50xi32"}, {"y", "50xi64"}}, {{"a", "50xi32"}, {"b", "50xi64"}, {"f", "50xf32"}}, R"(
    %a = tcc.mul %x, %x : tensor<50xi32>
    %w = tcc.cast %x : tensor<50xi32> -> tensor<50xi64>
    %b = tcc.add %w, %y : tensor<50xi64>
    %f = tcc.cast %b : tensor<50xi64> -> tensor<50xf32>)"});
}

TEST(CpuPointwise, ScalarsAreReadOnce) {
  expectLikeInterpreter({{{"x", "3x40xf32"}, {"lr", "f32"}}, {{"y", "3x40xf32"}}, R"(
    %e = tcc.exp %lr : tensor<f32>
    %b = tcc.broadcast %e : tensor<f32> -> tensor<3x40xf32>
    %y = tcc.mul %x, %b : tensor<3x40xf32>)"});
  expectLikeInterpreter({{{"a", "f32"}, {"b", "f32"}}, {{"y", "f32"}}, "%y = tcc.div %a, %b : tensor<f32>"});
}

/// Runs with results in buffers of their own, and with result i in the buffer of input shared[i].
void expectSameInPlace(const KernelText &text, const std::vector<int> &shared) {
  cpu::EmitOptions options;
  LoadedKernel kernel(text, options);
  ASSERT_EQ(kernel.error, "");
  for (size_t i = 0; i < shared.size(); ++i)
    EXPECT_TRUE(shared[i] < 0 || mayShareBuffer(kernel.info, i, shared[i]));
  std::vector<RefTensor> inputs = kernel.randomInputs();
  std::vector<RefTensor> apart = kernel.run(inputs), together = kernel.run(inputs, 0, false, shared);
  for (size_t i = 0; i < apart.size(); ++i)
    EXPECT_EQ(apart[i].data, together[i].data) << "result " << i;
}

TEST(CpuPointwise, ResultInAnInputsBuffer) {
  std::string t = " : tensor<300xf32>";
  KernelText text{{{"p", "300xf32"}, {"g", "300xf32"}},
                  {{"q", "300xf32"}, {"h", "300xf32"}},
                  "%q = tcc.sub %p, %g" + t + "\n%h = tcc.mul %p, %g" + t};
  expectSameInPlace(text, {0, 1});
  // The first result overwrites what only the second one reads.
  text.body = "%q = tcc.neg %g" + t + "\n%h = tcc.exp %p" + t;
  expectSameInPlace(text, {0, -1});
}

/// Largest error in ulps of `op` over a range, against the function in double precision.
double worstUlps(const std::string &op, const cpu::Target &target, double (*exact)(double), double low, double high) {
  constexpr int count = 20000;
  std::vector<double> values;
  for (int i = 0; i < count; ++i)
    values.push_back(static_cast<float>(low + (high - low) * i / (count - 1)));
  std::vector<double> results = evaluate(unary(op, std::to_string(count) + "xf32"), target, values);
  double worst = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    double wanted = exact(values[i]);
    int exponent;
    std::frexp(wanted, &exponent);
    double ulp = std::ldexp(1.0, std::max(exponent, -125) - 24);
    worst = std::max(worst, std::abs(results[i] - wanted) / ulp);
  }
  return worst;
}

TEST(CpuMath, ErrorsInUlps) {
  for (const cpu::Target &target : runnableTargets()) {
    SCOPED_TRACE(target.cpu);
    EXPECT_LE(worstUlps("exp", target, std::exp, -103, 88.7), 2);
    EXPECT_LE(worstUlps("exp", target, std::exp, -1, 1), 2);
    EXPECT_LE(worstUlps("log", target, std::log, 1e-38, 10), 2);
    EXPECT_LE(worstUlps("log", target, std::log, 0.5, 2), 2);
    EXPECT_LE(worstUlps("log", target, std::log, 1e-44, 1e-38), 2);
    EXPECT_LE(worstUlps("tanh", target, std::tanh, -10, 10), 4);
    EXPECT_LE(worstUlps("tanh", target, std::tanh, -0.7, 0.7), 4);
    EXPECT_LE(worstUlps("erf", target, std::erf, -5, 5), 4);
    EXPECT_LE(worstUlps("sin", target, std::sin, -1000, 1000), 2);
    EXPECT_LE(worstUlps("cos", target, std::cos, -1e6, 1e6), 2);
    EXPECT_LE(worstUlps("rsqrt", target, [](double x) { return 1 / std::sqrt(x); }, 1e-3, 1e3), 2);
  }
}

TEST(CpuMath, SpecialValues) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> values = {infinity, -infinity, NAN, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, 200, -200};
  std::string type = std::to_string(values.size()) + "xf32";
  std::pair<const char *, double (*)(double)> functions[] = {
      {"exp", std::exp}, {"log", std::log}, {"tanh", std::tanh}, {"erf", std::erf}, {"sqrt", std::sqrt}};
  for (const cpu::Target &target : runnableTargets())
    for (auto [op, exact] : functions) {
      std::vector<double> results = evaluate(unary(op, type), target, values);
      for (size_t i = 0; i < results.size(); ++i) {
        double wanted = static_cast<float>(exact(static_cast<float>(values[i])));
        if (std::isnan(wanted))
          EXPECT_TRUE(std::isnan(results[i])) << op << " " << values[i] << " gave " << results[i];
        else if (std::isinf(wanted) || wanted == 0)
          EXPECT_EQ(results[i], wanted) << op << " " << values[i];
        else
          EXPECT_NEAR(results[i], wanted, std::abs(wanted) * 1e-6) << op << " " << values[i];
      }
    }
}

} // namespace
