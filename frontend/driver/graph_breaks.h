// --graph-breaks: says where a .graph asks for values in the middle of its step, what each place costs, and what to
// write instead.
#pragma once
#include "codegen/compile_session.h"
#include "frontend/break_report.h"
#include "frontend/driver/execution.h"

namespace tcc::driver {

/// If `flags` allow no graph breaks (-Werror=graph-break), prints an error at the first place that asks for a value.
void refuseBreaks(mlir::func::FuncOp function, const CompilerFlags &flags, DiagnosticPrinter &printer);

/// Whether the graph asks for a value in the middle of its step.
bool hasBreaks(mlir::func::FuncOp function);

/// A report with one site for each tcc.item and tcc.print. The graph is compiled as it is, and without each of them,
/// and both are timed on `device`. If that is null, or if the graph has too many sites, milliseconds are NaN. Throws
/// Error.
BreakReport graphBreaks(mlir::ModuleOp module, const CompileOptions &options,
                        const std::shared_ptr<runtime::Device> &device, const RunValues &values, uint64_t seed);

} // namespace tcc::driver
