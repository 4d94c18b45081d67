// --ablate: compares a graph's step with every switch on to the same step with one switch off at a time.
#pragma once
#include "frontend/driver/execution.h"
#include "mlir/IR/BuiltinOps.h"

namespace tcc::driver {

/// What --ablate needs of an input.
struct AblatedGraph {
  mlir::ModuleOp module; ///< as captured; it stays as it is
  std::string name;      ///< for people
  CompilerFlags flags;   ///< settled for the target: --dtype=auto has become a type
  CompileOptions compile;
  const RunValues &values;
};

/// Times the forms of the step in turn. The table goes to stdout (to stderr if the JSON goes to stdout), the figures to
/// options.json, a picture to options.plot. If this machine has no device for the target, it says so, and shows plans,
/// kernels and bytes without times. Throws Error.
void ablateGraph(const AblatedGraph &graph, const Options &options);

} // namespace tcc::driver
