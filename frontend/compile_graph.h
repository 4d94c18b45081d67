// compileGraph: compiles and loads the text of a graph, for bindings of other languages, which write the text and call
// the executable with memory of their own. This header needs no MLIR.
#pragma once
#include "frontend/compile.h"
#include "runtime/custom_call.h"
#include <string_view>

namespace tcc {

struct GraphOptions : CompilerFlags {
  /// The device that runs the step. Others may use it too; they take turns. Null: a CPU device of its own. On one with
  /// memory of its own the step takes tensors that are there (Executable::startOn()).
  std::shared_ptr<runtime::Device> device = {};
  bool checked = false;    ///< fill buffers with NaN before every run
  bool verifyEach = false; ///< check the result of each pass, and the compiled step, by the reference interpreter
  /// Whether custom ops of the text may be functions of this process (addHostOp). Such a step is not kept on disk.
  bool hostCode = false;
};

/// The numbers of a function of this process, for a `tcc.custom` in a text with host_function, host_reference and
/// unchecked. Such an op means what the function computes.
struct HostOp {
  int64_t function = 0, reference = 0;
};
HostOp addHostOp(const runtime::HostFunction &function);

/// Keeps a provider (runtime/custom_call.h) of the custom ops of texts whose library is `<name>`, which may have no
/// body: its functions compute them, in steps and as their references. Steps with them are kept on disk, with the
/// provider's version in their keys.
void addHostProvider(const std::string &name, const runtime::FunctionProvider &provider);

/// A compiled graph. Its inputs, outputs and states have the order of executable->plan().
struct CompiledGraph {
  std::unique_ptr<runtime::Executable> executable;
  CompileSummary summary;
  std::string remarks; ///< those that the options ask for, as text, and the memory report
};

/// Opens a device of a kind: "cuda". Throws Error, which says what is missing.
std::shared_ptr<runtime::Device> openGraphDevice(std::string_view kind, int ordinal);

/// Compiles the function of a `.graph` text; messages call the text `name`. Throws Error with the diagnostics if the
/// text is wrong, and if something cannot be compiled or loaded.
CompiledGraph compileGraph(std::string_view text, const std::string &name, const GraphOptions &options = {});

} // namespace tcc
