// Composites, sums, matmuls and gradients have a bound on their error too, in f32 and in 16 bits: compiled for each
// CPU that this machine can be, against the fp64 interpreter. docs/LANGUAGE.md has the worst values that this prints.
#include "mlir/Parser/Parser.h"
#include "tests/dialects.h"
#include "tests/floats.h"
#include "tests/random_graphs/graph_check.h"
#include <cmath>
#include <gtest/gtest.h>
#include <regex>

using namespace mlir;
using namespace tcc;
using namespace tcc::test;

namespace {

/// What errors are in ulps of: each exact result, or where results cancel the largest of the row, or of the tensor.
enum class Scale { element, row, tensor };

/// A graph, and the bound of its results' errors in ulps.
struct Composite {
  std::string name, text; // T stands for the element type
  double low, high;       // of every float argument
  Scale scale;
  double bound; // of f32 results
  // The bound of results of 16 bits, in their own ulps: a result that is computed in f32 is rounded once; if several
  // ops of 16 bits make a result, each rounds.
  double narrow = 0.51;
};

void PrintTo(const Composite &composite, std::ostream *out) {
  *out << composite.name;
}

/// The gradients of the sum of `op`'s results, each times its element of %dy, with respect to arguments.
struct Gradient {
  std::string op, result;                               // the op of arguments, and the type of what it gives
  std::vector<std::pair<std::string, std::string>> wrt; // names and types
  std::string others;                                   // arguments beside, with a comma
};

std::string gradientText(const Gradient &gradient) {
  std::string arguments, names, types, results;
  for (size_t i = 0; i < gradient.wrt.size(); ++i) {
    const auto &[name, type] = gradient.wrt[i];
    const std::string comma = i ? ", " : "";
    arguments += name + ": " + type + ", ";
    names += comma + name;
    types += comma + type;
    results += comma + "%d#" + std::to_string(i);
  }
  const bool scalar = gradient.result == "tensor<f32>";
  std::string ones, axes;
  for (size_t at = 0, n = 0; (at = gradient.result.find('x', at)) != std::string::npos; ++at, ++n) {
    axes += (n ? ", " : "") + std::to_string(n);
    ones += "1x";
  }
  const std::string sum = "  %s = tcc.reduce_sum %p axes [" + axes + "] : " + gradient.result + " -> tensor<" + ones +
                          "T>\n  %c = tcc.cast %s : tensor<" + ones + "T> -> tensor<" + ones +
                          "f32>\n  %l = tcc.reshape %c : tensor<" + ones + "f32> -> tensor<f32>\n";
  return "(" + arguments + gradient.others + "%dy: " + gradient.result + ") -> (" + types +
         ") {\n  %y = " + gradient.op + "\n  %p = tcc.mul %y, %dy : " + gradient.result + "\n" + (scalar ? "" : sum) +
         "  %d:" + std::to_string(gradient.wrt.size()) + " = tcc.gradient " + (scalar ? "%p" : "%l") + " wrt " + names +
         " : tensor<f32>, " + types + "\n  return " + results + " : " + types + " }";
}

const std::string rows = "tensor<64x257xT>", row = "tensor<257xT>", heads = "tensor<4x37x16xT>";

std::string slopeOf(const std::string &op) {
  return gradientText({"tcc." + op + " %x : " + rows, rows, {{"%x", rows}}, ""});
}

const Composite composites[] = {
    {"softmax", R"((%x: tensor<64x257xT>) -> tensor<64x257xT> {
  %y = tcc.softmax %x : tensor<64x257xT>
  return %y : tensor<64x257xT> })",
     -20, 20, Scale::element, 48},
    {"layer_norm", R"((%x: tensor<64x257xT>, %w: tensor<257xT>, %b: tensor<257xT>) -> tensor<64x257xT> {
  %y = tcc.layer_norm %x, %w, %b : tensor<64x257xT>, tensor<257xT>, tensor<257xT>
  return %y : tensor<64x257xT> })",
     -20, 20, Scale::row, 8},
    {"rms_norm", R"((%x: tensor<64x257xT>, %w: tensor<257xT>) -> tensor<64x257xT> {
  %y = tcc.rms_norm %x, %w : tensor<64x257xT>, tensor<257xT>
  return %y : tensor<64x257xT> })",
     -20, 20, Scale::element, 8},
    {"cross_entropy", R"((%x: tensor<64x257xT>, %t: tensor<64xi32>) -> tensor<f32> {
  %y = tcc.cross_entropy %x, %t : tensor<64x257xT>, tensor<64xi32> -> tensor<f32>
  return %y : tensor<f32> })",
     -20, 20, Scale::element, 8},
    {"linear", R"((%x: tensor<64x257xT>, %w: tensor<257x33xT>, %b: tensor<33xT>) -> tensor<64x33xT> {
  %y = tcc.linear %x, %w, %b : tensor<64x257xT>, tensor<257x33xT>, tensor<33xT> -> tensor<64x33xT>
  return %y : tensor<64x33xT> })",
     -1, 1, Scale::row, 16, 1.01},
    {"attention",
     R"((%q: tensor<4x37x16xT>, %k: tensor<4x37x16xT>, %v: tensor<4x37x16xT>) -> tensor<4x37x16xT> {
  %y = tcc.attention %q, %k, %v causal scale 0.25 : tensor<4x37x16xT>, tensor<4x37x16xT>, tensor<4x37x16xT>
  return %y : tensor<4x37x16xT> })",
     -3, 3, Scale::row, 32, 2},
    {"reduce_sum", R"((%x: tensor<100003x3xT>) -> tensor<1x3xT> {
  %y = tcc.reduce_sum %x axes [0] : tensor<100003x3xT> -> tensor<1x3xT>
  return %y : tensor<1x3xT> })",
     0, 1, Scale::element, 32},
    {"reduce_mean", R"((%x: tensor<64x257xT>) -> tensor<64x1xT> {
  %y = tcc.reduce_mean %x axes [1] : tensor<64x257xT> -> tensor<64x1xT>
  return %y : tensor<64x1xT> })",
     0, 20, Scale::element, 8},
    {"scatter_add", R"((%b: tensor<257x17xT>, %i: tensor<2048xi32>, %r: tensor<2048x17xT>) -> tensor<257x17xT> {
  %y = tcc.scatter_add %b at %i, %r : tensor<257x17xT>, tensor<2048xi32>, tensor<2048x17xT>
  return %y : tensor<257x17xT> })",
     0, 1, Scale::element, 8, 4},
    {"dropout", R"((%x: tensor<64x257xT>) -> tensor<64x257xT> {
  %seed = tcc.constant dense<7> : tensor<i32>
  %y = tcc.dropout %x, %seed rate 0.3 stream 2 : tensor<64x257xT>, tensor<i32>
  return %y : tensor<64x257xT> })",
     -20, 20, Scale::element, 2},
    {"gelu_gradient", R"((%x: tensor<64x257xT>, %dy: tensor<64x257xT>) -> tensor<64x257xT> {
  %y = tcc.gelu_gradient %x, %dy : tensor<64x257xT>
  return %y : tensor<64x257xT> })",
     -8, 8, Scale::row, 4},
    {"sigmoid_gradient", R"((%x: tensor<64x257xT>, %dy: tensor<64x257xT>) -> tensor<64x257xT> {
  %y = tcc.sigmoid_gradient %x, %dy : tensor<64x257xT>
  return %y : tensor<64x257xT> })",
     -80, 80, Scale::element, 8},
    {"silu_gradient", R"((%x: tensor<64x257xT>, %dy: tensor<64x257xT>) -> tensor<64x257xT> {
  %y = tcc.silu_gradient %x, %dy : tensor<64x257xT>
  return %y : tensor<64x257xT> })",
     -8, 8, Scale::row, 4},
    {"adamw", R"((%p: tensor<4099xT>, %g: tensor<4099xT>, %m: tensor<4099xT>, %v: tensor<4099xT>)
    -> (tensor<4099xT>, tensor<4099xT>, tensor<4099xT>) {
  %lr = tcc.constant dense<1.0e-3> : tensor<f32>
  %step = tcc.constant dense<10.0> : tensor<f32>
  %scale = tcc.constant dense<0.7> : tensor<f32>
  %yes = tcc.constant dense<true> : tensor<i1>
  %y:3 = tcc.adamw %p, %g, %m, %v lr %lr step %step scale %scale apply %yes {beta1 = 0.9, beta2 = 0.999, eps = 1.0e-8, weight_decay = 0.1} : tensor<4099xT>, tensor<4099xT>, tensor<4099xT>
  return %y#0, %y#1, %y#2 : tensor<4099xT>, tensor<4099xT>, tensor<4099xT> })",
     0.01, 1, Scale::element, 4},
    {"matmul", R"((%a: tensor<3x64x257xT>, %b: tensor<3x33x257xT>) -> tensor<3x64x33xT> {
  %y = tcc.matmul %a, %b transposed : tensor<3x64x257xT>, tensor<3x33x257xT> -> tensor<3x64x33xT>
  return %y : tensor<3x64x33xT> })",
     -1, 1, Scale::row, 16},
    {"softmax's", slopeOf("softmax"), -20, 20, Scale::row, 8},
    {"layer_norm's",
     gradientText({"tcc.layer_norm %x, %w, %b : " + rows + ", " + row + ", " + row,
                   rows,
                   {{"%x", rows}, {"%w", row}, {"%b", row}},
                   ""}),
     -20, 20, Scale::row, 8},
    {"rms_norm's", gradientText({"tcc.rms_norm %x, %w : " + rows + ", " + row, rows, {{"%x", rows}, {"%w", row}}, ""}),
     -20, 20, Scale::row, 8},
    {"cross_entropy's",
     gradientText({"tcc.cross_entropy %x, %t : " + rows + ", tensor<64xi32> -> tensor<f32>",
                   "tensor<f32>",
                   {{"%x", rows}},
                   "%t: tensor<64xi32>, "}),
     -20, 20, Scale::row, 4},
    {"linear's",
     gradientText({"tcc.linear %x, %w, %b : " + rows + ", tensor<257x33xT>, tensor<33xT> -> tensor<64x33xT>",
                   "tensor<64x33xT>",
                   {{"%x", rows}, {"%w", "tensor<257x33xT>"}, {"%b", "tensor<33xT>"}},
                   ""}),
     -1, 1, Scale::row, 16},
    {"attention's",
     gradientText({"tcc.attention %q, %k, %v causal scale 0.25 : " + heads + ", " + heads + ", " + heads,
                   heads,
                   {{"%q", heads}, {"%k", heads}, {"%v", heads}},
                   ""}),
     -3, 3, Scale::tensor, 32, 1},
    {"matmul's",
     gradientText({"tcc.matmul %a, %b : tensor<64x257xT>, tensor<257x33xT> -> tensor<64x33xT>",
                   "tensor<64x33xT>",
                   {{"%a", "tensor<64x257xT>"}, {"%b", "tensor<257x33xT>"}},
                   ""}),
     -1, 1, Scale::row, 16},
    {"gather's",
     gradientText({"tcc.gather %x at %i : tensor<257x17xT>, tensor<2048xi32> -> tensor<2048x17xT>",
                   "tensor<2048x17xT>",
                   {{"%x", "tensor<257x17xT>"}},
                   "%i: tensor<2048xi32>, "}),
     0, 1, Scale::element, 8, 4},
    {"broadcast's", gradientText({"tcc.broadcast %x : tensor<257xT> -> tensor<64x257xT>", rows, {{"%x", row}}, ""}), 0,
     1, Scale::element, 8},
    {"reduce_mean's",
     gradientText(
         {"tcc.reduce_mean %x axes [1] : " + rows + " -> tensor<64x1xT>", "tensor<64x1xT>", {{"%x", rows}}, ""}),
     -20, 20, Scale::element, 2},
    {"reduce_max's",
     gradientText(
         {"tcc.reduce_max %x axes [1] : " + rows + " -> tensor<64x1xT>", "tensor<64x1xT>", {{"%x", rows}}, ""}),
     -20, 20, Scale::row, 2},
    {"dropout's",
     gradientText({"tcc.dropout %x, %seed rate 0.3 stream 2 : " + rows + ", tensor<i32>",
                   rows,
                   {{"%x", rows}},
                   "%seed: tensor<i32>, "}),
     -20, 20, Scale::element, 2},
    {"mul's", gradientText({"tcc.mul %x, %z : " + rows, rows, {{"%x", rows}, {"%z", rows}}, ""}), -20, 20,
     Scale::element, 1},
    {"div's", gradientText({"tcc.div %x, %z : " + rows, rows, {{"%x", rows}, {"%z", rows}}, ""}), 0.1, 20,
     Scale::element, 4, 3},
    {"exp's", slopeOf("exp"), -8, 8, Scale::row, 8, 1.5},
    {"log's", slopeOf("log"), 0.01, 100, Scale::row, 8},
    {"sqrt's", slopeOf("sqrt"), 0.01, 100, Scale::row, 8, 1.5},
    {"rsqrt's", slopeOf("rsqrt"), 0.01, 100, Scale::row, 8, 4},
    {"tanh's", slopeOf("tanh"), -8, 8, Scale::row, 8},
    {"erf's", slopeOf("erf"), -8, 8, Scale::row, 8},
    {"sin's", slopeOf("sin"), -8, 8, Scale::row, 8, 1.5},
    {"cos's", slopeOf("cos"), -8, 8, Scale::row, 8, 1.5},
    {"softplus's", slopeOf("softplus"), -8, 8, Scale::row, 8},
    {"sigmoid's", slopeOf("sigmoid"), -8, 8, Scale::row, 8},
    {"silu's", slopeOf("silu"), -8, 8, Scale::row, 8},
    {"gelu's", slopeOf("gelu"), -8, 8, Scale::row, 8},
};

