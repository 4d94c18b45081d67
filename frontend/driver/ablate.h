// --ablate: a graph's step with everything on beside the same with one switch off at a time.
#pragma once
#include "frontend/driver/execution.h"
#include "mlir/IR/BuiltinOps.h"

namespace tcc::driver {

/// What --ablate is given of an input.
struct AblatedGraph {
  mlir::ModuleOp module; ///< as captured; it stays as it is
  std::string name;      ///< for people
  CompilerFlags flags;   ///< as chosen for the target: --dtype=auto is a type
  CompileOptions compile;
  const RunValues &values;
};

/// Times the forms of the step in turn: the table goes to stdout (to stderr where the JSON goes to stdout), the figures
/// to options.json, a picture to options.plot. Where the target has no device here, that is said, and plans, kernels
/// and bytes are shown without times. Throws Error.
void ablateGraph(const AblatedGraph &graph, const Options &options);

} // namespace tcc::driver
