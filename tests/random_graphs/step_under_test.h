// StepUnderTest: a gtest fixture for tests that plant faults in a compiled step. It has the step as text, parsed into
// `module`, and in `reference` the results that the interpreter gives for random inputs.
#pragma once
#include "tests/ops/op_table.h"
#include "tests/random_graphs/generate.h"
#include "tests/random_graphs/graph_check.h"
#include <gtest/gtest.h>

namespace tcc::test {

class StepUnderTest : public testing::Test {
protected:
  /// `options` are given to Reference::make (codegen/graph_reference.h).
  explicit StepUnderTest(std::string text, PipelineOptions options = {})
      : text(std::move(text)), options(std::move(options)) {}

  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<Reference> reference;

  void SetUp() override {
    std::string messages;
    module = parseText(*context, text, messages);
    ASSERT_TRUE(module) << messages;
    auto made = Reference::make(*module, generateInputs(onlyFunction(*module), 5), options);
    ASSERT_TRUE(made) << made.error().message();
    reference = std::move(*made);
  }

private:
  std::string text;
  PipelineOptions options;
};

} // namespace tcc::test
