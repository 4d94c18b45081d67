// The passes of the pipeline as free functions, each of which works on one func.func. Each is documented at its
// definition. A pass has the name of its file, with '-' in place of '_'.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc {
struct PipelineOptions;

#define TCC_PASS(function, ...) mlir::LogicalResult function(mlir::func::FuncOp graph, const PipelineOptions &options);
#include "passes/passes.def"
#undef TCC_PASS

} // namespace tcc
