// Random graphs for tests: a seed gives a training step as a user would write it, and inputs for it.
#pragma once
#include "ir/reference/interpreter.h"
#include "mlir/IR/OwningOpRef.h"

namespace tcc::test {

struct GenerateOptions {
  int ops = 14;            // how often something random is added, which is one to about six ops
  int64_t elements = 1500; // no value has many more elements than this
  bool bf16 = true;        // whether values are cast to bf16 and back
  bool states = true;      // whether some arguments are states, which the step updates
  bool attention = false;  // whether attention, spelled out in smaller ops, comes first
  bool sums = false;       // whether there are more matmuls, to which a bias, a residual or another matmul is added
  bool gradients = true;   // whether there are a loss and its gradients with respect to every float argument
};

/// A verified module with one function @main, the same for the same seed and options everywhere.
mlir::OwningOpRef<mlir::ModuleOp> generateGraph(mlir::MLIRContext &context, uint64_t seed,
                                                const GenerateOptions &options = {});

/// Arguments for a generated (or reduced) function: floats in [-1, 1), float scalars in [0.1, 1), row indices in
/// [0, 4) with some outside where the argument's name starts with "loose", seeds anywhere.
std::vector<RefTensor> generateInputs(mlir::func::FuncOp function, uint64_t seed);

} // namespace tcc::test
