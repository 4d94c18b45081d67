// Training steps of real models, as modules: what the tests of kernels and of plans compile.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "models/gpt2_config.h"

namespace tcc::test {

/// Forward, loss, backward, clipping and AdamW of a GPT-2, captured.
mlir::OwningOpRef<mlir::ModuleOp> modelStep(mlir::MLIRContext &context, const models::Gpt2Config &config, int64_t batch,
                                            int64_t time);

} // namespace tcc::test
