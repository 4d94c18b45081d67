// Scalar steps: what is read off a scalarBody, and the refusal of an op that the table of opcodes does not have.
#include "ir/analyze_kernel.h"
#include "ir/scalar_form.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tests/ops/op_table.h"
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace mlir;

namespace {

/// An elementwise op of another dialect, whose computation no emitter knows.
class PopulationOp : public Op<PopulationOp, OpTrait::ZeroRegions, OpTrait::OneResult, OpTrait::ZeroSuccessors,
                               OpTrait::OneOperand, tcc::ElementwiseOpInterface::Trait, tcc::KernelBodyOp> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PopulationOp)
  using Op::Op;
  static StringRef getOperationName() { return "test.population"; }
  static ArrayRef<StringRef> getAttributeNames() { return {}; }
  Value scalarBody(OpBuilder &builder, Location loc, ValueRange operands, Type) {
    return math::CtPopOp::create(builder, loc, operands[0]);
  }
};

class TestDialect : public Dialect {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestDialect)
  explicit TestDialect(MLIRContext *context) : Dialect("test", context, TypeID::get<TestDialect>()) {
    addOperations<PopulationOp>();
  }
  static StringRef getDialectNamespace() { return "test"; }
};

} // namespace

namespace tcc::test {
namespace {

class ScalarFormTest : public testing::Test {
protected:
  std::unique_ptr<MLIRContext> context = makeContext();
  OwningOpRef<ModuleOp> module; // the one last parsed

  func::FuncOp parse(const std::string &argument, const std::string &op, const std::string &result) {
    std::string messages;
    module = parseText(*context,
                       "func.func @main(%x: tensor<4x" + argument + ">) -> tensor<4x" + result + "> {\n%y = " + op +
                           "\nreturn %y : tensor<4x" + result + ">\n}",
                       messages);
    EXPECT_TRUE(module) << messages;
    return mainOf(*module);
  }

  ElementwiseOpInterface first(const std::string &argument, const std::string &op, const std::string &result) {
    return cast<ElementwiseOpInterface>(&parse(argument, op, result).getBody().front().front());
  }

  const ScalarSteps *steps(const std::string &argument, const std::string &op, const std::string &result) {
    std::string refusal;
    const ScalarSteps *form = ScalarForms::of(first(argument, op, result), refusal);
    EXPECT_TRUE(form) << refusal;
    return form;
  }

