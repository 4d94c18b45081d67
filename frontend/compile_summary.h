// Makes a CompileSummary from the report of a session and the executable that was loaded.
#pragma once
#include "codegen/compile_session.h"
#include "frontend/compile.h"
#include "runtime/executable.h"

namespace tcc {

/// All but the times of tracing, loading and the whole, which the caller measures.
CompileSummary summaryOf(const CompileReport &report, const runtime::Executable &executable);

} // namespace tcc
