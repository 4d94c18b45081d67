// Elementwise kernels: every size of tail, every element type, broadcasts, special values, buffers in common.
#include "kernel_runner.h"
#include "runtime/dtype.h"
#include "tests/floats.h"
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

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
    ASSERT_EQ(kernel.error, "");
    std::vector<RefTensor> inputs = kernel.randomInputs();
    auto expected = interpret(kernel.function, inputs, RefMode::rounding);
    ASSERT_TRUE(expected) << expected.error().message();
    EXPECT_EQ(kernel.run(inputs)[0].data, (*expected)[0].data);
  }
}

/// Every f16 as an f32, and what lies at and around the middle of two neighbours; with F16C and without.
TEST(CpuPointwise, HalfConversions) {
  std::vector<double> halves, wide, rounded;
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    halves.push_back(runtime::f16ToFloat(half));
    const double next = bits == 0x7bff ? 65536 : runtime::f16ToFloat(static_cast<uint16_t>(half + 1));
    const auto middle = static_cast<float>((halves.back() + next) / 2);
    for (float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)})
      for (float sign : {1.0f, -1.0f}) {
        wide.push_back(sign * x);
        rounded.push_back(runtime::f16ToFloat(runtime::floatToF16(sign * x)));
      }
  }
  const double infinity = std::numeric_limits<double>::infinity();
  for (double x : {0.0, -0.0, infinity, -infinity, 3e38, -1e-40}) {
    wide.push_back(x);
    rounded.push_back(std::isinf(x) || x > 1 ? std::copysign(infinity, x) : std::copysign(0.0, x));
  }
  halves.insert(halves.end(), {-0.0, infinity, -infinity, -65504, -0x1p-24});
  auto cast = [](size_t count, const std::string &from, const std::string &to) {
    const std::string n = std::to_string(count), x = n + "x" + from, y = n + "x" + to;
    return KernelText{{{"x", x}}, {{"y", y}}, "%y = tcc.cast %x : tensor<" + x + "> -> tensor<" + y + ">"};
  };
  for (const cpu::Target &target : runnableTargets()) {
    EXPECT_EQ(evaluate(cast(halves.size(), "f16", "f32"), target, halves), halves) << target.cpu;
    const std::vector<double> found = evaluate(cast(wide.size(), "f32", "f16"), target, wide);
    EXPECT_EQ(found, rounded) << target.cpu;
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(std::signbit(found[i]), std::signbit(rounded[i])) << wide[i];
    for (auto [from, to] : {std::pair{"f16", "f32"}, {"f32", "f16"}})
      EXPECT_TRUE(std::isnan(evaluate(cast(5, from, to), target, {1, 2, NAN, 3, 4})[2]));
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
  // A literal that overwrites what a long computation reads last, in loops of several vectors side by side.
  text.body = "%q = tcc.constant dense<0.5>" + t + "\n%e = tcc.exp %g" + t + "\n%h = tcc.mul %e, %p" + t;
  expectSameInPlace(text, {0, -1});
}

//===- errors ----------------------------------------------------------------------------------------------------===//

