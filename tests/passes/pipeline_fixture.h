// Tests that run the pipeline on texts.
#pragma once
#include "codegen/messages.h"
#include "passes/pipeline.h"
#include "tests/ops/op_table.h"
#include <gtest/gtest.h>

namespace tcc::test {

class PipelineTest : public ::testing::Test {
protected:
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  std::string messages; // of the last parse or run
  PipelineReport report;

  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    messages.clear();
    mlir::OwningOpRef<mlir::ModuleOp> module = parseText(*context, text, messages);
    EXPECT_TRUE(module) << messages << text;
    return module;
  }

  bool run(mlir::ModuleOp module, const PipelineOptions &options) {
    messages.clear();
    report = {};
    Messages said(context.get());
    const bool ran = mlir::succeeded(runPipeline(module, options, report));
    messages = said.text;
    return ran;
  }

  static PipelineOptions atLevel(int level) {
    PipelineOptions options;
    options.level = level;
    return options;
  }
};

} // namespace tcc::test
