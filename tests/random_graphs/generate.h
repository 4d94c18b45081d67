// Random graphs: a captured training step from a seed, and inputs for any such function.
#pragma once
#include "ir/reference/interpreter.h"
#include "mlir/IR/OwningOpRef.h"

namespace tcc::test {

struct GenerateOptions {
  int ops = 14;            // random steps; a step adds one to about six ops
  int64_t elements = 1500; // about the most elements of one value
  bool bf16 = true;        // casts to bf16 and back
  bool states = true;      // arguments that the step updates in place
  bool attention = false;  // attention written by hand, in front of the steps
  bool sums = false;       // more products, with a bias, a residual or another product added
  bool gradients = true;   // a loss and its gradients with respect to every float argument
};

/// A verified module with one function @main, the same for the same seed and options everywhere.
mlir::OwningOpRef<mlir::ModuleOp> generateGraph(mlir::MLIRContext &context, uint64_t seed,
                                                const GenerateOptions &options = {});

/// Arguments for a generated (or reduced) function: floats in [-1, 1), float scalars in [0.1, 1), row indices in
/// [0, 4) with some outside where the argument's name starts with "loose", seeds anywhere.
std::vector<RefTensor> generateInputs(mlir::func::FuncOp function, uint64_t seed);

} // namespace tcc::test
