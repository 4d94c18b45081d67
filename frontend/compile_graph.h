// A graph's text, compiled and loaded: for bindings of other languages, which write the text and call the executable
// over memory of their own. No MLIR.
#pragma once
#include "frontend/compile.h"
#include "runtime/custom_call.h"
#include <string_view>

namespace tcc {

struct GraphOptions : CompilerFlags {
  /// What runs the step, shared with others that take turns on it; null: a CPU device of its own.
  std::shared_ptr<runtime::Device> device = {};
  bool checked = false;    ///< NaN-fill buffers before every run
  bool verifyEach = false; ///< the reference interpreter checks what each pass makes, and the compiled step
  /// Whether custom ops of the text may be functions of this process (addHostOp). Such a step is not kept on disk.
  bool hostCode = false;
};

/// The numbers of a function of this process for an op of a text, which is what that function gives:
/// `tcc.custom` with host_function, host_reference and unchecked.
struct HostOp {
  int64_t function = 0, reference = 0;
};
HostOp addHostOp(const runtime::HostFunction &function);

/// A compiled graph, its inputs, outputs and states in the order of executable->plan().
struct CompiledGraph {
  std::unique_ptr<runtime::Executable> executable;
  CompileSummary summary;
  std::string remarks; ///< those that the options ask for, as text, and the memory report
};

/// Compiles the function of a `.graph` text, which `name` stands for in messages. Throws Error with the diagnostics of
/// a text that is wrong, and where something cannot be compiled or loaded.
CompiledGraph compileGraph(std::string_view text, const std::string &name, const GraphOptions &options = {});

} // namespace tcc
