// Folding keeps every bit: literals, equal operands and repeated ops over special values, with and without folding.
#include "ir/emit.h"
#include "ir/reference/compare.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "tests/ops/op_table.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

class Folding : public ::testing::Test {
protected:
  /// Runs @main before and after folding and compares; `what` describes the function.
  void check(ModuleOp module, ArrayRef<RefTensor> inputs, const std::string &what) {
    func::FuncOp function = mainOf(module);
    auto before = interpret(function, inputs, RefMode::rounding);
    ASSERT_TRUE(before) << what << ": " << before.error().message();
    bool changed = false;
    ASSERT_TRUE(succeeded(applyPatternsGreedily(function, FrozenRewritePatternSet(), {}, &changed))) << what;
    ASSERT_TRUE(succeeded(verify(module))) << what;
    folded += changed;
    auto after = interpret(function, inputs, RefMode::rounding);
    ASSERT_TRUE(after) << what << ": " << after.error().message();
    for (auto [x, y] : llvm::zip_equal(*before, *after))
      EXPECT_TRUE(sameElements(x, y)) << what;
  }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    std::string messages;
    OwningOpRef<ModuleOp> module = parseText(*context, text, messages);
    EXPECT_TRUE(module) << text << messages;
    return module;
  }

  std::unique_ptr<MLIRContext> context = makeContext();
  int folded = 0; // functions that folding changed
};

/// Literals worth trying for an element type.
std::vector<double> literals(Type element) {
  double infinity = std::numeric_limits<double>::infinity();
  if (isa<FloatType>(element))
    return {0.0, -0.0, 1, -1, 2, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};
  if (element.isInteger(1))
    return {0, 1};
  return {0, 1, -1, 2};
}

/// Whether a case's inputs show what folding may get wrong: special floats, or integers and flags in some number.
bool worthwhile(const OpCase &opCase) {
  return opCase.specials == Specials::all || StringRef(opCase.name).contains("/33/i");
}

void replaceByLiteral(func::FuncOp function, unsigned argument, double value) {
  OpBuilder builder(&function.getBody().front(), function.getBody().front().begin());
  Emit emit(builder, function.getLoc());
  Value old = function.getArgument(argument);
  old.replaceAllUsesWith(emit.constant(value, tensorType(old)));
}

TEST_F(Folding, oneOperandALiteral) {
  for (const OpRow &row : opTable())
    for (const OpCase &opCase : row.cases) {
      if (!worthwhile(opCase))
        continue;
      OwningOpRef<ModuleOp> original = parse(opCase.text);
      std::vector<RefTensor> inputs = makeInputs(mainOf(*original), opCase, 5);
      for (unsigned argument = 0; argument < inputs.size(); ++argument)
        for (double value : literals(inputs[argument].element())) {
          OwningOpRef<ModuleOp> module = original->clone();
          replaceByLiteral(mainOf(*module), argument, value);
          check(*module, inputs, opCase.name + ", operand " + std::to_string(argument) + " = " + std::to_string(value));
        }
    }
  EXPECT_GT(folded, 200);
}

TEST_F(Folding, allOperandsLiterals) {
  for (const OpRow &row : opTable())
    for (const OpCase &opCase : row.cases) {
      OwningOpRef<ModuleOp> original = parse(opCase.text);
      func::FuncOp function = mainOf(*original);
      if (!worthwhile(opCase) || function.getNumArguments() != 2)
        continue;
      std::vector<RefTensor> inputs = makeInputs(function, opCase, 6);
      for (double first : literals(inputs[0].element()))
        for (double second : literals(inputs[1].element())) {
          OwningOpRef<ModuleOp> module = original->clone();
          replaceByLiteral(mainOf(*module), 0, first);
          replaceByLiteral(mainOf(*module), 1, second);
          check(*module, inputs, opCase.name + " of " + std::to_string(first) + ", " + std::to_string(second));
        }
    }
  EXPECT_GT(folded, 200);
}