/// The digits of a float type, and the exponent of its least normal number.
std::pair<int, int> digitsOf(Type element) {
  if (element.isBF16())
    return {8, -126};
  return element.isF16() ? std::pair(11, -14) : std::pair(24, -126);
}

/// The largest error in ulps of the tensor's own type.
double worstUlps(const RefTensor &found, const RefTensor &exact, Scale scale) {
  const int64_t all = exact.size();
  const int64_t part = scale == Scale::tensor || exact.shape().empty() ? all
                       : scale == Scale::row                           ? exact.shape().back()
                                                                       : 1;
  const auto [digits, least] = digitsOf(found.type.getElementType());
  double worst = 0;
  for (int64_t begin = 0; begin < all; begin += part) {
    double largest = std::ldexp(1.0, least);
    for (int64_t i = begin; i < begin + part; ++i)
      largest = std::max(largest, std::fabs(exact.data[i]));
    const double ulp = std::ldexp(1.0, std::ilogb(largest) - digits + 1);
    for (int64_t i = begin; i < begin + part; ++i)
      worst = std::max(worst, std::fabs(found.data[i] - exact.data[i]) / ulp);
  }
  return worst;
}

/// A module of `text`, in which T is `element`.
OwningOpRef<ModuleOp> parse(MLIRContext &context, const std::string &text, const std::string &element) {
  test::loadDialects(context);
  const std::string typed = std::regex_replace(text, std::regex("xT>"), "x" + element + ">");
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>("func.func @main" + typed, &context);
  EXPECT_TRUE(module) << typed;
  return module;
}

