// The passes of the pipeline as free functions on one function. Each is documented at its definition; names equal the
// file's, with '-' for '_'.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc {
struct PipelineOptions;

mlir::LogicalResult specializeShapes(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult decompose(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult matchAttention(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult autodiff(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult expandUnsupported(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult simplify(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult autocast(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult padShapes(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult splitReductions(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult narrowActivations(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult fuseKernels(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult schedule(mlir::func::FuncOp function, const PipelineOptions &options);
mlir::LogicalResult planMemory(mlir::func::FuncOp function, const PipelineOptions &options);

} // namespace tcc
