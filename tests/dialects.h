// The dialects of tcc for a test that makes its own context; makeContext() (tests/ops/op_table.h) makes one.
#pragma once
#include "ir/dialect.h"

namespace tcc::test {

inline void loadDialects(mlir::MLIRContext &context) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

} // namespace tcc::test