/// `composite` with `element` for T, compiled at `level` for each CPU, on random arguments; prints the worst errors.
void expectWithinBounds(const Composite &composite, const std::string &element, std::initializer_list<int> levels) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = parse(context, composite.text, element);
  ASSERT_TRUE(module);
  std::vector<RefTensor> arguments;
  for (Type type : onlyFunction(*module).getArgumentTypes()) {
    const auto tensor = cast<RankedTensorType>(type);
    const bool isFloat = isa<FloatType>(tensor.getElementType());
    arguments.push_back(
        randomTensor(tensor, 31 + arguments.size(), isFloat ? composite.low : 0, isFloat ? composite.high : 257));
  }
  std::string error;
  const auto reference = Reference::make(*module, arguments);
  ASSERT_TRUE(reference) << reference.error().message();
  const llvm::ArrayRef<RefTensor> exact = reference->exact();
  for (const cpu::Target &target : cpuTargets())
    for (const int level : levels) {
      CheckOptions options;
      options.level = level;
      options.target = target;
      options.matchAttention = level > 0;
      const auto graph = CompiledGraph::compile(*module, options, error);
      ASSERT_TRUE(graph) << error;
      const auto results = graph->run(arguments, error);
      ASSERT_TRUE(results) << error;
      ASSERT_EQ(results->size(), exact.size());
      double worst = 0;
      for (size_t i = 0; i < exact.size(); ++i) {
        const double found = worstUlps((*results)[i], exact[i], composite.scale);
        EXPECT_LE(found, exact[i].type.getElementType().isF32() ? composite.bound : composite.narrow)
            << "result " << i << " for " << (target.cpu.empty() ? "native" : target.cpu) << ", -O" << level;
        worst = std::max(worst, found);
      }
      std::printf("%-16s %-4s %-10s -O%d %.3f ulp\n", composite.name.c_str(), element.c_str(),
                  target.cpu.empty() ? "native" : target.cpu.c_str(), level, worst);
    }
}

