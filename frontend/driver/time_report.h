// -ftime-report: the time of each pass and of each part of code generation.
#pragma once
#include "codegen/compile_session.h"
#include <string>

namespace tcc::driver {

/// A table, a line each.
std::string timesAsText(const CompileReport &report);
/// {"input", "passes": [{"name", "ms", "changed"}], "codegen": [{"name", "ms"}]}; `name` is the input's.
std::string timesAsJson(const CompileReport &report, llvm::StringRef name);

} // namespace tcc::driver
