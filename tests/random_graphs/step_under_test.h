// StepUnderTest: a fixture with one step as text and what its results should be, for tests that plant faults in it.
#pragma once
#include "tests/ops/op_table.h"
#include "tests/random_graphs/generate.h"
#include "tests/random_graphs/graph_check.h"
#include <gtest/gtest.h>

namespace tcc::test {

class StepUnderTest : public testing::Test {
protected:
  /// `options` as for Reference::make.
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