class CompositeBounds : public testing::TestWithParam<Composite> {};
INSTANTIATE_TEST_SUITE_P(All, CompositeBounds, testing::ValuesIn(composites), [](const auto &info) {
  return info.param.name.ends_with("'s") ? "gradient_of_" + info.param.name.substr(0, info.param.name.size() - 2)
                                         : info.param.name;
});

TEST_P(CompositeBounds, holdOnEveryCpu) {
  expectWithinBounds(GetParam(), "f32", {0, 2});
}

TEST_P(CompositeBounds, holdIn16BitsOnEveryCpu) {
  expectWithinBounds(GetParam(), "bf16", {2});
  expectWithinBounds(GetParam(), "f16", {2});
}

//===- slopes over all floats ------------------------------------------------------------------------------------===//

/// An elementwise op: the bound of its slope's error in ulps, of the slope or of `least` where that is larger.
struct Slope {
  std::string op;
  double least, bound;
};
/// The bounds that docs/LANGUAGE.md states.
const Slope slopes[] = {{"exp", 0, 1.5},   {"log", 0, 1},      {"sqrt", 0, 2},  {"rsqrt", 0, 6},
                        {"tanh", 1, 3},    {"erf", 1, 2},      {"sin", 1, 1.6}, {"cos", 1, 1.6},
                        {"sigmoid", 1, 1}, {"softplus", 1, 1}, {"silu", 1, 2},  {"gelu", 1, 2}};

