// Training steps of real models, as modules: what the tests of kernels and of plans compile.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "models/model_config.h"

namespace tcc::test {

/// Forward, loss, backward, clipping and AdamW of a model, captured.
mlir::OwningOpRef<mlir::ModuleOp> modelStep(mlir::MLIRContext &context, const models::ModelConfig &config,
                                            int64_t batch, int64_t time);

/// A preset with no more layers and tokens than given.
models::ModelConfig presetOf(const char *name, int64_t mostLayers, int64_t mostTokens);

} // namespace tcc::test
