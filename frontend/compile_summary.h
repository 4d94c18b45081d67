// Makes a CompileSummary from the report of a session and the executable that was loaded.
#pragma once
#include "codegen/compile_session.h"
#include "frontend/compile.h"
#include "runtime/executable.h"

namespace tcc {

/// All but the times of tracing, loading and the whole, which the caller measures.
CompileSummary summaryOf(const CompileReport &report, const runtime::Executable &executable);

/// Adds what the code for one of several targets took. Times are added, counts are those of the last target,
/// `fromCache` says whether the code of every target came from disk, and `cache` has a line for each: "cpu:x86-64-v3:
/// hit: FILE".
void addPart(const std::string &target, const CompileReport &report, CompileSummary &summary);

} // namespace tcc
