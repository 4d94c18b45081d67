#include "frontend/driver/time_report.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

namespace tcc::driver {

std::string timesAsText(const CompileReport &report) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  double sum = 0;
  for (const PassReport &pass : report.pipeline.passes)
    sum += pass.milliseconds;
  stream << "   ms      %  pass\n";
  for (const PassReport &pass : report.pipeline.passes)
    stream << llvm::format("%7.2f %5.1f%%  ", pass.milliseconds, sum > 0 ? 100 * pass.milliseconds / sum : 0)
           << pass.name << (pass.changed ? "" : " (unchanged)") << '\n';
  stream << llvm::format("%7.2f         all passes\n", sum);
  if (report.codegenMs > 0)
    stream << llvm::format("%7.2f         code generation\n", report.codegenMs);
  for (const auto &[step, ms] : report.codegenSteps)
    stream << llvm::format("%7.2f %5.1f%%    ", ms, 100 * ms / report.codegenMs) << step << '\n';
  return text;
}

std::string timesAsJson(const CompileReport &report, llvm::StringRef name) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::Array passes, steps;
  for (const PassReport &pass : report.pipeline.passes)
    passes.push_back(llvm::json::Object{{"name", pass.name}, {"ms", pass.milliseconds}, {"changed", pass.changed}});
  for (const auto &[step, ms] : report.codegenSteps)
    steps.push_back(llvm::json::Object{{"name", step}, {"ms", ms}});
  stream << llvm::formatv("{0:2}\n", llvm::json::Value(llvm::json::Object{{"input", llvm::json::fixUTF8(name)},
                                                                          {"passes", std::move(passes)},
                                                                          {"codegen", std::move(steps)}}));
  return text;
}

} // namespace tcc::driver
