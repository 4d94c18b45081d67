// Totality: each registered op has a reference, a row and a stated gradient. Each row's cases run, each constraint of
// Ops.td is seen to refuse something.
#include "tests/ops/op_table.h"
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <sstream>

using namespace mlir;

namespace tcc::test {
namespace {

/// Ops that hold other ops or stand for a pass's work: they have no samples of their own.
const std::set<std::string> structural = {"tcc.kernel", "tcc.yield", "tcc.gradient", "tcc.print"};

TEST(Totality, everyOpHasReferenceRowAndGradient) {
  auto context = makeContext();
  std::set<std::string> rows;
  for (const OpRow &row : opTable())
    EXPECT_TRUE(rows.insert(row.op).second) << row.op << " has two rows";
  int count = 0;
  for (RegisteredOperationName name : context->getRegisteredOperations()) {
    std::string op = name.getStringRef().str();
    if (name.getDialectNamespace() != "tcc")
      continue;
    ++count;
    EXPECT_EQ(hasReference(name), op != "tcc.gradient") << op;
    if (structural.contains(op))
      continue;
    EXPECT_TRUE(rows.erase(op)) << op << " has no row in the op table";
    EXPECT_TRUE(name.hasInterface<DifferentiableOpInterface>() || name.hasInterface<CompositeOpInterface>() ||
                name.hasTrait<NoGradient>())
        << op << " says nothing about its gradient: implement it, or state NoGradient";
  }
  EXPECT_GT(count, 50);
  for (const std::string &op : rows)
    ADD_FAILURE() << op << " has a row but is no op";
}

TEST(Totality, caseNamesAreUnique) {
  std::set<std::string> names;
  for (const OpRow &row : opTable())
    for (const OpCase &opCase : row.cases)
      EXPECT_TRUE(names.insert(opCase.name).second) << opCase.name;
}

TEST(OpTable, everyCaseHoldsItsOpAndRunsInBothModes) {
  auto context = makeContext();
  for (const OpRow &row : opTable()) {
    EXPECT_GE(row.cases.size(), 3u) << row.op;
    for (const OpCase &opCase : row.cases) {
      std::string messages;
      OwningOpRef<ModuleOp> module = parseText(*context, opCase.text, messages);
      ASSERT_TRUE(module) << opCase.name << "\n" << opCase.text << messages;
      func::FuncOp function = mainOf(*module);
      EXPECT_TRUE(llvm::any_of(function.getBody().front(), [&](Operation &op) {
        return op.getName().getStringRef() == row.op;
      })) << opCase.name;
      std::vector<RefTensor> inputs = makeInputs(function, opCase, 1);
      for (RefMode mode : {RefMode::exact, RefMode::rounding}) {
        auto results = interpret(function, inputs, mode);
        ASSERT_TRUE(results) << opCase.name << ": " << results.error().message();
        for (const RefTensor &result : *results)
          EXPECT_EQ(result.size(), result.type.getNumElements());
      }
    }
  }
}

/// The rounding run must lie within the comparison's own rule of the exact one for inputs without special values, with
/// 16-bit rounding and f32 sums as the only differences: it catches a domain that provokes cancellation or overflow.
TEST(OpTable, roundingStaysNearExact) {
  auto context = makeContext();
  for (const OpRow &row : opTable())
    for (const OpCase &opCase : row.cases) {
      if (opCase.specials != Specials::none)
        continue;
      std::string messages;
      OwningOpRef<ModuleOp> module = parseText(*context, opCase.text, messages);
      ASSERT_TRUE(module) << opCase.name;
      func::FuncOp function = mainOf(*module);
      std::vector<RefTensor> inputs = makeInputs(function, opCase, 2);
      auto exact = interpret(function, inputs, RefMode::exact);
      auto rounding = interpret(function, inputs, RefMode::rounding);
      ASSERT_TRUE(exact && rounding) << exact.error().message() << rounding.error().message();
      for (size_t i = 0; i < exact->size(); ++i) {
        RefTensor rounded = (*exact)[i];
        roundToElement(rounded);
        Comparison comparison = compare((*rounding)[i], (*exact)[i], rounded, {}, {2, 16});
        EXPECT_TRUE(comparison.ok) << opCase.name << ": " << comparison.message;
      }
    }
}

//===- constraints ---------------------------------------------------------------------------------------------===//

std::vector<ErrorCase> allErrors() {
  std::vector<ErrorCase> errors = structuralErrors();
  for (const OpRow &row : opTable())
    errors.insert(errors.end(), row.errors.begin(), row.errors.end());
  return errors;
}

TEST(Constraints, malformedOpsAreRefusedWithTheLabel) {
  auto context = makeContext();
  for (const ErrorCase &errorCase : allErrors()) {
    std::string messages;
    EXPECT_FALSE(parseText(*context, errorCase.text, messages)) << errorCase.text;
    EXPECT_NE(messages.find("(" + errorCase.label + ")"), std::string::npos) << errorCase.text << messages;
  }
}

TEST(Constraints, everyLabelOfOpsTdIsProvoked) {
  std::ifstream file("ir/Ops.td");
  ASSERT_TRUE(file) << "run from the source folder";
  std::stringstream text;
  text << file.rdbuf();
  std::string definitions = text.str();
  std::set<std::string> provoked;
  for (const ErrorCase &errorCase : allErrors())
    provoked.insert(errorCase.label);
  std::regex label("[a-z_]+_c[0-9]+");
  int count = 0;
  for (std::sregex_iterator it(definitions.begin(), definitions.end(), label), end; it != end; ++it, ++count)
    EXPECT_TRUE(provoked.contains(it->str())) << it->str() << " has no malformed sample";
  EXPECT_GT(count, 30);
}

TEST(Constraints, gradientOfWhatIsNoTensorIsAnError) {
  auto context = makeContext();
  std::string messages;
  EXPECT_FALSE(
      parseText(*context, "func.func @main(%a: i32) { %r = tcc.gradient %a wrt %a : i32, i32 return }", messages));
  EXPECT_FALSE(messages.empty());
}

} // namespace
} // namespace tcc::test
