// Gradients against central differences, and decompositions against the composites' own references, all in fp64.
#include "mlir/IR/Verifier.h"
#include "tests/ops/differentiate.h"
#include "tests/ops/op_table.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

constexpr double epsilon = 1e-6, absoluteTolerance = 1e-5, relativeTolerance = 1e-3;
constexpr int64_t elementLimit = 120; // of all float inputs of a case, each of which costs two runs
constexpr int64_t highOrderLimit = 60, highOrderCases = 3; // of an op, in each higher order

bool isFloat(const RefTensor &tensor) {
  return isa<FloatType>(tensor.element());
}

std::vector<RefTensor> run(func::FuncOp function, ArrayRef<RefTensor> inputs) {
  const auto results = interpret(function, inputs, RefMode::exact);
  EXPECT_TRUE(results) << results.error().message();
  return results ? *results : std::vector<RefTensor>();
}

/// sum(y · weights) over the float results.
double lossOf(func::FuncOp function, ArrayRef<RefTensor> inputs, ArrayRef<RefTensor> weights) {
  double loss = 0;
  size_t next = 0;
  for (const RefTensor &y : run(function, inputs)) {
    if (!isFloat(y))
      continue;
    const RefTensor &weight = weights[next++];
    for (int64_t i = 0; i < y.size(); ++i)
      loss += y.data[i] * weight.data[i];
  }
  return loss;
}

/// Float inputs that no rounding has touched, so that no two are equal.
std::vector<RefTensor> smoothInputs(func::FuncOp function, const OpCase &opCase) {
  std::vector<RefTensor> inputs = makeInputs(function, opCase, 11);
  auto wide = Float32Type::get(function.getContext());
  for (auto [number, input] : llvm::enumerate(inputs))
    if (isFloat(input) && opCase.domains[number].low != opCase.domains[number].high)
      for (auto [i, noise] :
           llvm::enumerate(randomTensor(RankedTensorType::get(input.shape(), wide), 500 + number, -0.003, 0.003).data))
        input.data[i] += noise;
  return inputs;
}

/// Compares each element of the gradient of order `order` with (loss(x + eps) - loss(x - eps)) / (2 eps), the loss
/// being a sum of random multiples of the gradients of the order before, or of the results.
void checkCase(MLIRContext &context, const OpCase &opCase, int order = 1) {
  std::string messages;
  OwningOpRef<ModuleOp> forward = parseText(context, opCase.text, messages);
  OwningOpRef<ModuleOp> backward = parseText(context, opCase.text, messages);
  ASSERT_TRUE(forward && backward) << messages;
  func::FuncOp function = mainOf(*forward), gradient = mainOf(*backward);
  std::vector<RefTensor> inputs = smoothInputs(function, opCase), weights;
  decomposeAll(gradient);
  for (int i = 0; i < order; ++i)
    differentiate(gradient);
  if (order > 1)
    decomposeAll(function);
  for (int i = 1; i < order; ++i)
    differentiate(function);
  ASSERT_TRUE(succeeded(verify(*backward))) << opCase.name;

  for (Type type : function.getArgumentTypes().drop_front(inputs.size()))
    inputs.push_back(randomTensor(cast<RankedTensorType>(type), 177 + inputs.size()));
  std::vector<RefTensor> all = inputs;
  for (Type type : gradient.getArgumentTypes().drop_front(inputs.size()))
    weights.push_back(randomTensor(cast<RankedTensorType>(type), 77 + weights.size()));
  all.insert(all.end(), weights.begin(), weights.end());
  std::vector<RefTensor> gradients = run(gradient, all);

  size_t next = 0;
  for (size_t number = 0; number < inputs.size(); ++number) {
    if (!isFloat(inputs[number]))
      continue;
    ASSERT_LT(next, gradients.size());
    const RefTensor &analytic = gradients[next++];
    ASSERT_EQ(analytic.type, inputs[number].type) << opCase.name;
    for (int64_t i = 0; i < analytic.size(); ++i) {
      double &x = inputs[number].data[i], middle = x;
      x = middle + epsilon;
      double above = lossOf(function, inputs, weights);
      x = middle - epsilon;
      double below = lossOf(function, inputs, weights);
      x = middle;
      double numeric = (above - below) / (2 * epsilon);
      EXPECT_NEAR(analytic.data[i], numeric, absoluteTolerance + relativeTolerance * std::fabs(numeric))
          << opCase.name << ": order " << order << ", input " << number << ", element " << i;
    }
  }
}

int64_t floatElements(func::FuncOp function) {
  int64_t count = 0;
  for (Type type : function.getArgumentTypes())
    if (auto tensor = cast<RankedTensorType>(type); isa<FloatType>(tensor.getElementType()))
      count += tensor.getNumElements();
  return count;
}