TEST(SlopeBounds, holdOverAllFloats) {
  const std::vector<double> values = floatsOfAllSizes();
  const std::string type = "tensor<" + std::to_string(values.size()) + "xT>";
  for (const Slope &slope : slopes) {
    MLIRContext context;
    OwningOpRef<ModuleOp> module =
        parse(context, gradientText({"tcc." + slope.op + " %x : " + type, type, {{"%x", type}}, ""}), "f32");
    ASSERT_TRUE(module);
    std::vector<RefTensor> arguments;
    for (Type argument : onlyFunction(*module).getArgumentTypes())
      arguments.push_back(splatTensor(cast<RankedTensorType>(argument), 1));
    arguments[0].data = values;
    std::string error;
    const auto reference = Reference::make(*module, arguments);
    ASSERT_TRUE(reference) << reference.error().message();
    const std::vector<double> &exact = reference->exact()[0].data;
    for (const cpu::Target &target : cpuTargets()) {
      CheckOptions options;
      options.target = target;
      const auto graph = CompiledGraph::compile(*module, options, error);
      ASSERT_TRUE(graph) << error;
      const auto results = graph->run(arguments, error);
      ASSERT_TRUE(results) << error;
      double worst = 0, where = 0;
      const double infinite = std::ldexp(1.0, 128); // where the next float would be
      for (size_t i = 0; i < values.size(); ++i) {
        const double wanted = std::clamp(exact[i], -infinite, infinite),
                     found = std::clamp((*results)[0].data[i], -infinite, infinite);
        ASSERT_EQ(std::isnan(wanted), std::isnan(found))
            << slope.op << " at " << values[i] << ": " << wanted << ", " << found;
        const double size = std::max({std::fabs(wanted), slope.least, std::ldexp(1.0, -126)});
        const double off = std::fabs(found - wanted) / std::ldexp(1.0, std::ilogb(size) - 23);
        if (off > worst) {
          worst = off;
          where = values[i];
        }
      }
      EXPECT_LE(worst, slope.bound) << slope.op << " at " << where;
      std::printf("%-16s %-10s %.2f ulp at %g\n", (slope.op + "'s slope").c_str(),
                  target.cpu.empty() ? "native" : target.cpu.c_str(), worst, where);
    }
  }
}

} // namespace
