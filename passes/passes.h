// The passes of the pipeline as free functions on one function. Each is documented at its definition; names equal the
// file's, with '-' for '_'.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc {
struct PipelineOptions;

#define TCC_PASS(function, ...) mlir::LogicalResult function(mlir::func::FuncOp graph, const PipelineOptions &options);
#include "passes/passes.def"
#undef TCC_PASS

} // namespace tcc