TEST(Gradients, equalCentralDifferences) {
  auto context = makeContext();
  for (const OpRow &row : opTable()) {
    RegisteredOperationName name = *RegisteredOperationName::lookup(row.op, context.get());
    if (name.hasTrait<NoGradient>())
      continue;
    int64_t checked = 0;
    for (const OpCase &opCase : row.cases) {
      std::string messages;
      OwningOpRef<ModuleOp> module = parseText(*context, opCase.text, messages);
      ASSERT_TRUE(module) << messages;
      int64_t elements = floatElements(mainOf(*module));
      if (opCase.specials != Specials::none || !opCase.differentiable || elements > elementLimit)
        continue;
      checkCase(*context, opCase);
      checked += elements;
    }
    if (llvm::any_of(row.cases, [](const OpCase &opCase) { return opCase.differentiable; })) {
      EXPECT_GT(checked, 20) << row.op << " has no case that its gradient is checked with";
    }
  }
}

/// Rules are written in terms of ops with rules: what is a gradient's value need not have the gradient's own slope, as
/// |x| in a rule has none at 0. The cases are the smallest ones in f32 of each op.
TEST(Gradients, ofGradientsEqualCentralDifferences) {
  auto context = makeContext();
  for (const OpRow &row : opTable()) {
    RegisteredOperationName name = *RegisteredOperationName::lookup(row.op, context.get());
    if (name.hasTrait<NoGradient>())
      continue;
    std::vector<std::pair<int64_t, const OpCase *>> cases;
    for (const OpCase &opCase : row.cases) {
      std::string messages;
      OwningOpRef<ModuleOp> module = parseText(*context, opCase.text, messages);
      ASSERT_TRUE(module) << messages;
      const int64_t elements = floatElements(mainOf(*module));
      const bool is16Bit = StringRef(opCase.text).contains("f16"); // bf16 too
      if (opCase.specials == Specials::none && opCase.differentiable && elements > 1 && elements <= highOrderLimit &&
          !is16Bit)
        cases.emplace_back(elements, &opCase);
    }
    llvm::stable_sort(cases, llvm::less_first());
    for (auto [elements, opCase] : ArrayRef(cases).take_front(highOrderCases))
      for (int order : {2, 3})
        checkCase(*context, *opCase, order);
    if (llvm::any_of(row.cases, [](const OpCase &opCase) { return opCase.differentiable; })) {
      EXPECT_FALSE(cases.empty()) << row.op << " has no case that its gradients of higher order are checked with";
    }
  }
}

TEST(Gradients, passThroughRoundingAtRandom) {
  auto context = makeContext();
  std::string messages;
  for (std::string rest : {"cast_by_bits %x, %b : tensor<3xf32>, tensor<3xi32>", "stochastic_cast %x, %s stream 1 : "
                                                                                 "tensor<3xf32>, tensor<i32>"}) {
    OwningOpRef<ModuleOp> module =
        parseText(*context,
                  "func.func @main(%x: tensor<3xf32>, %b: tensor<3xi32>, %s: tensor<i32>) -> tensor<3xbf16> {\n"
                  "  %r = tcc." +
                      rest + " -> tensor<3xbf16>\n  return %r : tensor<3xbf16>\n}",
                  messages);
    ASSERT_TRUE(module) << messages;
    func::FuncOp function = mainOf(*module);
    decomposeAll(function);
    differentiate(function);
    const RefTensor x{RankedTensorType::get({3}, Float32Type::get(context.get())), {1.1, -2.7, 0}};
    const RefTensor bits{RankedTensorType::get({3}, IntegerType::get(context.get(), 32)), {1, -2, 3}};
    const RefTensor seed{RankedTensorType::get({}, IntegerType::get(context.get(), 32)), {5}};
    const RefTensor dy{RankedTensorType::get({3}, BFloat16Type::get(context.get())), {1, -2, 3}};
    EXPECT_EQ(run(function, {x, bits, seed, dy})[0].data, dy.data);
  }
}

TEST(Gradients, winnersShareInHalves) {
  auto context = makeContext();
  std::string messages;
  for (std::string op : {"maximum", "minimum"}) {
    std::string type = "tensor<3xf32>";
    OwningOpRef<ModuleOp> module =
        parseText(*context,
                  "func.func @main(%a: " + type + ", %b: " + type + ") -> " + type + " {\n  %r = tcc." + op +
                      " %a, %b : " + type + "\n  return %r : " + type + "\n}",
                  messages);
    ASSERT_TRUE(module) << messages;
    func::FuncOp function = mainOf(*module);
    differentiate(function);
    auto tensor = RankedTensorType::get({3}, Float32Type::get(context.get()));
    std::vector<RefTensor> gradients =
        run(function, {RefTensor{tensor, {1, 2, 3}}, RefTensor{tensor, {2, 2, 2}}, RefTensor{tensor, {10, 20, 30}}});
    bool isMaximum = op == "maximum";
    EXPECT_EQ(gradients[0].data, (std::vector<double>{isMaximum ? 0. : 10., 10., isMaximum ? 30. : 0.}));
    EXPECT_EQ(gradients[1].data, (std::vector<double>{isMaximum ? 10. : 0., 10., isMaximum ? 0. : 30.}));
  }
}