TEST_F(Folding, equalOperands) {
  int tried = 0;
  for (const OpRow &row : opTable())
    for (const OpCase &opCase : row.cases) {
      if (!worthwhile(opCase))
        continue;
      OwningOpRef<ModuleOp> module = parse(opCase.text);
      func::FuncOp function = mainOf(*module);
      std::vector<RefTensor> inputs = makeInputs(function, opCase, 7);
      for (unsigned i = 1; i < inputs.size(); ++i)
        if (inputs[i].type == inputs[i - 1].type) {
          function.getArgument(i).replaceAllUsesWith(function.getArgument(i - 1));
          ++tried;
        }
      check(*module, inputs, opCase.name + " of equal operands");
    }
  EXPECT_GT(tried, 50);
}

TEST_F(Folding, theSameOpTwice) {
  for (const OpRow &row : opTable())
    for (const OpCase &opCase : row.cases) {
      OwningOpRef<ModuleOp> module = parse(opCase.text);
      func::FuncOp function = mainOf(*module);
      Operation *op = &function.getBody().front().front();
      if (!worthwhile(opCase) || op->getNumOperands() == 0 || op->getResult(0).getType() != op->getOperand(0).getType())
        continue;
      OpBuilder builder(function.getBody().front().getTerminator());
      Operation *second = builder.clone(*op);
      second->setOperand(0, op->getResult(0));
      function.getBody().front().getTerminator()->setOperand(0, second->getResult(0));
      check(*module, makeInputs(function, opCase, 8), opCase.name + " twice");
    }
  EXPECT_GT(folded, 5);
}

TEST_F(Folding, chainsOfViews) {
  auto viewChain = [](const std::string &body, const std::string &to) {
    return "func.func @main(%a: tensor<2x3x4xf32>) -> " + to + " {\n" + body + "\nreturn %r : " + to + "\n}";
  };
  const std::string texts[] = {
      viewChain("%t = tcc.transpose %a [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>\n"
                "%r = tcc.transpose %t [2, 0, 1] : tensor<4x2x3xf32> -> tensor<3x4x2xf32>",
                "tensor<3x4x2xf32>"),
      viewChain("%t = tcc.transpose %a [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>\n"
                "%r = tcc.transpose %t [1, 2, 0] : tensor<4x2x3xf32> -> tensor<2x3x4xf32>",
                "tensor<2x3x4xf32>"),
      viewChain("%t = tcc.reshape %a : tensor<2x3x4xf32> -> tensor<24xf32>\n"
                "%r = tcc.reshape %t : tensor<24xf32> -> tensor<2x3x4xf32>",
                "tensor<2x3x4xf32>"),
      viewChain("%t = tcc.reshape %a : tensor<2x3x4xf32> -> tensor<4x6xf32>\n"
                "%u = tcc.transpose %t [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>\n"
                "%r = tcc.reshape %u : tensor<6x4xf32> -> tensor<24xf32>",
                "tensor<24xf32>"),
      viewChain("%t = tcc.broadcast %a : tensor<2x3x4xf32> -> tensor<5x2x3x4xf32>\n"
                "%u = tcc.reduce_sum %t axes [] : tensor<5x2x3x4xf32> -> tensor<5x2x3x4xf32>\n"
                "%r = tcc.slice %u [4, 0, 0, 0] to [5, 2, 3, 4] : tensor<5x2x3x4xf32> -> tensor<1x2x3x4xf32>",
                "tensor<1x2x3x4xf32>")};
  auto type = RankedTensorType::get({2, 3, 4}, Float32Type::get(context.get()));
  for (const std::string &text : texts) {
    OwningOpRef<ModuleOp> module = parse(text);
    RefTensor input = randomTensor(type, 9);
    input.data[3] = -0.0;
    check(*module, input, text);
  }
  EXPECT_GE(folded, 4);
}

} // namespace
} // namespace tcc::test