struct Function {
  const char *op;
  double (*exact)(double);
  double bound; // in units in the last place, over all floats
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double gelu(double x) {
  return x * sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
}

double softplus(double x) {
  return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

/// The bounds that docs/LANGUAGE.md states. Those of silu and gelu are the tail's: a sigmoid that is a denormal, and an
/// exponential of up to 88 whose argument was rounded.
const Function functions[] = {{"exp", std::exp, 1.5},
                              {"log", std::log, 1.5},
                              {"tanh", std::tanh, 3},
                              {"erf", std::erf, 2},
                              {"sin", std::sin, 1.6},
                              {"cos", std::cos, 1.6},
                              {"expm1", std::expm1, 2},
                              {"log1p", std::log1p, 2},
                              {"floor", std::floor, 0.5},
                              {"ceil", std::ceil, 0.5},
                              {"round", std::nearbyint, 0.5},
                              {"trunc", std::trunc, 0.5},
                              {"sqrt", [](double x) { return std::sqrt(x); }, 0.5},
                              {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1.5},
                              {"sigmoid", sigmoid, 3},
                              {"silu", [](double x) { return x * sigmoid(x); }, 60},
                              {"gelu", gelu, 200},
                              {"softplus", softplus, 4}};

/// The largest error in ulps of the exact result, and where it is.
std::pair<double, double> worstUlps(const Function &function, const cpu::Target &target,
                                    const std::vector<double> &values) {
  std::vector<double> results = evaluate(unary(function.op, std::to_string(values.size()) + "xf32"), target, values);
  double worst = 0, where = 0;
  for (auto [value, result] : llvm::zip_equal(values, results)) {
    double wanted = function.exact(value);
    bool same = std::isnan(wanted) ? std::isnan(result) : static_cast<double>(static_cast<float>(wanted)) == result;
    if (same)
      wanted = result = 0; // exact, rounded correctly, or infinite on both sides: half a unit at most
    int exponent;
    std::frexp(std::min(std::abs(wanted), 3.4e38), &exponent);
    double error = same ? 0.5 : std::abs(result - wanted) / std::ldexp(1.0, std::max(exponent, -125) - 24);
    if (!(error <= worst)) {
      worst = error;
      where = value;
    }
  }
  return {worst, where};
}

TEST(CpuMath, ErrorsOverAllFloats) {
  std::vector<double> values = floatsOfAllSizes();
  for (const cpu::Target &target : runnableTargets())
    for (const Function &function : functions) {
      auto [worst, where] = worstUlps(function, target, values);
      EXPECT_LE(worst, function.bound) << function.op << " of " << where << " on " << target.cpu;
      RecordProperty(std::string(function.op) + "_" + target.cpu, std::to_string(worst));
      std::printf("%-6s %-10s %.2f ulp at %g\n", function.op, target.cpu.c_str(), worst, where);
    }
}

/// The same on every float of a few exponents, where the polynomials and the seams of their ranges are.
TEST(CpuMath, ErrorsOverDenseRanges) {
  std::vector<double> values;
  for (double low : {0.3, 0.9, 1.5, 3.0, 60.0, 80.0, 1e5})
    for (int i = 0; i < 6000; ++i) {
      values.push_back(static_cast<float>(low * (1 + i / 6000.0)));
      values.push_back(-values.back());
    }
  for (const cpu::Target &target : runnableTargets())
    for (const Function &function : functions) {
      auto [worst, where] = worstUlps(function, target, values);
      EXPECT_LE(worst, function.bound) << function.op << " of " << where << " on " << target.cpu;
    }
}

/// A 16-bit float: its digits with the one before the point, and the exponent (as frexp has it) of its least normal
/// and its largest value.
struct Narrow {
  const char *name;
  int digits, least, most;
};
const Narrow narrowTypes[] = {{"bf16", 8, -125, 128}, {"f16", 11, -13, 16}};

/// Whether `target` computes with `type`: f16 takes conversions that the baseline of x86-64 lacks.
bool computes(const cpu::Target &target, const std::string &type) {
  return type != "f16" || target.cpu != "x86-64";
}

/// The value of each pattern of 16 bits.
std::vector<double> everyValue(const Narrow &type) {
  std::vector<double> values;
  for (int bits = 0; bits < (1 << 16); ++bits) {
    const int fractionBits = type.digits - 1, fraction = bits & ((1 << fractionBits) - 1),
              exponent = (bits & 0x7fff) >> fractionBits, last = (1 << (15 - fractionBits)) - 1;
    double value = exponent == last ? (fraction ? NAN : std::numeric_limits<double>::infinity())
                   : exponent == 0
                       ? std::ldexp(fraction, type.least - type.digits)
                       : std::ldexp(fraction + (1 << fractionBits), exponent - 1 + type.least - type.digits);
    values.push_back(bits >> 15 ? -value : value);
  }
  return values;
}

/// The result is computed in f32, with the error that is stated for that type, and rounded once.
TEST(CpuMath, ErrorsOfSixteenBitResultsOverAllFloats) {
  for (const Narrow &type : narrowTypes) {
    const std::vector<double> values = everyValue(type);
    const double beyond = std::ldexp(1.0, type.most); // where the next float would be: infinity stands there
    for (const cpu::Target &target : runnableTargets())
      for (const Function &function : functions) {
        if (!computes(target, type.name))
          continue;
        const std::vector<double> results =
            evaluate(unary(function.op, std::to_string(values.size()) + "x" + type.name), target, values);
        double worst = 0, where = 0;
        for (auto [value, result] : llvm::zip_equal(values, results)) {
          const double wanted = std::clamp(function.exact(value), -beyond, beyond);
          ASSERT_EQ(std::isnan(wanted), std::isnan(result)) << function.op << " of " << value;
          int exponent;
          std::frexp(wanted, &exponent);
          const double unit = std::ldexp(1.0, std::clamp(exponent, type.least, type.most) - type.digits);
          const double error = std::abs(std::clamp(result, -beyond, beyond) - wanted) / unit;
          if (error > worst) {
            worst = error;
            where = value;
          }
        }
        EXPECT_LE(worst, 0.5 + std::ldexp(function.bound, type.digits - 24))
            << function.op << " of " << where << " in " << type.name << " on " << target.cpu;
        std::printf("%-8s %-4s %-10s %.4f ulp at %g\n", function.op, type.name, target.cpu.c_str(), worst, where);
      }
  }
}

double geluSlope(double x) {
  if (std::fabs(x) > 30)
    return x > 0;
  const double linear = 2 * std::sqrt(2 / std::numbers::pi), cubic = 0.044715 * linear;
  const double s = sigmoid(x * (linear + cubic * x * x)), rest = sigmoid(-x * (linear + cubic * x * x));
  return s + x * (linear + 3 * cubic * x * x) * s * rest;
}

/// Its sigmoids may be approximated, both with one division. Beside a slope's zeros its terms cancel: errors count in
/// units of 0.01 there.
TEST(CpuMath, SlopesOfGeluInSixteenBitsOverAllFloats) {
  for (const Narrow &type : narrowTypes) {
    const std::vector<double> values = everyValue(type);
    const std::string shape = std::to_string(values.size()) + "x" + type.name, tensor = "tensor<" + shape + ">";
    const KernelText text{{{"x", shape}},
                          {{"y", shape}},
                          "%o = tcc.constant dense<1.0> : " + tensor + "\n%y = tcc.gelu_gradient %x, %o : " + tensor};
    for (const cpu::Target &target : runnableTargets()) {
      if (!computes(target, type.name))
        continue;
      const std::vector<double> results = evaluate(text, target, values);
      double worst = 0, where = 0;
      for (auto [value, result] : llvm::zip_equal(values, results)) {
        const double wanted = geluSlope(value);
        ASSERT_EQ(std::isnan(wanted), std::isnan(result)) << value;
        int exponent;
        std::frexp(std::max(std::abs(wanted), 0.01), &exponent);
        if (const double error = std::abs(result - wanted) / std::ldexp(1.0, exponent - type.digits); error > worst) {
          worst = error;
          where = value;
        }
      }
      EXPECT_LE(worst, 0.5 + std::ldexp(16, type.digits - 24)) << where << " in " << type.name << " on " << target.cpu;
      EXPECT_GT(worst, 0.45) << "it is rounded, and compared";
      std::printf("gelu's slope %-4s %-10s %.4f ulp at %g\n", type.name, target.cpu.c_str(), worst, where);
    }
  }
}

struct Operation {
  const char *op;
  double (*exact)(double, double);
};
const Operation operations[] = {
    {"add", [](double x, double y) { return x + y; }},
    {"sub", [](double x, double y) { return x - y; }},
    {"mul", [](double x, double y) { return x * y; }},
    {"div", [](double x, double y) { return x / y; }},
    {"maximum", [](double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::max(x, y); }},
    {"minimum", [](double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::min(x, y); }}};

/// Each result is the exact one, rounded to `type`. fp64 has more than twice the digits of each type and two more, so
/// that rounding twice is rounding once.
void expectRounded(const Operation &operation, const std::string &type, const cpu::Target &target,
                   const std::vector<double> &xs, const std::vector<double> &ys) {
  const std::string shape = std::to_string(xs.size()) + "x" + type;
  const KernelText text{{{"x", shape}, {"y", shape}},
                        {{"z", shape}},
                        "%z = tcc." + std::string(operation.op) + " %x, %y : tensor<" + shape + ">"};
  cpu::EmitOptions options;
  options.target = target;
  LoadedKernel kernel(text, options);
  ASSERT_EQ(kernel.error, "");
  std::vector<RefTensor> inputs = kernel.randomInputs();
  inputs[0].data = xs;
  inputs[1].data = ys;
  const RefTensor found = kernel.run(inputs)[0];
  RefTensor wanted = found;
  for (size_t i = 0; i < xs.size(); ++i)
    wanted.data[i] = operation.exact(xs[i], ys[i]);
  roundToElement(wanted);
  for (size_t i = 0; i < xs.size(); ++i)
    ASSERT_TRUE(found.data[i] == wanted.data[i] || (std::isnan(found.data[i]) && std::isnan(wanted.data[i])))
        << operation.op << " of " << xs[i] << " and " << ys[i] << " in " << type << " on " << target.cpu << ": "
        << found.data[i] << ", not " << wanted.data[i];
}

/// Patterns of bits at random, half of the pairs with equal exponents, where sums cancel.
TEST(CpuMath, ArithmeticIsRoundedCorrectly) {
  std::mt19937 random(5);
  for (const std::string type : {"f32", "bf16", "f16"}) {
    const std::vector<double> narrow = everyValue(narrowTypes[type == "f16"]);
    const auto value = [&](uint32_t pattern) {
      return type == "f32" ? std::bit_cast<float>(pattern) : narrow[pattern >> 16];
    };
    std::vector<double> xs, ys;
    for (int i = 0; i < 100'000; ++i) {
      const auto bits = static_cast<uint32_t>(random()), other = static_cast<uint32_t>(random());
      xs.push_back(value(bits));
      ys.push_back(value(i % 2 ? other : bits ^ (other & (type == "f16" ? 0x83ff0000 : 0x807fffff))));
    }
    for (const cpu::Target &target : runnableTargets())
      for (const Operation &operation : operations)
        if (computes(target, type))
          expectRounded(operation, type, target, xs, ys);
  }
}

TEST(CpuMath, SpecialValues) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> values = {infinity, -infinity, NAN, 0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, 200, -200};
  std::string type = std::to_string(values.size()) + "xf32";
  std::pair<const char *, double (*)(double)> functions[] = {
      {"exp", std::exp}, {"log", std::log}, {"tanh", std::tanh},   {"erf", std::erf},    {"sqrt", std::sqrt},
      {"sin", std::sin}, {"cos", std::cos}, {"expm1", std::expm1}, {"log1p", std::log1p}};
  for (const cpu::Target &target : runnableTargets())
    for (auto [op, exact] : functions) {
      const double lastPlace = op == std::string_view("expm1") ? 0x1p-149 : 0; // of the least float, which it halves
      std::vector<double> results = evaluate(unary(op, type), target, values);
      for (size_t i = 0; i < results.size(); ++i) {
        double wanted = static_cast<float>(exact(static_cast<float>(values[i])));
        if (std::isnan(wanted))
          EXPECT_TRUE(std::isnan(results[i])) << op << " " << values[i] << " gave " << results[i];
        else if (std::isinf(wanted) || wanted == 0)
          EXPECT_TRUE(results[i] == wanted && std::signbit(results[i]) == std::signbit(wanted))
              << op << " " << values[i] << " gave " << results[i];
        else
          EXPECT_NEAR(results[i], wanted, std::max(std::abs(wanted) * 1e-6, lastPlace)) << op << " " << values[i];
      }
    }
}

} // namespace