TEST(Gradients, zeroDividedByAlmostNothing) {
  // dy / b is infinite in f32, a / b and what b's gradient is are zero.
  auto context = makeContext();
  std::string messages;
  OwningOpRef<ModuleOp> module =
      parseText(*context, R"(func.func @main(%a: tensor<1xf32>, %b: tensor<1xf32>) -> tensor<1xf32> {
    %r = tcc.div %a, %b : tensor<1xf32>
    return %r : tensor<1xf32>
  })",
                messages);
  ASSERT_TRUE(module) << messages;
  func::FuncOp function = mainOf(*module);
  differentiate(function);
  auto tensor = RankedTensorType::get({1}, Float32Type::get(context.get()));
  auto gradients = interpret(function, {RefTensor{tensor, {0}}, RefTensor{tensor, {1e-40}}, RefTensor{tensor, {2.5}}},
                             RefMode::rounding);
  ASSERT_TRUE(gradients) << gradients.error().message();
  EXPECT_EQ((*gradients)[1].data, std::vector<double>{0});
}

TEST(Gradients, valuesNotTakenLeakNothing) {
  // d/dx select(x > 0, log x, 0) at x <= 0: the side not taken has an infinite or NaN derivative.
  auto context = makeContext();
  std::string messages;
  OwningOpRef<ModuleOp> module = parseText(*context, R"(func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %zero = tcc.constant dense<0.0> : tensor<3xf32>
    %one = tcc.constant dense<1.0> : tensor<3xf32>
    %positive = tcc.compare gt %x, %zero : tensor<3xf32> -> tensor<3xi1>
    %safe = tcc.select %positive, %x, %one : tensor<3xi1>, tensor<3xf32>
    %log = tcc.log %safe : tensor<3xf32>
    %r = tcc.select %positive, %log, %zero : tensor<3xi1>, tensor<3xf32>
    return %r : tensor<3xf32>
  })",
                                           messages);
  ASSERT_TRUE(module) << messages;
  func::FuncOp function = mainOf(*module);
  differentiate(function);
  auto tensor = RankedTensorType::get({3}, Float32Type::get(context.get()));
  std::vector<RefTensor> gradients = run(function, {RefTensor{tensor, {-1, 0, 4}}, splatTensor(tensor, 1)});
  EXPECT_EQ(gradients[0].data, (std::vector<double>{0, 0, 0.25}));
}

TEST(Gradients, ofAClampIsNotLostWhereItsBoundsAreEqual) {
  auto context = makeContext();
  std::string messages;
  OwningOpRef<ModuleOp> module = parseText(*context, R"(func.func @main(%x: tensor<4xf32>, %low: tensor<4xf32>,
      %high: tensor<4xf32>) -> tensor<4xf32> {
    %r = tcc.clamp %x, %low, %high : tensor<4xf32>
    return %r : tensor<4xf32>
  })",
                                           messages);
  ASSERT_TRUE(module) << messages;
  func::FuncOp function = mainOf(*module);
  differentiate(function);
  auto tensor = RankedTensorType::get({4}, Float32Type::get(context.get()));
  std::vector<RefTensor> gradients = run(function, {RefTensor{tensor, {0, 1, 2, 5}}, RefTensor{tensor, {1, 1, 1, 3}},
                                                    RefTensor{tensor, {1, 1, 1, 2}}, splatTensor(tensor, 1)});
  EXPECT_EQ(gradients[0].data, (std::vector<double>{0, 1, 0, 0}));
  EXPECT_EQ(gradients[1].data, (std::vector<double>{1, 0, 0, 0}));
  EXPECT_EQ(gradients[2].data, (std::vector<double>{0, 0, 1, 1}));
}

TEST(Decompositions, equalTheCompositesOwnReferences) {
  auto context = makeContext();
  for (const OpRow &row : opTable()) {
    if (!RegisteredOperationName::lookup(row.op, context.get())->hasInterface<CompositeOpInterface>())
      continue;
    for (const OpCase &opCase : row.cases) {
      std::string messages;
      OwningOpRef<ModuleOp> composite = parseText(*context, opCase.text, messages);
      OwningOpRef<ModuleOp> primitive = parseText(*context, opCase.text, messages);
      ASSERT_TRUE(composite && primitive) << messages;
      decomposeAll(mainOf(*primitive));
      ASSERT_TRUE(succeeded(verify(*primitive))) << opCase.name;
      for (uint64_t seed : {3, 4}) {
        std::vector<RefTensor> inputs = makeInputs(mainOf(*composite), opCase, seed);
        std::vector<RefTensor> expected = run(mainOf(*composite), inputs), actual = run(mainOf(*primitive), inputs);
        ASSERT_EQ(actual.size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(actual[i].type, expected[i].type);
          EXPECT_TRUE(allClose(actual[i].data, expected[i].data, 1e-6, 1e-7)) // literals are f32
              << opCase.name << ": result " << i << " differs by "
              << largestDifference(actual[i].data, expected[i].data);
        }
      }
    }
  }
}

} // namespace
} // namespace tcc::test