  std::string text(const std::string &argument, const std::string &op, const std::string &result) {
    std::string refusal;
    ElementwiseOpInterface elementwise = first(argument, op, result);
    return ScalarForms::of(elementwise, refusal)->text(elementwise->getNumOperands(), [](unsigned) { return "x"; });
  }
};

TEST_F(ScalarFormTest, stepsFollowTheBody) {
  EXPECT_EQ(text("f32", "tcc.exp %x : tensor<4xf32>", "f32"), "exp(x)");
  EXPECT_EQ(text("f32", "tcc.rsqrt %x : tensor<4xf32>", "f32"), "divf(1, sqrt(x))");
  EXPECT_EQ(text("i32", "tcc.neg %x : tensor<4xi32>", "i32"), "subi(0, x)");
  EXPECT_EQ(text("i1", "tcc.not %x : tensor<4xi1>", "i1"), "xori(x, 1)");
  EXPECT_EQ(text("f32", "tcc.is_finite %x : tensor<4xf32> -> tensor<4xi1>", "i1"), "ltf(absf(x), inf)");
  EXPECT_EQ(text("f32", "tcc.compare ne %x, %x : tensor<4xf32> -> tensor<4xi1>", "i1"), "nef(x, x)");
  EXPECT_EQ(text("i64", "tcc.compare ge %x, %x : tensor<4xi64> -> tensor<4xi1>", "i1"), "gei(x, x)");
  EXPECT_EQ(text("i64", "tcc.cast %x : tensor<4xi64> -> tensor<4xi32>", "i32"), "trunci to i32(x)");
  // Widened by the load and rounded by the node: there is nothing to do between.
  EXPECT_EQ(text("bf16", "tcc.cast %x : tensor<4xbf16> -> tensor<4xf16>", "f16"), "x");
  EXPECT_EQ(text("bf16", "tcc.exp %x : tensor<4xbf16>", "bf16"), "exp(x)");
}

TEST_F(ScalarFormTest, costsAreTheSteps) {
  EXPECT_EQ(steps("f32", "tcc.neg %x : tensor<4xf32>", "f32")->cost(), facts(Opcode::negF).cost);
  EXPECT_EQ(steps("f32", "tcc.rsqrt %x : tensor<4xf32>", "f32")->cost(),
            facts(Opcode::divF).cost + facts(Opcode::sqrtF).cost);
  EXPECT_EQ(steps("f32", "tcc.detach %x : tensor<4xf32>", "f32")->cost(), 0u);
}

TEST_F(ScalarFormTest, aBodyIsBuiltOnceForEachAttributeAndType) {
  const ScalarSteps *less = steps("f32", "tcc.compare lt %x, %x : tensor<4xf32> -> tensor<4xi1>", "i1");
  EXPECT_EQ(steps("f32", "tcc.compare lt %x, %x : tensor<4xf32> -> tensor<4xi1>", "i1"), less);
  EXPECT_NE(steps("f32", "tcc.compare le %x, %x : tensor<4xf32> -> tensor<4xi1>", "i1"), less);
  EXPECT_NE(steps("i32", "tcc.compare lt %x, %x : tensor<4xi32> -> tensor<4xi1>", "i1"), less);
}

/// What the host computes of exact steps, beside the interpreter, for each elementwise op of the table.
TEST_F(ScalarFormTest, exactValuesAreTheInterpreters) {
  std::set<std::string> compared, approximated;
  for (const OpRow &row : opTable())
    for (const OpCase &opCase : row.cases) {
      std::string problem;
      module = parseText(*context, opCase.text, problem);
      ASSERT_TRUE(module) << problem;
      func::FuncOp main = mainOf(*module);
      Block &block = main.getBody().front();
      auto op = dyn_cast<ElementwiseOpInterface>(&block.front());
      if (!op || block.getOperations().size() != 2 || op->getOperands() != ValueRange(block.getArguments()))
        continue;
      const ScalarSteps *form = ScalarForms::of(op, problem);
      ASSERT_TRUE(form) << opCase.name;
      if (!form->isExact()) {
        approximated.insert(row.op);
        continue;
      }
      std::vector<RefTensor> inputs = makeInputs(main, opCase, 1);
      auto expected = interpret(main, inputs, RefMode::rounding);
      ASSERT_TRUE(expected) << expected.error().message();
      const std::vector<double> &right = (*expected)[0].data;
      std::vector<ArrayRef<double>> operands;
      for (const RefTensor &input : inputs)
        operands.push_back(input.data);
      std::optional<std::vector<double>> values = form->exactValues(operands);
      if (!values) { // an integer that may wrap
        EXPECT_FALSE(isa<FloatType>(inputs[0].element()) && isa<FloatType>((*expected)[0].element())) << opCase.name;
        continue;
      }
      compared.insert(row.op);
      ASSERT_EQ(values->size(), right.size()) << opCase.name;
      // The interpreter rounds an op once, steps round one by one.
      const double slack = form->steps.size() > 1 ? 4e-7 : 0;
      for (auto [i, value] : llvm::enumerate(*values)) {
        const double mine = roundToElement(value, (*expected)[0].element());
        const bool isEqual = mine == right[i] || (std::isnan(mine) && std::isnan(right[i]));
        EXPECT_TRUE(isEqual || std::abs(mine - right[i]) <= slack * std::abs(right[i]))
            << opCase.name << ", element " << i << ": " << mine << ", not " << right[i];
      }
    }
  for (const char *op :
       {"tcc.add", "tcc.sub", "tcc.mul", "tcc.div", "tcc.neg", "tcc.abs", "tcc.sqrt", "tcc.rsqrt", "tcc.maximum",
        "tcc.minimum", "tcc.and", "tcc.or", "tcc.not", "tcc.select", "tcc.compare", "tcc.cast", "tcc.is_finite"})
    EXPECT_TRUE(compared.contains(op)) << op;
  EXPECT_TRUE(approximated.contains("tcc.exp") && approximated.contains("tcc.erf"));
}

TEST_F(ScalarFormTest, integersThatMayWrapHaveNoExactValue) {
  const double most = 2147483647, tooLarge = 9007199254740992; // the largest i32, 2^53
  const ScalarSteps *narrow = steps("i32", "tcc.add %x, %x : tensor<4xi32>", "i32");
  EXPECT_FALSE(narrow->exactValues({{most}, {1.0}}));
  EXPECT_EQ(narrow->exactValues({{most}, {-1.0, 0.0}}), (std::vector<double>{most - 1, most}));
  const ScalarSteps *wide = steps("i64", "tcc.mul %x, %x : tensor<4xi64>", "i64");
  EXPECT_FALSE(wide->exactValues({{tooLarge / 2}, {2.0}}));
  EXPECT_EQ(wide->exactValues({{tooLarge / 2}, {-1.0}}), (std::vector<double>{-tooLarge / 2}));
  EXPECT_FALSE(steps("i64", "tcc.cast %x : tensor<4xi64> -> tensor<4xi32>", "i32")->exactValues({{most + 1}}));
}

TEST_F(ScalarFormTest, anOpThatTheTableHasNotIsRefusedByName) {
  DialectRegistry registry;
  registry.insert<TestDialect>();
  context->appendDialectRegistry(registry);
  context->loadAllAvailableDialects();
  func::FuncOp function = parse("i32", "\"test.population\"(%x) : (tensor<4xi32>) -> tensor<4xi32>", "i32");
  SmallVector<Value> results(function.getBody().front().getTerminator()->getOperands());
  SmallVector<Value> arguments(function.getArguments());
  for (int time = 0; time < 2; ++time) { // the second refusal is the kept one
    std::string refusal;
    EXPECT_FALSE(analyzeKernel(KernelView{results, arguments}, refusal));
    EXPECT_EQ(refusal, "'math.ctpop' has no scalar form");
  }
}

} // namespace
} // namespace tcc::test
