// How long steps take to compile, one after the other in one process and without the cache on disk:
//   compile_bench [-O LEVEL] [--plan] FILE.graph...     --plan: passes and plan alone
// prints for each file the milliseconds that processors worked for it and those that went by, its parts, how much code
// was there already, and at last all files beside the first one. Beside other programs only the former mean something;
// code is made by several threads. The files can be shapes of one function:
//   train_gpt --model gpt2 --batch B --seq T --steps 0 --emit-graph=FILE.graph
#include "codegen/compile_session.h"
#include "codegen/stopwatch.h"
#include "frontend/capture.h"
#include "frontend/graph_file.h"
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <llvm/Support/Format.h>
#include <sstream>

using namespace tcc;

namespace {

/// Milliseconds from a parsed graph to its artefact: of processors, and of the clock.
struct Cost {
  double worked = 0, passed = 0;
};

double processorMilliseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

Cost compileFile(const char *file, int level, bool planAlone) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  mlir::MLIRContext &context = threadContext();
  DiagnosticPrinter printer(llvm::errs());
  mlir::OwningOpRef<mlir::ModuleOp> module = parseGraph(text.str(), file, context, printer);
  if (!module)
    throw std::runtime_error(std::string(file) + " is no graph");
  CompileOptions options;
  options.pipeline.level = level;
  const double before = processorMilliseconds();
  const auto start = std::chrono::steady_clock::now();
  auto session = CompileSession::open(options);
  runtime::Error problem = session ? runtime::Error::success() : session.error();
  if (session && planAlone) {
    if (auto plan = session->plan(std::move(module)); !plan)
      problem = plan.error();
  } else if (session) {
    if (auto step = session->artefact(std::move(module)); !step)
      problem = step.error();
  }
  if (problem)
    throw std::runtime_error(problem.message());
  const Cost cost{processorMilliseconds() - before, millisecondsSince(start)};
  const CompileReport &report = session->report();
  llvm::outs() << llvm::format("%8.1f ms worked,%8.1f passed:%8.1f passes", cost.worked, cost.passed,
                               report.pipelineMs);
  for (const auto &[name, ms] : report.codegenSteps)
    llvm::outs() << llvm::format(",%7.1f ", ms) << name;
  llvm::outs() << (report.emitted.empty() ? "" : "; ") << report.emitted << "; " << file << '\n';
  return cost;
}

} // namespace

int main(int count, char **arguments) {
  int level = 2;
  bool planAlone = false;
  Cost first, all;
  try {
    for (int i = 1; i < count; ++i) {
      if (std::strncmp(arguments[i], "-O", 2) == 0) {
        level = std::atoi(arguments[i] + 2);
        continue;
      }
      if (std::strcmp(arguments[i], "--plan") == 0) {
        planAlone = true;
        continue;
      }
      const Cost cost = compileFile(arguments[i], level, planAlone);
      first = first.worked > 0 ? first : cost;
      all.worked += cost.worked;
      all.passed += cost.passed;
    }
  } catch (const std::exception &problem) {
    std::cerr << "compile_bench: " << problem.what() << '\n';
    return 1;
  }
  llvm::outs() << llvm::format("%8.1f ms worked, %.2f times the first; %.1f passed, %.2f times\n", all.worked,
                               all.worked / first.worked, all.passed, all.passed / first.passed);
  return 0;
}
